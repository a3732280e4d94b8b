package scenarios

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/miekg/dns"
)

// checkAlways is what holds for every reply to a well-formed question, whatever the
// script says: DNS_RULES 1, 2, 4, 14, 24, 28 and the truncation rules of C25 and C191.
func checkAlways(q *question, r *reply) error {
	checks := []func(*question, *reply) error{
		checkHeader, checkQuestion, checkOPT, checkSize, checkErrorsAreBare, checkAA,
		checkAnswerTypes, checkSpelling, checkTargetsInFull, checkRRsets, checkNegative,
	}
	for _, check := range checks {
		if err := check(q, r); err != nil {
			return err
		}
	}
	return nil
}

// checkHeader: DNS_RULES 1, RFC 4035 section 3.1.6 for AD and CD.
func checkHeader(_ *question, r *reply) error {
	sent := binary.BigEndian.Uint16(r.sent[2:])
	flags := r.layout.flags
	switch {
	case r.layout.id != binary.BigEndian.Uint16(r.sent):
		return errors.New("rule 1: the ID is not the question's")
	case flags&bitQR == 0:
		return errors.New("rule 1: QR is not set")
	case flags&opcodeMask != sent&opcodeMask:
		return errors.New("rule 1: the opcode is not the question's")
	case flags&bitRD != sent&bitRD:
		return errors.New("rule 1: RD is not the question's")
	case flags&(bitRA|bitZ|bitAD|bitCD) != 0:
		return errors.New("rule 1: one of RA, Z, AD, CD is set")
	}
	return nil
}

// checkQuestion: the question's bytes come back as they were sent, case kept.
func checkQuestion(_ *question, r *reply) error {
	sent, err := readLayout(r.sent)
	if err != nil {
		return fmt.Errorf("reading our own packet: %w", err)
	}
	if r.layout.counts[0] != sent.counts[0] || !bytes.Equal(r.layout.question, sent.question) {
		return errors.New("rule 1: the question is not byte for byte the one sent")
	}
	return nil
}

// checkOPT: an OPT in the reply if and only if one is in the question (DNS_RULES 28).
func checkOPT(q *question, r *reply) error {
	opt := r.msg.IsEdns0()
	if q.edns != (opt != nil) {
		return fmt.Errorf("rule 28: OPT in the question: %t, in the reply: %t", q.edns, opt != nil)
	}
	count := 0
	for _, rr := range r.msg.Extra {
		if rr.Header().Rrtype == dns.TypeOPT {
			count++
		}
	}
	switch {
	case count > 1:
		return fmt.Errorf("rule 28: %d OPT records", count)
	case opt != nil && opt.Version() != 0:
		return fmt.Errorf("rule 28: EDNS version %d", opt.Version())
	case opt != nil && opt.UDPSize() < dns.MinMsgSize:
		return fmt.Errorf("rule 28: own UDP size %d", opt.UDPSize())
	}
	return nil
}

func checkSize(q *question, r *reply) error {
	if r.transport == "udp" && len(r.wire) > q.udpLimit() {
		return fmt.Errorf("rule 24: %d bytes over UDP where %d are allowed", len(r.wire), q.udpLimit())
	}
	return nil
}

// checkErrorsAreBare: no record but OPT beside an error.
func checkErrorsAreBare(_ *question, r *reply) error {
	if r.msg.Rcode == dns.RcodeSuccess || r.msg.Rcode == dns.RcodeNameError {
		return nil
	}
	if len(r.msg.Answer)+len(r.msg.Ns) > 0 || len(withoutOPT(r.msg.Extra)) > 0 {
		return fmt.Errorf("rules 3, 4: records beside %s", rcodeText(r.msg.Rcode))
	}
	return nil
}

func checkAA(_ *question, r *reply) error {
	own := r.msg.Rcode == dns.RcodeSuccess || r.msg.Rcode == dns.RcodeNameError
	if r.msg.Authoritative != own {
		return fmt.Errorf("rule 1: AA is %t beside %s", r.msg.Authoritative, rcodeText(r.msg.Rcode))
	}
	return nil
}

// checkAnswerTypes: only the asked type or the alias chain to it (C23), the chain first.
func checkAnswerTypes(q *question, r *reply) error {
	if q.qtype == dns.TypeANY {
		return nil
	}
	owner, inChain := q.name, true
	for _, rr := range r.msg.Answer {
		h := rr.Header()
		alias, isAlias := rr.(*dns.CNAME)
		switch {
		case h.Rrtype != q.qtype && !isAlias:
			return fmt.Errorf("C23: a %s in ANSWER of a %s question", dns.Type(h.Rrtype), dns.Type(q.qtype))
		case !sameName(h.Name, owner):
			return fmt.Errorf("the owner %s in ANSWER is neither the question nor the chain's end %s", h.Name, owner)
		case isAlias && !inChain:
			return errors.New("a CNAME after other records: the chain comes first and in order")
		case isAlias && q.qtype != dns.TypeCNAME:
			owner = alias.Target
		default:
			inChain = false
		}
	}
	return nil
}

// checkSpelling: owners that are the question's name are in its spelling (DNS_RULES 2).
func checkSpelling(_ *question, r *reply) error {
	if r.layout.counts[0] != 1 {
		return nil
	}
	asked := r.layout.question[:len(r.layout.question)-4]
	for _, record := range r.layout.records {
		same := lowerWire(record.ownerWire) == lowerWire(asked)
		if record.section == 1 && same && !bytes.Equal(record.ownerWire, asked) {
			return errors.New("rule 2: the owner in ANSWER is not spelled as the question")
		}
		if record.section == 1 && same && !record.ownerIsLink && len(asked) > 1 {
			return errors.New("rules 2, 24: the owner in ANSWER is not compressed to the question")
		}
	}
	return nil
}

// targetAt is where a target name begins in RDATA, by type, of those that are never
// compressed (RFC 2782, RFC 9460 section 2.2).
func targetAt(rtype uint16) (offset int, ok bool) {
	switch rtype {
	case dns.TypeSRV:
		return 6, true
	case dns.TypeSVCB, dns.TypeHTTPS:
		return 2, true
	default:
		return 0, false
	}
}

// checkTargetsInFull: DNS_RULES 14, C70.
func checkTargetsInFull(_ *question, r *reply) error {
	for _, record := range r.layout.records {
		offset, ok := targetAt(record.rtype)
		if !ok {
			continue
		}
		_, next, links, err := readName(r.wire, record.data+offset)
		if err != nil {
			return fmt.Errorf("rule 14: target: %w", err)
		}
		if links > 0 {
			return errors.New("rule 14, C70: a target is compressed")
		}
		if record.rtype == dns.TypeSRV && next != record.data+record.length {
			return errors.New("rule 14, C70: RDLENGTH of an SRV is not 6 and the full name")
		}
	}
	return nil
}

// checkRRsets: no record twice, one TTL in an RRset (RFC 2181 section 5).
func checkRRsets(_ *question, r *reply) error {
	seen := map[string]bool{}
	ttls := map[string]uint32{}
	for i, section := range [][]dns.RR{r.msg.Answer, r.msg.Ns, withoutOPT(r.msg.Extra)} {
		for _, rr := range section {
			h := rr.Header()
			record := fmt.Sprint(i, recordKey(rr))
			if seen[record] {
				return fmt.Errorf("a record stands twice: %s", rr)
			}
			seen[record] = true
			set := fmt.Sprint(i, dns.CanonicalName(h.Name), h.Rrtype)
			if ttl, ok := ttls[set]; ok && ttl != h.Ttl {
				return fmt.Errorf("two TTLs in one RRset: %d and %d", ttl, h.Ttl)
			}
			ttls[set] = h.Ttl
		}
	}
	return nil
}

// checkNegative: one SOA, at the question or above it, TTL as its MINIMUM (DNS_RULES 4).
func checkNegative(q *question, r *reply) error {
	negative := r.msg.Rcode == dns.RcodeNameError || r.msg.Rcode == dns.RcodeSuccess
	if !negative || len(r.msg.Answer) > 0 || r.msg.Truncated { // cut: the SOA comes over TCP
		return nil
	}
	if len(r.msg.Ns) != 1 {
		return fmt.Errorf("rule 4: %d records in AUTHORITY of a negative answer", len(r.msg.Ns))
	}
	soa, ok := r.msg.Ns[0].(*dns.SOA)
	switch {
	case !ok:
		return errors.New("rule 4: AUTHORITY of a negative answer is no SOA")
	case !dns.IsSubDomain(soa.Hdr.Name, q.name):
		return fmt.Errorf("rule 4: the SOA's owner %s is not above %s", soa.Hdr.Name, q.name)
	case soa.Hdr.Ttl != soa.Minttl:
		return fmt.Errorf("rule 4, C158: SOA TTL %d, MINIMUM %d", soa.Hdr.Ttl, soa.Minttl)
	}
	return nil
}
