package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// binaries are the programs of a run by path; "" where one is not there.
type binaries struct {
	Root                                  string // the project
	Meshdns, Echo, Live, Cluster, CoreDNS string
	Dnsperf, NSD, Knot, BIND              string
}

const binariesFile = "binaries.json"

// save tells the process inside of the namespace what there is.
func (b binaries) save(dir string) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, binariesFile), text, 0o644)
}

func loadBinaries(dir string) (b binaries, err error) {
	text, err := os.ReadFile(filepath.Join(dir, binariesFile))
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(text, &b)
}

// need says which programs a run cannot do without.
type need struct{ packages, coredns, cluster bool }

// prepare installs Debian packages where it may, and builds the rest into dir.
func prepare(ctx context.Context, o options, dir string) (binaries, error) {
	root, err := projectRoot(ctx)
	if err != nil {
		return binaries{}, err
	}
	n := o.need()
	if n.packages {
		if _, err := command(ctx, root, filepath.Join(root, "hack", "tools"), "peers"); err != nil {
			return binaries{}, err
		}
	}
	b := binaries{Root: root}
	b.Dnsperf, b.NSD, b.Knot, b.BIND = find("dnsperf"), find("nsd"), find("knotd"), find("named")
	if err := b.build(ctx, root, dir); err != nil {
		return b, err
	}
	if n.coredns || n.cluster {
		err = b.buildE2E(ctx, root, dir, n)
	}
	return b, err
}

// build makes the project's own programs, this server as the Makefile does.
func (b *binaries) build(ctx context.Context, root, dir string) error {
	for pkg, path := range map[string]*string{".": &b.Meshdns, "./bench/echo": &b.Echo, "./bench/live": &b.Live} {
		*path = filepath.Join(dir, "meshdns-"+filepath.Base(pkg))
		if err := goBuild(ctx, root, *path, pkg); err != nil {
			return err
		}
	}
	return nil
}

// buildE2E makes what the end-to-end tests run, which keep it in a cache of theirs.
func (b *binaries) buildE2E(ctx context.Context, root, dir string, n need) error {
	e2e := filepath.Join(root, "e2e")
	b.Cluster = filepath.Join(dir, "cluster")
	if err := goBuild(ctx, e2e, b.Cluster, "./cmd/cluster"); err != nil {
		return err
	}
	path, err := command(ctx, e2e, b.Cluster, "-tool", "coredns")
	if err != nil {
		return err
	}
	b.CoreDNS = strings.TrimSpace(path)
	if !n.cluster {
		return nil
	}
	for _, tool := range []string{"etcd", "kube-apiserver"} {
		if _, err := command(ctx, e2e, b.Cluster, "-tool", tool); err != nil {
			return err
		}
	}
	return nil
}

func goBuild(ctx context.Context, dir, path, pkg string) error {
	_, err := command(ctx, dir, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	return err
}

// projectRoot is the folder of the module that the working folder belongs to.
func projectRoot(ctx context.Context) (string, error) {
	out, err := command(ctx, "", "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(out))
	if _, err := os.Stat(filepath.Join(root, "hack", "tools")); err != nil {
		return "", fmt.Errorf("run this inside of the project: %w", err)
	}
	return root, nil
}

// command runs a program to its end and gives its standard output.
func command(ctx context.Context, dir, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// find looks for a program in PATH and where servers are.
func find(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// missing names what the servers of a run, or dnsperf, lack.
func (b binaries) missing(servers []string) []string {
	var all []string
	for name, path := range map[string]string{"dnsperf": b.Dnsperf, "nsd": b.NSD, "knot": b.Knot, "bind": b.BIND} {
		if path == "" && (name == "dnsperf" || slices.Contains(servers, name)) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
