package main

import (
	"fmt"
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
	listen := fmt.Sprintf("dns: [%q], batch: %d", c.address, l.batch)
	if c.workers > 0 {
		listen += fmt.Sprintf(", workers: %d", c.workers)
	}
	_, config, err := l.write("meshdns.yaml", fmt.Sprintf("listen: {%s}\nsite: c1\nclusters:\n%sdefaults: {ttl: %ds}\n%s",
		listen, c.clusters, c.ttl, c.more))
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--drain=0s", "--log-level=warn", "--admin", c.admin, "--config", config}
	return l.start(program{name: "meshdns", path: l.bin.Meshdns, args: args, cpus: c.cpus})
}

// startManifests serves a mesh from files of Kubernetes objects.
func (l *lab) startManifests(address string, f data.Fleet) (*process, error) {
	return l.startMesh(address, "", f, l.serverCPUs(), 1)
}

func (l *lab) startMesh(address, admin string, f data.Fleet, cpus []int, workers int) (*process, error) {
	clusters, err := l.clusters(f)
	if err != nil {
		return nil, err
	}
	return l.startMeshdns(meshConfig{
		address: address, admin: admin, clusters: clusters, ttl: f.TTL, cpus: cpus, workers: workers,
	})
}

// startMeshWith serves a mesh with more lines in its configuration.
func (l *lab) startMeshWith(address string, f data.Fleet, more string) (*process, error) {
	clusters, err := l.clusters(f)
	if err != nil {
		return nil, err
	}
	return l.startMeshdns(meshConfig{
		address: address, clusters: clusters, ttl: f.TTL, cpus: l.serverCPUs(), workers: 1, more: more,
	})
}

// clusters is the YAML list of a mesh's clusters.
func (l *lab) clusters(f data.Fleet) (string, error) {
	dir, err := l.manifests(f)
	if err != nil {
		return "", err
	}
	var clusters strings.Builder
	for c := range f.Clusters {
		fmt.Fprintf(&clusters, "- {name: %s, manifests: %q}\n", f.Cluster(c), filepath.Join(dir, f.Cluster(c)))
	}
	return clusters.String(), nil
}
