package dns

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	// failureTTL is how long a failed lookup is remembered: below the 2 s of DNS_RULES 39
	// and not above the first retry, so that a retry always asks.
	failureTTL = time.Second
	// minRefresh is the least time between two lookups of one name that succeeded
	// (DNS_RULES 40).
	minRefresh = time.Second
	// refreshFrom is the part of an answer's life after which it is asked for again.
	refreshFrom = 0.8
)

// cache holds what the upstreams said, by question. It is safe for concurrent use.
type cache struct {
	ask     func(context.Context, Question) (*answer, error)
	clock   Clock
	metrics Metrics
	maxTTL  time.Duration
	timeout time.Duration // a whole budget
	entries *lru.Cache[Question, cached]
	flights singleflight.Group
}

// cached is an answer, a failure, or a failure after an answer. It is replaced, never
// changed.
type cached struct {
	piece       piece
	renew       time.Time // from here on the answer is asked for again
	err         error     // of the last lookup, if it failed
	failedUntil time.Time // the failure is remembered up to here
}

// piece is an answer with its times. The zero value holds none.
type piece struct {
	*answer
	fetched time.Time
	expires time.Time // fetched plus the capped TTL; equal to fetched for TTL 0
}

func newCache(cfg Config, ask func(context.Context, Question) (*answer, error)) (*cache, error) {
	entries, err := lru.New[Question, cached](cfg.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("cache of upstream answers: %w", err)
	}
	return &cache{ask: ask, clock: cfg.Clock, metrics: cfg.Metrics, maxTTL: cfg.MaxTTL,
		timeout: cfg.Timeout, entries: entries}, nil
}

// lookup answers q from the cache, by joining a lookup under way, or by asking. Of a
// lookup that it joined it does not take over the end of that one's context.
func (c *cache) lookup(ctx context.Context, q Question) (piece, error) {
	for {
		if p, err, ok := c.remembered(q); ok {
			c.metrics.Cache(CacheHit)
			return p, err
		}
		mine := false
		v, err, _ := c.flights.Do(flightKey(q), func() (any, error) {
			mine = true
			return c.fetch(ctx, q)
		})
		if !mine {
			c.metrics.Cache(CacheJoined)
		}
		p, _ := v.(piece)
		if errors.Is(err, errAbandoned) && !mine && ctx.Err() == nil {
			continue // the one who asked ran out of time; we have some left
		}
		return p, err
	}
}

// flightKey is q as a string; the type's two bytes follow the name's own end.
func flightKey(q Question) string {
	return q.Name.Wire() + string([]byte{byte(q.Type >> 8), byte(q.Type)})
}

// remembered says what is known without asking. An answer that is due for renewal is not
// used, unless the renewal failed a moment ago and its TTL still holds.
func (c *cache) remembered(q Question) (p piece, err error, ok bool) {
	e, found := c.entries.Get(q)
	if !found {
		return piece{}, nil, false
	}
	now := c.clock.Now()
	held := e.piece.answer != nil
	switch {
	case held && now.Before(e.renew):
		return e.piece, nil, true
	case e.err == nil || !now.Before(e.failedUntil):
		return piece{}, nil, false
	case held && now.Before(e.piece.expires):
		return e.piece, nil, true
	}
	return piece{}, e.err, true
}

// errAbandoned marks a lookup that ended because its asker's context did: nothing is
// known about the name.
var errAbandoned = errors.New("lookup given up")

// fetch asks and remembers. It runs for one caller at a time for each question.
func (c *cache) fetch(ctx context.Context, q Question) (piece, error) {
	if p, err, ok := c.remembered(q); ok { // another flight landed just now
		c.metrics.Cache(CacheHit)
		return p, err
	}
	c.metrics.Cache(CacheMiss)
	start := time.Now()
	answer, err := c.askSafely(ctx, q)
	if err == nil {
		return c.keep(q, answer), nil
	}
	if c.abandoned(ctx, start) {
		return piece{}, fmt.Errorf("%w: %w", errAbandoned, err)
	}
	c.keepFailure(q, err)
	return piece{}, err
}

// abandoned says whether a failed lookup ended because its asker went away, or came with
// little time, rather than because the upstreams did not answer.
func (c *cache) abandoned(ctx context.Context, start time.Time) bool {
	if ctx.Err() == nil {
		return false
	}
	return errors.Is(ctx.Err(), context.Canceled) || time.Since(start) < c.timeout/2
}

// askSafely turns a panic over what an upstream sent into an error (DNS_RULES 38).
func (c *cache) askSafely(ctx context.Context, q Question) (a *answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			a, err = nil, fmt.Errorf("%w: %s: panic: %v", ErrMalformed, q, r)
		}
	}()
	return c.ask(ctx, q)
}

func (c *cache) keep(q Question, a *answer) piece {
	now := c.clock.Now()
	life := min(a.ttl, c.maxTTL)
	renewAfter := max(minRefresh, time.Duration(refreshFrom*float64(life)))
	p := piece{answer: a, fetched: now, expires: now.Add(life)}
	c.add(q, cached{piece: p, renew: now.Add(renewAfter)})
	return p
}

// keepFailure remembers err beside what was known.
func (c *cache) keepFailure(q Question, err error) {
	e, _ := c.entries.Peek(q)
	e.err, e.failedUntil = err, c.clock.Now().Add(failureTTL)
	c.add(q, e)
}

func (c *cache) add(q Question, e cached) {
	if c.entries.Add(q, e) {
		c.metrics.Cache(CacheEvicted)
	}
}
