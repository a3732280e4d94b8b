package server

import (
	"context"
	"math"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostSockets may share an address (SO_REUSEPORT); the system spreads queries over them.
const mostSockets = math.MaxInt

// openOneUDP binds one socket and takes it from the runtime's poller, whose way of waking a
// goroutine costs more than a small query does. shared lets it bind beside others of ours.
func openOneUDP(ctx context.Context, address netip.AddrPort, options udpOptions, shared bool) (*udpConn, error) {
	wildcard := isWildcard(address)
	config := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error { return prepareUDP(fd, network, wildcard, shared) })
	}}
	packetConn, err := config.ListenPacket(ctx, options.network, printable(address))
	if err != nil {
		return nil, err
	}
	conn := packetConn.(*net.UDPConn)
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadBuffer(options.buffer); err != nil {
		return nil, err
	}
	fd, err := takeOver(conn)
	if err != nil {
		return nil, err
	}
	taken := newUDPConn(fd, boundAddress(conn.LocalAddr()))
	if options.workers > 1 { // from now on, others may bind to the address
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err != nil {
		_ = taken.Close()
		return nil, err
	}
	return taken, nil
}

// takeOver gives a descriptor of the socket that outlives conn, and makes its calls block.
func takeOver(conn *net.UDPConn) (fd int, err error) {
	c, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = control(c, func(shared int) error {
		if fd, err = unix.FcntlInt(uintptr(shared), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.SetNonblock(fd, false)
	})
	return fd, err
}

// prepareUDP sets what a socket needs before it is bound.
func prepareUDP(fd int, network string, wildcard, shared bool) error {
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
