package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Limits of one connection. A scrape of a large server may take a while, nothing else
// should.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute // longer than the usual scrape interval
	maxHeader     = 16 << 10        // bytes
	stopTimeout   = 2 * time.Second // for requests under way at the end
)

// Serve answers on listener until ctx ends, then lets requests under way finish within
// two seconds. It owns listener. A listener that others than this machine can reach is
// logged as a warning: the API shows addresses and names, without asking who reads.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if !isLoopback(listener.Addr()) {
		s.Logger.Warn("admin API is reachable from outside of this machine and asks nobody who they are",
			"address", listener.Addr().String())
	}
	server := s.httpServer()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("admin API on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	err := shutDown(server)
	<-failed
	return err
}

func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	}
}

func shutDown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if err != nil {
		return fmt.Errorf("ending the admin API: %w", err)
	}
	return nil
}

// isLoopback says whether only this machine can reach addr; Unix sockets count.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return true
	}
	ip, ok := netip.AddrFromSlice(tcp.IP)
	return ok && ip.Unmap().IsLoopback()
}
