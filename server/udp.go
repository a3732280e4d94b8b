package server

import (
	"context"
	"errors"
	"net/netip"
)

// errEnded says that a socket was drained or closed and that nothing is left in it.
var errEnded = errors.New("the socket has ended")

// udpSocket is one of the sockets of one address.
type udpSocket struct {
	*common
	conn  *udpConn // of the system: udp_conn_linux.go, udp_other.go
	batch int      // datagrams that are read and sent at once, at most
}

// udpOptions say how the sockets of one address are opened.
type udpOptions struct {
	network string // "udp4", "udp6" or "udp": both families
	workers int    // sockets
	buffer  int    // bytes that each may hold unread
}

// openUDP opens the sockets of one address. The first one asks for the address alone, so that
// a foreign socket there is an error even where it would share; then it lets the others in.
func openUDP(ctx context.Context, address netip.AddrPort, options udpOptions) ([]*udpConn, error) {
	var conns []*udpConn
	count := min(options.workers, mostSockets)
	for len(conns) < count {
		conn, err := openOneUDP(ctx, address, options, len(conns) > 0)
		if err != nil {
			for _, conn := range conns {
				_ = conn.Close()
			}
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func isWildcard(address netip.AddrPort) bool {
	return !address.Addr().IsValid() || address.Addr().Unmap().IsUnspecified()
}

// countUnsent counts replies that could not be sent.
func (s *udpSocket) countUnsent(n int) {
	for range n {
		s.metrics.SocketFailed("udp", "write")
	}
}
