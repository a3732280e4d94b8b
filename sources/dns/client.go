package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
)

const (
	// ednsSize is the UDP payload that we ask for: what fits every path without
	// fragments (DNS flag day 2020; RFC 9715 section 3.1).
	ednsSize = 1232
	// udpBuffer is larger than ednsSize, so that a server that ignores the limit is
	// still read whole.
	udpBuffer = 4096
	// DefaultTimeout is one question's budget over all servers: the 1.5 s that an early
	// question may wait, which leaves a stub resolver's usual 2 s or more unharmed.
	DefaultTimeout = 1500 * time.Millisecond
	// DefaultConcurrency bounds exchanges, and so sockets, at one time; a quarter of the
	// usual limit of 1,024 open files.
	DefaultConcurrency = 256
)

// ErrMalformed says that a reply could not be read, or held less than its counts
// announce (CASES C28). Such a reply is never used or kept.
var ErrMalformed = errors.New("malformed reply")

// errNoSocket says that the question was never sent.
var errNoSocket = errors.New("no socket free in time")

// Question is what is asked for, always in class IN.
type Question struct {
	Name names.Name
	Type uint16 // RR type, as TypeFromText gives it
}

// String is the question as people write it: "www.example.org AAAA".
func (q Question) String() string { return q.Name.Text() + " " + TypeText(q.Type) }

// ClientConfig is what a Client may be told; the zero value works.
type ClientConfig struct {
	// Timeout of one exchange, both transports together, where ctx ends no earlier;
	// 0: DefaultTimeout.
	Timeout time.Duration
	// Concurrency bounds the exchanges, and so the open sockets, at one time; others
	// wait within their own deadline. 0: DefaultConcurrency.
	Concurrency int
	Metrics     Metrics // nil: nothing is counted
}

// Client is a stub resolver's client: one question, one server, a socket of its own for
// each query, so that ID and source port are both random (RFC 5452 section 9). It is safe
// for concurrent use.
type Client struct {
	timeout time.Duration
	slots   chan struct{}
	metrics Metrics
}

// NewClient makes a Client.
func NewClient(cfg ClientConfig) *Client {
	c := &Client{timeout: cfg.Timeout, metrics: cfg.Metrics}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if c.metrics == nil {
		c.metrics = noMetrics{}
	}
	c.slots = make(chan struct{}, cfg.Concurrency)
	return c
}

// Exchange asks server and gives its reply, whatever the RCODE. Recursion is desired, an
// OPT record with 1,232 bytes and without DO is sent, and left out in a second try where
// the server does not know it (RFC 6891 section 6.2.2). Datagrams that answer another
// question are ignored while waiting. A truncated or malformed reply is asked for again
// over TCP; if that fails there is no reply. Errors wrap ErrMalformed,
// context.DeadlineExceeded, or the network's error.
func (c *Client) Exchange(ctx context.Context, q Question, server netip.AddrPort) (*Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.exchange(ctx, q, server)
	if err != nil {
		return nil, fmt.Errorf("asking %s for %s: %w", server, q, err)
	}
	return reply, nil
}

func (c *Client) exchange(ctx context.Context, q Question, server netip.AddrPort) (*Reply, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: all %d in use: %w", errNoSocket, cap(c.slots), ctx.Err())
	}
	reply, err := c.overBoth(ctx, q, server, true)
	if err == nil && reply.withoutEDNS() {
		return c.overBoth(ctx, q, server, false)
	}
	return reply, err
}

// overBoth asks over UDP, and over TCP where the reply over UDP was cut (CASES C26, C28).
func (c *Client) overBoth(ctx context.Context, q Question, server netip.AddrPort, edns bool) (*Reply, error) {
	reply, err := c.over(ctx, "udp", q, server, edns)
	why := "malformed"
	switch {
	case err == nil && !reply.Msg.Truncated:
		return reply, nil
	case err == nil:
		why = "truncated"
	case !errors.Is(err, ErrMalformed):
		return nil, err
	}
	reply, err = c.over(ctx, "tcp", q, server, edns)
	if err == nil && reply.Msg.Truncated {
		err = fmt.Errorf("%w: truncated over TCP too", ErrMalformed)
	}
	if err != nil {
		return nil, fmt.Errorf("over TCP, as the reply over UDP was %s: %w", why, err)
	}
	return reply, nil
}

// over is one query over proto, "udp" or "tcp", counted.
func (c *Client) over(ctx context.Context, proto string, q Question, server netip.AddrPort, edns bool) (*Reply, error) {
	start := time.Now()
	msg, err := roundTrip(ctx, proto, q, server, edns)
	took := time.Since(start)
	c.metrics.Exchange(proto, outcomeOf(msg, err), took)
	if err != nil {
		return nil, err
	}
	return &Reply{Server: server, Proto: proto, Took: took, Msg: msg}, nil
}

func roundTrip(ctx context.Context, proto string, q Question, server netip.AddrPort, edns bool) (*mdns.Msg, error) {
	query := newQuery(q, edns)
	wire, err := query.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing the query: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, proto, server.String())
	if err != nil {
		return nil, inTime(ctx, err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	// A cancelled ctx ends a read that is under way.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	framed := &mdns.Conn{Conn: conn}
	if _, err := framed.Write(wire); err != nil {
		return nil, inTime(ctx, err)
	}
	msg, err := awaitReply(framed, proto, query.Id, q)
	return msg, inTime(ctx, err)
}

// newQuery is the query with a random ID: mdns.Id reads crypto/rand.
func newQuery(q Question, edns bool) *mdns.Msg {
	msg := &mdns.Msg{
		MsgHdr: mdns.MsgHdr{Id: mdns.Id(), RecursionDesired: true},
		Question: []mdns.Question{
			{Name: q.Name.String(), Qtype: q.Type, Qclass: mdns.ClassINET},
		},
	}
	if edns {
		msg.SetEdns0(ednsSize, false) // DO stays clear: nothing here validates (CASES C44)
	}
	return msg
}

// awaitReply reads until our reply is there. Over UDP what isn't ours is passed over
// (RFC 5452 section 9.1): the socket is connected, so the kernel has checked the source.
func awaitReply(conn *mdns.Conn, proto string, id uint16, q Question) (*mdns.Msg, error) {
	buf := make([]byte, udpBuffer)
	if proto == "tcp" {
		buf = make([]byte, mdns.MaxMsgSize)
	}
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		msg, err := parseReply(buf[:n], id, q)
		if proto == "udp" && errors.Is(err, errNotOurs) {
			continue
		}
		return msg, err
	}
}

// inTime turns the network's ways of saying "too late" into ctx's.
func inTime(ctx context.Context, err error) error {
	var netErr net.Error
	if err == nil || !errors.As(err, &netErr) || !netErr.Timeout() {
		return err
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("no reply: %w", ctxErr)
	}
	return fmt.Errorf("no reply: %w", context.DeadlineExceeded) // the socket's clock was first
}

// outcomeOf is the exchange's outcome for Metrics.
func outcomeOf(msg *mdns.Msg, err error) string {
	switch {
	case errors.Is(err, ErrMalformed), errors.Is(err, errNotOurs):
		return OutcomeMalformed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return OutcomeTimeout
	case err != nil:
		return OutcomeUnreachable
	case msg.Truncated:
		return OutcomeTruncated
	}
	switch msg.Rcode {
	case mdns.RcodeSuccess:
		return OutcomeAnswer
	case mdns.RcodeNameError:
		return OutcomeNoName
	case mdns.RcodeServerFailure:
		return OutcomeServFail
	case mdns.RcodeRefused:
		return OutcomeRefused
	}
	return OutcomeOther
}
