package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// noDrain ends the product at once after SIGTERM, though still in order: no load balancer
// has to notice first that it is not ready.
const noDrain = "--drain=0s"

// Product says how to start the product's binary.
type Product struct {
	// Config is the YAML of the configuration without its listen section, which the
	// harness adds. "" starts without a file, with --listen and --admin.
	Config string
	Args   []string // more arguments of serve
	Env    []string // more environment, NAME=value
	DNS    int      // port; 0 takes a free one
}

// MeshdnsServer is the product, running.
type MeshdnsServer struct {
	*Process
	DNS   string // where it answers, UDP and TCP
	Admin string // base URL of its admin port
}

// StartMeshdns starts the product and does not wait for anything.
func (e *Env) StartMeshdns(p Product) (*MeshdnsServer, error) {
	path, err := e.Binary(Meshdns)
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	if p.DNS != 0 {
		ports[0] = p.DNS
	}
	dns, admin := Loopback(ports[0]), Loopback(ports[1])
	dir, err := e.Folder("meshdns-run")
	if err != nil {
		return nil, err
	}
	args, err := p.arguments(dir, dns, admin)
	if err != nil {
		return nil, err
	}
	// Its own folder as home: nothing of the machine's user is read.
	environment := append([]string{"HOME=" + dir, "KUBECONFIG=", "XDG_CONFIG_HOME=" + dir}, p.Env...)
	process, err := e.start(command{name: "meshdns", path: path, dir: dir, args: args, env: environment})
	if err != nil {
		return nil, err
	}
	return &MeshdnsServer{Process: process, DNS: dns, Admin: "http://" + admin}, nil
}

// arguments writes the configuration, if any, and gives the command line.
func (p Product) arguments(dir, dns, admin string) ([]string, error) {
	if p.Config == "" {
		return append([]string{"serve", noDrain, "--listen", dns, "--admin", admin}, p.Args...), nil
	}
	listen := fmt.Sprintf("listen: {dns: [%q], admin: %q}\n", dns, admin)
	file, err := WriteFile(dir, "meshdns.yaml", listen+p.Config)
	if err != nil {
		return nil, err
	}
	return append([]string{"serve", noDrain, "--config", file}, p.Args...), nil
}

// WaitReady waits until /readyz says 200.
func (m *MeshdnsServer) WaitReady(ctx context.Context, within time.Duration) error {
	return m.await(ctx, within, func() error {
		status, body, err := m.Get("/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz: %d %s", status, body)
		}
		return err
	})
}

// WaitListening waits for the first reply to any question and gives the time from the
// start of the process until then.
func (m *MeshdnsServer) WaitListening(ctx context.Context, within time.Duration) (time.Duration, error) {
	err := m.await(ctx, within, func() error {
		_, err := Ask(m.DNS, Question{Name: ".", Type: "NS"})
		return err
	})
	return time.Since(m.Started), err
}

// Get asks the admin port for path.
func (m *MeshdnsServer) Get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(m.Admin + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// Explain is what the product itself says about an answer, for messages of failed tests.
func (m *MeshdnsServer) Explain(name, kind string) string {
	query := url.Values{"name": {name}, "type": {kind}}
	status, body, err := m.Get("/api/v1/explain?" + query.Encode())
	if err == nil && status != http.StatusOK {
		err = errors.New(http.StatusText(status))
	}
	if err != nil {
		return "no explanation: " + err.Error()
	}
	return body
}
