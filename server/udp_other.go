//go:build !linux

package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Linux is where meshdns is meant to serve. On other systems it works for development: one
// socket an address, one datagram at a time, some garbage for each query on wildcard sockets,
// lost datagrams not counted.

// mostSockets: sharing an address does not spread queries on every system.
const mostSockets = 1

// controlRoom holds the control messages of one datagram.
const controlRoom = 128

// udpConn is a socket of the runtime's poller.
type udpConn struct {
	*net.UDPConn
	bound netip.AddrPort
}

func openOneUDP(ctx context.Context, address netip.AddrPort, options udpOptions, _ bool) (*udpConn, error) {
	packetConn, err := new(net.ListenConfig).ListenPacket(ctx, options.network, printable(address))
	if err != nil {
		return nil, err
	}
	conn := &udpConn{UDPConn: packetConn.(*net.UDPConn), bound: boundAddress(packetConn.LocalAddr())}
	if err := errors.Join(conn.SetReadBuffer(options.buffer), conn.tellLocalAddress(address)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// tellLocalAddress makes a wildcard socket say which address each datagram was sent to.
func (c *udpConn) tellLocalAddress(address netip.AddrPort) error {
	if !isWildcard(address) {
		return nil
	}
	if c.bound.Addr().Is4() {
		return ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	}
	return ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
}

// spread has nothing to do for one socket.
func spread([]*udpConn) error { return nil }

// hold and release have nothing to do: the runtime counts who uses a socket.
func (c *udpConn) hold()          {}
func (c *udpConn) release() error { return nil }

// drain wakes the loop, which ends in the first pause of quietTime.
func (c *udpConn) drain() { _ = c.SetReadDeadline(past()) }

// udpBatch is the memory of one loop, for one datagram.
type udpBatch struct {
	conn     *udpConn
	data     []byte
	list     [1][]byte
	control  []byte
	from     netip.AddrPort // as the socket spells it
	length   int            // of the query
	arrived  arrival
	out      []byte
	enqueued []byte // nil: nothing
	lost     uint32 // never known here
	draining bool
}

func newUDPBatch(conn *udpConn, _ int) *udpBatch {
	return &udpBatch{
		conn: conn, data: make([]byte, udpQueryRoom), control: make([]byte, controlRoom), out: make([]byte, 0, udpReplyRoom),
	}
}

// receive waits for a query; errEnded when the socket was closed, or drained and nothing came
// for quietTime.
func (b *udpBatch) receive() (int, error) {
	for {
		if b.draining {
			_ = b.conn.SetReadDeadline(time.Now().Add(quietTime))
		}
		n, controlLength, _, from, err := b.conn.ReadMsgUDPAddrPort(b.data, b.control)
		switch {
		case err == nil:
			b.length, b.from, b.arrived = n, from, readControl(b.control[:controlLength])
			return 1, nil
		case errors.Is(err, net.ErrClosed) || isTimeout(err) && b.draining:
			return 0, errEnded
		case !isTimeout(err):
			return 0, err
		}
		b.draining = true
	}
}

// packets gives the query, until the next receive.
func (b *udpBatch) packets(int) [][]byte {
	b.list[0] = b.data[:b.length]
	return b.list[:]
}

// query gives the query too, until the next receive, and says in t how it came.
func (b *udpBatch) query(_ int, t *Transport) []byte {
	t.Client, t.Local = unmapped(b.from), b.conn.bound
	if b.arrived.local.IsValid() {
		t.Local = netip.AddrPortFrom(b.arrived.local, b.conn.bound.Port())
	}
	return b.data[:b.length]
}

func (b *udpBatch) full() bool              { return false }
func (b *udpBatch) room() []byte            { return b.out }
func (b *udpBatch) reply(_ int, msg []byte) { b.enqueued = msg }

// flush sends the reply and gives how many could not be sent.
func (b *udpBatch) flush() (unsent int) {
	if b.enqueued != nil && b.sender(0).send(b.enqueued) != nil {
		unsent = 1
	}
	b.enqueued = nil
	return unsent
}

// udpSender sends one reply.
type udpSender struct {
	conn    *udpConn
	client  netip.AddrPort
	control []byte
}

func (b *udpBatch) sender(int) *udpSender {
	return &udpSender{conn: b.conn, client: b.from, control: bytes.Clone(b.arrived.reply)}
}

func (s *udpSender) send(reply []byte) error {
	_, _, err := s.conn.WriteMsgUDPAddrPort(reply, s.control, s.client)
	return err
}

// arrival is what control messages say of one datagram.
type arrival struct {
	local netip.Addr // the address asked; invalid on a socket that has only one
	reply []byte     // the control message that sends the reply from there
}

func readControl(control []byte) arrival {
	var v4 ipv4.ControlMessage
	if v4.Parse(control) == nil && v4.Dst != nil {
		local, _ := netip.AddrFromSlice(v4.Dst.To4())
		return arrival{local: local, reply: (&ipv4.ControlMessage{Src: v4.Dst}).Marshal()}
	}
	var v6 ipv6.ControlMessage
	if v6.Parse(control) != nil || v6.Dst == nil {
		return arrival{}
	}
	local, _ := netip.AddrFromSlice(v6.Dst)
	source := ipv6.ControlMessage{Src: v6.Dst}
	switch {
	case local.IsMulticast():
		return arrival{local: local}
	case local.IsLinkLocalUnicast():
		source.IfIndex = v6.IfIndex
	}
	return arrival{local: local.Unmap(), reply: source.Marshal()}
}
