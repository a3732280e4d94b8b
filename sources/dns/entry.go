package dns

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/sources"
)

const (
	// firstRetry is the back-off after the first failure; with jitter it is 1 to 1.25 s,
	// which is never less than a failure is remembered (failureTTL).
	firstRetry = 1250 * time.Millisecond
	// lastRetry bounds the back-off: a failure is believed for 2 s at most (DNS_RULES 39,
	// CASES C149: recovery within one retry).
	lastRetry = 2 * time.Second
	// refreshSpread is how much later than at refreshFrom of its life a name may be
	// refreshed, so that names that came together do not stay together.
	refreshSpread = 0.1
	// retrySpread is the part of the back-off that jitter takes off.
	retrySpread = 0.2
)

// entry is one locator that is kept fresh. Source.mu guards all but touched.
type entry struct {
	name    string // Key.Name
	loc     locator
	locErr  error // why name is no locator
	wanted  bool  // by Want; else by Resolve alone
	touched atomic.Int64

	gone   bool               // dropped: nothing may be pushed any more
	cancel context.CancelFunc // ends the attempt under way

	queue  *queue // that holds it, or that its attempt under way counts in
	index  int    // in the queue's heap, -1 outside
	due    time.Time
	urgent bool // somebody waits

	memory      memory
	fails       int   // attempts in a row with an error, partial ones included
	lastErr     error // of the last attempt, nil when nothing at all failed
	failedUntil time.Time
	pushed      *sources.Members
	status      sources.Status
	waiting     *waiting
}

// waiting is what those wait for who asked during one attempt.
type waiting struct {
	done chan struct{}
	err  error // to be read after done is closed
}

func newEntry(name string, now time.Time) *entry {
	e := &entry{name: name, index: -1, due: now}
	e.loc, e.locErr = parseLocator(name)
	e.status = sources.Status{Source: statusSource(name), Kind: SourceName}
	return e
}

// release tells those who wait how it ended.
func (e *entry) release(err error) {
	if e.waiting != nil {
		e.waiting.err = err
		close(e.waiting.done)
		e.waiting = nil
	}
}

// learn takes an attempt in and says when the next one is due; jitter is in [0, 1).
func (e *entry) learn(a attempt, now time.Time, keep time.Duration, jitter float64) verdict {
	v := e.memory.merge(e.loc, a, now, keep)
	e.lastErr = firstError(a)
	e.urgent = false
	if v.members.Error == "" {
		e.fails, e.lastErr = 0, nil
		e.due = refreshAt(v.refresh, now, jitter)
		return v
	}
	e.fails++
	e.failedUntil = now.Add(failureTTL)
	e.due = now.Add(backoff(e.fails, jitter))
	if !v.refresh.IsZero() {
		e.due = earlier(e.due, refreshAt(v.refresh, now, jitter))
	}
	return v
}

// firstError is an error of the attempt, if there is one.
func firstError(a attempt) error {
	if a.srv != nil && a.srv.err != nil {
		return a.srv.err
	}
	_, err := tally(a)
	return err
}

// refreshAt is 80 to 90 % of the way to expires, and at least a second away.
func refreshAt(expires, now time.Time, jitter float64) time.Time {
	left := float64(expires.Sub(now)) * (refreshFrom + refreshSpread*jitter)
	return now.Add(max(minRefresh, time.Duration(left)))
}

// backoff is the time to the next attempt after fails failures in a row: 1 to 1.25 s,
// then 1.6 to 2 s.
func backoff(fails int, jitter float64) time.Duration {
	d := lastRetry
	if fails == 1 {
		d = firstRetry
	}
	return time.Duration(float64(d) * (1 - retrySpread*jitter))
}
