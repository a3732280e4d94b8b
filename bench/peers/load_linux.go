package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// runLoad measures the servers of -servers.
func (l *lab) runLoad(ctx context.Context) error {
	var chosen []kind
	for _, k := range kinds(l.options) {
		if slices.Contains(l.servers, k.name) {
			chosen = append(chosen, k)
		}
	}
	fmt.Fprintf(l.out, "\n## Load: %d names of 6 A records, %s\n\n", l.services, l.conditions())
	return l.runKinds(ctx, chosen)
}

// runKinds starts servers, loads them in rounds, and prints the tables, those of a run
// with lost or wrong answers included.
func (l *lab) runKinds(ctx context.Context, chosen []kind) error {
	var servers []*running
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for _, k := range chosen {
		s, err := l.launch(ctx, k)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	all, err := l.rounds(ctx, servers)
	if len(all) > 0 && len(all[len(all)-1].samples) > 0 {
		l.report(all)
	}
	return err
}

// conditions says what the figures depend on.
func (l *lab) conditions() string {
	edns := "no OPT"
	if l.edns {
		edns = "with OPT"
	}
	bound := "not bound to processors"
	if l.pin {
		bound = fmt.Sprintf("servers bound to processor %d and the generator to %d, of %d", l.serverCPUs()[0], l.generatorCPUs()[0], runtime.NumCPU())
	}
	return fmt.Sprintf("%d rounds of %g s, one worker for each server, %s, %s", l.options.rounds, l.seconds, edns, bound)
}
