package scenarios

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/miekg/dns"
)

// falseAddress is what false datagrams carry: it must never be seen in an answer.
const falseAddress = "198.51.100.66"

// upstream is a scripted DNS server on loopback, UDP and TCP on one port. It stands for
// the resolvers that the server under test asks, well-behaved or not.
type upstream struct {
	udp *net.UDPConn
	tcp *net.TCPListener
	wg  sync.WaitGroup
	ctx context.Context
	end context.CancelFunc

	mu       sync.Mutex
	now      *behaviour
	asked    []askedQuestion
	released chan struct{} // closed by release; replaced by a new one
}

// askedQuestion is one question that an upstream got.
type askedQuestion struct {
	name      string // canonical
	spelled   string
	qtype     uint16
	transport string
	id        uint16
	port      int
	do        bool
}

// startUpstream listens on address (host:port), or on a port of 127.0.0.1 that is free
// when it is "".
func startUpstream(ctx context.Context, address string, ports *Ports) (*upstream, error) {
	if address == "" {
		port, err := ports.Take()
		if err != nil {
			return nil, err
		}
		address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	u := &upstream{now: &behaviour{}, released: make(chan struct{})}
	u.ctx, u.end = context.WithCancel(ctx)
	if err := u.listen(address); err != nil {
		u.end()
		return nil, err
	}
	u.wg.Go(u.serveUDP)
	u.wg.Go(u.serveTCP)
	return u, nil
}

func (u *upstream) listen(address string) error {
	udp, err := net.ListenPacket("udp", address)
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: an upstream on %s needs root", ErrUnable, address)
	}
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("upstream: %w", err), udp.Close())
	}
	u.udp, u.tcp = udp.(*net.UDPConn), tcp.(*net.TCPListener)
	return nil
}

// address is where the upstream listens, as host:port.
func (u *upstream) address() string { return u.udp.LocalAddr().String() }

// stop ends the upstream and waits for all of its goroutines.
func (u *upstream) stop() {
	u.end()
	u.udp.Close()
	u.tcp.Close()
	u.wg.Wait()
}

func (u *upstream) behave(b *behaviour) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = b
}

// release lets all held replies go.
func (u *upstream) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.released)
	u.released = make(chan struct{})
}

func (u *upstream) serveUDP() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := u.udp.ReadFromUDP(buf)
		if err != nil {
			return
		}
		query := append([]byte(nil), buf[:n]...)
		u.wg.Go(func() {
			u.handle(query, "udp", from.Port, func(wire []byte) error {
				_, err := u.udp.WriteToUDP(wire, from)
				return err
			}, from)
		})
	}
}

func (u *upstream) serveTCP() {
	for {
		c, err := u.tcp.Accept()
		if err != nil {
			return
		}
		stop := context.AfterFunc(u.ctx, func() { c.Close() })
		u.wg.Go(func() {
			defer stop()
			defer c.Close()
			u.serveConn(&tcpConn{Conn: c})
		})
	}
}

func (u *upstream) serveConn(c *tcpConn) {
	port := c.RemoteAddr().(*net.TCPAddr).Port
	for {
		query, err := c.receive()
		if err != nil {
			return
		}
		if keep := u.handle(query, "tcp", port, c.send, nil); !keep {
			return
		}
	}
}

// handle notes one question and does with it what the behaviour says. keep is false
// where the connection is to be closed.
func (u *upstream) handle(wire []byte, transport string, port int, send func([]byte) error, from *net.UDPAddr) (keep bool) {
	query := new(dns.Msg)
	if err := query.Unpack(wire); err != nil || len(query.Question) != 1 {
		return true
	}
	q := query.Question[0]
	opt := query.IsEdns0()
	u.mu.Lock()
	u.asked = append(u.asked, askedQuestion{
		name: dns.CanonicalName(q.Name), spelled: q.Name, qtype: q.Qtype, transport: transport,
		id: query.Id, port: port, do: opt != nil && opt.Do(),
	})
	b, released := u.now, u.released
	u.mu.Unlock()
	for _, a := range b.actionsFor(q, transport) {
		if !u.pause(a, released) || a.kind == closed {
			return false
		}
		for _, packet := range b.packets(a, query, transport) {
			write := send
			if a.kind == wrongSource && from != nil {
				write = func(wire []byte) error { return sendFromElsewhere(wire, from) }
			}
			if err := write(packet); err != nil {
				return false
			}
		}
	}
	return true
}

// pause waits where the action says so; false when the upstream ends meanwhile.
func (u *upstream) pause(a action, released <-chan struct{}) bool {
	var wait <-chan struct{}
	switch a.kind {
	case delayed:
		ctx, cancel := context.WithTimeout(u.ctx, a.delay)
		defer cancel()
		wait = ctx.Done()
	case held:
		wait = released
	default:
		return true
	}
	select {
	case <-wait:
		return u.ctx.Err() == nil
	case <-u.ctx.Done():
		return false
	}
}

// packets are what an action sends, ready for the wire.
func (b *behaviour) packets(a action, query *dns.Msg, transport string) [][]byte {
	switch a.kind {
	case delayed, held, silent, closed:
		return nil
	case garbage:
		return [][]byte{binary.BigEndian.AppendUint16(nil, query.Id), []byte("not a DNS message at all")}
	case wrongID, wrongQuestion, wrongSource:
		return [][]byte{pack(falseReply(a.kind, query))}
	case cut, cutBorder:
		return [][]byte{cutAt512(b.answer(query), a.kind == cutBorder)}
	}
	m := b.answer(query)
	switch a.kind {
	case answered:
		if transport == "udp" {
			m.Truncate(udpSize(query))
		}
	case truncated:
		m.Truncated = true
		m.Answer = m.Answer[:min(a.count, len(m.Answer))]
	case aliasOnly:
		m.Answer = onlyAliases(m.Answer)
	default:
		m.Answer, m.Ns = nil, nil
		m.Rcode, _ = rcodeNamed(a.kind) // nodata is no rcode: 0
		if b.soa != nil && (a.kind == noData || m.Rcode == dns.RcodeNameError) {
			m.Ns = []dns.RR{dns.Copy(b.soa)}
		}
	}
	return [][]byte{pack(m)}
}

func udpSize(query *dns.Msg) int {
	if opt := query.IsEdns0(); opt != nil {
		return max(int(opt.UDPSize()), dns.MinMsgSize)
	}
	return dns.MinMsgSize
}

func onlyAliases(records []dns.RR) []dns.RR {
	var aliases []dns.RR
	for _, rr := range records {
		if rr.Header().Rrtype == dns.TypeCNAME {
			aliases = append(aliases, rr)
		}
	}
	return aliases
}

// falseReply is a positive answer with falseAddress that a resolver must not take.
func falseReply(kind string, query *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.RecursionAvailable = true
	switch kind {
	case wrongID:
		m.Id = query.Id + 1
	case wrongQuestion:
		m.Question[0].Name = "other." + m.Question[0].Name
	}
	m.Answer = []dns.RR{&dns.A{
		Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
		A:   net.ParseIP(falseAddress),
	}}
	return m
}

// pack packs m. It panics on what cannot be packed, which would be an error in this
// package: all records have been parsed before.
func pack(m *dns.Msg) []byte {
	wire, err := m.Pack()
	if err != nil {
		panic(fmt.Errorf("packing an upstream's reply: %w", err))
	}
	return wire
}

// cutAt512 is m cut at 512 bytes without TC. The counts stay as they were when it is cut
// anywhere; on a border between records ANCOUNT stays and ADDITIONAL is empty (C28).
func cutAt512(m *dns.Msg, border bool) []byte {
	m.Extra = nil
	m.Compress = true
	wire := pack(m)
	if len(wire) <= dns.MinMsgSize {
		return wire
	}
	if !border {
		return wire[:dns.MinMsgSize]
	}
	l, err := readLayout(wire)
	if err != nil {
		panic(fmt.Errorf("reading an upstream's reply: %w", err))
	}
	end := headerSize
	for _, record := range l.records {
		if next := record.data + record.length; next <= dns.MinMsgSize {
			end = next
		}
	}
	return wire[:end]
}

// sendFromElsewhere sends wire from a socket that nobody asked.
func sendFromElsewhere(wire []byte, to *net.UDPAddr) error {
	c, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write(wire)
	return err
}
