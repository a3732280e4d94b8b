package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/meshdns/meshdns/sources"
)

// Defaults of Config.
const (
	// DefaultMaxTTL keeps a change of an upstream's records from being hidden for long;
	// it is also the longest time that a negative answer holds.
	DefaultMaxTTL = 30 * time.Second
	// DefaultCacheSize holds both families of twice as many names as MaxLazy.
	DefaultCacheSize = 40_000
	// DefaultMaxLazy bounds what ExternalName targets can make us keep.
	DefaultMaxLazy = 10_000
	// DefaultIdleAfter is how long a name that came by Resolve stays fresh unasked.
	DefaultIdleAfter = 5 * time.Minute
	// DefaultLogInterval is the least time between two log lines about failures.
	DefaultLogInterval = time.Minute
)

// Clock is time. Budgets of lookups are not measured by it: sockets know only real time.
type Clock interface {
	Now() time.Time // with a monotonic reading, so that clock steps change nothing
	// After sends once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Config is what a Source may be told; the zero value works.
type Config struct {
	// Upstreams are the servers to ask, in order: addresses as ParseServer reads them,
	// or "system" for the nameservers of ResolvConf. nil: "system" alone.
	Upstreams  []string
	ResolvConf string // "": DefaultResolvConf
	Port       uint16 // of upstreams without one; 0: 53

	Timeout     time.Duration // budget of one attempt and of one Resolve; 0: DefaultTimeout
	MaxTTL      time.Duration // cap of every TTL; 0: DefaultMaxTTL
	KeepPart    time.Duration // see the package comment; 0: a part that fails is not kept
	IdleAfter   time.Duration // 0: DefaultIdleAfter
	CacheSize   int           // upstream answers; 0: DefaultCacheSize
	MaxLazy     int           // names that came by Resolve alone; 0: DefaultMaxLazy
	Concurrency int           // exchanges, and so sockets, at one time; 0: DefaultConcurrency

	LogInterval time.Duration  // 0: DefaultLogInterval
	Clock       Clock          // nil: the system's
	Logger      *slog.Logger   // nil: nothing is logged
	Metrics     Metrics        // nil: nothing is counted
	Jitter      func() float64 // uniform in [0, 1), safe for concurrent use; nil: math/rand/v2
}

func (c Config) withDefaults() Config {
	if c.Upstreams == nil {
		c.Upstreams = []string{SystemUpstreams}
	}
	if c.ResolvConf == "" {
		c.ResolvConf = DefaultResolvConf
	}
	if c.Port == 0 {
		c.Port = defaultPort
	}
	c.Timeout = orDefault(c.Timeout, DefaultTimeout)
	c.MaxTTL = orDefault(c.MaxTTL, DefaultMaxTTL)
	c.IdleAfter = orDefault(c.IdleAfter, DefaultIdleAfter)
	c.LogInterval = orDefault(c.LogInterval, DefaultLogInterval)
	c.CacheSize = orDefault(c.CacheSize, DefaultCacheSize)
	c.MaxLazy = orDefault(c.MaxLazy, DefaultMaxLazy)
	c.Concurrency = orDefault(c.Concurrency, DefaultConcurrency)
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}

func orDefault[T time.Duration | int](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Source resolves locators and keeps them fresh. All methods are safe for concurrent use.
type Source struct {
	cfg       Config
	upstreams *upstreams
	lookups   *lookups
	report    *reporter
	start     time.Time     // what entry.touched counts from
	wakeup    chan struct{} // holds one: the loop looks again
	stopped   chan struct{} // closed when Run has ended
	work      sync.WaitGroup

	touchable sync.Map // of lazy entries, by name: Touch is on the query's path

	mu      sync.Mutex
	ran     atomic.Bool
	sink    sources.Sink // nil before Run
	entries map[string]*entry
	lazy    *simplelru.LRU[string, *entry]
	living  queue
	failing queue
}

var _ sources.Source = (*Source)(nil)

// New makes a Source. It fails on upstreams that are no addresses, or have port 0, or are
// an empty list; a resolv.conf that names no server is no error here but one of each
// lookup, until it does (CASES C133).
func New(cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	ups, err := newUpstreams(cfg)
	if err != nil {
		return nil, err
	}
	client := NewClient(ClientConfig{Timeout: cfg.Timeout, Concurrency: cfg.Concurrency, Metrics: cfg.Metrics})
	answers, err := newCache(cfg, (&asker{client: client, upstreams: ups}).ask)
	if err != nil {
		return nil, err
	}
	lazy, err := simplelru.NewLRU[string, *entry](cfg.MaxLazy+1, nil) // one more: room is made after
	if err != nil {
		return nil, err
	}
	attempts := max(2, cfg.Concurrency/2) // an attempt has two questions at a time
	retries := max(1, attempts/4)
	return &Source{
		cfg: cfg, upstreams: ups, lookups: &lookups{cache: answers},
		report:  &reporter{log: cfg.Logger, clock: cfg.Clock, interval: cfg.LogInterval},
		start:   cfg.Clock.Now(),
		wakeup:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
		entries: make(map[string]*entry), lazy: lazy,
		living: queue{limit: attempts - retries}, failing: queue{limit: retries},
	}, nil
}

// SetUpstreams replaces Config.Upstreams at work. On an error nothing changes.
func (s *Source) SetUpstreams(list []string) error {
	if err := s.upstreams.set(list); err != nil {
		return err
	}
	s.retryFailing()
	return nil
}

// Want says which locators to keep fresh from now on: the full set. Locators that are no
// longer in it are dropped: their Update has a nil Value, their Status an empty Kind, and
// no upstream is asked for them again. Keys of other sources are passed over.
func (s *Source) Want(keys []sources.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := make(map[string]bool, len(keys))
	for _, key := range keys {
		if isOurs(key) {
			wanted[key.Name] = true
			s.wantLocked(key.Name)
		}
	}
	for name, e := range s.entries {
		if e.wanted && !wanted[name] {
			s.dropLocked(e)
		}
	}
	s.wake()
}

func isOurs(key sources.Key) bool {
	return key.Source == SourceName && key.Kind == sources.KindBackend
}

func keyOf(name string) sources.Key {
	return sources.Key{Source: SourceName, Kind: sources.KindBackend, Name: name}
}

func (s *Source) wantLocked(name string) {
	e, ok := s.entries[name]
	switch {
	case ok && e.wanted:
		return
	case ok:
		s.lazy.Remove(name)
		s.touchable.Delete(name)
	default:
		e = s.addLocked(name)
	}
	e.wanted = true
	s.pushStatusLocked(e)
}

func (s *Source) addLocked(name string) *entry {
	e := newEntry(name, s.cfg.Clock.Now())
	s.entries[name] = e
	s.living.put(e)
	return e
}

// Resolve makes sure that key has been resolved once, whether it is wanted or not. All
// who ask during one attempt share it, and its Update is in the sink before they return.
// It returns nil at once for a locator that has ever answered, and the last error at once
// when that is less than a second old; it waits Config.Timeout at most. A key that is not
// wanted is kept fresh from then on for as long as Resolve or Touch ask for it.
func (s *Source) Resolve(ctx context.Context, key sources.Key) error {
	if !isOurs(key) {
		return fmt.Errorf("resolving %q: a key of source %q, not of %q", key.Name, key.Source, SourceName)
	}
	w, err := s.join(key.Name)
	if w == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	select {
	case <-w.done:
		return w.err
	case <-s.stopped:
		return errStopped
	case <-ctx.Done():
	}
	select {
	case <-w.done: // at the same moment: the outcome says more
		return w.err
	default:
		return fmt.Errorf("resolving %s: no answer yet: %w", key.Name, ctx.Err())
	}
}

var (
	errStopped = errors.New("dns source has stopped")
	errDropped = errors.New("no longer wanted")
)

// join gives what to wait for; nil when the outcome, err, is known already.
func (s *Source) join(name string) (w *waiting, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[name]
	if !ok {
		e = s.addLazyLocked(name)
	}
	s.touch(e)
	now := s.cfg.Clock.Now()
	switch {
	case e.memory.answered:
		return nil, nil
	case e.lastErr != nil && now.Before(e.failedUntil):
		return nil, e.lastErr
	}
	if e.waiting == nil {
		e.waiting = &waiting{done: make(chan struct{})}
		e.urgent = true
		e.due = earlier(e.due, now)
		e.queue.moved(e)
		s.wake()
	}
	return e.waiting, nil
}

func (s *Source) addLazyLocked(name string) *entry {
	e := s.addLocked(name)
	s.touch(e)
	s.touchable.Store(name, e)
	s.lazy.Add(name, e)
	for s.lazy.Len() > s.cfg.MaxLazy {
		s.dropLocked(s.leastAskedLocked())
	}
	return e
}

// secondChances bounds the work of making room.
const secondChances = 64

// leastAskedLocked is the lazy entry to give up: the one that was added, or passed over
// here, longest ago; those that were asked for lately are passed over, a bounded number.
func (s *Source) leastAskedLocked() *entry {
	for range min(s.lazy.Len(), secondChances) {
		name, e, _ := s.lazy.GetOldest()
		if s.idleFor(e) >= s.cfg.IdleAfter/2 {
			return e
		}
		s.lazy.Get(name) // now the newest
	}
	_, e, _ := s.lazy.GetOldest()
	return e
}

// Touch says that a name that came by Resolve was asked for; it is cheap enough for
// every query, and does nothing for other keys.
func (s *Source) Touch(key sources.Key) {
	if e, ok := s.touchable.Load(key.Name); ok && isOurs(key) {
		s.touch(e.(*entry))
	}
}

// touch notes the time, to the second: a store for each query would be contended.
func (s *Source) touch(e *entry) {
	now := int64(s.cfg.Clock.Now().Sub(s.start))
	if now-e.touched.Load() >= int64(time.Second) || e.touched.Load() == 0 {
		e.touched.Store(now)
	}
}

func (s *Source) idleFor(e *entry) time.Duration {
	return s.cfg.Clock.Now().Sub(s.start) - time.Duration(e.touched.Load())
}

// dropLocked forgets e and says so.
func (s *Source) dropLocked(e *entry) {
	e.gone = true
	delete(s.entries, e.name)
	s.lazy.Remove(e.name)
	s.touchable.Delete(e.name)
	e.queue.remove(e)
	if e.cancel != nil {
		e.cancel()
	}
	e.release(fmt.Errorf("resolving %s: %w", e.name, errDropped))
	if s.sink == nil {
		return
	}
	s.sink.Update(sources.Update{Key: keyOf(e.name)})
	if e.wanted {
		s.sink.Status(sources.Status{Source: e.status.Source})
	}
}

func (s *Source) pushStatusLocked(e *entry) {
	if s.sink != nil && e.wanted {
		s.sink.Status(e.status)
	}
}

// wake makes the loop look again.
func (s *Source) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// Run implements sources.Source. It may be called once.
func (s *Source) Run(ctx context.Context, sink sources.Sink) error {
	if s.ran.Swap(true) {
		return errors.New("dns source: Run was called twice")
	}
	defer close(s.stopped)
	defer s.work.Wait()
	s.begin(sink)
	nextReload := s.cfg.Clock.Now().Add(reloadEvery)
	for {
		now := s.cfg.Clock.Now()
		if !now.Before(nextReload) {
			nextReload = now.Add(reloadEvery)
			if s.upstreams.reload() {
				s.retryFailing()
			}
		}
		next := earlier(nextReload, earlier(s.startDue(ctx), s.report.flush()))
		select {
		case <-ctx.Done():
			return nil
		case <-s.wakeup:
		case <-s.cfg.Clock.After(next.Sub(now)):
		}
	}
}

// begin takes the sink and says what was wanted before.
func (s *Source) begin(sink sources.Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = sink
	for _, e := range s.entries {
		s.pushStatusLocked(e)
	}
}

// retryFailing makes failing locators due as soon as their failures are forgotten: the
// upstreams are other ones now.
func (s *Source) retryFailing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	soon := s.cfg.Clock.Now().Add(failureTTL)
	for _, e := range s.entries {
		if e.fails > 0 {
			e.due = earlier(e.due, soon)
			e.queue.moved(e)
		}
	}
	s.wake()
}

// startDue starts the attempts that are due and says when the next one is, zero when that
// depends on others ending.
func (s *Source) startDue(ctx context.Context) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, q := range []*queue{&s.living, &s.failing} {
		for e := q.start(now); e != nil; e = q.start(now) {
			if !e.wanted && s.idleFor(e) >= s.cfg.IdleAfter {
				q.done()
				s.dropLocked(e)
				continue
			}
			s.startLocked(ctx, e, q)
		}
		next = earlier(next, q.next())
	}
	return next
}

// askersMargin: an attempt has a 15th (0.1 s by default) less time than those who wait for
// it, so that they are told how it ended.
const askersMargin = 15

// startLocked makes an attempt in a goroutine of its own. ctx is Run's.
func (s *Source) startLocked(ctx context.Context, e *entry, q *queue) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout-s.cfg.Timeout/askersMargin)
	e.cancel = cancel
	loc, locErr := e.loc, e.locErr
	s.work.Go(func() {
		defer cancel()
		a := attempt{srv: &result{err: locErr}}
		if locErr == nil {
			a = s.lookups.attempt(limited, loc)
		}
		s.finish(ctx, e, q, a)
	})
}

// finish pushes what an attempt found and plans the next one.
func (s *Source) finish(ctx context.Context, e *entry, q *queue, a attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	q.done()
	e.cancel = nil
	if e.gone || ctx.Err() != nil {
		return
	}
	failedBefore := e.fails > 0
	v := e.learn(a, s.cfg.Clock.Now(), s.cfg.KeepPart, s.cfg.Jitter())
	s.cfg.Metrics.Attempt(v.result)
	s.logResult(e, failedBefore)
	s.pushLocked(e, v)
	if v.result == ResultFailed {
		s.failing.put(e)
		e.release(e.lastErr)
		return
	}
	s.living.put(e)
	e.release(nil)
}

func (s *Source) logResult(e *entry, failedBefore bool) {
	switch {
	case e.lastErr != nil:
		s.report.failure(e.name, e.lastErr.Error())
	case failedBefore:
		s.report.recovery(e.name)
	}
}

// pushLocked pushes the members, unless they are what was pushed last, and then the
// status, so that it takes effect after them.
func (s *Source) pushLocked(e *entry, v verdict) {
	if e.pushed == nil || !sameFailure(e.pushed, v.members) {
		e.pushed = v.members
		s.sink.Update(sources.Update{Key: keyOf(e.name), Value: v.members})
	}
	e.status.Error = v.members.Error
	if v.result != ResultFailed {
		e.status.Synced = true
		e.status.LastSuccess = v.members.Since
	}
	s.pushStatusLocked(e)
}

// sameFailure says that b is a failure that tells nothing new after a; its error text
// may differ: the status has the latest.
func sameFailure(a, b *sources.Members) bool {
	return a.Outcome == sources.Failed && b.Outcome == sources.Failed &&
		a.EverAnswered == b.EverAnswered && a.Last == b.Last && a.TTL == b.TTL && a.Expires.Equal(b.Expires) &&
		slices.Equal(a.Slices, b.Slices) // what did not change is shared
}
