package server

import (
	"cmp"
	"encoding/binary"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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

// One forwarder may ask from a single port: each worker has its share all the same.
func TestUDPSpreadsFewPortsOverWorkers(t *testing.T) {
	for _, ports := range []int{1, 4, 64} {
		t.Run(strconv.Itoa(ports), func(t *testing.T) {
			f := listen(t, nil)
			var clients []*client
			for range ports {
				clients = append(clients, dial(t, "udp", f.address()))
			}
			const count = 1000
			numbers := make(map[string]int)
			for i := range count {
				numbers[clients[i%ports].ask(i, "worker")]++
			}
			require.Len(t, numbers, 2)
			busiest := float64(slices.Max(slices.Collect(maps.Values(numbers)))) / count
			t.Logf("%d ports: the busiest of two workers has %.2f", ports, busiest)
			assert.Less(t, busiest, 0.6, "six standard deviations from one half")
		})
	}
}

// Where the system refuses the program, that is said once, and all goes on.
func TestUDPGoesOnUnspread(t *testing.T) {
	var log strings.Builder
	l := newListeners(Config{NewHandler: newScript().newHandler, Logger: slog.New(slog.NewTextHandler(&log, nil))}, Limits{})
	defer l.cancel()
	var alone []*udpConn // sockets that share no address
	for range 2 {
		opened, err := openUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), udpOptions{network: "udp4", workers: 1, buffer: 4096})
		require.NoError(t, err)
		alone = append(alone, opened...)
	}
	l.spread(alone)
	l.spread(alone)
	l.spread(alone[:1])
	assert.Equal(t, 1, strings.Count(log.String(), "queries are spread over the workers by client"))
	for _, conn := range alone {
		require.NoError(t, conn.Close())
	}
}

// held opens one worker on an address, and has it wait in Handle, so that what is sent until
// go on is called is read together.
func held(t *testing.T, address string, batch int) (f *fixture, goOn func()) {
	f = listen(t, func(c *Config) { onAddress(address)(c); c.Workers, c.Batch = 1, batch })
	c := dial(t, "udp", f.at("127.0.0.1"))
	c.send(0, "block")
	eventually(t, func() bool { return f.script.handled.Load() == 1 }, "the loop is held")
	return f, func() {
		close(f.script.blocked)
		c.receive()
	}
}

// Clients of both families, whose queries are answered, dropped, left waiting or too large in
// one batch, each get what is theirs, from the address that they asked.
func TestUDPBatchesMixQueries(t *testing.T) {
	f, goOn := held(t, "[::]:0", defaultBatch)
	hosts := []string{"127.0.0.1", "127.0.0.2", "::1", "127.3.4.5"}
	large := "echo " + strings.Repeat("x", 60_000)
	commands := []string{"where", "wait", "drop", "echo small", large, "where", "big 4000"}
	var clients []*client
	const count = 28
	for i := range count {
		c := dial(t, "udp", f.at(hosts[i%len(hosts)]))
		c.send(i, commands[i%len(commands)])
		clients = append(clients, c)
	}
	goOn()
	eventually(t, func() bool { return f.script.waiting.Load() == count/int64(len(commands)) }, "all of these wait")
	assert.LessOrEqual(t, f.script.batches.Load(), int64(3), "one for the query that held it, one or two for the rest")
	close(f.script.opened)
	for i, c := range clients {
		command := commands[i%len(commands)]
		want := map[string]string{
			"where": c.LocalAddr().String() + " " + c.RemoteAddr().String() + " udp",
			"wait":  "waited", "big 4000": string(make([]byte, 4000-headerSize)),
		}[command]
		if command == "drop" {
			continue
		}
		id, text := c.receive()
		assert.Equal(t, i, id)
		assert.Equal(t, cmp.Or(want, command), text)
	}
	assert.Zero(t, f.metrics.get("failed udp write"))
}

// A reply that cannot be sent is counted, and takes none of its batch with it.
func TestUDPBatchesSurviveWhatCannotBeSent(t *testing.T) {
	f, goOn := held(t, "127.0.0.1:0", defaultBatch)
	c := dial(t, "udp", f.address())
	for id, text := range []string{"big 65530", "echo", "big 65530", "big 65530", "echo", "big 65530"} {
		c.send(id, text)
	}
	goOn()
	for _, want := range []int{1, 4} {
		id, _ := c.receive()
		assert.Equal(t, want, id)
	}
	f.metrics.waitFor(t, 4, "failed udp write")
}

// Replies that fill the memory of a batch are sent in several steps, all of them.
func TestUDPBatchesOfLargeReplies(t *testing.T) {
	for _, batch := range []int{1, 2, 7, defaultBatch, 100} {
		f, goOn := held(t, "127.0.0.1:0", batch)
		c := dial(t, "udp", f.address())
		const count = 20 // 4 KiB each: fits the smallest default buffer
		for id := range count {
			c.send(id, "big 4096")
		}
		goOn()
		for want := range count {
			id, text := c.receive()
			assert.Equal(t, want, id)
			assert.Len(t, text, 4096-headerSize)
		}
		assert.GreaterOrEqual(t, f.script.batches.Load(), int64(1+count/batch), "no more than %d at once", batch)
	}
}

func TestFlushPassesOverFailures(t *testing.T) {
	type sent struct {
		n   int
		err error
	}
	for name, test := range map[string]struct {
		calls  []sent
		unsent int
	}{
		"all at once":       {[]sent{{4, nil}}, 0},
		"in pieces":         {[]sent{{1, nil}, {2, nil}, {1, nil}}, 0},
		"interrupted":       {[]sent{{0, unix.EINTR}, {2, nil}, {0, unix.EINTR}, {2, nil}}, 0},
		"the first":         {[]sent{{0, unix.ECONNREFUSED}, {3, nil}}, 1},
		"one in the middle": {[]sent{{2, nil}, {0, unix.ENOBUFS}, {1, nil}}, 1},
		"the last":          {[]sent{{3, nil}, {0, unix.EMSGSIZE}}, 1},
		"all":               {[]sent{{0, unix.EPERM}, {0, unix.EPERM}, {0, unix.EPERM}, {0, unix.EPERM}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			left, offered := test.calls, []int(nil)
			send := func(_ int, messages []message) (int, error) {
				offered = append(offered, len(messages))
				n, err := left[0].n, left[0].err
				left = left[1:]
				return n, err
			}
			batch := newUDPBatch(&udpConn{calls: calls{send: send}}, 4)
			for i := range 4 {
				batch.reply(i, query(i, "reply"))
			}
			assert.Equal(t, test.unsent, batch.flush())
			assert.Empty(t, left)
			assert.Equal(t, 4, offered[0])
			assert.Zero(t, batch.flush(), "nothing is left")
		})
	}
}

// A descriptor is closed by its last user, and nobody uses its number afterwards.
func TestUDPConnIsClosedByItsLastUser(t *testing.T) {
	l := unserved(t)
	conn := l.udp[0].conn
	open := func() bool {
		_, err := unix.FcntlInt(uintptr(conn.fd), unix.F_GETFD, 0)
		return err == nil
	}
	conn.hold()
	require.NoError(t, conn.Close())
	require.ErrorIs(t, conn.Close(), net.ErrClosed)
	conn.drain()
	assert.True(t, open(), "it is held")
	require.NoError(t, conn.release())
	assert.False(t, open())
	conn.drain() // must not touch what has the number by now
}

// Closing wakes workers that wait in the system for queries that never come.
func TestCloseWakesWorkers(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		f := listen(t, func(c *Config) { onAddress(address)(c); c.Workers = 4 })
		began := time.Now()
		require.NoError(t, f.Shutdown(t.Context()))
		assert.Less(t, time.Since(began), patience)
	}
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
	found, err := pollNow(conn.fd, unix.POLLRDHUP)
	require.NoError(t, err)
	return found > 0
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
		messages[0].Hdr.Namelen, messages[0].Hdr.Controllen, messages[0].Len = 0, 0, 0
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

// A datagram that comes just as a drained socket says that it is empty is answered as well.
func TestUDPLoopTakesWhatComesAtTheEnd(t *testing.T) {
	var end, sent scripted
	reads := 0
	receive := func(fd int, messages []message) (int, error) {
		n, err := end.receive(fd, messages)
		if reads++; reads == 2 {
			messages[1].Hdr.Controllen = 0
			messages[1].Len = uint32(copy(unsafe.Slice(messages[1].Hdr.Iov.Base, udpQueryRoom), query(1, "echo")))
			n = 2
		}
		return n, err
	}
	scriptedLoop(t, calls{receive, sent.send}, noMetrics{}, newScript().newHandler()).run()
	assert.Equal(t, []string{string(query(1, "echo"))}, sent.sent)
	assert.Equal(t, 3, reads, "empty, one more, empty again")
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

func TestClientOfReadsBothFamilies(t *testing.T) {
	port := binary.NativeEndian.Uint16([]byte{0x14, 0xe9})
	v4 := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: [4]byte{192, 0, 2, 1}}
	var name unix.RawSockaddrInet6
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(&name)) = v4
	assert.Equal(t, "192.0.2.1:5353", clientOf(&name).String())
	for address, want := range map[string]string{
		"2001:db8::1":      "[2001:db8::1]:5353",
		"::ffff:192.0.2.1": "192.0.2.1:5353",
		"fe80::1%7":        "[fe80::1%7]:5353",
	} {
		ip := netip.MustParseAddr(address)
		scope, _ := strconv.ParseUint(ip.Zone(), 10, 32)
		name := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: ip.As16(), Scope_id: uint32(scope)}
		assert.Equal(t, want, clientOf(&name).String())
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
	loop := scriptedLoop(b, calls{receive, send}, noMetrics{}, &echoHandler{})
	b.ReportAllocs()
	b.ResetTimer()
	loop.run()
}
