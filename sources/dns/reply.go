package dns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
)

// errNotOurs says that bytes are no reply to our query: they are passed over.
var errNotOurs = errors.New("not a reply to this query")

// Reply is what a server said.
type Reply struct {
	Server netip.AddrPort
	Proto  string        // "udp" or "tcp": how the reply came
	Took   time.Duration // from the query that it answers to its last byte
	Msg    *mdns.Msg     // the whole message; for those who may import the wire library
}

// Record is one RR in text.
type Record struct {
	Name string `json:"name"` // without the final dot
	Type string `json:"type"`
	TTL  uint32 `json:"ttl"` // seconds
	Data string `json:"data"`
}

// Rcode is the reply's code in text, extended codes included: "NOERROR", "NXDOMAIN" …
func (r *Reply) Rcode() string {
	if text, ok := mdns.RcodeToString[r.Msg.Rcode]; ok {
		return text
	}
	return "RCODE" + strconv.Itoa(r.Msg.Rcode)
}

// Authoritative is the AA flag.
func (r *Reply) Authoritative() bool { return r.Msg.Authoritative }

// Answer are the records of the answer section, in the reply's order.
func (r *Reply) Answer() []Record { return records(r.Msg.Answer) }

// Authority are the records of the authority section.
func (r *Reply) Authority() []Record { return records(r.Msg.Ns) }

// ExtendedErrors are the Extended DNS Errors (RFC 8914) of the reply in text, such as
// "3 (Stale Answer): <extra text>".
func (r *Reply) ExtendedErrors() []string {
	var out []string
	if opt := r.Msg.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*mdns.EDNS0_EDE); ok {
				out = append(out, ede.String())
			}
		}
	}
	return out
}

// withoutEDNS says that the server may only have failed to understand our OPT record
// (RFC 6891 sections 6.1.3 and 7).
func (r *Reply) withoutEDNS() bool {
	switch r.Msg.Rcode {
	case mdns.RcodeFormatError, mdns.RcodeNotImplemented, mdns.RcodeBadVers:
		return true
	}
	return false
}

func records(rrs []mdns.RR) []Record {
	out := make([]Record, 0, len(rrs))
	for _, rr := range rrs {
		h := rr.Header()
		name := h.Name
		if n, err := names.Parse(name); err == nil {
			name = n.Text()
		}
		data := strings.TrimPrefix(rr.String(), h.String())
		out = append(out, Record{Name: name, Type: TypeText(h.Rrtype), TTL: h.Ttl, Data: data})
	}
	return out
}

// TypeText is an RR type as people write it: "AAAA", "TYPE65280".
func TypeText(t uint16) string { return mdns.Type(t).String() }

// TypeFromText reads an RR type in any case: "aaaa", "SRV", "TYPE65280".
func TypeFromText(text string) (uint16, error) {
	upper := strings.ToUpper(text)
	if t, ok := mdns.StringToType[upper]; ok {
		return t, nil
	}
	if number, ok := strings.CutPrefix(upper, "TYPE"); ok { // RFC 3597 section 5
		if t, err := strconv.ParseUint(number, 10, 16); err == nil {
			return uint16(t), nil
		}
	}
	return 0, fmt.Errorf("%q is not a record type", text)
}

// headerSize is the fixed part of a message (RFC 1035 section 4.1.1).
const headerSize = 12

// parseReply reads raw as the reply to the query of that id and question. It fails with
// errNotOurs for what answers something else, with ErrMalformed for our reply where it
// cannot be read or holds fewer records than its counts say. The rest of a truncated
// reply is not judged: nobody uses it.
func parseReply(raw []byte, id uint16, q Question) (*mdns.Msg, error) {
	if len(raw) < headerSize || binary.BigEndian.Uint16(raw) != id {
		return nil, errNotOurs
	}
	msg := new(mdns.Msg)
	err := msg.Unpack(raw) // fills the question first, and keeps it where the rest is bad
	if !msg.Response || msg.Opcode != mdns.OpcodeQuery || !repeats(msg, raw, q) {
		return nil, errNotOurs
	}
	if msg.Truncated {
		return msg, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w of %d bytes: %w", ErrMalformed, len(raw), err)
	}
	if err := checkCounts(msg, raw); err != nil {
		return nil, err
	}
	return msg, nil
}

// repeats says whether the reply repeats our question. An error reply may leave the
// question out, as servers that could not read it do; an answer may not.
func repeats(msg *mdns.Msg, raw []byte, q Question) bool {
	if binary.BigEndian.Uint16(raw[4:]) == 0 {
		return msg.Rcode != mdns.RcodeSuccess && msg.Rcode != mdns.RcodeNameError
	}
	if len(msg.Question) != 1 {
		return false
	}
	asked := msg.Question[0]
	name, err := names.Parse(asked.Name)
	return err == nil && name == q.Name && asked.Qtype == q.Type && asked.Qclass == mdns.ClassINET
}

// checkCounts compares the header's counts with what was read: the library stops without
// an error where the bytes end on a record's border (CASES C28).
func checkCounts(msg *mdns.Msg, raw []byte) error {
	sections := []struct {
		name string
		read int
	}{
		{"question", len(msg.Question)}, {"answer", len(msg.Answer)},
		{"authority", len(msg.Ns)}, {"additional", len(msg.Extra)},
	}
	for i, s := range sections {
		if said := int(binary.BigEndian.Uint16(raw[4+2*i:])); said != s.read {
			return fmt.Errorf("%w of %d bytes: %s section announces %d records and holds %d",
				ErrMalformed, len(raw), s.name, said, s.read)
		}
	}
	return nil
}
