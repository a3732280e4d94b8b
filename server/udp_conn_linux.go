package server

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// udpConn is a socket whose calls block the thread that makes them. Its descriptor is closed by
// the last of its users, so that none ever uses a number that means another file.
type udpConn struct {
	fd    int
	bound netip.AddrPort
	calls calls

	users  atomic.Int32 // one for the Listeners, one for the loop, one for each waiting query
	mu     sync.Mutex
	closed bool // by the Listeners; mu
}

func newUDPConn(fd int, bound netip.AddrPort) *udpConn {
	c := &udpConn{fd: fd, bound: bound, calls: calls{receive: recvmmsg, send: sendmmsg}}
	c.users.Store(1)
	return c
}

// hold keeps the socket open until release. The caller must know that it is open.
func (c *udpConn) hold() { c.users.Add(1) }

func (c *udpConn) release() error {
	if c.users.Add(-1) > 0 {
		return nil
	}
	return unix.Close(c.fd)
}

// drain lets nothing more in and wakes the loop, which answers what is there and ends.
func (c *udpConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.drainLocked()
	}
}

// drainLocked has reads of an empty socket return at once, those that wait included: Linux does
// that for UDP as well, whatever it says of a socket that is not connected. Where the filter is
// refused, the loop ends in the first pause of its clients.
func (c *udpConn) drainLocked() {
	_ = refuseDatagrams(c.fd)
	_ = unix.Shutdown(c.fd, unix.SHUT_RD)
}

// Close ends the loop if drain has not, and lets go of the descriptor.
func (c *udpConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.drainLocked()
	return c.release()
}

// udpSender sends one reply, later than the batch that brought its query.
type udpSender struct {
	conn    *udpConn
	client  unix.RawSockaddrInet6 // of either family
	length  uint32                // of client, as far as it is used
	control []byte                // sends from the address that was asked; empty on a socket that has one
}

func (b *udpBatch) sender(i int) *udpSender {
	return &udpSender{
		conn: b.conn, client: b.clients[i], length: b.in[i].Hdr.Namelen, control: bytes.Clone(b.controls[i]),
	}
}

// send may block for a moment while the socket has no room.
func (s *udpSender) send(reply []byte) error {
	messages := make([]message, 1)
	iovec := &unix.Iovec{}
	messages[0].Hdr.Iov = iovec
	messages[0].Hdr.SetIovlen(1)
	messages[0].to(&s.client, s.length, s.control)
	messages[0].carry(iovec, reply)
	for {
		_, err := s.conn.calls.send(s.conn.fd, messages)
		if err != unix.EINTR {
			return err
		}
	}
}
