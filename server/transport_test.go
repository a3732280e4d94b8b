package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience bounds every wait of these tests for something that must happen.
const patience = 20 * time.Second

// script answers the tests' own messages: a DNS header and a text that says what to do.
//
//	echo …     the same message
//	where      the addresses of client and server, and the protocol
//	worker     the number of the Handler
//	big N      a message of N bytes
//	drop       the verdict Drop
//	block      as echo, once blocked is closed: a Handle that breaks its promise not to block
//	wait …     the verdict Wait, then "waited" once opened is closed, or "ended" if ctx was first
type script struct {
	opened, blocked chan struct{}
	handlers        atomic.Int64
	batches         atomic.Int64 // calls of Begin
	handled         atomic.Int64 // calls of Handle
	waiting         atomic.Int64 // calls of HandleWaiting that have not returned
}

func newScript() *script {
	return &script{opened: make(chan struct{}), blocked: make(chan struct{})}
}

func (s *script) newHandler() Handler {
	return &scriptHandler{script: s, number: s.handlers.Add(1)}
}

type scriptHandler struct {
	*script
	number  int64
	busy    atomic.Bool
	queries [][]byte // from Begin to End
}

// alone fails loudly where two goroutines use one Handler.
func (h *scriptHandler) alone() func() {
	if !h.busy.CompareAndSwap(false, true) {
		panic("a Handler is used by two goroutines at a time")
	}
	return func() { h.busy.Store(false) }
}

func (h *scriptHandler) Begin(queries [][]byte) { h.mark(queries); h.batches.Add(1) }
func (h *scriptHandler) End()                   { h.mark(nil) }

// mark fails loudly where calls of Begin and End do not come in turns.
func (h *scriptHandler) mark(queries [][]byte) {
	defer h.alone()()
	if (h.queries == nil) == (queries == nil) {
		panic("Begin and End are not called in turns")
	}
	h.queries = queries
}

func (h *scriptHandler) Handle(i int, out []byte, t *Transport) ([]byte, Verdict) {
	defer h.alone()()
	query := h.queries[i]
	h.handled.Add(1)
	if len(query) < headerSize {
		return nil, Drop
	}
	out = append(out[:0], query[:headerSize]...)
	command, rest, _ := strings.Cut(string(query[headerSize:]), " ")
	switch command {
	case "where":
		return fmt.Appendf(out, "%s %s %s", t.Client, t.Local, t.Protocol), Reply
	case "worker":
		return strconv.AppendInt(out, h.number, 10), Reply
	case "big":
		size, _ := strconv.Atoi(rest)
		return append(out, make([]byte, size-len(out))...), Reply
	case "drop":
		return nil, Drop
	case "wait":
		return nil, Wait
	case "block":
		<-h.blocked
	}
	return append(out, query[headerSize:]...), Reply
}

func (h *scriptHandler) HandleWaiting(ctx context.Context, out, query []byte, _ *Transport) ([]byte, Verdict) {
	defer h.alone()()
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	out = append(out[:0], query[:headerSize]...)
	if ctx.Err() != nil {
		return append(out, "ended"...), Reply
	}
	select {
	case <-h.opened:
		return append(out, "waited"...), Reply
	case <-ctx.Done():
		return append(out, "ended"...), Reply
	}
}

// recorder counts what SocketMetrics are told, as "closed idle" and the like.
type recorder struct {
	mu     sync.Mutex
	counts map[string]int
}

func newRecorder() *recorder { return &recorder{counts: make(map[string]int)} }

func (r *recorder) add(n int, words ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[strings.Join(words, " ")] += n
}

func (r *recorder) get(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[event]
}

func (r *recorder) waitFor(t *testing.T, n int, event string) {
	t.Helper()
	eventually(t, func() bool { return r.get(event) >= n }, "%d × %q, have %d", n, event, r.get(event))
}

func (r *recorder) ConnectionOpened()                { r.add(1, "opened") }
func (r *recorder) ConnectionClosed(why string)      { r.add(1, "closed", why) }
func (r *recorder) ConnectionRefused(limit string)   { r.add(1, "refused", limit) }
func (r *recorder) DatagramsDropped(n int)           { r.add(n, "dropped") }
func (r *recorder) WaitingRefused(protocol string)   { r.add(1, "full", protocol) }
func (r *recorder) SocketFailed(p, operation string) { r.add(1, "failed", p, operation) }

// eventually waits for a state; what may use require, since it runs in the test's goroutine.
func eventually(t *testing.T, what func() bool, format string, args ...any) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !what(); <-tick.C {
		if time.Since(begun) > patience {
			require.Failf(t, "never happened", format, args...)
		}
	}
}

// fixture is Listeners of a test with their script and metrics.
type fixture struct {
	*Listeners
	script  *script
	metrics *recorder
}

// listen opens Listeners, on 127.0.0.1 unless told otherwise, that are closed after the test,
// which then has left no goroutine behind.
func listen(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	leftovers := goleak.IgnoreCurrent()
	f := &fixture{script: newScript(), metrics: newRecorder()}
	config := Config{
		Addresses:  []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		NewHandler: f.script.newHandler,
		Workers:    2,
		Metrics:    f.metrics,
	}
	if change != nil {
		change(&config)
	}
	var err error
	f.Listeners, err = Listen(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
		goleak.VerifyNone(t, leftovers)
	})
	return f
}

func limited(limits Limits) func(*Config) {
	return func(c *Config) { c.Limits = limits }
}

func onAddress(address string) func(*Config) {
	return func(c *Config) { c.Addresses = []netip.AddrPort{netip.MustParseAddrPort(address)} }
}

func (f *fixture) address() netip.AddrPort { return f.Addresses()[0] }

// at is the first address's port at another host.
func (f *fixture) at(host string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(host), f.address().Port())
}

// client is one client's socket.
type client struct {
	t testing.TB
	net.Conn
	datagram []byte
}

func dial(t testing.TB, network string, address netip.AddrPort) *client {
	t.Helper()
	conn, err := net.DialTimeout(network, address.String(), patience)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, Conn: conn}
}

// query is a message of the script.
func query(id int, text string) []byte {
	m := make([]byte, headerSize, headerSize+len(text))
	binary.BigEndian.PutUint16(m, uint16(id))
	return append(m, text...)
}

func parse(m []byte) (id int, text string) {
	return int(binary.BigEndian.Uint16(m)), string(m[headerSize:])
}

// send sends one query in one write, behind its length on TCP.
func (c *client) send(id int, text string) {
	c.t.Helper()
	m := query(id, text)
	if _, ok := c.Conn.(*net.TCPConn); ok {
		m = appendFrame(nil, m)
	}
	_, err := c.Write(m)
	require.NoError(c.t, err)
}

// receive gives the next reply.
func (c *client) receive() (id int, text string) {
	c.t.Helper()
	m, err := c.tryReceive()
	require.NoError(c.t, err)
	return parse(m)
}

// tryReceive gives the next reply, until the call after.
func (c *client) tryReceive() ([]byte, error) {
	if _, ok := c.Conn.(*net.TCPConn); ok {
		return readFrame(c)
	}
	if c.datagram == nil {
		c.datagram = make([]byte, 65535)
	}
	n, err := c.Read(c.datagram)
	return c.datagram[:n], err
}

func (c *client) ask(id int, text string) string {
	c.t.Helper()
	c.send(id, text)
	got, reply := c.receive()
	require.Equal(c.t, id, got)
	return reply
}
