package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// tcpListener takes the connections of one address.
type tcpListener struct {
	*common
	listener    *net.TCPListener
	connections *admission

	// The loop's own.
	failures   failures
	drainUntil time.Time // zero before Shutdown
}

// openTCP listens without keep-alive probes, which IdleTime makes useless, and without
// multipath TCP, which short messages only pay for.
func openTCP(ctx context.Context, network string, address netip.AddrPort) (*net.TCPListener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(ctx, network, printable(address))
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// run ends when the listener is closed, or drained after Shutdown.
func (l *tcpListener) run() {
	for {
		conn, err := l.listener.AcceptTCP()
		if err != nil {
			if !l.carryOn(err) {
				return
			}
			continue
		}
		l.failures.reset()
		l.start(conn)
	}
}

// start serves a connection unless there are too many.
func (l *tcpListener) start(conn *net.TCPConn) {
	c := newTCPConn(l.common, conn)
	if limit := l.connections.admit(c); limit != "" {
		l.metrics.ConnectionRefused(limit)
		c.cancel()
		_ = conn.SetLinger(0) // a reset leaves nothing behind here
		_ = conn.Close()
		return
	}
	l.metrics.ConnectionOpened()
	l.tcpBusy.Go(func() {
		defer l.connections.leave(c)
		l.metrics.ConnectionClosed(c.serve())
	})
}

// carryOn deals with an error of accepting and reports whether to go on. No files left is no
// end: connections that close give some back.
func (l *tcpListener) carryOn(err error) bool {
	switch {
	case errors.Is(err, net.ErrClosed):
		return false
	case isTimeout(err):
		return l.drainFurther(time.Now())
	}
	l.metrics.SocketFailed("tcp", "accept")
	if l.failures.add(l.stopping) {
		l.log.Warn("accepting connections fails", "address", l.listener.Addr().String(), "error", err)
	}
	return true
}

// drainFurther waits for connections that the system has made already, and reports whether
// there can be any.
func (l *tcpListener) drainFurther(now time.Time) bool {
	if l.drainUntil.IsZero() {
		l.drainUntil = now.Add(l.limits.MessageTime)
	} else if now.After(l.drainUntil) || !readable(l.listener) {
		return false
	}
	_ = l.listener.SetDeadline(now.Add(quietTime))
	return true
}

// drain wakes the loop, which takes the connections that the system has made already and ends.
func (l *tcpListener) drain() {
	_ = l.listener.SetDeadline(past())
}
