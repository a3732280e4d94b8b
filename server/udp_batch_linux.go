package server

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// queryStride is from one query's memory to the next one's: room for the largest datagram,
	// and one line of cache more, so that the queries of a batch are not all in lines that the
	// cache has few of. Memory that no datagram reaches is never touched.
	queryStride = 1<<16 + 64
	// replyShare is what each query of a batch adds to the memory of its replies, which stand
	// one behind the other: our usual limit for UDP.
	replyShare = defaultUDPSize
)

// udpBatch is the memory of one loop: queries that were read together, and their replies until
// they are sent. All of it is allocated once; the system calls are given the same addresses
// again and again, which Go's collector leaves where they are.
type udpBatch struct {
	conn *udpConn
	lost uint32 // datagrams that the socket has lost so far

	in       []message
	inData   []unix.Iovec // one each, of queries
	queries  []byte       // queryStride each
	list     [][]byte     // the queries that were read
	clients  []unix.RawSockaddrInet6
	rooms    []byte   // controlRoom each
	controls [][]byte // what sends the reply from the address asked
	used     int      // of in, since they were last prepared

	out     []message // the first count are enqueued
	outData []unix.Iovec
	count   int
	replies []byte
	filled  int // of replies

	turn     turn
	draining bool // the socket was empty once since it was drained
}

func newUDPBatch(conn *udpConn, size int) *udpBatch {
	b := &udpBatch{
		conn:     conn,
		in:       make([]message, size),
		inData:   make([]unix.Iovec, size),
		queries:  make([]byte, size*queryStride),
		list:     make([][]byte, size),
		clients:  make([]unix.RawSockaddrInet6, size),
		rooms:    make([]byte, size*controlRoom),
		controls: make([][]byte, size),
		used:     size,
		out:      make([]message, size),
		outData:  make([]unix.Iovec, size),
		replies:  make([]byte, size*replyShare+udpReplyRoom),
		turn:     turn{began: time.Now()},
	}
	for i := range size {
		b.in[i].Hdr.Iov = &b.inData[i]
		b.in[i].Hdr.SetIovlen(1)
		b.in[i].carry(&b.inData[i], b.queries[i*queryStride:][:udpQueryRoom])
		b.out[i].Hdr.Iov = &b.outData[i]
		b.out[i].Hdr.SetIovlen(1)
	}
	return b
}

// receive waits for queries and gives how many it read, 1 at least; errEnded when the socket
// was drained or closed and is empty. Such a socket gives a message from nobody; what came just
// after that was said stands behind it, and the message is then an empty query.
func (b *udpBatch) receive() (int, error) {
	for {
		b.turn.pass()
		b.prepare()
		n, err := b.conn.calls.receive(b.conn.fd, b.in)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n > 1 || b.in[0].Hdr.Namelen > 0:
			b.used = n
			return n, nil
		case b.draining:
			return 0, errEnded
		default:
			b.draining = true
			<-time.After(quietTime)
		}
	}
}

// prepare gives the system back what it has written to: lengths of addresses and of control
// messages.
func (b *udpBatch) prepare() {
	for i := range b.used {
		b.in[i].to(&b.clients[i], unix.SizeofSockaddrInet6, b.rooms[i*controlRoom:][:controlRoom])
	}
	b.used = 1 // a call that fails, or says that the socket has ended, writes to one at most
}

// packets gives the first n queries, until the next receive.
func (b *udpBatch) packets(n int) [][]byte {
	for i := range n {
		length := b.in[i].Len
		b.list[i] = b.queries[i*queryStride:][:length:length]
	}
	return b.list[:n]
}

// query gives the i-th of packets, until the next receive, and says in t how it came.
func (b *udpBatch) query(i int, t *Transport) []byte {
	m := &b.in[i]
	t.Client = clientOf(&b.clients[i])
	t.Local = b.conn.bound
	b.controls[i] = nil
	if m.Hdr.Controllen > 0 {
		b.readControl(i, t)
	}
	return b.list[i]
}

func (b *udpBatch) readControl(i int, t *Transport) {
	a := readControl(b.rooms[i*controlRoom:][:b.in[i].Hdr.Controllen])
	b.controls[i] = a.reply
	if a.local.IsValid() {
		t.Local = netip.AddrPortFrom(a.local, b.conn.bound.Port())
	}
	if a.lost != 0 {
		b.lost = a.lost
	}
}

// full says whether flush must come before the next room.
func (b *udpBatch) full() bool { return len(b.replies)-b.filled < udpReplyRoom }

// room is where the next reply can be written: empty, with a capacity of udpReplyRoom at least.
func (b *udpBatch) room() []byte { return b.replies[b.filled:b.filled] }

// reply enqueues a reply to the i-th query, which must stay as it is until flush. Where it is
// in room's memory, that is taken.
func (b *udpBatch) reply(i int, reply []byte) {
	m := &b.out[b.count]
	m.to(&b.clients[i], b.in[i].Hdr.Namelen, b.controls[i])
	m.carry(&b.outData[b.count], reply)
	b.count++
	b.filled = min(b.filled+len(reply), len(b.replies))
}

// flush sends what is enqueued and gives how many replies could not be sent. The system stops
// at the first of these, which is passed over.
func (b *udpBatch) flush() (unsent int) {
	waiting := b.out[:b.count]
	b.count, b.filled = 0, 0
	for len(waiting) > 0 {
		n, err := b.conn.calls.send(b.conn.fd, waiting)
		switch {
		case err == unix.EINTR:
		case err != nil:
			unsent++
			waiting = waiting[1:]
		default:
			waiting = waiting[n:]
		}
	}
	return unsent
}
