package server

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// C115, FAULTS 18: what a socket holds when the stop begins is answered to the last datagram,
// and what comes then keeps nobody.
func TestShutdownAnswersWhatSocketsHoldC115(t *testing.T) {
	l := unserved(t)
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
	eventually(t, func() bool { return isDrained(t, l.udp[0].conn) }, "the socket lets nothing more in")
	c.send(count, "echo")
	close(script.blocked)
	for want := range count {
		id, _ := c.receive()
		assert.Equal(t, want, id)
	}
	require.NoError(t, <-done)
	assert.EqualValues(t, count, script.handled.Load())
}

// isDrained says whether drain has taken its last step.
func isDrained(t *testing.T, conn *udpConn) bool {
	polled := []unix.PollFd{{Fd: int32(conn.fd), Events: unix.POLLRDHUP}}
	_, err := unix.Poll(polled, 0)
	require.NoError(t, err)
	return polled[0].Revents&unix.POLLRDHUP != 0
}

// scripted replaces the system calls of a loop: reads give what a test lists, an error or one
// query, then the end; sends fail as the test says.
type scripted struct {
	results []error
	sendErr error
	sent    []string
}

func (s *scripted) receive(_ int, messages []message) (int, error) {
	if len(s.results) == 0 {
		messages[0].Hdr.Namelen = 0
		return 1, nil
	}
	err := s.results[0]
	s.results = s.results[1:]
	messages[0].Len = uint32(copy(unsafe.Slice(messages[0].Hdr.Iov.Base, udpQueryRoom), query(1, "echo")))
	messages[0].Hdr.Controllen = 0
	return 1, err
}

func (s *scripted) send(_ int, messages []message) (int, error) {
	s.sent = append(s.sent, string(unsafe.Slice(messages[0].Hdr.Iov.Base, messages[0].Hdr.Iov.Len)))
	return 1, s.sendErr
}

// scriptedLoop is a loop whose socket is never used.
func scriptedLoop(t testing.TB, calls calls, metrics SocketMetrics, handler Handler) *udpLoop {
	l := unserved(t)
	l.common.metrics = metrics
	l.udp[0].conn.calls = calls
	return newUDPLoop(l.udp[0], handler)
}

func TestUDPLoopGoesOnAfterErrors(t *testing.T) {
	metrics := newRecorder()
	script := &scripted{sendErr: unix.ECONNREFUSED}
	script.results = []error{unix.ECONNREFUSED, nil, unix.EMSGSIZE, unix.EINTR, unix.ECONNREFUSED, nil}
	for range failuresToLog + 3 {
		script.results = append(script.results, unix.ENOMEM)
	}
	script.results = append(script.results, nil)
	scriptedLoop(t, calls{script.receive, script.send}, metrics, newScript().newHandler()).run()
	assert.Len(t, script.sent, 3, "every datagram between the errors is answered")
	assert.Equal(t, 3+failuresToLog+3, metrics.get("failed udp read"))
	assert.Equal(t, 3, metrics.get("failed udp write"))
}

func TestReadControlIgnoresWhatItDoesNotKnow(t *testing.T) {
	for _, control := range [][]byte{nil, {}, {1}, make([]byte, 15), make([]byte, 16), make([]byte, 64)} {
		assert.Equal(t, arrival{}, readControl(control))
	}
}

func TestReadControlAddresses(t *testing.T) {
	const interfaceNumber = 7
	for name, test := range map[string]struct {
		to, want string
		index    uint32
		replies  bool
	}{
		"global":     {"2001:db8::1", "2001:db8::1", 0, true},
		"link-local": {"fe80::1", "fe80::1", interfaceNumber, true},
		"multicast":  {"ff02::1", "ff02::1", 0, false},
		"IPv4 in it": {"::ffff:192.0.2.1", "192.0.2.1", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			to := netip.MustParseAddr(test.to).As16()
			lost := make([]byte, unix.CmsgSpace(4))
			header := (*unix.Cmsghdr)(unsafe.Pointer(&lost[0]))
			header.Level, header.Type = unix.SOL_SOCKET, unix.SO_RXQ_OVFL
			header.SetLen(unix.CmsgLen(4))
			lost[unix.CmsgLen(0)] = 9
			told := unix.PktInfo6(&unix.Inet6Pktinfo{Addr: to, Ifindex: interfaceNumber})
			a := readControl(append(lost, told...))
			assert.Equal(t, test.want, a.local.String())
			assert.Equal(t, binary.NativeEndian.Uint32([]byte{9, 0, 0, 0}), a.lost)
			if !test.replies {
				assert.Nil(t, a.reply)
				return
			}
			assert.Equal(t, unix.PktInfo6(&unix.Inet6Pktinfo{Addr: to, Ifindex: test.index}), a.reply)
		})
	}
}

// BenchmarkUDPLoop is the loop alone, without system calls.
func BenchmarkUDPLoop(b *testing.B) {
	left, data := b.N, query(1, "echo")
	var none scripted
	receive := func(fd int, messages []message) (int, error) {
		if left <= 0 {
			return none.receive(fd, messages)
		}
		for i := range messages {
			messages[i].Len = uint32(copy(unsafe.Slice(messages[i].Hdr.Iov.Base, udpQueryRoom), data))
			messages[i].Hdr.Controllen = 0
		}
		left -= len(messages)
		return len(messages), nil
	}
	send := func(_ int, messages []message) (int, error) { return len(messages), nil }
	loop := scriptedLoop(b, calls{receive, send}, noMetrics{}, echoHandler{})
	b.ReportAllocs()
	b.ResetTimer()
	loop.run()
}
