package scenarios

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// replyPatience is how long a reply may take: far above any deadline of the server
// (1.5 s for a first upstream lookup), so that a slow machine is no failure.
const replyPatience = 8 * time.Second

// errNoReply says that a UDP question was not answered, or a TCP connection was closed
// without an answer.
var errNoReply = errors.New("no reply")

// reply is what came back.
type reply struct {
	sent      []byte
	wire      []byte // nil when nothing came
	msg       *dns.Msg
	layout    *layout
	server    netip.AddrPort
	transport string
	took      time.Duration
}

// newReply reads the bytes twice: with the DNS library and with the reader of wire.go.
func newReply(sent, wire []byte, server netip.AddrPort, transport string, took time.Duration) (*reply, error) {
	r := &reply{sent: sent, wire: wire, server: server, transport: transport, took: took}
	var err error
	if r.layout, err = readLayout(wire); err != nil {
		return r, fmt.Errorf("the reply is malformed: %w", err)
	}
	r.msg = new(dns.Msg)
	if err := r.msg.Unpack(wire); err != nil {
		return r, fmt.Errorf("the reply cannot be unpacked: %w", err)
	}
	return r, nil
}

// String is the reply as dig would print it.
func (r *reply) String() string {
	if r == nil || r.wire == nil {
		return ";; no reply\n"
	}
	var b strings.Builder
	if r.msg != nil {
		b.WriteString(r.msg.String())
	} else {
		b.WriteString(hex.Dump(r.wire))
	}
	fmt.Fprintf(&b, ";; Query time: %s\n;; SERVER: %s (%s)\n;; MSG SIZE  rcvd: %d\n",
		r.took.Round(time.Microsecond), r.server, strings.ToUpper(r.transport), len(r.wire))
	return b.String()
}

// exchange sends packet and takes the reply. It returns errNoReply when nothing comes
// in time.
func exchange(ctx context.Context, transport string, server netip.AddrPort, packet []byte) (*reply, error) {
	conn, err := dial(ctx, transport, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	start := time.Now()
	if err := conn.send(packet); err != nil {
		return nil, err
	}
	wire, err := conn.receive()
	if err != nil {
		return &reply{sent: packet, server: server, transport: transport}, err
	}
	return newReply(packet, wire, server, transport, time.Since(start))
}

// conn is one socket towards the server, with messages framed as the transport wants.
type conn interface {
	send(packet []byte) error
	receive() ([]byte, error)
	Close() error
}

func dial(ctx context.Context, transport string, server netip.AddrPort) (conn, error) {
	deadline := time.Now().Add(replyPatience)
	if transport == "tcp" {
		c, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", server.String())
		if err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		return &tcpConn{Conn: c}, c.SetDeadline(deadline)
	}
	network := "udp4"
	if server.Addr().Is6() {
		network = "udp6"
	}
	c, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, fmt.Errorf("opening a UDP socket: %w", err)
	}
	return &udpConn{UDPConn: c, server: server}, c.SetDeadline(deadline)
}

// udpConn is not connected, so that a reply from another address than the one that was
// asked is seen, not dropped by the kernel (DNS_RULES 27).
type udpConn struct {
	*net.UDPConn
	server netip.AddrPort
}

func (c *udpConn) send(packet []byte) error {
	_, err := c.WriteToUDPAddrPort(packet, c.server)
	return err
}

func (c *udpConn) receive() ([]byte, error) {
	buf := make([]byte, 1<<16)
	n, from, err := c.ReadFromUDPAddrPort(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("%w in %s", errNoReply, replyPatience)
	}
	if err != nil {
		return nil, err
	}
	if from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()); from.Port() != c.server.Port() ||
		from.Addr().WithZone("") != c.server.Addr() {
		return nil, fmt.Errorf("asked %s, but the reply came from %s", c.server, from)
	}
	return buf[:n], nil
}

type tcpConn struct {
	net.Conn
}

func (c *tcpConn) send(packet []byte) error {
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(packet)+2), uint16(len(packet)))
	_, err := c.Write(append(framed, packet...))
	return err
}

func (c *tcpConn) receive() ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, closedOr(err)
	}
	wire := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, wire); err != nil {
		return nil, fmt.Errorf("the connection ended inside a message: %w", err)
	}
	return wire, nil
}

// closedOr is errNoReply for a connection that the server closed, else err.
func closedOr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: the connection was closed", errNoReply)
	}
	return err
}

// ask asks q and checks what holds for every reply. The reply is returned beside an
// error too, where there is one.
func ask(ctx context.Context, q *question) (*reply, error) {
	packet, err := q.packet()
	if err != nil {
		return nil, err
	}
	r, err := exchange(ctx, q.transport, q.server, packet)
	if err != nil {
		return r, err
	}
	if err := checkAlways(q, r); err != nil {
		return r, err
	}
	if q.twice {
		return r, askTwice(ctx, q, packet)
	}
	return r, nil
}

// askTwice sends packet twice on one connection, back to back, and takes both replies.
func askTwice(ctx context.Context, q *question, packet []byte) error {
	conn, err := dial(ctx, q.transport, q.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 2 {
		if err := conn.send(packet); err != nil {
			return err
		}
	}
	for i := range 2 {
		wire, err := conn.receive()
		if err != nil {
			return fmt.Errorf("reply %d of two on one connection: %w", i+1, err)
		}
		r, err := newReply(packet, wire, q.server, q.transport, 0)
		if err == nil {
			err = checkAlways(q, r)
		}
		if err != nil {
			return fmt.Errorf("reply %d of two on one connection: %w", i+1, err)
		}
	}
	return nil
}
