package server

import (
	"context"
	"net/netip"
)

// Protocol is how a message travels.
type Protocol uint8

const (
	// UDP carries one message in each datagram.
	UDP Protocol = iota
	// TCP carries messages behind their lengths (RFC 1035 section 4.2.2, RFC 7766).
	TCP
)

// String gives "udp" or "tcp", as metrics spell it.
func (p Protocol) String() string {
	if p == TCP {
		return "tcp"
	}
	return "udp"
}

// Verdict is what a Handler decided.
type Verdict uint8

const (
	// Reply says that out is the whole reply.
	Reply Verdict = iota
	// Drop says that there is no reply: nothing is sent on UDP, a TCP connection is closed.
	Drop
	// Wait says that the answer needs a lookup: call HandleWaiting from a goroutine that may block.
	Wait
)

// Transport says how a message came. Addresses are plain IPv4 or IPv6, never IPv4 in IPv6.
type Transport struct {
	Protocol Protocol // UDP or TCP
	Client   netip.AddrPort
	Local    netip.AddrPort // the address that was asked
}

// Handler turns one query into one reply. A Handler belongs to one goroutine (at a time).
// It recovers from its own panics: the sockets do not.
type Handler interface {
	// Begin takes the queries that were read together. They stay as they are until End, which
	// tells what was counted and how long it took, once for all of them.
	Begin(queries [][]byte)
	End()
	// Handle writes the reply to query i of the batch into out[:0]'s memory (cap(out) ≥ 65535
	// for TCP, ≥ 4096 for UDP) and returns it. It never blocks and never keeps out or t.
	Handle(i int, out []byte, t *Transport) ([]byte, Verdict)
	// HandleWaiting does the same for any query on which Handle said Wait; it may block until
	// ctx ends, and then says what it can (SERVFAIL). A ctx that has ended before the call
	// means that too many queries wait already.
	HandleWaiting(ctx context.Context, out, query []byte, t *Transport) ([]byte, Verdict)
}

const (
	udpQueryRoom = 65535 // the largest datagram: a query is never cut by us
	udpReplyRoom = 4096  // the largest UDP reply that Handler may be configured for
	tcpReplyRoom = 65535 // what the length before a message can say
	headerSize   = 12    // RFC 1035 section 4.1.1: a shorter message is none
)
