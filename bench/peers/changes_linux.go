package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/bench/stats"
)

// liveReport is what bench/live prints of a period.
type liveReport struct {
	Seconds              float64
	Changes, Coalesced   int
	P50, P99, P9999, Max time.Duration
}

// live is the server whose data change.
type live struct {
	*running
	lines *bufio.Reader
}

// period is one load with or without changes.
type period struct {
	paced     probeResult
	pacedCPU  time.Duration // the server's, while paced
	pacedLive liveReport
	full      loaded
	fullLive  liveReport
}

// runChanges measures a large mesh with and without changes, in turns.
func (l *lab) runChanges(ctx context.Context) error {
	f := data.Default(max(1, l.endpoints/6))
	s, err := l.startLive(ctx, f)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Fprintf(l.out, "\n## Changes under load: %d endpoints, %d changes a second, %s, GOMAXPROCS %d\n",
		f.Endpoints(), l.changeRate, l.conditions(), l.liveProcs)
	periods := map[int][]period{}
	rates := []int{0, l.changeRate}
	for range l.options.rounds {
		for _, i := range rand.Perm(len(rates)) {
			p, err := l.period(ctx, s, rates[i])
			if err != nil {
				return err
			}
			periods[rates[i]] = append(periods[rates[i]], p)
		}
	}
	l.changesTable(rates, periods).write(l.out)
	l.changesSummary(periods[0], periods[l.changeRate])
	return faultsOf(periods)
}

func (l *lab) startLive(ctx context.Context, f data.Fleet) (*live, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := l.start(program{
		name: "live", path: l.bin.Live, pipes: true, cpus: l.serverCPUs(),
		args: []string{"-listen", address, "-services", strconv.Itoa(f.Services), "-workers", "1"},
		env:  []string{fmt.Sprintf("GOMAXPROCS=%d", l.liveProcs)},
	})
	if err != nil {
		return nil, err
	}
	s := &live{running: &running{kind: kind{name: "live", fleet: f}, process: p, addr: address}, lines: bufio.NewReader(p.stdout)}
	line, err := s.lines.ReadString('\n')
	if err == nil && line != "ready\n" {
		err = fmt.Errorf("%q in place of ready", line)
	}
	if err == nil {
		s.queries, err = l.queriesFile(f)
	}
	if err == nil {
		err = checkAnswers(address, f)
	}
	if err == nil {
		_, err = fmt.Fprintln(p.stdin, 0) // the first period begins, of which nobody wants to know
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("live: %w: %s", err, lastLines(p.output()))
	}
	return s, nil
}

// turn begins a period with another rate and gives the report of the one before.
func (s *live) turn(rate int) (r liveReport, err error) {
	if _, err = fmt.Fprintln(s.stdin, rate); err != nil {
		return r, err
	}
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// period loads the server twice at a rate of changes: paced, and as much as it bears.
func (l *lab) period(ctx context.Context, s *live, rate int) (p period, err error) {
	if _, err = s.turn(rate); err != nil {
		return p, err
	}
	before, err := cpuOf(s.pid)
	if err != nil {
		return p, err
	}
	p.paced, err = l.probe(s.addr, probeLoad{Rate: float64(l.probeRate), Seconds: l.seconds, Fleet: s.fleet})
	if err != nil {
		return p, err
	}
	after, err := cpuOf(s.pid)
	if err != nil {
		return p, err
	}
	p.pacedCPU = after - before
	if p.pacedLive, err = s.turn(rate); err != nil {
		return p, err
	}
	if p.full, err = l.saturate(ctx, s.running); err != nil {
		return p, err
	}
	p.fullLive, err = s.turn(0)
	return p, err
}

func (l *lab) changesTable(rates []int, periods map[int][]period) *table {
	t := &table{title: fmt.Sprintf("Medians; paced is %d queries/s, latencies of changes are from Update to published", l.probeRate)}
	t.add("changes/s", "paced p50", "p99", "p99.99", "server busy", "change p50", "p99",
		"saturated queries/s", "CPU/answer", "server busy", "change p50", "p99", "published/s")
	for _, rate := range rates {
		all := periods[rate]
		span := func(f func(period) time.Duration) string { return micros(medianOf(all, f)) }
		change := func(f func(period) time.Duration) string {
			if rate == 0 {
				return "–"
			}
			return span(f)
		}
		number := func(f func(period) float64) float64 { return medianOf(all, f) }
		t.add(strconv.Itoa(rate),
			span(func(p period) time.Duration { return p.paced.P50 }),
			span(func(p period) time.Duration { return p.paced.P99 }),
			span(func(p period) time.Duration { return p.paced.P9999 }),
			percent(number(func(p period) float64 { return p.pacedCPU.Seconds() / l.seconds })),
			change(func(p period) time.Duration { return p.pacedLive.P50 }),
			change(func(p period) time.Duration { return p.pacedLive.P99 }),
			fmt.Sprintf("%.0f", number(func(p period) float64 { return p.full.PerSecond })),
			fmt.Sprintf("%.2f µs", number(func(p period) float64 { return p.full.perAnswer() })),
			percent(number(func(p period) float64 { busy, _ := p.full.busy(); return busy })),
			change(func(p period) time.Duration { return p.fullLive.P50 }),
			change(func(p period) time.Duration { return p.fullLive.P99 }),
			fmt.Sprintf("%.0f", number(func(p period) float64 { return float64(p.fullLive.Changes) / p.fullLive.Seconds })))
	}
	return t
}

// changesSummary says what the bars are about.
func (l *lab) changesSummary(quiet, busy []period) {
	tail := func(p period) time.Duration { return p.paced.P9999 }
	cpu := func(p period) time.Duration { return p.pacedCPU }
	changes := medianOf(busy, func(p period) float64 { return float64(p.pacedLive.Changes) })
	more := medianOf(busy, cpu) - medianOf(quiet, cpu)
	fmt.Fprintf(l.out, "\np99.99 with changes is %s above that without; a change takes %.1f µs of processor time while paced.\n",
		micros(medianOf(busy, tail)-medianOf(quiet, tail)), stats.Ratio(float64(more.Nanoseconds())/1e3, changes))
}

func medianOf[T stats.Number](all []period, figure func(period) T) T {
	values := make([]T, len(all))
	for i, p := range all {
		values[i] = figure(p)
	}
	return stats.Median(values)
}

func faultsOf(periods map[int][]period) error {
	for rate, all := range periods {
		for _, p := range all {
			if err := (sample{saturated: p.full, paced: p.paced}).faults(fmt.Sprintf("%d changes/s", rate)); err != nil {
				return err
			}
		}
	}
	return nil
}
