package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/meshdns/meshdns/bench/stats"
)

// sample is one server in one round.
type sample struct {
	saturated, few loaded
	paced          probeResult
}

// loaded is one run of dnsperf against one server.
type loaded struct {
	perfResult
	serverCPU time.Duration
}

// perAnswer is the server's processor time for an answered question, in microseconds.
func (l loaded) perAnswer() float64 {
	return stats.Ratio(float64(l.serverCPU.Microseconds()), float64(l.Completed))
}

// busy is what part of one processor server and generator used.
func (l loaded) busy() (server, generator float64) {
	return stats.Ratio(l.serverCPU, l.RunTime), stats.Ratio(l.GeneratorCPU, l.RunTime)
}

// series is all rounds of one server.
type series struct {
	*running
	samples []sample
	memory  memory
}

// pacedPart of its own capacity is the load at which latency is measured.
const pacedPart = 0.2

// rounds loads all servers in a new order in each round, so that what else happens on the
// machine meets all of them. The error joins all lost and wrong answers.
func (l *lab) rounds(ctx context.Context, servers []*running) ([]*series, error) {
	all := make([]*series, len(servers))
	for i, s := range servers {
		all[i] = &series{running: s}
	}
	var bad []error
	for round := range l.options.rounds {
		for _, i := range rand.Perm(len(all)) {
			one, err := l.measure(ctx, all[i].running)
			if err != nil {
				return all, err
			}
			all[i].samples = append(all[i].samples, one)
			bad = append(bad, one.faults(all[i].name))
		}
		fmt.Fprintf(l.log, "peers: round %d of %d\n", round+1, l.options.rounds)
	}
	for _, s := range all {
		var err error
		if s.memory, err = memoryOf(s.pid); err != nil {
			return all, fmt.Errorf("memory of %s: %w", s.name, err)
		}
	}
	return all, errors.Join(bad...)
}

// measure loads one server in all ways once.
func (l *lab) measure(ctx context.Context, s *running) (one sample, err error) {
	if one.saturated, err = l.load(ctx, s, l.saturation, l.clients); err != nil {
		return one, err
	}
	if one.few, err = l.load(ctx, s, l.few, l.few); err != nil {
		return one, err
	}
	one.paced, err = l.probe(s.addr, probeLoad{
		Rate: pacedPart * one.saturated.PerSecond, Seconds: l.seconds, Fleet: s.fleet,
	})
	return one, err
}

// load runs dnsperf and takes the server's processor time before and after.
func (l *lab) load(ctx context.Context, s *running, inFlight, clients int) (loaded, error) {
	before, err := cpuOf(s.pid)
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	r, err := l.dnsperf(ctx, s.addr, perfLoad{
		InFlight: inFlight, Clients: clients, Seconds: l.seconds, EDNS: l.edns, Queries: s.queries,
	})
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := cpuOf(s.pid)
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return loaded{perfResult: r, serverCPU: after - before}, nil
}

// faults are lost and wrong answers.
func (s sample) faults(name string) error {
	var all []error
	complain := func(load string, lost, wrong int) {
		if lost+wrong > 0 {
			all = append(all, fmt.Errorf("%s, %s: %d answers lost, %d wrong", name, load, lost, wrong))
		}
	}
	complain("saturated", s.saturated.Lost, s.saturated.Wrong)
	complain("few in flight", s.few.Lost, s.few.Wrong)
	complain("paced", s.paced.Lost, s.paced.Wrong)
	return errors.Join(all...)
}
