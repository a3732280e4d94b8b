package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// udpConn is what a loop needs of a socket; *net.UDPConn is one.
type udpConn interface {
	ReadMsgUDPAddrPort(b, control []byte) (n, controlLen, flags int, from netip.AddrPort, err error)
	WriteMsgUDPAddrPort(b, control []byte, to netip.AddrPort) (n, controlLen int, err error)
	SetReadDeadline(time.Time) error
	SyscallConn() (syscall.RawConn, error)
	Close() error
}

// udpSocket is one of the sockets of one address.
type udpSocket struct {
	*common
	conn  udpConn
	bound netip.AddrPort
}

func newUDPSocket(shared *common, conn *net.UDPConn) *udpSocket {
	return &udpSocket{common: shared, conn: conn, bound: boundAddress(conn.LocalAddr())}
}

// openUDP opens the sockets of one address. The first one asks for the address alone, so that
// a foreign socket there is an error even where it would share; then it lets the others in.
func openUDP(ctx context.Context, network string, address netip.AddrPort, workers, buffer int) ([]*net.UDPConn, error) {
	var conns []*net.UDPConn
	count := min(workerCount(workers), mostSockets)
	for len(conns) < count {
		conn, err := openOneUDP(ctx, network, address, len(conns) > 0)
		if err == nil {
			conns = append(conns, conn)
			err = errors.Join(conn.SetReadBuffer(buffer), settle(conn, isWildcard(address), count > 1))
		}
		if err != nil {
			for _, conn := range conns {
				_ = conn.Close()
			}
			return nil, err
		}
	}
	return conns, nil
}

func openOneUDP(ctx context.Context, network string, address netip.AddrPort, shared bool) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: prepareUDP(isWildcard(address), shared)}
	conn, err := config.ListenPacket(ctx, network, printable(address))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

func isWildcard(address netip.AddrPort) bool {
	return !address.Addr().IsValid() || address.Addr().Unmap().IsUnspecified()
}

// send sends a reply from the address that control says.
func (s *udpSocket) send(reply, control []byte, to netip.AddrPort) {
	if _, _, err := s.conn.WriteMsgUDPAddrPort(reply, control, to); err != nil {
		s.metrics.SocketFailed("udp", "write")
	}
}

// drain lets nothing more in and wakes the loop, which answers what is there and ends.
func (s *udpSocket) drain() {
	refuseDatagrams(s.conn)
	_ = s.conn.SetReadDeadline(past())
}
