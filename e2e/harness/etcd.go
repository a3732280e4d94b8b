package harness

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// startWithin bounds the start of etcd, CoreDNS and the product; they take well under a
// second on an idle machine.
const startWithin = 60 * time.Second

// EtcdServer is one etcd on loopback that keeps nothing beyond the run.
type EtcdServer struct {
	*Process
	URL string
}

// StartEtcd starts an etcd that never waits for the disk.
func (e *Env) StartEtcd(ctx context.Context) (*EtcdServer, error) {
	path, err := e.Binary(Etcd)
	if err != nil {
		return nil, err
	}
	dir, err := e.Folder("etcd")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+Loopback(ports[0]), "http://"+Loopback(ports[1])
	process, err := e.start(command{name: "etcd", path: path, args: []string{
		"--data-dir=" + filepath.Join(dir, "data"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", "--log-level=warn",
	}})
	if err != nil {
		return nil, err
	}
	process.killOnStop = true
	server := &EtcdServer{Process: process, URL: client}
	return server, process.await(ctx, startWithin, func() error { return httpOK(client + "/health") })
}

// httpOK is nil when url answers 200.
func httpOK(url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, strconv.Itoa(response.StatusCode))
	}
	return nil
}
