package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/sources"
)

const web = "web.example"

// webAt makes server answer web.example with one IPv4 address and nothing else.
func webAt(server *testServer, ttl, addr string) {
	server.on(web, "A", rrs("web.example. "+ttl+" IN A "+addr))
	server.on(web, "AAAA", noSuchType("example.", "60"))
}

func TestSourceHost(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A", rrs("web.example. 20 IN A 192.0.2.2", "web.example. 20 IN A 192.0.2.1"))
	server.on(web, "AAAA", rrs("web.example. 10 IN AAAA 2001:db8::1"))
	h := run(t, nil, server.addr)
	m, _ := h.wanted(web)
	now := h.clock.Now()
	assert.Equal(t, &sources.Members{
		Outcome: sources.Found, Last: sources.Found, EverAnswered: true, Since: now, Expires: now.Add(10 * time.Second),
		Slices: []sources.Slice{sliceOf("192.0.2.1", "192.0.2.2", "2001:db8::1")},
	}, m)
	h.until(t, "the status", func() bool { return h.status["dns:web.example"].Synced })
	st, _ := h.statusOf(web)
	assert.Equal(t, sources.Status{Source: "dns:web.example", Kind: "dns", Synced: true, LastSuccess: now}, st)
	assert.Equal(t, 2, h.metrics.get("udp answer"))
	assert.Equal(t, 1, h.metrics.get("attempt found"))
}

func TestSourceSRV(t *testing.T) {
	server := newTestServer(t)
	server.on("_http._tcp.web.example", "SRV", rrs("_http._tcp.web.example. 25 IN SRV 1 5 8080 a.test.",
		"_http._tcp.web.example. 25 IN SRV 2 5 8081 b.test.", "_http._tcp.web.example. 25 IN SRV 2 5 8080 b.test."))
	server.on("a.test", "A", rrs("a.test. 20 IN A 192.0.2.1"))
	server.on("b.test", "A", rrs("b.test. 20 IN CNAME c.test.", "c.test. 15 IN A 192.0.2.2"))
	server.on("a.test", "AAAA", noSuchType("test.", "60"))
	server.on("b.test", "AAAA", rrs("b.test. 20 IN CNAME c.test.", soa("test.", "60")))
	h := run(t, nil, server.addr)
	m, _ := h.wanted("_http._tcp.web.example")
	assert.Equal(t, sources.Found, m.Outcome)
	assert.Empty(t, m.Error)
	require.Len(t, m.Slices, 2)
	assert.Equal(t, []sources.Port{{Name: "http", Protocol: sources.TCP, Number: 8080}}, m.Slices[0].Ports().List())
	assert.Equal(t, []sources.Port{{Name: "http", Protocol: sources.TCP, Number: 8081}}, m.Slices[1].Ports().List())
	assert.Equal(t, addrs("192.0.2.1", "192.0.2.2", "192.0.2.2"), addresses(m))
	assert.Equal(t, 15*time.Second, h.left(m))
	assert.Empty(t, m.Chain)
}

// RFC 2782: no such name; a service that says it is not there; port 0 is no port.
func TestSourceSRVWithoutTargets(t *testing.T) {
	server := newTestServer(t)
	server.on("_a._tcp.web.example", "SRV", noSuchName("example.", "7"))
	server.on("_b._tcp.web.example", "SRV", rrs("_b._tcp.web.example. 7 IN SRV 0 0 0 ."))
	server.on("_c._tcp.web.example", "SRV", noSuchType("example.", "7"))
	server.on("_d._tcp.web.example", "SRV", rcode(mdns.RcodeServerFailure))
	server.on("_e._tcp.web.example", "SRV", rrs("_e._tcp.web.example. 7 IN SRV 0 0 0 web.example."))
	webAt(server, "9", "192.0.2.1")
	h := run(t, nil, server.addr)
	h.source.Want(keys("_a._tcp.web.example", "_b._tcp.web.example", "_c._tcp.web.example", "_d._tcp.web.example", "_e._tcp.web.example"))
	for name, want := range map[string]sources.Outcome{"_a": sources.NoName, "_b": sources.Found, "_c": sources.Found, "_d": sources.Failed} {
		m, _ := h.next(name+"._tcp.web.example", 0)
		assert.Equal(t, want, m.Outcome, name)
		assert.Empty(t, m.Slices, name)
		if want != sources.Failed {
			assert.Equal(t, 7*time.Second, h.left(m), name)
		}
	}
	m, _ := h.next("_e._tcp.web.example", 0)
	assert.Equal(t, []sources.Slice{sliceOf("192.0.2.1")}, m.Slices)
}

// C107: a changed address is served no later than its TTL and one refresh.
func TestSourceC107ChangeAfterTTL(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	h := run(t, nil, server.addr)
	m, n := h.wanted(web)
	require.Equal(t, addrs("192.0.2.1"), addresses(m))
	webAt(server, "10", "192.0.2.2")
	m, _, after := h.toNext(web, n)
	assert.Equal(t, addrs("192.0.2.2"), addresses(m))
	assert.Equal(t, 8500*time.Millisecond, after, "80 to 90 % of the TTL; jitter is 0.5 here")
	assert.Equal(t, 1, server.count(web, mdns.TypeAAAA), "NODATA of 30 s is not asked for again yet")
}

// C148: an alias without address and SOA: we ask for the target ourselves.
func TestSourceC148AliasStopsShort(t *testing.T) {
	server := newTestServer(t)
	hiccup := rrs("web.example. 300 IN CNAME b.test.")
	server.on(web, "A", hiccup, rrs("web.example. 300 IN CNAME b.test.", "b.test. 9 IN A 192.0.2.1"))
	server.on(web, "AAAA", hiccup)
	server.on("b.test", "A", rrs("b.test. 9 IN A 192.0.2.1"))
	server.on("b.test", "AAAA", noSuchType("test.", "60"))
	h := run(t, nil, server.addr)
	m, n := h.wanted(web)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.Equal(t, chain(web, "b.test"), m.Chain)
	assert.Equal(t, 9*time.Second, h.left(m), "not the alias's 300 s")

	server.on("b.test", "A", rcode(mdns.RcodeServerFailure))
	m, _, _ = h.toNext(web, n)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.True(t, m.Stale, "the alias alone is no answer")
}

// C152: three aliases across zones, each in an answer of its own, and all in one.
func TestSourceC152ChainAcrossZones(t *testing.T) {
	for name, whole := range map[string]bool{"one answer": true, "one answer each": false} {
		t.Run(name, func(t *testing.T) {
			server := newTestServer(t)
			records := append(links(40, web, "a.test", "b.invalid", "c.example"), "c.example. 20 IN A 192.0.2.1", "c.example. 20 IN A 192.0.2.2")
			if whole {
				server.on(web, "A", rrs(records...))
				server.on(web, "AAAA", rrs(append(records[:3:3], soa("example.", "60"))...))
			} else {
				for i, at := range []string{web, "a.test", "b.invalid"} {
					server.on(at, "A,AAAA", rrs(records[i]))
				}
				server.on("c.example", "A", rrs(records[3:]...))
				server.on("c.example", "AAAA", noSuchType("example.", "60"))
			}
			h := run(t, nil, server.addr)
			m, _ := h.wanted(web)
			assert.Equal(t, addrs("192.0.2.1", "192.0.2.2"), addresses(m), "flattened")
			assert.Equal(t, chain(web, "a.test", "b.invalid", "c.example"), m.Chain)
			assert.Equal(t, 20*time.Second, h.left(m), "the smallest TTL of the chain")
		})
	}
}

// C20: loops and chains that are too long fail in bounded work.
func TestSourceC20Loops(t *testing.T) {
	cases := map[string]struct {
		set  func(*testServer)
		err  string
		most int // queries
	}{
		"of itself": {func(s *testServer) { s.on(web, "A,AAAA", rrs(links(9, web, web)...)) }, "CNAME loop", 2},
		"across answers": {func(s *testServer) {
			s.on(web, "A,AAAA", rrs(links(9, web, "b.test")...))
			s.on("b.test", "A,AAAA", rrs(links(9, "b.test", web)...))
		}, "CNAME loop: web.example > b.test > web.example", 4},
		"20 deep": {func(s *testServer) {
			all := append([]string{web}, numbered("c", 20)...)
			for i := 1; i < len(all); i++ {
				s.on(all[i-1], "A,AAAA", rrs(links(9, all[i-1], all[i])...))
			}
			s.on(all[20], "A,AAAA", rrs(all[20]+". 9 IN A 192.0.2.1"))
		}, "more than 16 CNAME records", 2 * (MaxAliases + 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := newTestServer(t)
			c.set(server)
			h := run(t, nil, server.addr)
			m, _ := h.wanted(web)
			assert.Equal(t, sources.Failed, m.Outcome)
			assert.False(t, m.EverAnswered)
			assert.Empty(t, m.Slices)
			assert.Contains(t, m.Error, c.err)
			assert.LessOrEqual(t, server.count("", 0), c.most)
			assert.Len(t, h.log.with("dns lookups fail"), 1)
		})
	}
	require.GreaterOrEqual(t, MaxAliases, 8)
}

// C149: a failure hides neither the last good answer nor the next one.
func TestSourceC149FailureThenRecovery(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	h := run(t, nil, server.addr)
	_, n := h.wanted(web)
	good := h.clock.Now()
	server.on(web, "A,AAAA", rcode(mdns.RcodeServerFailure))
	ttl := 10 * time.Second
	for h.clock.Now().Before(good.Add(60 * time.Second)) {
		var moved time.Duration
		var m *sources.Members
		seen := h.metrics.get("attempt failed") + h.metrics.get("attempt partial")
		moved = h.dueIn(web)
		h.advance(moved)
		require.Eventually(t, func() bool {
			return h.metrics.get("attempt failed")+h.metrics.get("attempt partial") > seen
		}, patience, time.Millisecond)
		h.dueIn(web)  // it has been pushed
		if seen > 0 { // the first one is a refresh
			assert.LessOrEqual(t, moved, lastRetry)
		}
		m, n = h.next(web, n-1)
		assert.Equal(t, addrs("192.0.2.1"), addresses(m))
		assert.True(t, m.Stale)
		assert.Equal(t, good, m.Since, "the resolver's limit counts from here")
		if m.Expires.IsZero() {
			assert.Equal(t, ttl, m.TTL)
		} else {
			assert.LessOrEqual(t, h.left(m), ttl)
		}
	}
	st, _ := h.statusOf(web)
	assert.True(t, st.Synced)
	assert.Contains(t, st.Error, "SERVFAIL")
	assert.Equal(t, good, st.LastSuccess)

	webAt(server, "10", "192.0.2.7")
	m, _, moved := h.toNext(web, n)
	assert.LessOrEqual(t, moved, lastRetry, "within one retry interval")
	assert.Equal(t, addrs("192.0.2.7"), addresses(m))
	assert.False(t, m.Stale)
	h.until(t, "a status without error", func() bool { return h.status["dns:web.example"].Error == "" })
	assert.Len(t, h.log.with("answer again"), 1)
}

// C149: NXDOMAIN expires by its own TTL, however often it is asked for.
func TestSourceC149NegativeExpires(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A,AAAA", noSuchName("example.", "5"))
	h := run(t, nil, server.addr)
	m, n := h.wanted(web)
	assert.Equal(t, sources.NoName, m.Outcome)
	assert.Equal(t, 5*time.Second, h.left(m))
	h.until(t, "NXDOMAIN counts as synced", func() bool { return h.status["dns:web.example"].Synced })
	webAt(server, "10", "192.0.2.1")
	for range 20 {
		require.NoError(t, h.source.Resolve(testContext(t), keyOf(web)))
		h.source.Touch(keyOf(web))
	}
	assert.Equal(t, 2, server.count("", 0))
	m, n, moved := h.toNext(web, n)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.LessOrEqual(t, moved, 5*time.Second)

	// Back again: NXDOMAIN replaces a good answer at once, and a long one is capped.
	server.on(web, "A,AAAA", noSuchName("example.", "3600"))
	m, _, _ = h.toNext(web, n)
	assert.Equal(t, sources.NoName, m.Outcome)
	assert.Empty(t, m.Slices)
	assert.Equal(t, 30*time.Second, h.left(m))
}

// C161: the cap holds from the first answer on. C163: TTLs count down.
func TestSourceC161C163TTLs(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A,AAAA", rrs("web.example. 1800 IN A 192.0.2.1", "web.example. 1800 IN AAAA 2001:db8::1"))
	server.on("long.example", "A,AAAA", rrs("long.example. 60 IN A 192.0.2.1", "long.example. 60 IN AAAA 2001:db8::1"))
	h := run(t, nil, server.addr)
	m, n := h.wanted(web)
	assert.Equal(t, 30*time.Second, h.left(m))
	for range 10 {
		h.advance(2 * time.Second)
		assert.Less(t, h.left(m), 30*time.Second)
	}
	assert.Equal(t, 10*time.Second, h.left(m))
	m, _, _ = h.toNext(web, n)
	assert.Equal(t, 30*time.Second, h.left(m), "a new answer, a new period")

	pass := run(t, func(c *Config) { c.MaxTTL = time.Hour }, server.addr)
	m, _ = pass.wanted("long.example")
	assert.Equal(t, 60*time.Second, pass.left(m))
	pass.advance(40 * time.Second)
	assert.Equal(t, 20*time.Second, pass.left(m))
}

// Rule 40: TTL 0 is kept, and still asked for once a second at most.
func TestSourceTTL0(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A,AAAA", rrs("web.example. 0 IN A 192.0.2.1", "web.example. 0 IN AAAA 2001:db8::1"))
	h := run(t, nil, server.addr)
	m, n := h.wanted(web)
	assert.Equal(t, m.Since, m.Expires)
	start := h.clock.Now()
	for range 5 {
		_, n, _ = h.toNext(web, n)
	}
	assert.Equal(t, 5*time.Second, h.clock.Now().Sub(start))
	assert.Equal(t, 12, server.count("", 0))
}

// C166: one family's failure leaves the other alone; C155 likewise for SRV is in
// TestMergeSRV.
func TestSourceC166OneFamilyFails(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	server.on(web, "AAAA", rrs("web.example. 10 IN AAAA 2001:db8::1"))
	server.on("v4.example", "A", rrs("v4.example. 10 IN A 192.0.2.4"))
	server.on("v4.example", "AAAA", rcode(mdns.RcodeServerFailure))
	h := run(t, nil, server.addr)
	m, n := h.wanted(web, "v4.example")
	require.Len(t, addresses(m), 2)
	server.on(web, "AAAA", rcode(mdns.RcodeServerFailure))
	server.on(web, "A", rrs("web.example. 10 IN A 192.0.2.9"))
	m, _, _ = h.toNext(web, n)
	assert.Equal(t, sources.Found, m.Outcome)
	assert.Equal(t, addrs("192.0.2.9", "2001:db8::1"), addresses(m))
	assert.Contains(t, m.Error, "AAAA")

	m, _ = h.next("v4.example", 0)
	assert.Equal(t, sources.Found, m.Outcome)
	assert.Equal(t, addrs("192.0.2.4"), addresses(m))
	assert.False(t, m.Stale)
	assert.Positive(t, h.metrics.get("attempt partial"))
	st, _ := h.statusOf("v4.example")
	assert.True(t, st.Synced)
	assert.Contains(t, st.Error, "SERVFAIL")
}

// C155: of two names, one times out and one is gone.
func TestSourceC155TimeoutAndNXDOMAIN(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	server.on("b.example", "A,AAAA", rrs("b.example. 10 IN A 192.0.2.2", "b.example. 10 IN AAAA 2001:db8::2"))
	h := run(t, func(c *Config) { c.Timeout = 200 * time.Millisecond }, server.addr)
	_, n := h.wanted(web, "b.example")
	_, nb := h.next("b.example", 0)
	server.on(web, "A,AAAA", silence)
	server.on("b.example", "A,AAAA", noSuchName("example.", "60"))
	h.advance(max(h.dueIn(web), h.dueIn("b.example")))
	m, _ := h.next(web, n)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.Contains(t, m.Error, "no reply")
	m, _ = h.next("b.example", nb)
	assert.Equal(t, sources.NoName, m.Outcome)
}

// C26, C28: a cut reply without TCP is a failure, and nothing of it is kept.
func TestSourceC26C28CutRepliesAreNotUsed(t *testing.T) {
	for name, cut := range map[string]behaviour{"C26": withTC(rrs(manyA(20)...)), "C28": countsLie(60, rrs(manyA(20)...))} {
		t.Run(name, func(t *testing.T) {
			server := newTestServer(t)
			server.on(web, "A", overUDP(cut, rcode(mdns.RcodeServerFailure)))
			server.on(web, "AAAA", rcode(mdns.RcodeServerFailure))
			h := run(t, nil, server.addr)
			m, n := h.wanted(web)
			assert.Equal(t, sources.Failed, m.Outcome)
			assert.Empty(t, m.Slices)
			server.on(web, "A", overUDP(cut, rrs(manyA(60)...)))
			m, _, _ = h.toNext(web, n)
			assert.Len(t, addresses(m), 60)
		})
	}
}

// C44: one lookup a TTL, without DO; signatures never come in.
func TestSourceC44NoSignatures(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A,AAAA", rrs("web.example. 10 IN A 192.0.2.1", "web.example. 10 IN AAAA 2001:db8::1",
		"web.example. 10 IN RRSIG A 8 2 10 20300101000000 20200101000000 1 example. AAAA"))
	h := run(t, nil, server.addr)
	h.wanted(web)
	for range 1000 {
		require.NoError(t, h.source.Resolve(testContext(t), keyOf(web)))
	}
	assert.Equal(t, 2, server.count("", 0))
	for _, q := range server.queries() {
		assert.False(t, q.msg.IsEdns0().Do())
	}
}

// C122: 1,000 ask for one cold name while the upstream is slow: one exchange for each
// type, the same outcome for all, no goroutines beyond the askers' own.
func TestSourceC122OneExchange(t *testing.T) {
	server := newTestServer(t)
	gate := make(chan struct{})
	server.on(web, "A", after(gate, rrs("web.example. 10 IN A 192.0.2.1")))
	server.on(web, "AAAA", after(gate, noSuchType("example.", "60")))
	h := run(t, func(c *Config) { c.Timeout = patience }, server.addr)
	before := runtime.NumGoroutine()
	var asking atomic.Int32
	var askers errgroup.Group
	for range 1000 {
		askers.Go(func() error {
			asking.Add(1)
			if err := h.source.Resolve(context.Background(), keyOf(web)); err != nil {
				return err
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if m := h.members[web]; m == nil || !slices.Equal(addresses(m), addrs("192.0.2.1")) {
				return fmt.Errorf("Resolve returned before its update: %+v", m)
			}
			return nil
		})
	}
	require.Eventually(t, func() bool { return asking.Load() == 1000 && server.count("", 0) == 2 }, patience, time.Millisecond)
	assert.LessOrEqual(t, runtime.NumGoroutine()-before, 1000+20)
	close(gate)
	require.NoError(t, askers.Wait())
	assert.Equal(t, 1, server.count(web, mdns.TypeA))
	assert.Equal(t, 1, server.count(web, mdns.TypeAAAA))
}

// 1,000 ask cold for a name of five DNS backends, each 20 ms away: ten exchanges, and no
// one waits for much more than one of them.
func TestSourceFiveColdBackends(t *testing.T) {
	server := newTestServer(t)
	backends := numbered("b", 5)
	for _, name := range backends {
		server.on(name, "A", late(20*time.Millisecond, rrs(name+". 10 IN A 192.0.2.1")))
		server.on(name, "AAAA", late(20*time.Millisecond, noSuchType("example.", "60")))
	}
	h := run(t, func(c *Config) { c.Timeout = patience }, server.addr)
	start := time.Now()
	var askers errgroup.Group
	for range 1000 {
		askers.Go(func() error {
			var each errgroup.Group
			for _, key := range keys(backends...) {
				each.Go(func() error { return h.source.Resolve(context.Background(), key) })
			}
			return each.Wait()
		})
	}
	require.NoError(t, askers.Wait())
	took := time.Since(start)
	t.Logf("1,000 askers, 5 backends of 20 ms: %v", took)
	assert.Less(t, took, 3*time.Second, "5,000 lookups one after the other would take 100 s")
	assert.Equal(t, 10, server.count("", 0))
}

// C154: another nameserver in resolv.conf is used within 10 s.
func TestSourceC154ResolvConfChanges(t *testing.T) {
	first := newTestServer(t)
	port := first.addr.Port()
	second := serve(t, &testServer{t: t, replies: make(map[Question][]behaviour)}, fmt.Sprintf("127.0.0.2:%d", port))
	webAt(first, "10", "192.0.2.1")
	webAt(second, "10", "192.0.2.2")
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(path, []byte("nameserver 127.0.0.1\n"), 0o600))
	h := run(t, func(c *Config) { c.ResolvConf, c.Port = path, port })
	m, n := h.wanted(web)
	require.Equal(t, addrs("192.0.2.1"), addresses(m))

	// The old one is dead, and the name is tried again and again.
	first.on(web, "A,AAAA", rcode(mdns.RcodeServerFailure))
	h.toNext(web, n)
	for range 3 {
		failed := h.metrics.get("attempt failed") + h.metrics.get("attempt partial")
		h.advance(h.dueIn(web))
		require.Eventually(t, func() bool {
			return h.metrics.get("attempt failed")+h.metrics.get("attempt partial") > failed
		}, patience, time.Millisecond)
	}
	require.NoError(t, os.WriteFile(path, []byte("nameserver 127.0.0.2\n"), 0o600))
	h.advance(reloadEvery)
	require.Eventually(t, func() bool { return len(h.log.with("127.0.0.2")) > 0 }, patience, time.Millisecond)
	h.advance(failureTTL)
	h.until(t, "the new server's answer", func() bool { return slices.Equal(addresses(h.members[web]), addrs("192.0.2.2")) })
	assert.LessOrEqual(t, reloadEvery+failureTTL, 10*time.Second)
}

// C133: no nameserver lines: a status, no panic; and it works as soon as there is one.
func TestSourceC133NoNameservers(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(path, []byte("search example\n"), 0o600))
	h := run(t, func(c *Config) { c.ResolvConf, c.Port = path, server.addr.Port() })
	m, _ := h.wanted(web)
	assert.Equal(t, sources.Failed, m.Outcome)
	assert.False(t, m.EverAnswered)
	h.until(t, "the status", func() bool { return h.status["dns:web.example"].Error != "" })
	st, _ := h.statusOf(web)
	assert.Equal(t, "no upstream servers: "+path+": no nameserver lines", st.Error)
	assert.False(t, st.Synced)
	require.ErrorContains(t, h.source.Resolve(testContext(t), keyOf(web)), "no nameserver lines")

	require.NoError(t, os.WriteFile(path, []byte("nameserver 127.0.0.1\n"), 0o600))
	h.advance(reloadEvery)
	require.Eventually(t, func() bool { return len(h.log.with("nameservers read")) > 0 }, patience, time.Millisecond)
	h.advance(failureTTL)
	h.until(t, "an answer", func() bool { return h.members[web].Outcome == sources.Found })
}

// C151 through the source, and SetUpstreams at work.
func TestSourceUpstreamsAtWork(t *testing.T) {
	bad, good := newTestServer(t), newTestServer(t)
	bad.on(web, "A,AAAA", rcode(mdns.RcodeServerFailure))
	webAt(good, "10", "192.0.2.1")
	h := run(t, nil, bad.addr, good.addr)
	m, n := h.wanted(web)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.Empty(t, m.Error)

	require.NoError(t, h.source.SetUpstreams([]string{bad.addr.String()}))
	m, n, _ = h.toNext(web, n)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.NotEmpty(t, m.Error)
	require.NoError(t, h.source.SetUpstreams([]string{good.addr.String()}))
	h.advance(failureTTL)
	m, _ = h.next(web, n)
	assert.Empty(t, m.Error)
}

// C136: what is no longer wanted is taken back, and nobody is asked for it any more.
func TestSourceC136NoLongerWanted(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	server.on("b.example", "A,AAAA", rrs("b.example. 10 IN A 192.0.2.2", "b.example. 10 IN AAAA 2001:db8::2"))
	h := run(t, nil, server.addr)
	h.wanted(web, "b.example")
	_, nb := h.next("b.example", 0)
	h.source.Want(keys("b.example"))
	h.until(t, "web to go", func() bool { return h.members[web] == nil })
	last := h.updates[len(h.updates)-1]
	assert.Equal(t, sources.Update{Key: sources.Key{Source: "dns", Kind: sources.KindBackend, Name: web}}, last)
	h.until(t, "its status to go", func() bool { _, ok := h.status["dns:web.example"]; return !ok })
	assert.Contains(t, h.statuses, sources.Status{Source: "dns:web.example"})
	asked := server.count(web, mdns.TypeA)
	for range 20 {
		_, nb, _ = h.toNext("b.example", nb)
	}
	assert.Equal(t, asked, server.count(web, mdns.TypeA))
	_, ok := h.statusOf("b.example")
	assert.True(t, ok)
}

// A locator that is dropped while it is being asked for pushes nothing more, and who
// waits for it is told.
func TestSourceDroppedWhileUnderWay(t *testing.T) {
	server := newTestServer(t)
	gate := make(chan struct{})
	server.on(web, "A,AAAA", after(gate, rrs(links(9, web, "b.test")...)))
	h := run(t, func(c *Config) { c.Timeout = patience }, server.addr)
	h.source.Want(keys(web))
	require.Eventually(t, func() bool { return server.count("", 0) == 2 }, patience, time.Millisecond)
	waited := make(chan error, 1)
	go func() { waited <- h.source.Resolve(context.Background(), keyOf(web)) }()
	require.Eventually(t, func() bool {
		h.source.mu.Lock()
		defer h.source.mu.Unlock()
		return h.source.entries[web].waiting != nil
	}, patience, time.Millisecond)
	h.source.Want(nil)
	require.ErrorIs(t, <-waited, errDropped)
	require.Eventually(t, func() bool { // although the upstream has not answered yet
		h.source.mu.Lock()
		defer h.source.mu.Unlock()
		return h.source.living.running == 0
	}, patience/2, time.Millisecond)
	close(gate)
	h.mu.Lock()
	defer h.mu.Unlock()
	assert.Equal(t, []sources.Update{{Key: keyOf(web)}}, h.updates)
	assert.Zero(t, server.count("b.test", mdns.TypeA), "the alias's target is not asked for any more")
}

// C187: one line, then one an interval with a count.
func TestSourceC187LogLines(t *testing.T) {
	server := newTestServer(t)
	server.on(web, "A,AAAA", rcode(mdns.RcodeServerFailure))
	server.on("b.example", "A,AAAA", rcode(mdns.RcodeServerFailure))
	h := run(t, nil, server.addr)
	h.wanted(web, "b.example")
	h.next("b.example", 0)
	start := h.clock.Now()
	for h.clock.Now().Sub(start) < 10*time.Minute {
		failed := h.metrics.get("attempt failed")
		h.advance(min(h.dueIn(web), h.dueIn("b.example")))
		require.Eventually(t, func() bool { return h.metrics.get("attempt failed") > failed }, patience, 100*time.Microsecond)
		_ = h.source.Resolve(testContext(t), keyOf(web))
	}
	h.stop()
	lines := h.log.with("dns lookups fail")
	assert.LessOrEqual(t, len(lines), 11)
	assert.GreaterOrEqual(t, len(lines), 10)
	assert.Contains(t, lines[0], "repeats=1 ")
	assert.Contains(t, lines[5], "SERVFAIL")
	assert.Contains(t, lines[5], "b.example")
	assert.Contains(t, lines[5], web)
	assert.Greater(t, h.metrics.get("udp servfail"), 100, "the metric has the full count")
}

// The last held-back line is written when its interval ends, whatever happens then.
func TestReporterFlushes(t *testing.T) {
	h := run(t, nil, netip.MustParseAddrPort("127.0.0.1:1"))
	r := h.source.report
	for _, name := range []string{"a", "b", "b", "c", "d", "e", "f", "g"} {
		r.failure(name, "why "+name)
	}
	r.recovery("a")
	require.Len(t, h.log.with("dns lookups fail"), 1)
	h.advance(DefaultLogInterval)
	require.Eventually(t, func() bool { return len(h.log.with("dns lookups fail")) == 2 }, patience, time.Millisecond)
	line := h.log.with("dns lookups fail")[1]
	assert.Contains(t, line, "repeats=7 locators=\"[b c d e f]\" error=\"why g\"")
	assert.Len(t, h.log.with("answer again"), 1)
}

// Names that come by Resolve: kept fresh while they are asked for, then dropped.
func TestSourceLazyNames(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "30", "192.0.2.1")
	h := run(t, nil, server.addr)
	require.NoError(t, h.source.Resolve(testContext(t), keyOf(web)))
	m, n := h.next(web, 0)
	assert.Equal(t, addrs("192.0.2.1"), addresses(m))
	assert.Empty(t, h.statuses, "no status rows")
	start := h.clock.Now()
	for h.clock.Now().Sub(start) < 20*time.Minute {
		_, n, _ = h.toNext(web, n)
		h.source.Touch(keyOf(web))
	}
	touched := h.clock.Now()
	for gone := false; !gone; {
		h.advance(h.dueIn(web))
		h.until(t, "a refresh, or the end", func() bool { return h.seq[web] > n })
		h.mu.Lock()
		n, gone = h.seq[web], h.members[web] == nil
		h.mu.Unlock()
	}
	assert.GreaterOrEqual(t, h.clock.Now().Sub(touched), DefaultIdleAfter)
	assert.LessOrEqual(t, h.clock.Now().Sub(touched), DefaultIdleAfter+DefaultMaxTTL)
	h.source.Touch(keyOf(web)) // nothing to touch any more
	asked := server.count("", 0)
	require.NoError(t, h.source.Resolve(testContext(t), keyOf(web)))
	assert.Greater(t, server.count("", 0), asked)
}

func TestSourceLazyNamesAreBounded(t *testing.T) {
	server := newTestServer(t)
	all := numbered("n", 5)
	for _, name := range all {
		server.on(name, "A,AAAA", rrs(name+". 30 IN A 192.0.2.1", name+". 30 IN AAAA 2001:db8::1"))
	}
	h := run(t, func(c *Config) { c.MaxLazy = 3 }, server.addr)
	resolve := func(name string) {
		t.Helper()
		require.NoError(t, h.source.Resolve(testContext(t), keyOf(name)))
	}
	for _, name := range all[:3] {
		resolve(name)
	}
	h.clock.advance(DefaultIdleAfter / 2)
	h.source.Touch(keyOf(all[0]))
	resolve(all[3]) // all[1] makes room: all[0] is older, but was asked for
	h.until(t, "one to go", func() bool { return h.members[all[1]] == nil })
	resolve(all[4])
	h.until(t, "another to go", func() bool { return h.members[all[2]] == nil })
	h.mu.Lock()
	defer h.mu.Unlock()
	assert.Len(t, h.members, 3)
	assert.Contains(t, h.members, all[0])
}

// A name that came by Resolve and becomes wanted is not asked for again, has a status,
// and goes when it is no longer wanted.
func TestSourceLazyBecomesWanted(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "30", "192.0.2.1")
	h := run(t, nil, server.addr)
	require.NoError(t, h.source.Resolve(testContext(t), keyOf(web)))
	h.source.Want(keys(web))
	st, ok := h.statusOf(web)
	require.True(t, ok)
	assert.True(t, st.Synced)
	assert.Equal(t, 2, server.count("", 0))
	h.source.Want(nil)
	h.until(t, "it to go", func() bool { return h.members[web] == nil })
	assert.Zero(t, h.source.lazy.Len())
}

func TestSourceResolveErrors(t *testing.T) {
	hole := rawServer(t, func(net.PacketConn, net.Addr, *mdns.Msg) {})
	server := newTestServer(t)
	server.on(web, "A,AAAA", rcode(mdns.RcodeServerFailure))
	t.Run("foreign keys", func(t *testing.T) {
		h := run(t, nil, server.addr)
		for _, key := range []sources.Key{{Source: "consul", Kind: sources.KindBackend, Name: web}, {Source: "dns", Kind: sources.KindService, Name: web}} {
			require.Error(t, h.source.Resolve(testContext(t), key))
			h.source.Want([]sources.Key{key})
		}
		assert.Empty(t, h.source.entries)
	})
	t.Run("no locators", func(t *testing.T) {
		h := run(t, nil, server.addr)
		for _, name := range []string{"", "a..b", "_x._y.web.example"} {
			require.ErrorContains(t, h.source.Resolve(testContext(t), keyOf(name)), "locator")
		}
		h.source.Want(keys("_x._y.web.example"))
		st, _ := h.statusOf("_x._y.web.example")
		assert.Contains(t, st.Error, "_tcp, _udp or _sctp")
	})
	t.Run("a failure is remembered for a second", func(t *testing.T) {
		h := run(t, nil, server.addr)
		before := server.count("", 0)
		for range 100 {
			require.ErrorContains(t, h.source.Resolve(testContext(t), keyOf(web)), "SERVFAIL")
		}
		assert.Equal(t, before+2, server.count("", 0))
		h.clock.advance(failureTTL)
		require.ErrorContains(t, h.source.Resolve(testContext(t), keyOf(web)), "SERVFAIL")
		assert.Equal(t, before+4, server.count("", 0))
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		h := run(t, nil, hole)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, h.source.Resolve(ctx, keyOf(web)), context.DeadlineExceeded)
	})
	t.Run("the attempt's end is told to who waits to the last", func(t *testing.T) {
		h := run(t, nil, hole) // with the default budget, an attempt ends 0.1 s before its askers do
		require.ErrorContains(t, h.source.Resolve(context.Background(), keyOf(web)), "no reply")
		m, _ := h.next(web, 0)
		assert.Equal(t, sources.Failed, m.Outcome)
	})
	t.Run("stopped", func(t *testing.T) {
		h := run(t, nil, hole)
		h.stop()
		require.ErrorIs(t, h.source.Resolve(testContext(t), keyOf(web)), errStopped)
		require.Error(t, h.source.Run(testContext(t), h.testSink))
	})
	t.Run("stopped while waiting", func(t *testing.T) {
		h := run(t, func(c *Config) { c.Timeout = patience }, hole)
		waited := make(chan error, 1)
		go func() { waited <- h.source.Resolve(context.Background(), keyOf(web)) }()
		require.Eventually(t, func() bool { h.source.mu.Lock(); defer h.source.mu.Unlock(); return len(h.source.entries) == 1 }, patience, time.Millisecond)
		h.stop()
		require.ErrorIs(t, <-waited, errStopped)
		assert.Empty(t, h.updates, "an end is not a failure")
	})
}

// Want before Run: statuses come with the sink.
func TestSourceWantBeforeRun(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "30", "192.0.2.1")
	source, err := New(Config{Upstreams: []string{server.addr.String()}, Clock: newFakeClock()})
	require.NoError(t, err)
	source.Want(keys(web, "b.example"))
	source.Want(keys(web))
	sink := newTestSink()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, sink) }()
	sink.until(t, "an answer", func() bool { return sink.members[web] != nil && sink.status["dns:web.example"].Synced })
	cancel()
	require.NoError(t, <-ended)
	assert.Equal(t, sources.Status{Source: "dns:web.example", Kind: "dns"}, sink.statuses[0], "syncing first")
	assert.Len(t, sink.status, 1)
}

// With the system's own clock and jitter: refreshed on time, without being woken.
func TestSourceRealClock(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "1", "192.0.2.1")
	source, err := New(Config{Upstreams: []string{server.addr.String()}})
	require.NoError(t, err)
	sink := newTestSink()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, sink) }()
	source.Want(keys(web))
	sink.until(t, "the first answer", func() bool { return sink.seq[web] == 1 })
	start := time.Now()
	webAt(server, "1", "192.0.2.2")
	sink.until(t, "the second answer", func() bool { return sink.seq[web] == 2 })
	assert.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond, "not more than once a second")
	assert.Equal(t, addrs("192.0.2.2"), addresses(sink.members[web]))
	cancel()
	require.NoError(t, <-ended)
}

// Dead names, whose every attempt lasts the whole budget, do not hold up living ones.
func TestSourceDeadNamesDoNotStarveLivingOnes(t *testing.T) {
	server := newTestServer(t)
	webAt(server, "10", "192.0.2.1")
	dead := numbered("dead", 40)
	gate := make(chan struct{})
	defer close(gate)
	for _, name := range dead {
		server.on(name, "A,AAAA", rcode(mdns.RcodeServerFailure), rcode(mdns.RcodeServerFailure), after(gate, rcode(mdns.RcodeServerFailure)))
	}
	h := run(t, func(c *Config) { c.Concurrency, c.Timeout = 16, patience }, server.addr)
	_, n := h.wanted(append([]string{web}, dead...)...)
	for _, name := range dead {
		h.next(name, 0)
		server.on(name, "A,AAAA", after(gate, rcode(mdns.RcodeServerFailure)))
	}
	for range 5 {
		_, n, _ = h.toNext(web, n) // all dead names became due in the meantime
	}
	h.source.mu.Lock()
	defer h.source.mu.Unlock()
	assert.Equal(t, h.source.failing.limit, h.source.failing.running)
	assert.Len(t, h.source.failing.entries, len(dead)-h.source.failing.limit)
}

// A mix of everything at once, for the race detector: no lost entry, no stuck attempt.
func TestSourceManyAtOnce(t *testing.T) {
	server := newTestServer(t)
	all := numbered("n", 50)
	for i, name := range all {
		server.on(name, "A,AAAA", rrs(fmt.Sprintf("%s. %d IN A 192.0.2.1", name, i%3), fmt.Sprintf("%s. %d IN AAAA 2001:db8::1", name, i%3)))
	}
	h := run(t, func(c *Config) { c.MaxLazy = 10; c.CacheSize = 20; c.Timeout = patience }, server.addr)
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 100 {
				name := all[(w*7+i*3)%len(all)]
				switch i % 4 {
				case 0:
					h.source.Want(keys(all[w : w+20]...))
				case 1:
					h.advance(300 * time.Millisecond)
				case 2:
					h.source.Touch(keyOf(name))
				default:
					_ = h.source.Resolve(context.Background(), keyOf(name)) // may be evicted meanwhile
				}
			}
		})
	}
	workers.Wait()
	h.source.Want(keys(all...))
	h.until(t, "all to be there", func() bool { return len(h.members) == len(all) })
	assert.Zero(t, h.source.lazy.Len())
}

func TestParseLocator(t *testing.T) {
	cases := map[string]locator{
		"web.example":             {name: webA.Name},
		"Web.Example.":            {name: webA.Name},
		"_http._tcp.web.example":  {name: srvHost.name, srv: true, service: "http", protocol: sources.TCP},
		"_HTTP._TCP.web.example":  {name: srvHost.name, srv: true, service: "http", protocol: sources.TCP},
		"_dns._udp.web.example":   {name: mustLocator("_dns._udp.web.example").name, srv: true, service: "dns", protocol: sources.UDP},
		"_m3ua._sctp.web.example": {name: mustLocator("_m3ua._sctp.web.example").name, srv: true, service: "m3ua", protocol: sources.SCTP},
		"_identity.web.example":   {name: mustLocator("_identity.web.example").name},
	}
	for text, want := range cases {
		got, err := parseLocator(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "a..b", "_http._quic.web.example"} {
		_, err := parseLocator(text)
		require.Error(t, err, text)
	}
}

func TestSchedule(t *testing.T) {
	for _, jitter := range []float64{0, 0.5, 0.999} {
		previous := time.Duration(0)
		for fails := 1; fails <= 100; fails++ {
			d := backoff(fails, jitter)
			assert.GreaterOrEqual(t, d, time.Second)
			assert.LessOrEqual(t, d, lastRetry)
			assert.GreaterOrEqual(t, d, previous)
			assert.GreaterOrEqual(t, d, failureTTL, "a retry never meets its own remembered failure")
			previous = d
		}
		assert.GreaterOrEqual(t, previous, 1600*time.Millisecond)
		for _, ttl := range []time.Duration{0, time.Second, 2 * time.Second, 10 * time.Second, 30 * time.Second} {
			at := refreshAt(t0.Add(ttl), t0, jitter).Sub(t0)
			assert.GreaterOrEqual(t, at, max(time.Second, ttl*8/10))
			assert.LessOrEqual(t, at, max(time.Second, ttl*9/10))
		}
	}
}
