package scenarios

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// ednsSize is the UDP size that questions offer unless told otherwise: the server's own
// limit (DNS_RULES 24).
const ednsSize = 1232

// question is one question as a script asks it.
type question struct {
	name      string // as written, with its final dot; the case is kept
	qtype     uint16
	class     uint16
	transport string // udp or tcp
	server    netip.AddrPort

	opcode        int
	rd, cd, ad, z bool
	edns, do      bool
	size          uint16
	sizes         []uint16 // of a step: each becomes the size of a question
	version       uint8
	ednsFlags     uint16
	options       []dns.EDNS0
	twice         bool // ask again on the same TCP connection
	authority     []dns.RR
}

// parseQuestions reads NAME[,NAME…] TYPE[,TYPE…] [CLASS] [udp|tcp] [@ADDRESS] [+option …]
// into one question for each name, type, transport and size.
func parseQuestions(words []string, server netip.AddrPort) ([]question, error) {
	if len(words) < 2 {
		return nil, errors.New("want: NAME TYPE [CLASS] [udp|tcp] [@ADDRESS] [+option …]")
	}
	form := question{class: dns.ClassINET, server: server, rd: true, edns: true}
	transports := []string{"udp", "tcp"}
	for _, word := range words[2:] {
		switch {
		case word == "udp" || word == "tcp":
			transports = []string{word}
		case word[0] == '@':
			var err error
			if form.server, err = parseServer(word[1:], server.Port()); err != nil {
				return nil, err
			}
		case word[0] == '+':
			if err := form.option(word[1:]); err != nil {
				return nil, err
			}
		default:
			class, err := parseNumbered(word, dns.StringToClass, "CLASS")
			if err != nil {
				return nil, err
			}
			form.class = class
		}
	}
	if form.sizes == nil {
		form.sizes = []uint16{ednsSize}
	}
	return form.each(words[0], words[1], transports)
}

func (form question) each(names, types string, transports []string) ([]question, error) {
	var all []question
	for _, name := range strings.Split(names, ",") {
		for _, typeText := range strings.Split(types, ",") {
			qtype, err := parseNumbered(typeText, dns.StringToType, "TYPE")
			if err != nil {
				return nil, err
			}
			for _, transport := range transports {
				for _, size := range form.sizes {
					q := form
					q.name, q.qtype, q.transport, q.size = dns.Fqdn(name), qtype, transport, size
					all = append(all, q)
				}
			}
		}
	}
	return all, nil
}

func parseServer(text string, port uint16) (netip.AddrPort, error) {
	if full, err := netip.ParseAddrPort(text); err == nil {
		return full, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("server %q: want an address or address:port", text)
	}
	return netip.AddrPortFrom(addr, port), nil
}

// parseNumbered reads a mnemonic of known, or prefix and number (TYPE65280, CLASS3).
func parseNumbered(text string, known map[string]uint16, prefix string) (uint16, error) {
	if n, ok := known[strings.ToUpper(text)]; ok {
		return n, nil
	}
	digits, ok := strings.CutPrefix(strings.ToUpper(text), prefix)
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is no %s", text, strings.ToLower(prefix))
	}
	return uint16(n), nil
}

// option reads one +option, as dig spells them.
func (q *question) option(text string) error {
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "norec":
		q.rd = false
	case "cd":
		q.cd = true
	case "ad":
		q.ad = true
	case "z":
		q.z = true
	case "twice":
		q.twice = true
	case "noedns":
		q.edns = false
	case "do":
		q.do = true
	case "option":
		return q.ednsOption(value)
	case "ixfr-serial":
		return q.numbered(value, func(n uint64) { q.authority = append(q.authority, xfrSOA(q.name, uint32(n))) })
	case "size":
		for _, size := range strings.Split(value, ",") {
			if err := q.numbered(size, func(n uint64) { q.sizes = append(q.sizes, uint16(n)) }); err != nil {
				return err
			}
		}
	case "version":
		return q.numbered(value, func(n uint64) { q.version = uint8(n) })
	case "ednsflags":
		return q.numbered(value, func(n uint64) { q.ednsFlags = uint16(n) })
	case "opcode":
		return q.numbered(value, func(n uint64) { q.opcode = int(n) })
	default:
		return fmt.Errorf("unknown option +%s", key)
	}
	return nil
}

func (q *question) numbered(value string, set func(uint64)) error {
	n, err := strconv.ParseUint(value, 0, 32)
	if err != nil {
		return fmt.Errorf("option value %q is no number", value)
	}
	set(n)
	return nil
}

// ednsOption reads CODE:HEX.
func (q *question) ednsOption(value string) error {
	code, data, _ := strings.Cut(value, ":")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil {
		return fmt.Errorf("EDNS option %q: want CODE:HEX", value)
	}
	raw, err := hex.DecodeString(data)
	if err != nil {
		return fmt.Errorf("EDNS option %q: %w", value, err)
	}
	q.options = append(q.options, &dns.EDNS0_LOCAL{Code: uint16(n), Data: raw})
	return nil
}

// xfrSOA is the SOA that an IXFR question carries in AUTHORITY (RFC 1995 section 3).
func xfrSOA(zone string, serial uint32) dns.RR {
	return &dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Ns: ".", Mbox: ".", Serial: serial}
}

// packet is the question in wire form, with a random ID.
func (q *question) packet() ([]byte, error) {
	m := &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id: uint16(rand.Uint32()), Opcode: q.opcode, RecursionDesired: q.rd,
			CheckingDisabled: q.cd, AuthenticatedData: q.ad, Zero: q.z,
		},
		Question: []dns.Question{{Name: q.name, Qtype: q.qtype, Qclass: q.class}},
	}
	for _, rr := range q.authority {
		soa := dns.Copy(rr)
		soa.Header().Name = q.name
		m.Ns = append(m.Ns, soa)
	}
	if q.edns {
		m.Extra = []dns.RR{q.opt()}
	}
	wire, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing the question %s: %w", q, err)
	}
	return wire, nil
}

func (q *question) opt() *dns.OPT {
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}, Option: q.options}
	opt.SetUDPSize(q.size)
	opt.SetVersion(q.version)
	opt.Hdr.Ttl |= uint32(q.ednsFlags)
	if q.do {
		opt.SetDo()
	}
	return opt
}

// udpLimit is the largest UDP reply that the question allows (DNS_RULES 24).
func (q *question) udpLimit() int {
	if !q.edns || q.size < dns.MinMsgSize {
		return dns.MinMsgSize
	}
	return min(int(q.size), ednsSize)
}

// String is the question as a script would ask it.
func (q *question) String() string {
	return fmt.Sprintf("%s %s %s %s @%s +size=%d", q.name, dns.Class(q.class), dns.Type(q.qtype), q.transport, q.server, q.size)
}
