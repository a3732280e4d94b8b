package scenarios

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// sameName compares names in presentation form, whatever their case and their escapes.
func sameName(a, b string) bool { return canonicalWire(a) == canonicalWire(b) }

// canonicalWire is a name in lower-case wire form; what is no name stands for itself.
func canonicalWire(name string) string {
	var buf [255]byte
	n, err := dns.PackDomainName(dns.Fqdn(name), buf[:], 0, nil, false)
	if err != nil {
		return name
	}
	return lowerWire(buf[:n])
}

// withoutOPT is ADDITIONAL without the pseudo-records OPT and TSIG.
func withoutOPT(records []dns.RR) []dns.RR {
	return slices.DeleteFunc(slices.Clone(records), func(rr dns.RR) bool {
		return rr.Header().Rrtype == dns.TypeOPT || rr.Header().Rrtype == dns.TypeTSIG
	})
}

// rdata is a record's data in presentation form.
func rdata(rr dns.RR) string {
	return strings.TrimPrefix(rr.String(), rr.Header().String())
}

// recordKey is a record without its TTL, names lower-cased: what makes two records one.
// Data with text (TXT) keeps its case.
func recordKey(rr dns.RR) string {
	h := rr.Header()
	data := rdata(rr)
	if h.Rrtype != dns.TypeTXT {
		data = strings.ToLower(data)
	}
	return strings.Join([]string{dns.CanonicalName(h.Name), dns.Class(h.Class).String(), dns.Type(h.Rrtype).String(), data}, " ")
}

// wantRecords compares a section with lines of records in zone file form: the same set,
// in any order. A TTL of * fits any; "none" is the empty set.
func wantRecords(section string, got []dns.RR, lines []Line) error {
	var want []string
	withTTL := map[string]uint32{}
	for _, line := range lines {
		_, text, _ := strings.Cut(line.Text, " ")
		if text = strings.TrimSpace(text); text == "none" {
			continue
		}
		rr, anyTTL, err := parseRecord(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
		want = append(want, recordKey(rr))
		if !anyTTL {
			withTTL[recordKey(rr)] = rr.Header().Ttl
		}
	}
	if err := wantSet(section, keys(got), want); err != nil {
		return err
	}
	for _, rr := range got {
		if ttl, ok := withTTL[recordKey(rr)]; ok && ttl != rr.Header().Ttl {
			return fmt.Errorf("%s: want TTL %d of %s, got %d", section, ttl, recordKey(rr), rr.Header().Ttl)
		}
	}
	return nil
}

func parseRecord(text string) (rr dns.RR, anyTTL bool, err error) {
	fields := strings.Fields(text)
	if len(fields) > 1 && fields[1] == "*" {
		fields[1], anyTTL = "0", true
		text = strings.Join(fields, " ")
	}
	if rr, err = dns.NewRR(text); err != nil {
		return nil, false, fmt.Errorf("record %q: %w", text, err)
	}
	if rr == nil {
		return nil, false, fmt.Errorf("record %q is empty", text)
	}
	return rr, anyTTL, nil
}

func keys(records []dns.RR) []string {
	all := make([]string, 0, len(records))
	for _, rr := range records {
		all = append(all, recordKey(rr))
	}
	return all
}

// wantSet fails unless both lists hold the same texts, as often each.
func wantSet(what string, got, want []string) error {
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("%s:\n  want %d: %s\n  got  %d: %s", what,
		len(want), strings.Join(want, "\n          "), len(got), strings.Join(got, "\n          "))
}

// addresses of the A and AAAA records among records.
func addresses(records []dns.RR) []string {
	var all []string
	for _, rr := range records {
		switch rr := rr.(type) {
		case *dns.A:
			all = append(all, canonicalAddress(rr.A.String()))
		case *dns.AAAA:
			all = append(all, canonicalAddress(rr.AAAA.String()))
		}
	}
	return all
}

func canonicalAddress(text string) string {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().String()
	}
	return text
}

// wantAddresses: exactly these addresses in ANSWER; "none" for no address.
func wantAddresses(c *check, lines []Line) error {
	var want []string
	for _, line := range lines {
		for _, word := range line.Words[1:] {
			if word == "none" {
				continue
			}
			if _, err := netip.ParseAddr(word); err != nil {
				return fmt.Errorf("line %d: %w", line.Number, err)
			}
			want = append(want, canonicalAddress(word))
		}
	}
	return wantSet("addresses in ANSWER", addresses(c.reply.msg.Answer), want)
}

// wantSRV: exactly these ports and targets in ANSWER, one "srv PORT TARGET" a line.
// Priorities and weights are the server's own.
func wantSRV(c *check, lines []Line) error {
	var want, got []string
	for _, line := range lines {
		if len(line.Words) == 2 && line.Words[1] == "none" {
			continue
		}
		if len(line.Words) != 3 {
			return fmt.Errorf("line %d: want: srv PORT TARGET", line.Number)
		}
		want = append(want, line.Words[1]+" "+dns.CanonicalName(line.Words[2]))
	}
	for _, rr := range c.reply.msg.Answer {
		if srv, ok := rr.(*dns.SRV); ok {
			got = append(got, strconv.Itoa(int(srv.Port))+" "+dns.CanonicalName(srv.Target))
		}
	}
	return wantSet("ports and targets in ANSWER", got, want)
}

// wantChain: the targets of the CNAMEs in ANSWER, in order.
func wantChain(c *check, lines []Line) error {
	var want, got []string
	for _, word := range lines[0].Words[1:] {
		if word != "none" {
			want = append(want, dns.CanonicalName(word))
		}
	}
	for _, rr := range c.reply.msg.Answer {
		if alias, ok := rr.(*dns.CNAME); ok {
			got = append(got, dns.CanonicalName(alias.Target))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("alias chain: want %v, got %v", want, got)
	}
	return nil
}

// wantSOA: "soa ZONE [TTL]": one SOA in AUTHORITY, its TTL and MINIMUM as said, MNAME
// below the zone; "soa none": no SOA anywhere.
func wantSOA(c *check, lines []Line) error {
	words := lines[0].Words
	if len(words) < 2 {
		return errors.New("want: soa ZONE [TTL], or soa none")
	}
	all := append(slices.Clone(c.reply.msg.Answer), c.reply.msg.Ns...)
	found := slices.DeleteFunc(append(all, c.reply.msg.Extra...), func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeSOA })
	if words[1] == "none" {
		return wantSet("SOA records", keys(found), nil)
	}
	if len(found) != 1 || len(c.reply.msg.Ns) != 1 || found[0] != c.reply.msg.Ns[0] {
		return fmt.Errorf("want exactly one SOA, in AUTHORITY and alone there; got %d", len(found))
	}
	soa := found[0].(*dns.SOA)
	if !sameName(soa.Hdr.Name, words[1]) {
		return fmt.Errorf("SOA: want owner %s, got %s", words[1], soa.Hdr.Name)
	}
	if len(words) == 2 {
		return nil
	}
	if err := wantSpan("SOA TTL", words[2], int64(soa.Hdr.Ttl)); err != nil {
		return err
	}
	return wantSpan("SOA MINIMUM", words[2], int64(soa.Minttl))
}

// wantTTL: the TTL of every record in ANSWER.
func wantTTL(c *check, lines []Line) error {
	if len(lines[0].Words) != 2 {
		return errors.New("want: ttl SECONDS")
	}
	if len(c.reply.msg.Answer) == 0 {
		return errors.New("ttl: ANSWER is empty")
	}
	for _, rr := range c.reply.msg.Answer {
		if err := wantSpan("TTL of "+recordKey(rr), lines[0].Words[1], int64(rr.Header().Ttl)); err != nil {
			return err
		}
	}
	return nil
}
