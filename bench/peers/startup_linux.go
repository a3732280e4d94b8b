package main

import (
	"context"
	"fmt"
	"time"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/bench/stats"
)

const (
	// steadyFor without a change of more than steadyPart is taken for the end of what a
	// start leaves behind; steadyWithin bounds the wait.
	steadyFor    = 5 * time.Second
	steadyPart   = 0.01
	steadyWithin = 60 * time.Second
	// bigStartWithin bounds the start with all endpoints.
	bigStartWithin = 10 * time.Minute
)

// runStartup starts the server from manifests, on all processors.
func (l *lab) runStartup(ctx context.Context) error {
	f := data.Default((l.endpoints + 5) / 6)
	if _, err := l.manifests(f); err != nil { // written before the clock runs
		return err
	}
	t := &table{title: fmt.Sprintf("## Start from manifests: %d services, %d endpoints in slices of two, all processors", f.Services, f.Endpoints())}
	err := l.timeStarts(ctx, t, f, func(address string) (*process, error) { return l.startMesh(address, "", f, nil, 0) })
	t.write(l.out)
	return err
}

// runAPIStartup is the same from a real API server, which runs beside it.
func (l *lab) runAPIStartup(ctx context.Context) error {
	f := data.Fleet{Services: l.starts, Clusters: 1, PerSlice: 2, TTL: 300, Headless: true}
	c, err := l.startCluster(f)
	if err != nil {
		return err
	}
	defer c.close()
	t := &table{title: fmt.Sprintf("## Start from a real API server: %d services, slices of two, beside it on all processors", f.Services)}
	err = l.timeStarts(ctx, t, f, func(address string) (*process, error) {
		return l.startMeshdns(meshConfig{address: address, ttl: f.TTL, clusters: fmt.Sprintf("- {name: c1, kubeconfig: %q}\n", c.Kubeconfig)})
	})
	t.write(l.out)
	return err
}

// timeStarts starts a server up to three times.
func (l *lab) timeStarts(ctx context.Context, t *table, f data.Fleet, start func(address string) (*process, error)) error {
	t.add("start", "until all is answered", "CPU", "peak memory", "steady memory")
	var took []time.Duration
	for n := range min(3, l.options.rounds) {
		s, err := l.timeStart(ctx, f, start)
		if err != nil {
			return err
		}
		took = append(took, s.took)
		t.add(fmt.Sprint(n+1), s.took.Round(10*time.Millisecond).String(), s.cpu.String(), megabytes(s.memory.Peak), megabytes(s.memory.Resident))
	}
	t.add("median", stats.Median(took).Round(10*time.Millisecond).String(), "", "", "")
	return nil
}

// aStart is what one start took.
type aStart struct {
	took   time.Duration // from the start of the process until the last service is answered in full
	cpu    time.Duration // until then
	memory memory        // once it is steady
}

func (l *lab) timeStart(ctx context.Context, f data.Fleet, start func(address string) (*process, error)) (s aStart, err error) {
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	p, err := start(address)
	if err != nil {
		return s, err
	}
	defer p.stop()
	err = p.await(ctx, bigStartWithin, func() error { return checkAnswer(address, f, f.Services-1) })
	if err == nil {
		err = p.await(ctx, bigStartWithin, func() error { return checkAnswers(address, f) })
	}
	if err != nil {
		return s, err
	}
	s.took = time.Since(p.begun)
	if s.cpu, err = cpuOf(p.pid); err != nil {
		return s, err
	}
	s.memory, err = steadyMemory(ctx, p)
	return s, err
}

// steadyMemory waits until the resident size stays as it is.
func steadyMemory(ctx context.Context, p *process) (m memory, err error) {
	began := time.Now()
	since, at := began, int64(0)
	err = p.await(ctx, 2*steadyWithin, func() error {
		if m, err = memoryOf(p.pid); err != nil {
			return err
		}
		if changed := stats.Ratio(float64(m.Resident-at), float64(at)); at == 0 || changed > steadyPart || changed < -steadyPart {
			since, at = time.Now(), m.Resident
		}
		if time.Since(since) < steadyFor && time.Since(began) < steadyWithin {
			return fmt.Errorf("memory still changes: %s", megabytes(m.Resident))
		}
		return nil
	})
	return m, err
}
