package server

import (
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostSockets may share an address (SO_REUSEPORT); the system spreads clients over them.
const mostSockets = math.MaxInt

// controlRoom holds the control messages of one datagram: addresses of either family and the
// count of lost datagrams. More than these is never asked for.
const controlRoom = 128

// prepareUDP sets what a socket needs before it is bound.
func prepareUDP(wildcard, shared bool) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error {
			if shared {
				if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
					return err
				}
			}
			ignorePathMTU(fd, network)
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) // without it drops are not counted
			if !wildcard {
				return nil
			}
			return tellLocalAddress(fd, network)
		})
	}
}

// tellLocalAddress makes the system say which address each datagram was sent to. An IPv6 socket
// says it of IPv4 too, as IPv4 in IPv6.
func tellLocalAddress(fd int, network string) error {
	if network == "udp4" {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// ignorePathMTU keeps forged ICMP messages from having our replies cut into fragments, into
// which others can be slipped. Systems that cannot do it work as well.
func ignorePathMTU(fd int, network string) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	if network != "udp4" {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	}
}

// settle prepares a bound socket further: with more set, others may bind to its address.
func settle(conn *net.UDPConn, _, more bool) error {
	if !more {
		return nil
	}
	c, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return control(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
}

// refuseDatagrams makes the system drop all that comes from now on, by a filter (socket(7)) that
// keeps 0 bytes of each, so that a socket can be emptied to the last datagram that it took.
// Where that fails, the loop still ends in the first pause of quietTime.
func refuseDatagrams(conn udpConn) {
	c, err := conn.SyscallConn()
	if err != nil {
		return
	}
	keepNothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	_ = control(c, func(fd int) error {
		program := unix.SockFprog{Len: 1, Filter: &keepNothing}
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
}

// arrival is what control messages say of one datagram.
type arrival struct {
	local netip.Addr // the address asked; invalid on a socket that has only one
	reply []byte     // the control message that sends the reply from there, until the next read
	lost  uint32     // datagrams that this socket has lost so far; 0 where it is not said
}

// pktinfo reads and writes control messages (ip(7), ipv6(7)) for one loop. The two templates
// are whole messages in which only addresses and interface change.
type pktinfo struct{ v4, v6 []byte }

func newPktinfo() *pktinfo {
	return &pktinfo{v4: unix.PktInfo4(&unix.Inet4Pktinfo{}), v6: unix.PktInfo6(&unix.Inet6Pktinfo{})}
}

func (p *pktinfo) read(control []byte) (a arrival) {
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return a
		}
		control = rest
		switch {
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			a.lost = binary.NativeEndian.Uint32(data)
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			a.local, a.reply = p.from4(data)
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a.local, a.reply = p.from6(data)
		}
	}
	return a
}

// from4 takes an in_pktinfo: interface, local address, header's destination, of 4 bytes each.
// The local address differs for broadcasts only, to which no reply could be sent. The
// interface is left to the routes.
func (p *pktinfo) from4(info []byte) (netip.Addr, []byte) {
	const at = 4
	local := [4]byte(info[at : at+4])
	copy(p.v4[unix.CmsgLen(0)+at:], local[:])
	return netip.AddrFrom4(local), p.v4
}

// from6 takes an in6_pktinfo: address of 16 bytes, interface of 4. Only a link-local address
// needs its interface; a multicast address cannot be replied from, so the routes choose.
func (p *pktinfo) from6(info []byte) (netip.Addr, []byte) {
	local := netip.AddrFrom16([16]byte(info[:16]))
	reply := p.v6[unix.CmsgLen(0):]
	copy(reply[:16], info[:16])
	clear(reply[16:20])
	switch {
	case local.IsLinkLocalUnicast():
		copy(reply[16:20], info[16:20])
	case local.IsMulticast():
		return local, nil
	}
	return local.Unmap(), p.v6
}
