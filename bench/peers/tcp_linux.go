package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/bench/stats"
)

const (
	tcpServices = 1_000 // the data do not matter here
	// tcpProbe is the load over UDP while TCP is under attack: far below what each can do, so
	// that latency is not from a queue of its own.
	tcpProbe        = 2_000
	tcpProbeSeconds = 2
	pipelines       = 20 // one after the other
)

// tcpServers are measured, by the names of bin.missing. Their timeouts are what each has by
// itself; the number of connections is raised so that all of -idle are let in.
var tcpServers = []string{"nsd", "knot", "bind", "meshdns"}

// startTCP starts a server that takes -idle connections of one client.
func (l *lab) startTCP(name, address string, f data.Fleet) (*process, error) {
	room := l.idle + 1000
	switch name {
	case "nsd":
		return l.nsd(address, f, fmt.Sprintf("  tcp-count: %d\n", room))
	case "knot":
		return l.knot(address, f, fmt.Sprintf("  tcp-max-clients: %d\n", room))
	case "bind":
		return l.bind9(address, f, fmt.Sprintf("tcp-clients %d; reserved-sockets 128;", room))
	}
	return l.startMeshWith(address, f, fmt.Sprintf("server: {tcp: {connections: %d, exempt: [127.0.0.0/8]}}\n", room))
}

// underTCP is a server and what was found out about it.
type underTCP struct {
	name string
	addr string
	*process
	open                        int   // of the idle connections
	each                        int64 // bytes of memory for one
	pipelined                   []time.Duration
	quiet, idle, bad, pipelines probeResult
	loris, deaf                 cut
}

// runTCP has four kinds of bad clients at each server, and asks over UDP meanwhile.
func (l *lab) runTCP(ctx context.Context) error {
	f := data.Default(tcpServices)
	var all []*underTCP
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	for _, name := range tcpServers {
		s, err := l.launchTCP(ctx, name, f)
		if err != nil {
			return err
		}
		all = append(all, s)
		if err := l.crowd(s, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := l.misbehave(ctx, all, f); err != nil {
		return err
	}
	l.reportTCP(all)
	return nil
}

func (l *lab) launchTCP(ctx context.Context, name string, f data.Fleet) (*underTCP, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := l.startTCP(name, address, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.await(ctx, startWithin, func() error { return checkAnswer(address, f, f.Services-1) }); err != nil {
		p.stop()
		return nil, err
	}
	return &underTCP{name: name, addr: address, process: p}, nil
}

// probeUDP asks at tcpProbe questions a second.
func (l *lab) probeUDP(s *underTCP, f data.Fleet) (probeResult, error) {
	r, err := l.probe(s.addr, probeLoad{Rate: tcpProbe, Seconds: tcpProbeSeconds, Fleet: f})
	if err == nil && r.Wrong > 0 {
		err = fmt.Errorf("%d wrong answers over UDP", r.Wrong)
	}
	return r, err
}

// crowd measures a server alone, with idle connections, and with pipelined questions.
func (l *lab) crowd(s *underTCP, f data.Fleet) (err error) {
	if s.quiet, err = l.probeUDP(s, f); err != nil {
		return err
	}
	if err := l.crowdIdle(s, f); err != nil {
		return err
	}
	for range pipelines {
		took, err := pipeline(s.addr, f, l.pipelined)
		if err != nil {
			return err
		}
		s.pipelined = append(s.pipelined, took)
	}
	return l.crowdPipelining(s, f)
}

// crowdIdle opens -idle connections, each of which asks once.
func (l *lab) crowdIdle(s *underTCP, f data.Fleet) error {
	before, err := memoryOf(s.pid)
	if err != nil {
		return err
	}
	conns, err := openIdle(s.addr, f, l.idle)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	after, err := memoryOf(s.pid)
	if err != nil {
		return err
	}
	if s.open, err = established(s.addr); err != nil {
		return err
	}
	s.each = (after.Resident - before.Resident) / int64(max(1, s.open))
	s.idle, err = l.probeUDP(s, f)
	return err
}

// crowdPipelining asks over UDP while another client pipelines without a pause.
func (l *lab) crowdPipelining(s *underTCP, f data.Fleet) error {
	ended, result := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-ended:
				result <- nil
				return
			default:
			}
			if _, err := pipeline(s.addr, f, l.pipelined); err != nil {
				result <- err
				return
			}
		}
	}()
	var err error
	s.pipelines, err = l.probeUDP(s, f)
	close(ended)
	return errors.Join(err, <-result)
}

// misbehave has a slow client and one that never reads at all servers at the same time, and
// waits until each is cut off, or for -patience.
func (l *lab) misbehave(ctx context.Context, all []*underTCP, f data.Fleet) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	var busy sync.WaitGroup
	defer busy.Wait()
	for _, s := range all {
		busy.Go(func() { s.loris = slowLoris(ctx, s.addr, f) })
		busy.Go(func() { s.deaf = neverRead(ctx, s.addr, f) })
	}
	for _, s := range all {
		var err error
		if s.bad, err = l.probeUDP(s, f); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	busy.Wait()
	for _, s := range all {
		if err := errors.Join(s.loris.err, s.deaf.err); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (l *lab) reportTCP(all []*underTCP) {
	t := &table{title: fmt.Sprintf("## Bad clients over TCP: %d idle connections, %d questions in one write, one byte a second, no reading", l.idle, l.pipelined)}
	t.add("server", "idle connections let in", "memory of one", "all pipelined answered, median", "slow-loris cut after", "never reads, cut after")
	u := &table{title: fmt.Sprintf("p99 (largest, lost) over UDP meanwhile, %d queries/s for %d s", tcpProbe, tcpProbeSeconds)}
	u.add("server", "quiet", "idle connections", "slow-loris and never reads", "pipelining without a pause")
	for _, s := range all {
		slices.Sort(s.pipelined)
		t.add(s.name, fmt.Sprint(s.open), fmt.Sprintf("%.1f kB", float64(s.each)/1e3), millis(stats.Median(s.pipelined)), s.loris.String(), s.deaf.String())
		u.add(s.name, udpCell(s.quiet), udpCell(s.idle), udpCell(s.bad), udpCell(s.pipelines))
	}
	t.write(l.out)
	u.write(l.out)
}

func udpCell(r probeResult) string {
	return fmt.Sprintf("%s (%s, %d)", micros(r.P99), micros(r.Max), r.Lost)
}
