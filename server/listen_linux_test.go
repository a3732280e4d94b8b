package server

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unserved opens sockets that no loop reads.
func unserved(t testing.TB) *Listeners {
	limits, err := Limits{}.withDefaults()
	require.NoError(t, err)
	l := newListeners(Config{NewHandler: newScript().newHandler}, limits)
	require.NoError(t, l.open(Config{Workers: 1, Batch: defaultBatch}, netip.MustParseAddrPort("127.0.0.1:0")))
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// C115 on a busy machine: deadlines that passed before anything was read lose nothing.
func TestDrainsLookBeforeTheyEndC115(t *testing.T) {
	long := time.Now().Add(-2 * quietTime)
	t.Run("UDP", func(t *testing.T) {
		l := unserved(t)
		c := dial(t, "udp", l.Addresses()[0])
		for id := range 20 {
			c.send(id, "echo")
		}
		loop := newUDPLoop(l.udp[0], newScript().newHandler())
		l.udp[0].conn.drain()
		loop.run()
		for want := range 20 {
			id, _ := c.receive()
			assert.Equal(t, want, id)
		}
	})
	t.Run("TCP connection", func(t *testing.T) {
		l := unserved(t)
		client := dial(t, "tcp", l.Addresses()[0])
		client.send(1, "echo")
		conn, err := l.tcp[0].listener.AcceptTCP()
		require.NoError(t, err)
		c := newTCPConn(l.common, conn)
		c.activeAt = long
		c.drain(long)
		assert.Equal(t, "shutdown", c.serve())
		id, _ := client.receive()
		assert.Equal(t, 1, id)
	})
	t.Run("TCP queue", func(t *testing.T) {
		l := unserved(t)
		listener := l.tcp[0]
		listener.drainUntil = time.Now().Add(patience)
		assert.False(t, listener.carryOn(os.ErrDeadlineExceeded), "nobody is there")
		dial(t, "tcp", l.Addresses()[0])
		assert.True(t, listener.carryOn(os.ErrDeadlineExceeded), "somebody is there")
		listener.drainUntil = long
		assert.False(t, listener.carryOn(os.ErrDeadlineExceeded), "there is an end to it")
	})
}
