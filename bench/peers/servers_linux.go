package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/meshdns/meshdns/bench/data"
)

// startWithin bounds the start of a server with its data.
const startWithin = time.Minute

// kind is a server that can be measured.
type kind struct {
	name  string
	what  string // for the reader of a table
	fleet data.Fleet
	// start starts it with one worker to answer at address.
	start func(l *lab, address string, f data.Fleet) (*process, error)
	fixed bool // every name has the answer of service 0, so that no other can be checked
}

// running is a server that answers.
type running struct {
	kind
	*process
	addr    string
	queries string // dnsperf's file of questions
}

// kinds are all servers of the load experiment, by the name that -servers takes.
func kinds(o options) []kind {
	f := data.Default(o.services)
	echo := func(args ...string) func(*lab, string, data.Fleet) (*process, error) {
		return func(l *lab, address string, f data.Fleet) (*process, error) { return l.startEcho(address, f, args...) }
	}
	return []kind{
		{"nsd", "NSD, server-count 1", f, (*lab).startNSD, false},
		{"knot", "Knot DNS, udp-workers 1", f, (*lab).startKnot, false},
		{"bind", "BIND, one thread", f, (*lab).startBIND, false},
		{"coredns", "CoreDNS file, cache, loadbalance, minimal", f, (*lab).startCoreDNSFile, false},
		{"echo", "bare loop, a blocking thread, map lookup", f, echo("-loop", "blocking"), false},
		{"echo-poller", "bare loop, runtime's poller, map lookup", f, echo("-loop", "poller"), false},
		{"echo-fixed", "bare loop, a blocking thread, no lookup", f, echo("-loop", "blocking", "-answers", "fixed"), true},
		{"meshdns", "this server", f, (*lab).startManifests, false},
		{"meshdns-large", fmt.Sprintf("this server, %d services", o.large), data.Default(o.large), (*lab).startManifests, false},
	}
}

// launch starts a server and waits until all of its answers are right.
func (l *lab) launch(ctx context.Context, k kind) (*running, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := k.start(l, address, k.fleet)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	check := func() error { return checkAnswers(address, k.fleet) } // while it loads, some names may be there before others
	if k.fixed {
		check = func() error { return checkAnswer(address, k.fleet, 0) }
	}
	if err := p.await(ctx, startWithin, check); err != nil {
		p.stop()
		return nil, err
	}
	queries, err := l.queriesFile(k.fleet)
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	return &running{kind: k, process: p, addr: address, queries: queries}, nil
}

// queriesFile is dnsperf's input for a mesh, written once.
func (l *lab) queriesFile(f data.Fleet) (string, error) {
	path := filepath.Join(l.dir, fmt.Sprintf("queries-%d.txt", f.Services))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, data.WriteFile(path, f.Queries)
}

// zoneFile is the mesh as a zone, written once.
func (l *lab) zoneFile(f data.Fleet) (string, error) {
	path := filepath.Join(l.dir, fmt.Sprintf("zone-%d-%d", f.Services, f.Clusters))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, data.WriteFile(path, f.ZoneFile)
}

// manifests are the folders of the clusters' objects, written once.
func (l *lab) manifests(f data.Fleet) (string, error) {
	dir := filepath.Join(l.dir, fmt.Sprintf("manifests-%d-%d-%d", f.Services, f.Clusters, f.PerSlice))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, f.Manifests(dir)
}

// write puts a configuration into a folder of its own.
func (l *lab) write(name, text string) (dir, path string, err error) {
	if dir, err = l.folder(name); err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, name)
	return dir, path, os.WriteFile(path, []byte(text), 0o644)
}

// startEcho starts the bare loop.
func (l *lab) startEcho(address string, f data.Fleet, args ...string) (*process, error) {
	args = append([]string{"-listen", address, "-services", strconv.Itoa(f.Services), "-batch", strconv.Itoa(l.batch)}, args...)
	return l.start(program{name: "echo", path: l.bin.Echo, args: args, cpus: l.serverCPUs()})
}
