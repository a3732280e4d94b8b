package harness

import (
	"context"
	"fmt"
)

// CoreDNSServer is one CoreDNS.
type CoreDNSServer struct {
	*Process
	DNS     string // where it answers, UDP and TCP
	Metrics string // URL, when the Corefile asks for them
}

// CoreDNSPorts are what a Corefile has to use.
type CoreDNSPorts struct {
	DNS     int
	Ready   int // of the ready plugin, which must be there
	Metrics int // of the prometheus plugin, which need not
}

// StartCoreDNS starts CoreDNS with the Corefile that the caller makes for the ports given,
// and waits until its ready plugin says that all plugins are and it answers.
func (e *Env) StartCoreDNS(ctx context.Context, corefile func(CoreDNSPorts) string) (*CoreDNSServer, error) {
	path, err := e.Binary(CoreDNS)
	if err != nil {
		return nil, err
	}
	free, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	ports := CoreDNSPorts{DNS: free[0], Ready: free[1], Metrics: free[2]}
	dir, err := e.Folder("coredns")
	if err != nil {
		return nil, err
	}
	file, err := WriteFile(dir, "Corefile", corefile(ports))
	if err != nil {
		return nil, err
	}
	process, err := e.start(command{name: "coredns", path: path, dir: dir, args: []string{"-conf", file}})
	if err != nil {
		return nil, err
	}
	server := &CoreDNSServer{
		Process: process,
		DNS:     Loopback(ports.DNS),
		Metrics: fmt.Sprintf("http://%s/metrics", Loopback(ports.Metrics)),
	}
	ready := fmt.Sprintf("http://%s/ready", Loopback(ports.Ready))
	return server, process.await(ctx, startWithin, func() error {
		if err := httpOK(ready); err != nil {
			return err
		}
		_, err := Ask(server.DNS, Question{Name: ".", Type: "NS"}) // it is ready before it listens
		return err
	})
}
