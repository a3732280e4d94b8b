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

// loaded is one load of one server.
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
// machine meets all of them. The error joins the faults of all samples.
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
	if one.saturated, err = l.saturate(ctx, s); err != nil {
		return one, err
	}
	one.few, err = counted(s, func() (perfResult, error) { return l.closed(s.addr, s.fleet, l.few) })
	if err != nil {
		return one, err
	}
	one.paced, err = l.probe(s.addr, probeLoad{
		Rate: pacedPart * one.saturated.PerSecond, Seconds: l.seconds, EDNS: l.edns, Fleet: s.fleet,
	})
	return one, err
}

// saturate runs dnsperf with many questions in flight.
func (l *lab) saturate(ctx context.Context, s *running) (loaded, error) {
	return counted(s, func() (perfResult, error) {
		return l.dnsperf(ctx, s.addr, perfLoad{
			InFlight: l.saturation, Clients: l.clients, Seconds: l.seconds, EDNS: l.edns, Queries: s.queries,
		})
	})
}

// counted takes the server's processor time before and after a load. A load without an
// answer is an error: its figures would say nothing.
func counted(s *running, load func() (perfResult, error)) (loaded, error) {
	before, err := cpuOf(s.pid)
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	r, err := load()
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := cpuOf(s.pid)
	if err != nil {
		return loaded{}, fmt.Errorf("%s: %w", s.name, err)
	}
	if r.Completed == 0 {
		return loaded{}, fmt.Errorf("%s: none of %d questions was answered: %s", s.name, r.Sent, lastLines(s.output()))
	}
	return loaded{perfResult: r, serverCPU: after - before}, nil
}

// mayLose is the part of a load's questions that may stay without an answer, since a
// machine that is held up for some milliseconds drops datagrams. The tables count them.
const mayLose = 0.01

// faults are wrong answers, and more lost ones than a machine's pauses explain.
func (s sample) faults(name string) error {
	var all []error
	complain := func(load string, sent, lost, wrong int) {
		if wrong > 0 || float64(lost) > mayLose*float64(sent) {
			all = append(all, fmt.Errorf("%s, %s: %d answers lost, %d wrong, of %d", name, load, lost, wrong, sent))
		}
	}
	complain("saturated", s.saturated.Sent, s.saturated.Lost, s.saturated.Wrong)
	complain("few in flight", s.few.Sent, s.few.Lost, s.few.Wrong)
	complain("paced", s.paced.Sent, s.paced.Lost, s.paced.Wrong)
	return errors.Join(all...)
}
