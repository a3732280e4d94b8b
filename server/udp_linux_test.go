package server

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The system spreads clients over the workers, the first one included, whose socket was bound
// before it shared its address.
func TestUDPWorkersShareAnAddress(t *testing.T) {
	f := listen(t, func(c *Config) { c.Workers = 3 })
	numbers := make(map[string]int)
	for i := range 200 {
		numbers[dial(t, "udp", f.address()).ask(i, "worker")]++
	}
	assert.Len(t, numbers, 3, "%v", numbers)
}

// FAULTS 21: what the system drops is counted; what is counted and what is answered is all.
func TestUDPCountsDroppedDatagrams(t *testing.T) {
	f := listen(t, func(c *Config) { c.Workers = 1; c.Limits.ReceiveBuffer = 4096 })
	c := dial(t, "udp", f.address())
	c.send(0, "block")
	eventually(t, func() bool { return f.script.handled.Load() == 1 }, "the loop is held")
	sent := int64(1)
	send := func() {
		c.send(0, "drop")
		sent++
	}
	for range 500 {
		send()
	}
	close(f.script.blocked)
	c.receive()
	eventually(t, func() bool {
		send() // the next datagram brings the count
		return f.script.handled.Load()+int64(f.metrics.get("dropped")) == sent
	}, "all are accounted for")
	assert.Positive(t, f.metrics.get("dropped"))
}

// toldConn tells when a socket's read deadline is set, which is the last step of drain.
type toldConn struct {
	udpConn
	drained chan struct{}
	once    sync.Once
}

func (c *toldConn) SetReadDeadline(t time.Time) error {
	defer c.once.Do(func() { close(c.drained) })
	return c.udpConn.SetReadDeadline(t)
}

// C115, FAULTS 18: what a socket holds when the stop begins is answered to the last datagram,
// and what comes then keeps nobody.
func TestShutdownAnswersWhatSocketsHoldC115(t *testing.T) {
	l := unserved(t)
	told := &toldConn{udpConn: l.udp[0].conn, drained: make(chan struct{})}
	l.udp[0].conn = told
	script := newScript()
	l.udpWork.newHandler = script.newHandler
	l.serve()
	c := dial(t, "udp", l.Addresses()[0])
	const count = 150 // fits the smallest default buffer
	c.send(0, "block")
	eventually(t, func() bool { return script.handled.Load() == 1 }, "the loop is held")
	for id := 1; id < count; id++ {
		c.send(id, "echo")
	}
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(t.Context()) }()
	<-told.drained
	c.send(count, "echo")
	close(script.blocked)
	for want := range count {
		id, _ := c.receive()
		assert.Equal(t, want, id)
	}
	require.NoError(t, <-done)
	assert.EqualValues(t, count, script.handled.Load())
}

func TestPktinfoIgnoresWhatItDoesNotKnow(t *testing.T) {
	p := newPktinfo()
	for _, control := range [][]byte{nil, {}, {1}, make([]byte, 15), make([]byte, 16), make([]byte, 64)} {
		assert.Equal(t, arrival{}, p.read(control))
	}
}

func TestPktinfoAddresses(t *testing.T) {
	const interfaceNumber = 7
	for name, test := range map[string]struct {
		to, want string
		index    byte
		replies  bool
	}{
		"global":     {"2001:db8::1", "2001:db8::1", 0, true},
		"link-local": {"fe80::1", "fe80::1", interfaceNumber, true},
		"multicast":  {"ff02::1", "ff02::1", 0, false},
		"IPv4 in it": {"::ffff:192.0.2.1", "192.0.2.1", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPktinfo()
			to := netip.MustParseAddr(test.to).As16()
			info := append(to[:], interfaceNumber, 0, 0, 0)
			local, reply := p.from6(info)
			assert.Equal(t, test.want, local.String())
			if !test.replies {
				assert.Nil(t, reply)
				return
			}
			require.Len(t, reply, len(p.v6))
			assert.Equal(t, append(to[:], test.index, 0, 0, 0), p.v6[len(p.v6)-24:][:20])
		})
	}
}
