package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/meshdns/meshdns/bench/data"
)

// cluster is a real API server that holds a mesh.
type cluster struct {
	*process
	Kubeconfig string  `json:"kubeconfig"`
	Objects    int     `json:"objects"`
	Seconds    float64 `json:"seconds"`
}

// startCluster starts an API server and makes the objects of the first cluster of f. It is
// not bound to a processor: it is idle while load is measured.
func (l *lab) startCluster(f data.Fleet) (*cluster, error) {
	dir, err := l.manifests(f)
	if err != nil {
		return nil, err
	}
	p, err := l.start(program{
		name: "cluster", path: l.bin.Cluster, dir: filepath.Join(l.bin.Root, "e2e"), pipes: true,
		args: []string{"-manifests", filepath.Join(dir, f.Cluster(0))},
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{process: p}
	if err := json.NewDecoder(p.stdout).Decode(c); err != nil {
		c.close()
		return nil, fmt.Errorf("start an API server: %w: %s", err, lastLines(p.output()))
	}
	fmt.Fprintf(l.log, "peers: an API server with %d objects, made in %.0f s\n", c.Objects, c.Seconds)
	return c, nil
}

// close has the API server end in order: it does when its input does.
func (c *cluster) close() {
	_ = c.stdin.Close() // an error says that it has ended
	_, _ = io.Copy(io.Discard, c.stdout)
	<-c.done
}

// startFromAPI serves the cluster behind a kubeconfig.
func (l *lab) startFromAPI(address, admin, kubeconfig string, f data.Fleet) (*process, error) {
	return l.startMeshdns(meshConfig{
		address: address, admin: admin, ttl: f.TTL, cpus: l.serverCPUs(), workers: 1,
		clusters: fmt.Sprintf("- {name: %s, kubeconfig: %q}\n", f.Cluster(0), kubeconfig),
	})
}

// runKubernetes measures CoreDNS and this server on one API server; NSD has the same data
// as a zone.
func (l *lab) runKubernetes(ctx context.Context) error {
	f := data.OneCluster(l.options.cluster)
	c, err := l.startCluster(f)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(l.out, "\n## On one real API server: %d headless services of 6 endpoints, %s\n\n", f.Services, l.conditions())
	return l.runKinds(ctx, []kind{
		{"nsd", "NSD with the same data as a zone", f, (*lab).startNSD, false},
		{"coredns-kubernetes", "CoreDNS kubernetes, loadbalance", f, func(l *lab, address string, _ data.Fleet) (*process, error) {
			return l.startCoreDNSKubernetes(address, c.Kubeconfig)
		}, false},
		{"meshdns-kubernetes", "this server", f, func(l *lab, address string, f data.Fleet) (*process, error) {
			return l.startFromAPI(address, "", c.Kubeconfig, f)
		}, false},
	})
}
