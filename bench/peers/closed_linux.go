package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshdns/meshdns/bench/data"
)

const (
	// closedRoom is how many questions a second of a closed load memory is kept for.
	closedRoom = 200_000
	// stalledFor without an answer ends a closed load: what is under way is lost.
	stalledFor = time.Second
)

// closed keeps inFlight questions under way at one time, each answer being followed by the
// next question at once. dnsperf cannot do this: with few in flight its sender misses the
// signals of its receiver and sleeps for up to 0.1 s, the more often the faster the server
// answers, so that servers would be compared under different loads.
func (l *lab) closed(addr string, f data.Fleet, inFlight int) (perfResult, error) {
	load := probeLoad{Rate: closedRoom, Seconds: l.seconds, EDNS: l.edns, Fleet: f}
	p, err := newProber(addr, load)
	if err != nil {
		return perfResult{}, err
	}
	defer unix.Close(p.fd)
	var r perfResult
	if err := l.generate(func() (err error) { r, err = p.runClosed(load, inFlight); return err }); err != nil {
		return r, fmt.Errorf("%d in flight to %s: %w", inFlight, addr, err)
	}
	return r, nil
}

// runClosed asks until the time is up and all is answered. It never sleeps.
func (p *prober) runClosed(load probeLoad, inFlight int) (perfResult, error) {
	reply := make([]byte, 4096)
	end := time.Duration(load.Seconds * float64(time.Second))
	p.start = time.Now()
	sent, answered, last := 0, 0, time.Duration(0)
	for {
		now := time.Since(p.start)
		if done := len(p.took) + p.wrong; done != answered {
			answered, last = done, now
		}
		underWay := sent - answered
		if now >= end && underWay == 0 || now-last > stalledFor {
			return p.closedResult(sent, now), nil
		}
		if now < end && underWay < inFlight {
			if err := p.send(sent); err != nil {
				return perfResult{}, err
			}
			sent++
		}
		if err := p.receive(reply); err != nil {
			return perfResult{}, err
		}
	}
}

// closedResult is in dnsperf's words; Completed counts wrong answers too, as it does.
func (p *prober) closedResult(sent int, took time.Duration) perfResult {
	completed := len(p.took) + p.wrong
	return perfResult{
		Sent: sent, Completed: completed, Lost: sent - completed, Wrong: p.wrong,
		ReplySize: p.bytes / max(1, len(p.took)), RunTime: took, GeneratorCPU: took,
		PerSecond: float64(completed) / took.Seconds(),
	}
}
