package dns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
)

// testCache is a cache over ask with a clock of its own.
func testCache(t testing.TB, size int, ask func(context.Context, Question) (*answer, error)) (*cache, *fakeClock, *countingMetrics) {
	t.Helper()
	clock, metrics := newFakeClock(), newCountingMetrics()
	c, err := newCache(Config{Clock: clock, Metrics: metrics, CacheSize: size}.withDefaults(), ask)
	require.NoError(t, err)
	return c, clock, metrics
}

// givesTTL always answers with ttl, and counts.
func givesTTL(ttl time.Duration, asked *atomic.Int32) func(context.Context, Question) (*answer, error) {
	return func(_ context.Context, q Question) (*answer, error) {
		asked.Add(1)
		return &answer{addrs: addrs("192.0.2.1"), end: q.Name, ttl: ttl}, nil
	}
}

// Rule 40: capped from the first time on; asked again from 80 % of the life on, and never
// twice in a second.
func TestCacheLife(t *testing.T) {
	cases := []struct{ ttl, life, renew time.Duration }{
		{1800 * time.Second, 30 * time.Second, 24 * time.Second},
		{10 * time.Second, 10 * time.Second, 8 * time.Second},
		{time.Second, time.Second, time.Second},
		{0, 0, time.Second},
	}
	for _, c := range cases {
		t.Run(c.ttl.String(), func(t *testing.T) {
			var asked atomic.Int32
			cache, clock, metrics := testCache(t, 10, givesTTL(c.ttl, &asked))
			start := clock.Now()
			for _, at := range []time.Duration{0, c.renew / 2, c.renew - 1} {
				clock.advance(start.Add(at).Sub(clock.Now()))
				p, err := cache.lookup(testContext(t), webA)
				require.NoError(t, err)
				assert.Equal(t, start, p.fetched)
				assert.Equal(t, start.Add(c.life), p.expires)
			}
			assert.EqualValues(t, 1, asked.Load())
			clock.advance(1)
			p, err := cache.lookup(testContext(t), webA)
			require.NoError(t, err)
			assert.Equal(t, start.Add(c.renew), p.fetched)
			assert.EqualValues(t, 2, asked.Load())
			assert.Equal(t, 2, metrics.get("cache miss"))
			assert.Equal(t, 2, metrics.get("cache hit"))
		})
	}
}

// Rule 39: failures are remembered for at most 2 s; an answer whose TTL still holds is not
// hidden by a failure to renew it early.
func TestCacheFailures(t *testing.T) {
	broken := errors.New("broken")
	var asked atomic.Int32
	fails := true
	cache, clock, _ := testCache(t, 10, func(ctx context.Context, q Question) (*answer, error) {
		if fails {
			asked.Add(1)
			return nil, broken
		}
		return givesTTL(10*time.Second, &asked)(ctx, q)
	})
	look := func(wantErr bool, wantAsked int32) {
		t.Helper()
		_, err := cache.lookup(testContext(t), webA)
		assert.Equal(t, wantErr, errors.Is(err, broken))
		assert.Equal(t, wantAsked, asked.Load())
	}
	look(true, 1)
	clock.advance(failureTTL - 1)
	look(true, 1)
	fails = false
	clock.advance(1)
	look(false, 2)

	fails = true
	clock.advance(8 * time.Second)
	look(true, 3)  // who asks for the renewal is told
	look(false, 3) // others have what still holds
	clock.advance(failureTTL)
	look(true, 4)
	clock.advance(time.Second) // past the TTL
	look(true, 5)
	look(true, 5)
	require.LessOrEqual(t, failureTTL, 2*time.Second)
}

func TestCacheIsBounded(t *testing.T) {
	var asked atomic.Int32
	cache, _, metrics := testCache(t, 100, givesTTL(time.Minute, &asked))
	for i := range 1000 {
		_, err := cache.lookup(testContext(t), Question{names.MustParse(fmt.Sprintf("n%d.example", i)), mdns.TypeA})
		require.NoError(t, err)
	}
	assert.Equal(t, 100, cache.entries.Len())
	assert.Equal(t, 900, metrics.get("cache evicted"))
}

// Rule 39: two lookups of one question are never under way at once; different types are
// different questions.
func TestCacheOneFlightForEachQuestion(t *testing.T) {
	gate := make(chan struct{})
	var mu sync.Mutex
	running, asked := map[Question]int{}, map[Question]int{}
	cache, _, metrics := testCache(t, 100, func(_ context.Context, q Question) (*answer, error) {
		mu.Lock()
		running[q]++
		asked[q]++
		assert.Equal(t, 1, running[q])
		mu.Unlock()
		<-gate
		mu.Lock()
		defer mu.Unlock()
		running[q]--
		return &answer{end: q.Name, ttl: time.Minute}, nil
	})
	var lookups sync.WaitGroup
	for range 200 {
		for _, qtype := range []uint16{mdns.TypeA, mdns.TypeAAAA, mdns.TypeSRV} {
			lookups.Go(func() {
				_, err := cache.lookup(context.Background(), Question{webA.Name, qtype})
				assert.NoError(t, err)
			})
		}
	}
	close(gate)
	lookups.Wait()
	require.Len(t, asked, 3)
	for q, n := range asked {
		assert.Equal(t, 1, n, q)
	}
	assert.Equal(t, 3, metrics.get("cache miss"))
}

// One asker's end of time is not another's: the one who joined asks anew.
func TestCacheJoinedLookupGivenUp(t *testing.T) {
	entered := make(chan struct{}, 2)
	cache, _, metrics := testCache(t, 10, func(ctx context.Context, q Question) (*answer, error) {
		entered <- struct{}{}
		if ctx.Value(firstAsker{}) != nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &answer{end: q.Name, ttl: time.Minute}, nil
	})
	// Whether the second one joins is up to the scheduler: until it did.
	for start := time.Now(); metrics.get("cache joined") == 0; {
		require.Less(t, time.Since(start), patience)
		cache.entries.Purge()
		first, giveUp := context.WithCancel(context.WithValue(context.Background(), firstAsker{}, true))
		var lookups sync.WaitGroup
		lookups.Go(func() {
			_, err := cache.lookup(first, webA)
			assert.ErrorIs(t, err, context.Canceled)
		})
		<-entered
		lookups.Go(func() {
			giveUp()
			_, err := cache.lookup(context.Background(), webA)
			assert.NoError(t, err)
		})
		lookups.Wait()
		require.False(t, t.Failed())
		<-entered
		_, err, known := cache.remembered(webA)
		assert.True(t, known && err == nil, "the lookup given up left no failure")
	}
}

type firstAsker struct{}

// Rule 38: a panic over an upstream's bytes is an error of that lookup.
func TestCachePanicIsAnError(t *testing.T) {
	cache, _, _ := testCache(t, 10, func(context.Context, Question) (*answer, error) { panic("bad bytes") })
	_, err := cache.lookup(testContext(t), webA)
	require.ErrorIs(t, err, ErrMalformed)
	assert.ErrorContains(t, err, "bad bytes")
}
