package server

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rule 27: a client's connected socket takes replies from the address that it asked only.
func TestRepliesComeFromTheAddressAsked(t *testing.T) {
	for _, test := range []struct{ listen, ask string }{
		{"0.0.0.0:0", "127.0.0.1"},
		{"0.0.0.0:0", "127.0.0.2"},
		{"0.0.0.0:0", "127.3.4.5"},
		{"[::]:0", "::1"},
		{"[::]:0", "127.0.0.1"},
		{"[::]:0", "127.0.0.2"},
		{"[::1]:0", "::1"},
		{"127.0.0.2:0", "127.0.0.2"},
	} {
		t.Run(test.listen+" "+test.ask, func(t *testing.T) {
			f := listen(t, onAddress(test.listen))
			for _, network := range []string{"udp", "tcp"} {
				c := dial(t, network, f.at(test.ask))
				want := c.LocalAddr().String() + " " + f.at(test.ask).String() + " " + network
				assert.Equal(t, want, c.ask(1, "where"))
			}
		})
	}
}

// Rule 27, for an address that means nothing without its interface.
func TestRepliesComeFromLinkLocalAddresses(t *testing.T) {
	address := linkLocal(t)
	for _, listenOn := range []string{"[::]:0", netip.AddrPortFrom(address, 0).String()} {
		f := listen(t, onAddress(listenOn))
		c := dial(t, "udp", netip.AddrPortFrom(address, f.address().Port()))
		assert.Contains(t, c.ask(1, "where"), "["+address.WithZone("").String())
	}
}

func linkLocal(t *testing.T) netip.Addr {
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addresses {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
				return prefix.Addr().WithZone(i.Name)
			}
		}
	}
	t.Skip("no interface has a link-local address")
	return netip.Addr{}
}

// A lookup on UDP holds up no other query, even on a single worker.
func TestUDPGoesOnWhileQueriesWait(t *testing.T) {
	f := listen(t, func(c *Config) { c.Workers = 1 })
	slow, fast := dial(t, "udp", f.address()), dial(t, "udp", f.address())
	slow.send(1, "wait")
	for i := range 100 {
		assert.Equal(t, "echo", fast.ask(i, "echo"))
	}
	close(f.script.opened)
	id, text := slow.receive()
	assert.Equal(t, 1, id)
	assert.Equal(t, "waited", text)
}

// A query that waits gets its reply from the address that it asked, whatever came in between.
func TestUDPWaitingRepliesComeFromTheAddressAsked(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
		f := listen(t, func(c *Config) { onAddress(address)(c); c.Workers = 1 })
		slow := dial(t, "udp", f.at("127.0.0.2"))
		slow.send(1, "wait")
		assert.Equal(t, "echo", dial(t, "udp", f.at("127.0.0.3")).ask(2, "echo"))
		close(f.script.opened)
		_, text := slow.receive()
		assert.Equal(t, "waited", text)
	}
}

func TestUDPBoundsWaitingQueries(t *testing.T) {
	f := listen(t, limited(Limits{Waiting: 2}))
	first, second, third := dial(t, "udp", f.address()), dial(t, "udp", f.address()), dial(t, "udp", f.address())
	first.send(1, "wait")
	second.send(2, "wait")
	eventually(t, func() bool { return f.script.waiting.Load() == 2 }, "two wait")
	assert.Equal(t, "ended", third.ask(3, "wait"), "at once, while the others wait")
	assert.Equal(t, 1, f.metrics.get("full udp"))
	close(f.script.opened)
	for _, c := range []*client{first, second} {
		_, text := c.receive()
		assert.Equal(t, "waited", text)
	}
	eventually(t, func() bool { return f.udpWaiting.taken.Load() == 0 }, "slots are given back")
	assert.Equal(t, "waited", third.ask(4, "wait"))
}

func TestUDPEndsLookupsAfterWaitTime(t *testing.T) {
	f := listen(t, limited(Limits{WaitTime: time.Millisecond}))
	assert.Equal(t, "ended", dial(t, "udp", f.address()).ask(1, "wait"))
}

func TestUDPTakesAndSendsAllSizes(t *testing.T) {
	f := listen(t, func(c *Config) { c.Workers = 1 })
	c := dial(t, "udp", f.address())
	text := "echo " + strings.Repeat("x", 65507-headerSize-5)
	assert.Equal(t, text, c.ask(1, text), "the largest datagram")
	c.send(2, "big 65530") // more than a datagram can be: EMSGSIZE
	c.send(3, "drop")
	_, err := c.Write([]byte("short"))
	require.NoError(t, err)
	_, err = c.Write(nil)
	require.NoError(t, err)
	assert.Equal(t, "echo", c.ask(4, "echo"), "none of them ends the loop or is answered")
	assert.Equal(t, 1, f.metrics.get("failed udp write"))
}

// Clients that are gone before their replies come bring ICMP errors, which must not matter.
func TestUDPSurvivesClientsThatAreGone(t *testing.T) {
	f := listen(t, func(c *Config) { c.Workers = 1 })
	for i := range 100 {
		gone := dial(t, "udp", f.address())
		gone.send(i, "wait")
		require.NoError(t, gone.Close())
	}
	close(f.script.opened)
	assert.Equal(t, "echo", dial(t, "udp", f.address()).ask(1, "echo"))
}

// C115: queries in flight finish, waiting ones too, and Shutdown waits for them.
func TestShutdownFinishesLookupsC115(t *testing.T) {
	f := listen(t, nil)
	clients := []*client{dial(t, "udp", f.address()), dial(t, "tcp", f.address())}
	for _, c := range clients {
		c.send(1, "wait")
	}
	eventually(t, func() bool { return f.script.waiting.Load() == 2 }, "both wait")
	done := make(chan error, 1)
	go func() { done <- f.Shutdown(t.Context()) }()
	<-f.stopping
	<-time.After(3 * quietTime) // readers have ended; replies that come later count as well
	close(f.script.opened)
	for _, c := range clients {
		_, text := c.receive()
		assert.Equal(t, "waited", text)
	}
	require.NoError(t, <-done)
}

// UDP is answered until TCP has ended, however long that takes.
func TestShutdownEndsUDPLast(t *testing.T) {
	f := listen(t, nil)
	tcp, udp := dial(t, "tcp", f.address()), dial(t, "udp", f.address())
	tcp.send(1, "wait")
	eventually(t, func() bool { return f.script.waiting.Load() == 1 }, "it waits")
	done := make(chan error, 1)
	go func() { done <- f.Shutdown(t.Context()) }()
	<-f.stopping
	assert.Equal(t, "echo", udp.ask(1, "echo"))
	close(f.script.opened)
	_, text := tcp.receive()
	assert.Equal(t, "waited", text)
	require.NoError(t, <-done)
}

// C115, FAULTS 18: under load, each query that was sent before the stop began is answered.
func TestShutdownUnderLoadLosesNothingC115(t *testing.T) {
	f := listen(t, onAddress("0.0.0.0:0"))
	var loads []*load
	for range 4 {
		loads = append(loads, startLoad(t, "udp", f.at("127.0.0.2")), startLoad(t, "tcp", f.at("127.0.0.3")))
	}
	for _, l := range loads {
		eventually(t, func() bool { return l.answeredCount() > 500 }, "load is on")
	}
	began := time.Now()
	require.NoError(t, f.Shutdown(t.Context()))
	for _, l := range loads {
		sent, lost := l.stop(began)
		assert.Greater(t, sent, 500)
		assert.Zero(t, lost, "of %d sent before the stop on %s", sent, l.network)
	}
}

// load is a client that keeps some queries in flight until its server is gone.
type load struct {
	network  string
	client   *client
	inFlight chan struct{}
	gone     chan struct{} // closed when no reply can come any more
	done     sync.WaitGroup

	mu       sync.Mutex
	sentAt   []time.Time // by ID; zero while it is not certain
	answered []bool      // by ID
	count    int
}

func startLoad(t *testing.T, network string, address netip.AddrPort) *load {
	l := &load{
		network:  network,
		client:   dial(t, network, address),
		inFlight: make(chan struct{}, 20),
		gone:     make(chan struct{}),
	}
	l.done.Go(l.send)
	l.done.Go(l.receive)
	return l
}

func (l *load) send() {
	for id := range 65536 {
		select {
		case l.inFlight <- struct{}{}:
		case <-l.gone:
			return
		}
		message := query(id, "echo")
		if l.network == "tcp" {
			message = appendFrame(nil, message)
		}
		l.mu.Lock()
		l.sentAt, l.answered = append(l.sentAt, time.Time{}), append(l.answered, false)
		l.mu.Unlock()
		if _, err := l.client.Write(message); err != nil {
			return
		}
		l.mu.Lock()
		l.sentAt[id] = time.Now()
		l.mu.Unlock()
	}
}

func (l *load) receive() {
	defer close(l.gone)
	for {
		message, err := l.client.tryReceive()
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue // said before what is still unread
		}
		if err != nil {
			return
		}
		id, _ := parse(message)
		l.mu.Lock()
		l.answered[id] = true
		l.count++
		l.mu.Unlock()
		<-l.inFlight
	}
}

func (l *load) answeredCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// stop says how many queries were sent before a time, and how many of these lost.
func (l *load) stop(before time.Time) (sent, lost int) {
	_ = l.client.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	l.done.Wait()
	for id, at := range l.sentAt {
		if !at.IsZero() && at.Before(before) {
			sent++
			if !l.answered[id] {
				lost++
			}
		}
	}
	return sent, lost
}
