package dns

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/sources"
)

// fakeClock moves only when it is told to.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[chan time.Time]time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), timers: make(map[chan time.Time]time.Time)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.timers[ch] = c.now.Add(d)
	c.fireLocked()
	return ch
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fireLocked()
}

func (c *fakeClock) fireLocked() {
	for ch, at := range c.timers {
		if !at.After(c.now) {
			ch <- c.now
			delete(c.timers, ch)
		}
	}
}

// testSink keeps all that was pushed, in order, and wakes those who wait for something.
type testSink struct {
	mu       sync.Mutex
	changed  *sync.Cond
	updates  []sources.Update
	statuses []sources.Status
	members  map[string]*sources.Members // latest; absent when never pushed or gone
	status   map[string]sources.Status
	seq      map[string]int // updates by name
}

func newTestSink() *testSink {
	s := &testSink{members: make(map[string]*sources.Members), status: make(map[string]sources.Status), seq: make(map[string]int)}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *testSink) Update(u sources.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, u)
	s.seq[u.Key.Name]++
	if u.Value == nil {
		delete(s.members, u.Key.Name)
	} else {
		s.members[u.Key.Name] = u.Value.(*sources.Members)
	}
	s.changed.Broadcast()
}

func (s *testSink) Status(st sources.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, st)
	if st.Kind == "" {
		delete(s.status, st.Source)
	} else {
		s.status[st.Source] = st
	}
	s.changed.Broadcast()
}

// until waits for cond, which is called with mu held.
func (s *testSink) until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	expired := false
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !cond() {
		if expired {
			t.Fatalf("waited in vain for %s; last updates: %+v", what, s.members)
		}
		s.changed.Wait()
	}
}

// logLines collects what is logged.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// with are the lines that hold text.
func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// countingMetrics counts by label.
type countingMetrics struct {
	mu     sync.Mutex
	counts map[string]int
}

func newCountingMetrics() *countingMetrics { return &countingMetrics{counts: make(map[string]int)} }

func (m *countingMetrics) add(label string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[label]++
}

func (m *countingMetrics) Exchange(proto, outcome string, _ time.Duration) {
	m.add(proto + " " + outcome)
}
func (m *countingMetrics) Cache(event string)    { m.add("cache " + event) }
func (m *countingMetrics) Attempt(result string) { m.add("attempt " + result) }

func (m *countingMetrics) get(label string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[label]
}

// harness is a running Source with everything around it under control.
type harness struct {
	*testSink
	t       testing.TB
	clock   *fakeClock
	log     *logLines
	metrics *countingMetrics
	source  *Source
	stop    func()
}

// run starts a Source that asks servers. change may alter the configuration.
func run(t testing.TB, change func(*Config), servers ...netip.AddrPort) *harness {
	t.Helper()
	h := &harness{testSink: newTestSink(), t: t, clock: newFakeClock(), log: &logLines{}, metrics: newCountingMetrics()}
	cfg := Config{KeepPart: 5 * time.Minute, Clock: h.clock, Metrics: h.metrics, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
		Jitter: func() float64 { return 0.5 }}
	for _, server := range servers {
		cfg.Upstreams = append(cfg.Upstreams, server.String())
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	h.source, err = New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.source.Run(ctx, h.testSink) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(h.stop)
	return h
}

func keys(names ...string) []sources.Key {
	var out []sources.Key
	for _, name := range names {
		out = append(out, keyOf(name))
	}
	return out
}

// advance moves the clock. The loop is woken as well: it may have read the clock just
// before, and set its timer just after.
func (h *harness) advance(d time.Duration) {
	h.clock.advance(d)
	h.source.wake()
}

// next waits for the first update of name after the seen-th, and gives it and its number.
func (h *harness) next(name string, seen int) (*sources.Members, int) {
	h.t.Helper()
	h.until(h.t, "an update of "+name, func() bool { return h.seq[name] > seen })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[name], h.seq[name]
}

// wanted makes the names wanted and waits for the first update of the first one.
func (h *harness) wanted(names ...string) (*sources.Members, int) {
	h.t.Helper()
	h.source.Want(keys(names...))
	return h.next(names[0], 0)
}

// toNext moves the clock to the moment when name is due, and waits for its update. It
// gives how far the clock was moved.
func (h *harness) toNext(name string, seen int) (m *sources.Members, n int, moved time.Duration) {
	h.t.Helper()
	moved = h.dueIn(name)
	h.advance(moved)
	m, n = h.next(name, seen)
	return m, n, moved
}

// dueIn is how long it is, by the clock, to name's next attempt; it waits for one under
// way to end.
func (h *harness) dueIn(name string) time.Duration {
	h.t.Helper()
	var in time.Duration
	require.Eventually(h.t, func() bool {
		h.source.mu.Lock()
		defer h.source.mu.Unlock()
		e := h.source.entries[name]
		if e == nil || e.index < 0 {
			return false
		}
		in = e.due.Sub(h.clock.Now())
		return true
	}, patience, time.Millisecond)
	return in
}

func (h *harness) statusOf(name string) (sources.Status, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st, ok := h.status[statusSource(name)]
	return st, ok
}

// sliceOf is a slice of these addresses, without ports.
func sliceOf(texts ...string) sources.Slice {
	var s sources.SliceFields
	for _, addr := range addrs(texts...) {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Address: addr})
	}
	return s.Pack()
}

// addresses are all addresses of members, in order.
func addresses(m *sources.Members) []netip.Addr {
	var out []netip.Addr
	for _, s := range m.Slices {
		for e := s.Endpoints(); e.Next(); {
			out = append(out, e.Address)
		}
	}
	return out
}

// left is what a TTL that counts down would say now.
func (h *harness) left(m *sources.Members) time.Duration { return m.Expires.Sub(h.clock.Now()) }
