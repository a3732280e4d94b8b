package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/bench/data"
)

// fakeServer answers as reply says, nil not at all, until the test ends.
func fakeServer(t *testing.T, reply func(query *dns.Msg) *dns.Msg) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		if m := reply(query); m != nil {
			_ = w.WriteMsg(m) // the test sees that it is missing
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { conn.Close(); <-done })
	return conn.LocalAddr().String()
}

// right is the answer to every service of f.
func right(t *testing.T, f data.Fleet) func(*dns.Msg) *dns.Msg {
	byName := map[string]int{}
	for i := range f.Services {
		byName[f.Host(i)+"."] = i
	}
	return func(query *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(query)
		m.Authoritative = true
		i, ok := byName[query.Question[0].Name]
		if !assert.True(t, ok, query.Question[0].Name) {
			return nil
		}
		for _, address := range f.Addresses(i) {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: address.AsSlice(),
			})
		}
		return m
	}
}

func TestCheckAnswers(t *testing.T) {
	f := data.Default(30)
	for _, c := range []struct {
		name  string
		spoil func(*dns.Msg)
		want  string
	}{
		{"right", func(*dns.Msg) {}, ""},
		{"right in another order", func(m *dns.Msg) { m.Answer[0], m.Answer[5] = m.Answer[5], m.Answer[0] }, ""},
		{"one is missing", func(m *dns.Msg) { m.Answer = m.Answer[1:] }, "in place of"},
		{"another address", func(m *dns.Msg) { m.Answer[2].(*dns.A).A[3]++ }, "in place of"},
		{"no such name", func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }, "NXDOMAIN"},
		{"cut", func(m *dns.Msg) { m.Truncated = true }, "TC true"},
		{"not authoritative", func(m *dns.Msg) { m.Authoritative = false }, "AA false"},
		{"more than asked for", func(m *dns.Msg) { m.Ns = m.Answer[:1] }, "beside the answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := right(t, f)
			addr := fakeServer(t, func(query *dns.Msg) *dns.Msg {
				m := answer(query)
				c.spoil(m)
				return m
			})
			err := checkAnswers(addr, f)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestProbe counts what a server loses and gets wrong.
func TestProbe(t *testing.T) {
	f := data.Default(7)
	answer := right(t, f)
	var asked atomic.Int64 // the fake answers each question in a goroutine of its own
	addr := fakeServer(t, func(query *dns.Msg) *dns.Msg {
		n := asked.Add(1)
		m := answer(query)
		switch {
		case n%10 == 3:
			return nil
		case n%10 == 7:
			m.Answer = m.Answer[1:]
		}
		return m
	})
	l := &lab{}
	r, err := l.probe(addr, probeLoad{Rate: 500, Seconds: 0.2, Fleet: f})
	require.NoError(t, err)
	assert.Equal(t, 100, r.Sent)
	assert.Equal(t, 10, r.Lost)
	assert.Equal(t, 10, r.Wrong)
	assert.Positive(t, r.P50)
	assert.LessOrEqual(t, r.P50, r.P99)
	assert.LessOrEqual(t, r.P9999, r.Max)
	assert.Less(t, r.Max, time.Second)
}

// TestProberTakesNoStranger has replies with an unknown ID count as wrong, and as nothing else.
func TestProberTakesNoStranger(t *testing.T) {
	pair, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pair.Close()
	p, err := newProber(pair.LocalAddr().String(), probeLoad{Rate: 10, Seconds: 1, Fleet: data.Default(1)})
	require.NoError(t, err)
	p.start = time.Now()
	require.NoError(t, p.send(5))
	query := make([]byte, 512)
	size, from, err := pair.ReadFrom(query)
	require.NoError(t, err)
	reply := append([]byte(nil), query[:size]...)
	reply[7] = 6
	binary.BigEndian.PutUint16(reply, 6)
	_, err = pair.WriteTo(reply, from)
	require.NoError(t, err)
	buffer := make([]byte, 512)
	for p.wrong+len(p.took) == 0 {
		require.NoError(t, p.receive(buffer))
	}
	assert.Equal(t, 1, p.wrong)
	assert.Empty(t, p.took)
	binary.BigEndian.PutUint16(reply, 5)
	_, err = pair.WriteTo(reply, from)
	require.NoError(t, err)
	for len(p.took) == 0 {
		require.NoError(t, p.receive(buffer))
	}
	assert.Equal(t, 1, p.wrong)
}

// TestSmoke builds the bare loop and this server and measures both for a moment.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the product")
	}
	if find("dnsperf") == "" {
		t.Skip("SKIPPED: dnsperf is missing")
	}
	o, err := parseFlags([]string{"-only", "load", "-servers", "echo,echo-fixed,meshdns", "-services", "150", "-rounds", "2", "-seconds", "0.2", "-pin=false"})
	require.NoError(t, err)
	dir := t.TempDir()
	root, err := projectRoot(t.Context())
	require.NoError(t, err)
	bin := binaries{Dnsperf: find("dnsperf")}
	require.NoError(t, bin.build(t.Context(), root, dir))
	var out, log bytes.Buffer
	l := &lab{options: o, bin: bin, dir: dir, out: &out, log: &log}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, l.run(ctx), "%s", &log)
	for _, want := range []string{"| echo ", "| meshdns ", "| meshdns / echo ", "2 rounds of 0.2 s", "4 queries in flight", "resident"} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "NaN")
}

// TestCheckFailsTheRun has a server that answers wrongly refused before it is loaded.
func TestCheckFailsTheRun(t *testing.T) {
	p := &process{called: "fake", done: make(chan struct{}), log: "none"}
	f := data.Default(3)
	addr := fakeServer(t, func(query *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(query, dns.RcodeRefused) })
	err := p.await(t.Context(), 50*time.Millisecond, func() error { return checkAnswer(addr, f, 2) })
	require.ErrorContains(t, err, "REFUSED")
}

// TestClosed keeps a few questions under way, and counts what goes wrong.
func TestClosed(t *testing.T) {
	f := data.Default(7)
	answer := right(t, f)
	var asked atomic.Int64 // the fake answers each question in a goroutine of its own
	addr := fakeServer(t, func(query *dns.Msg) *dns.Msg {
		n := asked.Add(1)
		m := answer(query)
		if n == 5 {
			m.Answer = m.Answer[1:]
		}
		return m
	})
	l := &lab{options: options{seconds: 0.1}}
	r, err := l.closed(addr, f, 4)
	require.NoError(t, err)
	assert.Greater(t, r.Sent, 20)
	assert.Equal(t, r.Sent, r.Completed)
	assert.Equal(t, 1, r.Wrong)
	assert.Zero(t, r.Lost)
	assert.Greater(t, r.ReplySize, 100)
}

// TestClosedEnds gives up when all that is under way is lost.
func TestClosedEnds(t *testing.T) {
	addr := fakeServer(t, func(*dns.Msg) *dns.Msg { return nil })
	l := &lab{options: options{seconds: 0.05, edns: true}}
	r, err := l.closed(addr, data.Default(3), 4)
	require.NoError(t, err)
	assert.Equal(t, 4, r.Sent)
	assert.Equal(t, 4, r.Lost)
	assert.Zero(t, r.Completed)
	_, err = counted(&running{kind: kind{name: "mute"}, process: &process{pid: os.Getpid()}}, func() (perfResult, error) { return r, nil })
	require.ErrorContains(t, err, "mute: none of 4 questions was answered")
}

// TestQueryWithOPT has another library read the question.
func TestQueryWithOPT(t *testing.T) {
	for _, edns := range []bool{false, true} {
		var m dns.Msg
		require.NoError(t, m.Unpack(probeLoad{EDNS: edns, Fleet: data.Default(3)}.query(2)))
		assert.Equal(t, data.Default(3).Host(2)+".", m.Question[0].Name)
		assert.Equal(t, edns, m.IsEdns0() != nil)
	}
}
