package server

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// udpLoop answers the datagrams of one socket, one after the other, in one goroutine. It
// allocates nothing for a query that need not wait.
type udpLoop struct {
	socket  *udpSocket
	handler Handler
	pktinfo *pktinfo

	query, control, out []byte
	one                 [1][]byte
	transport           Transport

	failures failures
	lost     uint32 // datagrams that the system had dropped, as last heard
	draining bool
}

func newUDPLoop(socket *udpSocket, handler Handler) *udpLoop {
	return &udpLoop{
		socket:    socket,
		handler:   handler,
		pktinfo:   newPktinfo(),
		query:     make([]byte, udpQueryRoom),
		control:   make([]byte, controlRoom),
		out:       make([]byte, 0, udpReplyRoom),
		transport: Transport{Protocol: UDP},
	}
}

// run ends when the socket is closed, or drained after Shutdown.
func (l *udpLoop) run() {
	conn := l.socket.conn
	for {
		n, controlLen, _, client, err := conn.ReadMsgUDPAddrPort(l.query, l.control)
		if err != nil {
			if !l.carryOn(err) {
				return
			}
			continue
		}
		l.failures.reset()
		l.one[0] = l.query[:n]
		l.handler.Begin(l.one[:])
		l.answer(l.query[:n], l.control[:controlLen], client)
		l.handler.End()
		if l.draining {
			l.waitQuietly()
		}
	}
}

// answer replies to one query, or leaves it to a goroutine that may wait.
func (l *udpLoop) answer(query, control []byte, client netip.AddrPort) {
	arrival := l.pktinfo.read(control)
	l.countLost(arrival.lost)
	l.transport.Client = unmapped(client)
	l.transport.Local = l.socket.bound
	if arrival.local.IsValid() {
		l.transport.Local = netip.AddrPortFrom(arrival.local, l.socket.bound.Port())
	}
	reply, verdict := l.handler.Handle(0, l.out, &l.transport)
	switch verdict {
	case Reply:
		l.socket.send(reply, arrival.reply, client)
	case Wait:
		l.wait(query, arrival.reply, client)
	case Drop:
	}
}

// carryOn deals with an error of reading and reports whether to read again. What ICMP or a
// full memory brings never ends the loop.
func (l *udpLoop) carryOn(err error) bool {
	switch {
	case errors.Is(err, net.ErrClosed):
		return false
	case isTimeout(err) && l.draining && !readable(l.socket.conn):
		return false // nothing has come for quietTime
	case isTimeout(err):
		l.draining = true
		l.waitQuietly()
		return true
	}
	l.socket.metrics.SocketFailed("udp", "read")
	if l.failures.add(l.socket.stopping) {
		l.socket.log.Warn("reading queries fails", "address", l.socket.bound.String(), "error", err)
	}
	return true
}

// waitQuietly lets the next read end the loop unless something is there.
func (l *udpLoop) waitQuietly() {
	_ = l.socket.conn.SetReadDeadline(time.Now().Add(quietTime))
}

func (l *udpLoop) countLost(lost uint32) {
	if lost != 0 && lost != l.lost {
		l.socket.metrics.DatagramsDropped(int(lost - l.lost))
		l.lost = lost
	}
}
