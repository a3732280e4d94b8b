package scenarios

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// raw does "raw [udp|tcp] [@ADDRESS]": a packet of bytes. Lines "bytes …" below it make
// it up, one after the other; "dropped" says that nothing comes back over UDP, and that
// the connection is closed over TCP; other lines judge the reply.
func (r *run) raw(ctx context.Context, words []string, body []Line) error {
	transports, server := []string{"udp", "tcp"}, r.dns
	for _, word := range words {
		if word == "udp" || word == "tcp" {
			transports = []string{word}
			continue
		}
		var err error
		if server, err = parseServer(strings.TrimPrefix(word, "@"), server.Port()); err != nil {
			return err
		}
	}
	packet, dropped, rest, err := parsePacket(body)
	if err != nil {
		return err
	}
	for _, transport := range transports {
		if err := r.rawOver(ctx, transport, server, packet, dropped, rest); err != nil {
			return fmt.Errorf("%s: %w", transport, err)
		}
	}
	return nil
}

func (r *run) rawOver(ctx context.Context, transport string, server netip.AddrPort, packet []byte, dropped bool, body []Line) error {
	if dropped {
		return wantDropped(ctx, transport, server, packet)
	}
	reply, err := exchange(ctx, transport, server, packet)
	r.last = reply
	if err != nil {
		return err
	}
	if err := checkRaw(reply); err != nil {
		return err
	}
	q := question{transport: transport, server: server, class: dns.ClassINET, edns: true, size: ednsSize}
	if len(reply.msg.Question) == 1 {
		q.name, q.qtype = reply.msg.Question[0].Name, reply.msg.Question[0].Qtype
	}
	return checkBody(&check{ctx: ctx, run: r, question: q, reply: reply}, body)
}

// checkRaw is what holds for a reply to any packet: ID, opcode and RD copied, QR set, the
// others clear, a question only as it was sent, never more than the server's own size.
func checkRaw(r *reply) error {
	if len(r.sent) < headerSize {
		return errors.New("rule 33: a reply to less than a header")
	}
	if err := checkHeader(nil, r); err != nil {
		return err
	}
	if q := r.layout.question; len(q) > 0 && !bytes.HasPrefix(r.sent[headerSize:], q) {
		return errors.New("rule 1: the question is not the one sent")
	}
	if r.transport == "udp" && len(r.wire) > ednsSize {
		return fmt.Errorf("rule 24: %d bytes over UDP", len(r.wire))
	}
	return checkErrorsAreBare(nil, r)
}

// parsePacket puts the "bytes" lines together and returns the other lines.
func parsePacket(body []Line) (packet []byte, dropped bool, rest []Line, err error) {
	for _, line := range body {
		switch line.Words[0] {
		case "bytes":
			for _, word := range line.Words[1:] {
				part, err := parseBytes(word)
				if err != nil {
					return nil, false, nil, fmt.Errorf("line %d: %w", line.Number, err)
				}
				packet = append(packet, part...)
			}
		case "dropped":
			dropped = true
		default:
			rest = append(rest, line)
		}
	}
	return packet, dropped, rest, nil
}

var bytesCall = regexp.MustCompile(`^(name|text|u16|repeat)\((.*)\)$`)

// parseBytes reads hex digits, name(DOMAIN), text(WORDS), u16(NUMBER) or
// repeat(COUNT,HEX).
func parseBytes(word string) ([]byte, error) {
	call := bytesCall.FindStringSubmatch(word)
	if call == nil {
		return hex.DecodeString(word)
	}
	switch argument := call[2]; call[1] {
	case "name":
		buf := make([]byte, 256)
		n, err := dns.PackDomainName(dns.Fqdn(argument), buf, 0, nil, false)
		return buf[:max(n, 0)], err
	case "text":
		return []byte(argument), nil
	case "u16":
		n, err := strconv.ParseUint(argument, 0, 16)
		return binary.BigEndian.AppendUint16(nil, uint16(n)), err
	default:
		count, digits, _ := strings.Cut(argument, ",")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, err
		}
		unit, err := hex.DecodeString(digits)
		return bytes.Repeat(unit, n), err
	}
}

// wantDropped sends packet and fails when a reply comes. Over UDP it asks two plain
// questions after it on the same socket: when both are answered, the packet before them
// has had its turn. Over TCP the connection must be closed.
func wantDropped(ctx context.Context, transport string, server netip.AddrPort, packet []byte) error {
	conn, err := dial(ctx, transport, server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.send(packet); err != nil {
		return err
	}
	if transport == "tcp" {
		wire, err := conn.receive()
		if errors.Is(err, errNoReply) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("want the connection closed: %w", err)
		}
		return fmt.Errorf("want the connection closed, got a reply: %x", wire)
	}
	for range 2 {
		if err := sentinel(conn); err != nil {
			return err
		}
	}
	return nil
}

// sentinel asks ". NS", which is answered at once (DNS_RULES 3), and fails unless that is
// the next reply.
func sentinel(c conn) error {
	q := question{name: ".", qtype: dns.TypeNS, class: dns.ClassINET}
	packet, err := q.packet()
	if err != nil {
		return err
	}
	if err := c.send(packet); err != nil {
		return err
	}
	wire, err := c.receive()
	if err != nil {
		return fmt.Errorf("a plain question afterwards: %w", err)
	}
	if !bytes.HasPrefix(wire, packet[:2]) || len(wire) < headerSize || wire[3]&0xf != dns.RcodeRefused {
		return fmt.Errorf("want no reply, got one: %x", wire)
	}
	return nil
}

// mutate does "mutate NAME TYPE [count=N] [seed=N]": N damaged forms of a question over
// UDP, the same ones every time; each gets no reply or a well-formed one, and plain
// questions in between are answered all along (DNS_RULES 33, 38).
func (r *run) mutate(ctx context.Context, words []string, _ []Line) error {
	set, rest, err := parseSettings(words, "count", "seed")
	if err != nil {
		return err
	}
	count, err := set.number("count", 2000)
	if err != nil {
		return err
	}
	seed, err := set.number("seed", 1)
	if err != nil {
		return err
	}
	questions, err := parseQuestions(append(rest, "udp"), r.dns)
	if err != nil {
		return err
	}
	packet, err := questions[0].packet()
	if err != nil {
		return err
	}
	packet[0], packet[1] = 0x12, 0x34 // the same packets every time
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for i := range count {
		damaged := damage(packet, random)
		if err := r.survives(ctx, damaged); err != nil {
			return fmt.Errorf("mutation %d, packet %x: %w", i, damaged, err)
		}
	}
	return nil
}

// survives sends a damaged packet and a plain question, and takes the replies to both:
// the plain one must come, the other may.
func (r *run) survives(ctx context.Context, damaged []byte) error {
	conn, err := dial(ctx, "udp", r.dns)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.send(damaged); err != nil {
		return err
	}
	q := question{name: ".", qtype: dns.TypeNS, class: dns.ClassINET}
	plain, err := q.packet()
	if err != nil {
		return err
	}
	if len(damaged) > 1 { // the IDs tell the two replies apart
		plain[0], plain[1] = damaged[0]^0xff, damaged[1]
	}
	if err := conn.send(plain); err != nil {
		return err
	}
	for range 2 {
		wire, err := conn.receive()
		if err != nil {
			return fmt.Errorf("the plain question after it: %w", err)
		}
		if bytes.HasPrefix(wire, plain[:2]) {
			return nil
		}
		reply, err := newReply(damaged, wire, r.dns, "udp", 0)
		r.last = reply
		if err == nil {
			err = checkRaw(reply)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("two replies to one packet")
}

// damage is packet with a few random changes: bits flipped, bytes set, cut or put in.
func damage(packet []byte, random *rand.Rand) []byte {
	out := bytes.Clone(packet)
	for range 1 + random.IntN(4) {
		if len(out) == 0 {
			return out
		}
		at := random.IntN(len(out))
		switch random.IntN(5) {
		case 0:
			out[at] ^= 1 << random.IntN(8)
		case 1:
			out[at] = byte(random.Uint32())
		case 2:
			out[at] = 0xc0 | byte(random.IntN(64)) // a pointer
		case 3:
			out = out[:at]
		case 4:
			out = append(out[:at], append([]byte{byte(random.Uint32())}, out[at:]...)...)
		}
	}
	return out
}
