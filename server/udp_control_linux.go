package server

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlRoom holds the control messages of one datagram: addresses of either family and the
// count of lost datagrams. More than these is never asked for.
const controlRoom = 128

// arrival is what control messages say of one datagram (ip(7), ipv6(7), socket(7)).
type arrival struct {
	local netip.Addr // the address asked; invalid on a socket that has only one
	reply []byte     // the control message that sends the reply from there: a part of what was read
	lost  uint32     // datagrams that this socket has lost so far; 0 where it is not said
}

// readControl turns the message that names the local address into one that sends from there.
func readControl(control []byte) (a arrival) {
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return a
		}
		whole := control[:len(control)-len(rest)]
		control = rest
		switch {
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			a.lost = binary.NativeEndian.Uint32(data)
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			a.local, a.reply = from4(data), whole
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a.local, a.reply = from6(data), whole
			if a.local.IsMulticast() {
				a.reply = nil // nothing can be sent from there, so the routes choose
			}
		}
	}
	return a
}

// from4 takes an in_pktinfo: interface, local address, header's destination, of 4 bytes each.
// The local address differs for broadcasts only, to which no reply could be sent. The
// interface is left to the routes.
func from4(info []byte) netip.Addr {
	clear(info[:4])
	return netip.AddrFrom4([4]byte(info[4:8]))
}

// from6 takes an in6_pktinfo: address of 16 bytes, interface of 4. Only a link-local address
// needs its interface.
func from6(info []byte) netip.Addr {
	local := netip.AddrFrom16([16]byte(info[:16])).Unmap()
	if !local.IsLinkLocalUnicast() || local.Is4() {
		clear(info[16:20])
	}
	return local
}

// clientOf reads a socket address of either family. A link-local one has its interface's number
// as its zone.
func clientOf(name *unix.RawSockaddrInet6) netip.AddrPort {
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	if name.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), binary.BigEndian.Uint16(port[:]))
	}
	client := netip.AddrFrom16(name.Addr).Unmap()
	if name.Scope_id != 0 {
		client = client.WithZone(strconv.FormatUint(uint64(name.Scope_id), 10))
	}
	return netip.AddrPortFrom(client, binary.BigEndian.Uint16(port[:]))
}
