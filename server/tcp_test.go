package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readFrame reads one message behind its length.
func readFrame(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

// raw writes bytes as they are.
func (c *client) raw(b []byte) {
	c.t.Helper()
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

// ended waits for the server's end of the connection, cleanly or by reset.
func (c *client) ended() error {
	c.t.Helper()
	rest, err := io.ReadAll(c.Conn)
	assert.Empty(c.t, rest)
	assert.False(c.t, err != nil && isTimeout(err), "the connection is still open")
	return err
}

// tcp is the client's connection itself.
func (c *client) tcp() *net.TCPConn { return c.Conn.(*net.TCPConn) }

// C22, rule 26: 500 queries at once, of which the first waits: the others don't.
func TestTCPAnswersOutOfOrderC22(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	const count = 500
	var all []byte
	all = appendFrame(all, query(0, "wait"))
	for id := 1; id < count; id++ {
		all = appendFrame(all, query(id, fmt.Sprintf("echo %d", id)))
	}
	c.raw(all)
	for want := 1; want < count; want++ {
		id, text := c.receive()
		assert.Equal(t, want, id)
		assert.Equal(t, fmt.Sprintf("echo %d", want), text)
	}
	close(f.script.opened)
	id, text := c.receive()
	assert.Equal(t, 0, id)
	assert.Equal(t, "waited", text)
	assert.Equal(t, "echo", c.ask(1, "echo"), "the connection goes on")
}

// Queries that were read together are one batch for the Handler.
func TestTCPHandlesPipelinedQueriesInBatches(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	const count = 200
	var all []byte
	for id := range count {
		all = appendFrame(all, query(id, "echo"))
	}
	c.raw(all)
	for want := range count {
		id, _ := c.receive()
		assert.Equal(t, want, id)
	}
	assert.EqualValues(t, count, f.script.handled.Load())
	assert.Less(t, f.script.batches.Load(), int64(count/5), "some 20 queries are read at once")
}

// However a client cuts its messages into packets, they are the same messages.
func TestTCPTakesMessagesInAnyPieces(t *testing.T) {
	f := listen(t, nil)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := dial(t, "tcp", f.address())
		var all []byte
		var texts []string
		for id := range 30 {
			text := "echo " + strings.Repeat("x", random.IntN(20)*random.IntN(20)*random.IntN(20))
			texts = append(texts, text)
			all = appendFrame(all, query(id, text))
		}
		go func() {
			for len(all) > 0 {
				n := min(len(all), 1+random.IntN(1<<random.IntN(12)))
				if _, err := c.Write(all[:n]); err != nil {
					return // seen below as a missing reply
				}
				all = all[n:]
			}
		}()
		for id, want := range texts {
			got, text := c.receive()
			require.Equal(t, id, got, "seed %d", seed)
			require.Equal(t, want, text, "seed %d", seed)
		}
	}
}

func TestTCPTakesMessagesOfAllSizes(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	for _, size := range []int{17, 509, 510, 511, 512, 513, 4093, 4094, 4095, 4096, 65534, 65535} {
		text := "echo " + strings.Repeat("x", size-headerSize-5)
		assert.Equal(t, text, c.ask(1, text), size)
	}
	assert.Empty(t, c.ask(1, ""), "a header alone")
}

// Rule 26: length and message in one write, so that a client that reads once has both.
func TestTCPWritesLengthAndMessageTogether(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	close(f.script.opened)
	buffer := make([]byte, 65537)
	for i := range 300 {
		text := []string{"echo", "wait", "big 5000"}[i%3]
		c.send(i, text)
		n, err := c.Read(buffer)
		require.NoError(t, err)
		require.Equal(t, n-2, int(binary.BigEndian.Uint16(buffer)), text)
	}
}

func TestTCPEndsForBadMessages(t *testing.T) {
	for name, test := range map[string]struct {
		message []byte
		want    string
	}{
		"no length":      {[]byte{0, 0}, "closed short"},
		"below a header": {append([]byte{0, 11}, make([]byte, 11)...), "closed short"},
		"dropped":        {appendFrame(nil, query(1, "drop")), "closed dropped"},
		"no reply":       {appendFrame(nil, query(1, "big 65536")), "closed dropped"},
	} {
		t.Run(name, func(t *testing.T) {
			f := listen(t, nil)
			c := dial(t, "tcp", f.address())
			c.raw(append(appendFrame(nil, query(7, "echo")), test.message...))
			id, text := c.receive()
			assert.Equal(t, 7, id)
			assert.Equal(t, "echo", text, "what was asked before is answered")
			_ = c.ended()
			f.metrics.waitFor(t, 1, test.want)
		})
	}
}

// Rule 26: a message has MessageTime from its first byte on, however its bytes drip.
func TestTCPEndsSlowMessages(t *testing.T) {
	const limit = 150 * time.Millisecond
	for name, start := range map[string][]byte{
		"half a length":   {1},
		"length alone":    {0, 200},
		"half a message":  append([]byte{0, 200}, make([]byte, 100)...),
		"a large message": append([]byte{200, 0}, make([]byte, 3000)...),
	} {
		t.Run(name, func(t *testing.T) {
			f := listen(t, limited(Limits{MessageTime: limit, IdleTime: time.Hour}))
			slow, other := dial(t, "tcp", f.address()), dial(t, "tcp", f.address())
			began := time.Now()
			slow.raw(start)
			go func() {
				drip := time.NewTicker(limit / 10)
				defer drip.Stop()
				for range drip.C {
					if _, err := slow.Write([]byte{0}); err != nil {
						return
					}
				}
			}()
			assert.Equal(t, "echo", other.ask(1, "echo"))
			_ = slow.ended()
			assert.GreaterOrEqual(t, time.Since(began), limit)
			f.metrics.waitFor(t, 1, "closed message")
			require.NoError(t, slow.Close())
			assert.Equal(t, "echo", other.ask(1, "echo"))
		})
	}
}

// Rule 26: nothing asked, answered or waiting for IdleTime ends a connection; C22: nothing else.
func TestTCPEndsIdleConnections(t *testing.T) {
	const limit = 100 * time.Millisecond
	f := listen(t, limited(Limits{IdleTime: limit, MessageTime: time.Hour}))
	began := time.Now()
	never, once, waits := dial(t, "tcp", f.address()), dial(t, "tcp", f.address()), dial(t, "tcp", f.address())
	waits.send(1, "wait")
	assert.Equal(t, "echo", once.ask(1, "echo"))
	assert.NoError(t, never.ended())
	assert.NoError(t, once.ended())
	assert.GreaterOrEqual(t, time.Since(began), limit)
	f.metrics.waitFor(t, 2, "closed idle")

	for range 3 { // each of them is one more IdleTime
		require.NoError(t, dial(t, "tcp", f.address()).ended())
	}
	answered := time.Now()
	close(f.script.opened)
	_, text := waits.receive()
	assert.Equal(t, "waited", text, "a connection with a waiting query is not idle")
	assert.NoError(t, waits.ended())
	assert.GreaterOrEqual(t, time.Since(answered), limit, "idle from its reply on")
}

// Rule 26: a client that asks and never reads is cut off, and UDP never suffers.
func TestTCPCutsOffClientsThatNeverRead(t *testing.T) {
	for name, queries := range map[string]string{"replies at once": "big 60000", "many small ones": "echo " + strings.Repeat("x", 400)} {
		t.Run(name, func(t *testing.T) {
			f := listen(t, limited(Limits{WriteTime: 100 * time.Millisecond, MessageTime: time.Hour, IdleTime: time.Hour}))
			c := dial(t, "tcp", f.address())
			flooded := make(chan struct{})
			go func() {
				defer close(flooded)
				batch := bytes.Repeat(appendFrame(nil, query(1, queries)), 20)
				for {
					if _, err := c.Write(batch); err != nil {
						return
					}
				}
			}()
			udp := dial(t, "udp", f.address())
			eventually(t, func() bool {
				require.Equal(t, "echo", udp.ask(1, "echo"))
				return f.metrics.get("closed write") == 1
			}, "it is cut off")
			<-flooded
		})
	}
}

// A client may say that it has no more to ask, and still gets its replies.
func TestTCPAnswersHalfClosedConnections(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	c.send(1, "wait")
	c.send(2, "echo")
	require.NoError(t, c.tcp().CloseWrite())
	id, _ := c.receive()
	assert.Equal(t, 2, id)
	close(f.script.opened)
	id, text := c.receive()
	assert.Equal(t, 1, id)
	assert.Equal(t, "waited", text)
	assert.NoError(t, c.ended())
	f.metrics.waitFor(t, 1, "closed client")
}

// A client that resets its connection ends the lookups that only it waited for.
func TestTCPEndsLookupsOfLostConnections(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	c.send(1, "wait")
	eventually(t, func() bool { return f.script.waiting.Load() == 1 }, "it waits")
	require.NoError(t, c.tcp().SetLinger(0))
	require.NoError(t, c.Close())
	eventually(t, func() bool { return f.script.waiting.Load() == 0 }, "it waits no more")
	f.metrics.waitFor(t, 1, "closed reset")
}

func TestTCPBoundsWaitingQueries(t *testing.T) {
	for name, limits := range map[string]Limits{
		"of a connection": {WaitingPerConnection: 2},
		"of all":          {Waiting: 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := listen(t, limited(limits))
			c := dial(t, "tcp", f.address())
			for id := range 5 {
				c.send(id, "wait")
			}
			c.send(5, "echo")
			for _, want := range []int{2, 3, 4} {
				id, text := c.receive()
				assert.Equal(t, want, id)
				assert.Equal(t, "ended", text, "at once")
			}
			id, _ := c.receive()
			assert.Equal(t, 5, id)
			assert.Equal(t, 3, f.metrics.get("full tcp"))
			close(f.script.opened)
			for range 2 {
				_, text := c.receive()
				assert.Equal(t, "waited", text)
			}
			eventually(t, func() bool { return f.tcpWaiting.taken.Load() == 0 }, "slots are given back")
			assert.Equal(t, "waited", c.ask(6, "wait"))
		})
	}
}

// Waiting TCP queries take nothing from UDP.
func TestTCPLeavesUDPItsSlots(t *testing.T) {
	f := listen(t, limited(Limits{Waiting: 1}))
	tcp, udp := dial(t, "tcp", f.address()), dial(t, "udp", f.address())
	tcp.send(1, "wait")
	eventually(t, func() bool { return f.script.waiting.Load() == 1 }, "TCP waits")
	udp.send(1, "wait")
	eventually(t, func() bool { return f.script.waiting.Load() == 2 }, "UDP waits as well")
	close(f.script.opened)
}

func TestTCPEndsLookupsAfterWaitTime(t *testing.T) {
	f := listen(t, limited(Limits{WaitTime: time.Millisecond}))
	assert.Equal(t, "ended", dial(t, "tcp", f.address()).ask(1, "wait"))
}

// Rule 26: caps for all, for each client prefix, and exemptions from the latter.
func TestTCPBoundsConnections(t *testing.T) {
	f := listen(t, func(c *Config) {
		c.Addresses = []netip.AddrPort{netip.MustParseAddrPort("[::]:0")}
		c.Limits = Limits{
			Connections: 6, ConnectionsPerPrefix: 2,
			Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")},
		}
	})
	from := func(host string) (*client, error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		target := f.at("127.0.0.1")
		if host == "::1" {
			target = f.at("::1")
		}
		conn, err := dialer.Dial("tcp", target.String())
		if err != nil {
			return nil, err // a reset may come that early
		}
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { _ = conn.Close() })
		return &client{t: t, Conn: conn}, nil
	}
	refused := func(host string) error {
		c, err := from(host)
		if err != nil {
			return err
		}
		return c.ended()
	}
	open := func(host string) *client {
		c, err := from(host)
		require.NoError(t, err)
		require.Equal(t, "echo", c.ask(1, "echo"), host)
		return c
	}
	first := open("127.0.0.1")
	open("127.0.0.1")
	assert.Error(t, refused("127.0.0.1"), "a third of one client is reset")
	assert.Equal(t, 1, f.metrics.get("refused prefix"))
	open("127.0.0.9")
	open("127.0.0.9")
	open("127.0.0.9")
	open("::1")
	assert.Error(t, refused("127.0.0.2"), "a seventh of all is reset")
	assert.Equal(t, 1, f.metrics.get("refused total"))
	require.NoError(t, first.Close())
	f.metrics.waitFor(t, 1, "closed client")
	eventually(t, func() bool { return f.connections.count() == 5 }, "it has left")
	open("127.0.0.1")
}

func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}

func (a *admission) prefixes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byPrefix)
}

// No files left, or whatever accepting brings, is waited out, counted, and no end.
func TestTCPListenerGoesOnAfterErrors(t *testing.T) {
	f := listen(t, nil)
	for range failuresToLog + 3 {
		assert.True(t, f.tcp[0].carryOn(&net.OpError{Op: "accept", Err: syscall.EMFILE}))
	}
	assert.Equal(t, failuresToLog+3, f.metrics.get("failed tcp accept"))
	assert.False(t, f.tcp[0].carryOn(net.ErrClosed))
}

func TestClientPrefix(t *testing.T) {
	for client, want := range map[string]string{
		"192.0.2.77":             "192.0.2.77/32",
		"2001:db8:1:2ff:1::1":    "2001:db8:1:200::/56",
		"2001:db8:1:300::1":      "2001:db8:1:300::/56",
		"fe80::1:2:3:4%someport": "fe80::/56",
	} {
		assert.Equal(t, want, clientPrefix(netip.MustParseAddr(client)).String())
	}
}

// C115: queries that the system holds, of connections that it holds, are answered, then the
// connection ends cleanly.
func TestShutdownAnswersWhatConnectionsHoldC115(t *testing.T) {
	f := listen(t, nil)
	c := dial(t, "tcp", f.address())
	c.send(0, "block")
	eventually(t, func() bool { return f.script.handled.Load() == 1 }, "its reader is held")
	const count = 300
	for id := 1; id < count; id++ {
		c.send(id, "echo "+strings.Repeat("x", 100))
	}
	done := make(chan error, 1)
	go func() { done <- f.Shutdown(t.Context()) }()
	<-f.stopping
	close(f.script.blocked)
	for want := range count {
		id, _ := c.receive()
		require.Equal(t, want, id)
	}
	assert.NoError(t, c.ended())
	require.NoError(t, <-done)
	assert.Equal(t, 1, f.metrics.get("closed shutdown"))
}

// C115: connections that the system has made before the stop are served, though no one had
// taken them yet.
func TestShutdownTakesConnectionsInTheQueueC115(t *testing.T) {
	l := newListeners(Config{NewHandler: newScript().newHandler}, Limits{
		Connections: 100, ConnectionsPerPrefix: 100, MessageTime: patience, WriteTime: patience, IdleTime: patience,
	})
	require.NoError(t, l.open(Config{Workers: 1, Batch: defaultBatch}, netip.MustParseAddrPort("127.0.0.1:0")))
	var clients []*client
	for id := range 50 {
		c := dial(t, "tcp", l.Addresses()[0])
		c.send(id, "echo")
		clients = append(clients, c)
	}
	l.serve()
	require.NoError(t, l.Shutdown(t.Context()))
	for want, c := range clients {
		id, _ := c.receive()
		assert.Equal(t, want, id)
		assert.NoError(t, c.ended())
	}
}

// A message that has begun to come when the stop begins is waited for.
func TestShutdownWaitsForTheRestOfAMessage(t *testing.T) {
	f := listen(t, limited(Limits{MessageTime: patience}))
	c := dial(t, "tcp", f.address())
	whole := appendFrame(nil, query(2, "echo"))
	c.raw(append(appendFrame(nil, query(1, "echo")), whole[:5]...))
	c.receive()
	done := make(chan error, 1)
	go func() { done <- f.Shutdown(t.Context()) }()
	<-f.stopping
	c.raw(whole[5:])
	id, _ := c.receive()
	assert.Equal(t, 2, id)
	assert.NoError(t, c.ended())
	require.NoError(t, <-done)
}

// C125: short queries, half of them reset in the middle of their replies, and many idle
// connections leave nothing behind, and hold little while they are there.
func TestTCPLeavesNothingBehindC125(t *testing.T) {
	queries, idle := 20_000, 1000
	if testing.Short() {
		queries, idle = 1000, 100
	}
	f := listen(t, func(c *Config) {
		c.Addresses = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:0")}
		c.Limits = Limits{Connections: 2000, ConnectionsPerPrefix: 2000, IdleTime: time.Hour}
	})
	warm := dial(t, "tcp", f.address())
	warm.ask(1, "echo")
	before := measure()

	for i := range queries {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%10))} // more ports than one address has
		conn, err := net.DialTCP("tcp", from, net.TCPAddrFromAddrPort(f.at("127.0.0.1")))
		require.NoError(t, err)
		c := &client{t: t, Conn: conn}
		c.send(i, "big 3000")
		if i%2 == 0 {
			require.NoError(t, conn.SetLinger(0))
		} else {
			id, _ := c.receive()
			require.Equal(t, i&0xffff, id)
		}
		require.NoError(t, conn.Close())
	}
	eventually(t, func() bool { return f.connections.count() == 1 }, "all have left")
	eventually(t, func() bool { return measure().goroutines <= before.goroutines }, "goroutines")
	after := measure()
	assert.LessOrEqual(t, after.files, before.files)
	assert.Less(t, after.heap, before.heap+4<<20, "heap")
	assert.Equal(t, 1, f.connections.prefixes(), "clients that are gone are not remembered")

	var clients []net.Conn
	for i := range idle {
		c := dial(t, "tcp", f.address())
		c.ask(i, "big 60000")
		clients = append(clients, c)
	}
	held := float64(measure().heap-after.heap) / float64(idle)
	t.Logf("an idle connection holds %.0f bytes of heap, both ends together", held)
	assert.Less(t, held, 8192.0, "no buffer of a reply's size")
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
}

type usage struct {
	goroutines, files int
	heap              int64
}

// measure says what the process holds after a collection of garbage.
func measure() usage {
	for range 3 { // pools need two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{goroutines: runtime.NumGoroutine(), files: openFiles(), heap: int64(m.HeapAlloc)}
}

// openFiles counts the process's open files where the system shows them.
func openFiles() int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

// BenchmarkTCP asks 100 queries at once on one connection, again and again.
func BenchmarkTCP(b *testing.B) {
	f := listen(b, func(c *Config) { c.NewHandler = func() Handler { return &echoHandler{} } })
	c := dial(b, "tcp", f.address())
	require.NoError(b, c.SetDeadline(time.Time{}))
	const inFlight = 100
	batch := bytes.Repeat(appendFrame(nil, query(1, "echo, as long as a question is")), inFlight)
	replies := make([]byte, len(batch))
	b.ReportAllocs()
	for i := 0; i < b.N; i += inFlight {
		c.raw(batch)
		if _, err := io.ReadFull(c, replies); err != nil {
			b.Fatal(err)
		}
	}
}
