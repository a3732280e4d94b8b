package server

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

// Rule 26 with the limits as they are where nothing is configured: whatever is done to TCP, UDP
// is answered meanwhile.

// asksUDP asks over UDP, again and again, until stop, which gives how long the slowest of how
// many answers took.
func asksUDP(t *testing.T, f *fixture) (stop func() (slowest time.Duration, answers int)) {
	c := dial(t, "udp", f.at("127.0.0.1"))
	ended, result := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var all []time.Duration
		for {
			began := time.Now()
			_, err := c.Write(query(len(all), "echo"))
			if err == nil {
				_, err = c.tryReceive()
			}
			if err != nil {
				break // seen as few answers
			}
			all = append(all, time.Since(began))
			select {
			case <-ended:
				result <- all
				return
			default:
			}
		}
		<-ended
		result <- nil
	}()
	return func() (time.Duration, int) {
		close(ended)
		all := <-result
		require.NotEmpty(t, all, "UDP is not answered")
		return slices.Max(all), len(all)
	}
}

// suffers fails where UDP did. A second is a pause of the machine, not of a socket that waits
// for a connection: those would take 2 s and more.
func suffers(t *testing.T, stop func() (time.Duration, int)) {
	t.Helper()
	slowest, answers := stop()
	t.Logf("%d answers over UDP meanwhile, the slowest after %s", answers, slowest)
	assert.Less(t, slowest, time.Second)
}

// One byte a second never makes a message: the connection is closed 2 s after the first byte.
func TestSlowLoris(t *testing.T) {
	f := listen(t, nil)
	stop := asksUDP(t, f)
	c := dial(t, "tcp", f.address())
	began := time.Now()
	over, dripped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(dripped)
		drip := time.NewTicker(time.Second)
		defer drip.Stop()
		for _, b := range appendFrame(nil, query(1, "echo")) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			select {
			case <-drip.C:
			case <-over:
				return
			}
		}
	}()
	_ = c.ended()
	took := time.Since(began)
	close(over)
	<-dripped
	assert.GreaterOrEqual(t, took, 2*time.Second)
	assert.Less(t, took, 4*time.Second)
	f.metrics.waitFor(t, 1, "closed message")
	suffers(t, stop)
}

// A client that asks for large answers and reads none is cut off after 2 s in which nothing of
// them went out, and has held one answer of ours until then.
func TestReaderThatNeverReads(t *testing.T) {
	f := listen(t, nil)
	stop := asksUDP(t, f)
	before := measure()
	c := dial(t, "tcp", f.address())
	began := time.Now()
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		batch := bytes.Repeat(appendFrame(nil, query(1, "big 60000")), 20)
		for {
			if _, err := c.Write(batch); err != nil {
				return
			}
		}
	}()
	f.metrics.waitFor(t, 1, "closed write")
	assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	<-flooded
	assert.Less(t, measure().heap-before.heap, int64(4<<20))
	suffers(t, stop)
}

// 1,000 questions in one write, the first of which waits for a lookup: the others are all
// answered before it, in the order in which they came.
func TestThousandPipelinedQuestionsC22(t *testing.T) {
	f := listen(t, nil)
	stop := asksUDP(t, f)
	c := dial(t, "tcp", f.address())
	const count = 1000
	all := appendFrame(nil, query(0, "wait"))
	for id := 1; id < count; id++ {
		all = appendFrame(all, query(id, "echo"))
	}
	c.raw(all)
	for want := 1; want < count; want++ {
		id, _ := c.receive()
		require.Equal(t, want, id)
	}
	close(f.script.opened)
	id, text := c.receive()
	assert.Equal(t, 0, id)
	assert.Equal(t, "waited", text)
	suffers(t, stop)
}

// 10,000 connections are open and idle: UDP goes on, those who are let in still get answers, one
// more is refused, and afterwards nothing is left.
func TestTenThousandIdleConnections(t *testing.T) {
	const others = 200 // files that the tests have open besides
	count := min(10_000, (raiseFiles(2*10_000+others)-others)/2)
	if testing.Short() {
		count = min(count, 1000)
	}
	leftovers := goleak.IgnoreCurrent()
	f := listen(t, func(c *Config) {
		c.Addresses = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:0")}
		c.Limits = Limits{Connections: count, IdleTime: time.Hour}
	})
	stop := asksUDP(t, f)
	before := measure()
	idle := openIdle(t, f, count)
	eventually(t, func() bool { return f.connections.count() == count }, "all are in")
	t.Logf("%d idle connections hold %.0f bytes of heap each, both ends together", count, float64(measure().heap-before.heap)/float64(count))
	for _, i := range []int{0, count / 2, count - 1} {
		c := &client{t: t, Conn: idle[i]}
		assert.Equal(t, "echo", c.ask(i&0xffff, "echo"))
	}
	if one, err := net.DialTCP("tcp", from(250), target(f)); err == nil { // a reset may come that early
		_ = (&client{t: t, Conn: one}).ended()
		require.NoError(t, one.Close())
	}
	f.metrics.waitFor(t, 1, "refused total")
	suffers(t, stop)
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	eventually(t, func() bool { return f.connections.count() == 0 }, "all have left")
	eventually(t, func() bool { return measure().goroutines <= before.goroutines }, "goroutines")
	assert.LessOrEqual(t, measure().files, before.files)
	assert.Zero(t, f.connections.prefixes())
	require.NoError(t, f.Close())
	goleak.VerifyNone(t, leftovers)
}

// from is one of many clients of this machine.
func from(n int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(n))} }

func target(f *fixture) *net.TCPAddr { return net.TCPAddrFromAddrPort(f.at("127.0.0.1")) }

// openIdle opens connections from as many clients as it takes to stay below the limit of each.
func openIdle(t *testing.T, f *fixture, count int) []net.Conn {
	conns := make([]net.Conn, count)
	var opening errgroup.Group
	opening.SetLimit(16)
	for i := range conns {
		opening.Go(func() error {
			conn, err := net.DialTCP("tcp", from(1+i/900), target(f))
			if err == nil {
				conns[i], err = conn, conn.SetDeadline(time.Now().Add(patience))
			}
			return err
		})
	}
	require.NoError(t, opening.Wait())
	return conns
}
