//go:build !linux

package server

import (
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Linux is where meshdns is meant to serve. On other systems it works for development: one
// socket an address, some garbage for each query on wildcard sockets, lost datagrams not counted.

// mostSockets: sharing an address does not spread clients on every system.
const mostSockets = 1

// controlRoom holds the control messages of one datagram.
const controlRoom = 128

func prepareUDP(_, _ bool) func(network, address string, c syscall.RawConn) error { return nil }

// settle makes a wildcard socket say which address each datagram was sent to.
func settle(conn *net.UDPConn, wildcard, _ bool) error {
	if !wildcard {
		return nil
	}
	if boundAddress(conn.LocalAddr()).Addr().Is4() {
		return ipv4.NewPacketConn(conn).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	}
	return ipv6.NewPacketConn(conn).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
}

// refuseDatagrams cannot be done: the loop ends in the first pause of quietTime.
func refuseDatagrams(udpConn) {}

// arrival is what control messages say of one datagram.
type arrival struct {
	local netip.Addr // the address asked; invalid on a socket that has only one
	reply []byte     // the control message that sends the reply from there
	lost  uint32     // never known here
}

type pktinfo struct{}

func newPktinfo() *pktinfo { return &pktinfo{} }

func (*pktinfo) read(control []byte) arrival {
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
