package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Config says where to listen and who answers.
type Config struct {
	// Addresses to listen on, on UDP and TCP alike. 0.0.0.0 is all of IPv4; [::] is all of
	// IPv6, and of IPv4 too unless 0.0.0.0 with the same port is listed; an invalid address with
	// a port (":53") is all that the host has. Port 0 is a free port, the same for both protocols.
	Addresses []netip.AddrPort
	// NewHandler makes a Handler for each goroutine that needs one. Must not be nil.
	NewHandler func() Handler
	// Workers is the number of UDP sockets, each with a loop of its own, for each address; 0: one
	// for each processor, 16 at most. One where the system cannot share an address among sockets.
	Workers int
	// Batch is how many datagrams a loop reads and sends at once, at most; 0: 32.
	Batch int
	// Limits bound what clients can hold; the zero value is the default.
	Limits Limits
	// Logger may be nil.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics SocketMetrics
}

// Listeners are the open sockets. Their methods may be called from any goroutine.
type Listeners struct {
	*common
	addresses   []netip.AddrPort
	udp         []*udpSocket
	tcp         []*tcpListener
	connections *admission
	cancel      context.CancelFunc // ends common.ctx
	unspread    bool               // the system has refused spread; Listen's own
	stop        sync.Once
	finished    chan struct{} // closed when nothing is at work and all sockets are closed
}

// common is what all sockets of one Listeners share. It does not change after Listen.
type common struct {
	limits   Limits
	log      *slog.Logger
	metrics  SocketMetrics
	ctx      context.Context // of queries that wait; ends when Shutdown's patience does
	stopping chan struct{}   // closed when Shutdown begins
	tcpBusy  sync.WaitGroup  // loops and connections
	udpBusy  sync.WaitGroup  // loops and waiting queries

	udpWork, tcpWork       *workspaces
	udpWaiting, tcpWaiting *slots
	batches                *batches
}

// portTries bounds how often a free TCP port is looked for whose UDP port is free as well.
const portTries = 20

// Listen opens all sockets and starts to answer, or opens none: the error names the address
// and the protocol that failed.
func Listen(config Config) (*Listeners, error) {
	limits, err := config.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Workers, config.Batch = cmp.Or(config.Workers, usualWorkers()), cmp.Or(config.Batch, defaultBatch)
	l := newListeners(config, limits)
	for _, address := range config.Addresses {
		if err := l.open(config, address); err != nil {
			l.cancel()
			return nil, errors.Join(err, l.closeSockets())
		}
	}
	l.serve()
	return l, nil
}

func (c Config) check() error {
	if len(c.Addresses) == 0 {
		return errors.New("listen: no address is given")
	}
	if c.NewHandler == nil {
		return errors.New("listen: NewHandler is nil")
	}
	if c.Workers < 0 {
		return fmt.Errorf("listen: %d workers", c.Workers)
	}
	if c.Batch < 0 {
		return fmt.Errorf("listen: batches of %d", c.Batch)
	}
	for i, address := range c.Addresses {
		if address.Port() != 0 && slices.Contains(c.Addresses[:i], address) {
			return fmt.Errorf("listen: %s is listed twice", printable(address))
		}
	}
	return nil
}

func newListeners(config Config, limits Limits) *Listeners {
	ctx, cancel := context.WithCancel(context.Background())
	shared := &common{
		limits:     limits,
		log:        config.Logger,
		metrics:    config.Metrics,
		ctx:        ctx,
		stopping:   make(chan struct{}),
		udpWork:    newWorkspaces(config.NewHandler, udpReplyRoom),
		tcpWork:    newWorkspaces(config.NewHandler, tcpReplyRoom),
		udpWaiting: &slots{limit: int64(limits.Waiting)},
		tcpWaiting: &slots{limit: int64(limits.Waiting)},
		batches:    newBatches(),
	}
	if shared.log == nil {
		shared.log = slog.New(slog.DiscardHandler)
	}
	if shared.metrics == nil {
		shared.metrics = noMetrics{}
	}
	return &Listeners{
		common:      shared,
		connections: newAdmission(limits),
		cancel:      cancel,
		finished:    make(chan struct{}),
	}
}

// Addresses tells where the sockets are bound, in the order of Config, with the ports found
// for port 0.
func (l *Listeners) Addresses() []netip.AddrPort { return slices.Clone(l.addresses) }

// open binds one address. TCP comes first: no two processes can share its port.
func (l *Listeners) open(config Config, address netip.AddrPort) error {
	family := familyOf(address, config.Addresses)
	var err error
	for range portTries {
		err = l.openBoth(config, address, family)
		if err == nil || address.Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}

func (l *Listeners) openBoth(config Config, address netip.AddrPort, family string) error {
	listener, err := openTCP(l.ctx, "tcp"+family, address)
	if err != nil {
		return openError("TCP", address, err)
	}
	bound := boundAddress(listener.Addr())
	address = netip.AddrPortFrom(address.Addr(), bound.Port())
	sockets, err := openUDP(l.ctx, address, udpOptions{
		network: "udp" + family, workers: config.Workers, buffer: l.limits.ReceiveBuffer,
	})
	if err != nil {
		return errors.Join(openError("UDP", address, err), listener.Close())
	}
	l.addresses = append(l.addresses, bound)
	l.tcp = append(l.tcp, &tcpListener{common: l.common, listener: listener, connections: l.connections})
	for _, conn := range sockets {
		l.udp = append(l.udp, &udpSocket{common: l.common, conn: conn, batch: config.Batch})
	}
	l.spread(sockets)
	return nil
}

// spread has the sockets of one address share queries evenly, or says once that the system
// shares them by client.
func (l *Listeners) spread(sockets []*udpConn) {
	if err := spread(sockets); err != nil && !l.unspread {
		l.unspread = true
		l.log.Warn("queries are spread over the workers by client", "error", err)
	}
}

func (l *Listeners) serve() {
	for _, socket := range l.udp {
		l.udpBusy.Go(newUDPLoop(socket, l.udpWork.newHandler()).run)
	}
	for _, listener := range l.tcp {
		l.tcpBusy.Go(listener.run)
	}
	for _, address := range l.addresses {
		l.log.Info("listening for queries", "address", address.String())
	}
}

// Shutdown stops without losing what was received. First TCP ends: what the system holds of
// connections and queries is taken and answered, for MessageTime at most where a client never
// pauses. Then UDP, which has gone on until now: no more datagrams are let in, those that the
// system holds are answered. Queries that wait get their replies. When ctx ends first, lookups
// are told to end, everything is closed and ctx's error is returned. Calling it again waits again.
func (l *Listeners) Shutdown(ctx context.Context) error {
	l.stop.Do(l.drain)
	select {
	case <-l.finished:
		return nil
	case <-ctx.Done():
	}
	l.cancel()
	l.connections.drain(time.Now().Add(-l.limits.MessageTime))
	if !l.finishedWithin(forceTime) {
		l.connections.closeAll()
		err := l.closeSockets()
		if !l.finishedWithin(forceTime) {
			return errors.Join(fmt.Errorf("shutdown: handlers still wait: %w", ctx.Err()), err)
		}
	}
	return fmt.Errorf("shutdown: %w", ctx.Err())
}

// Close stops at once: what waits for a lookup gets the reply of a lookup that has failed.
func (l *Listeners) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// drain begins to stop.
func (l *Listeners) drain() {
	close(l.stopping)
	for _, listener := range l.tcp {
		listener.drain()
	}
	l.connections.drain(time.Now())
	go l.finish()
}

// finish waits for TCP, then stops UDP, then closes everything.
func (l *Listeners) finish() {
	defer close(l.finished)
	l.tcpBusy.Wait()
	for _, socket := range l.udp {
		socket.conn.drain()
	}
	l.udpBusy.Wait()
	l.cancel()
	if err := l.closeSockets(); err != nil {
		l.log.Warn("closing sockets", "error", err)
	}
}

func (l *Listeners) finishedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.finished:
		return true
	case <-timer.C:
		return false
	}
}

// closeSockets closes what is still open.
func (l *Listeners) closeSockets() error {
	var errs []error
	for _, socket := range l.udp {
		errs = append(errs, socket.conn.Close())
	}
	for _, listener := range l.tcp {
		errs = append(errs, listener.listener.Close())
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, net.ErrClosed) })
	return errors.Join(errs...)
}

// familyOf gives the "4", "6" or "" (both) that Go's network names end in.
func familyOf(address netip.AddrPort, all []netip.AddrPort) string {
	switch ip := address.Addr(); {
	case !ip.IsValid():
		return ""
	case ip.Unmap().Is4():
		return "4"
	case !ip.IsUnspecified():
		return "6"
	case address.Port() != 0 && slices.Contains(all, netip.AddrPortFrom(netip.IPv4Unspecified(), address.Port())):
		return "6"
	default:
		return ""
	}
}

// printable is an address as net takes it: an invalid one is left out before its port.
func printable(address netip.AddrPort) string {
	if !address.Addr().IsValid() {
		return fmt.Sprintf(":%d", address.Port())
	}
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port()).String()
}

// openError says which address and protocol failed, once.
func openError(protocol string, address netip.AddrPort, err error) error {
	if op := new(net.OpError); errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("listen on %s over %s: %w", printable(address), protocol, err)
}

// boundAddress gives a socket's own or other address in plain form.
func boundAddress(address net.Addr) netip.AddrPort {
	var whole netip.AddrPort
	switch a := address.(type) {
	case *net.TCPAddr:
		whole = a.AddrPort()
	case *net.UDPAddr:
		whole = a.AddrPort()
	}
	return unmapped(whole)
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

const (
	// mostWorkers: as many answer more than a 10 Gbit/s line can carry, and with more sockets
	// the batches only get smaller.
	mostWorkers = 16
	// defaultBatch is a hundred microseconds' work, which the first query of a batch waits for.
	defaultBatch = 32
)

// usualWorkers is as many as there are processors for this process, 16 at most.
func usualWorkers() int { return min(runtime.GOMAXPROCS(0), mostWorkers) }
