package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/meshdns/meshdns/bench/data"
)

// meshConfig is what to run this server with.
type meshConfig struct {
	address  string
	admin    string // "" for none
	clusters string // the YAML list
	more     string // further YAML
	ttl      int
	cpus     []int
	workers  int // 0: as many as it takes by itself
}

// startMeshdns starts this server.
func (l *lab) startMeshdns(c meshConfig) (*process, error) {
	config, env, err := l.meshdnsConfig(c)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--drain=0s", "--log-level=warn", "--admin", c.admin, "--config", config}
	return l.start(program{name: "meshdns", path: l.bin.Meshdns, args: args, env: env, cpus: c.cpus})
}

// meshdnsConfig writes the configuration. Here alone is said how many workers it has: by
// listen.workers where the binary knows that field, else by GOMAXPROCS, which is what it
// takes the number from.
func (l *lab) meshdnsConfig(c meshConfig) (path string, env []string, err error) {
	listen := fmt.Sprintf("dns: [%q]", c.address)
	rest := fmt.Sprintf("site: c1\nclusters:\n%sdefaults: {ttl: %ds}\n%s", c.clusters, c.ttl, c.more)
	if c.workers > 0 {
		text := fmt.Sprintf("listen: {%s, workers: %d}\n%s", listen, c.workers, rest)
		if _, path, err = l.write("meshdns.yaml", text); err != nil {
			return "", nil, err
		}
		if known, err := l.knowsWorkers(path); known || err != nil {
			return path, nil, err
		}
		env = []string{fmt.Sprintf("GOMAXPROCS=%d", c.workers)}
	}
	_, path, err = l.write("meshdns.yaml", fmt.Sprintf("listen: {%s}\n%s", listen, rest))
	return path, env, err
}

// knowsWorkers asks the server itself whether it refuses the field.
func (l *lab) knowsWorkers(config string) (bool, error) {
	_, probe, err := l.write("meshdns.yaml", fmt.Sprintf("listen: {workers: 1}\nsite: c1\nclusters:\n- {name: c1, manifests: %q}\n", filepath.Dir(config)))
	if err != nil {
		return false, err
	}
	out, _ := exec.Command(l.bin.Meshdns, "check", "--config", probe).CombinedOutput() // other complaints don't matter here
	return !strings.Contains(string(out), "workers"), nil
}

// startManifests serves a mesh from files of Kubernetes objects.
func (l *lab) startManifests(address string, f data.Fleet) (*process, error) {
	return l.startMesh(address, "", f, l.serverCPUs(), 1)
}

func (l *lab) startMesh(address, admin string, f data.Fleet, cpus []int, workers int) (*process, error) {
	dir, err := l.manifests(f)
	if err != nil {
		return nil, err
	}
	var clusters strings.Builder
	for c := range f.Clusters {
		fmt.Fprintf(&clusters, "- {name: %s, manifests: %q}\n", f.Cluster(c), filepath.Join(dir, f.Cluster(c)))
	}
	return l.startMeshdns(meshConfig{
		address: address, admin: admin, clusters: clusters.String(), ttl: f.TTL, cpus: cpus, workers: workers,
	})
}
