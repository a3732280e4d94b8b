package scenarios

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// check is one reply under examination.
type check struct {
	ctx      context.Context
	run      *run
	question question
	reply    *reply
}

// expectation judges a reply by all lines of one keyword below a step; there is at least
// one.
type expectation func(c *check, lines []Line) error

// expectations by keyword. README.md describes each.
func expectations() map[string]expectation {
	return map[string]expectation{
		"is":         wantKind,
		"rcode":      wantRcode,
		"flags":      wantFlags,
		"answer":     func(c *check, l []Line) error { return wantRecords("ANSWER", c.reply.msg.Answer, l) },
		"authority":  func(c *check, l []Line) error { return wantRecords("AUTHORITY", c.reply.msg.Ns, l) },
		"additional": func(c *check, l []Line) error { return wantRecords("ADDITIONAL", withoutOPT(c.reply.msg.Extra), l) },
		"addresses":  wantAddresses,
		"srv":        wantSRV,
		"chain":      wantChain,
		"soa":        wantSOA,
		"ttl":        wantTTL,
		"count":      wantCount,
		"size":       wantSize,
		"within":     wantWithin,
		"edns":       wantEDNS,
		"ede":        wantEDE,
		"question":   wantQuestion,
		"shows":      wantShown,
		"targets":    wantTargets,
		"same":       wantSame,
	}
}

// checkBody runs the expectations of body on a reply, each keyword once with all of its
// lines, in the order of their first ones.
func checkBody(c *check, body []Line) error {
	known := expectations()
	var order []string
	grouped := map[string][]Line{}
	for _, line := range body {
		keyword := line.Words[0]
		if known[keyword] == nil {
			return fmt.Errorf("line %d: unknown expectation %q", line.Number, keyword)
		}
		if grouped[keyword] == nil {
			order = append(order, keyword)
		}
		grouped[keyword] = append(grouped[keyword], line)
	}
	for _, keyword := range order {
		if err := known[keyword](c, grouped[keyword]); err != nil {
			return fmt.Errorf("line %d: %w", grouped[keyword][0].Number, err)
		}
	}
	return nil
}

// wantKind: the words of DNS_RULES for whole replies. "is POS", "is NODATA ZONE",
// "is NXDOMAIN ZONE", or "is" and the name of an rcode.
func wantKind(c *check, lines []Line) error {
	words := lines[0].Words
	switch {
	case len(words) == 2 && words[1] == "POS":
		return wantPositive(c)
	case len(words) == 3 && words[1] == "NODATA":
		return wantNegative(c, dns.RcodeSuccess, words[2])
	case len(words) == 3 && words[1] == "NXDOMAIN":
		return wantNegative(c, dns.RcodeNameError, words[2])
	case len(words) == 2 && words[1] != "NXDOMAIN":
		if rcode, ok := rcodeNamed(words[1]); ok && rcode != dns.RcodeSuccess {
			return wantError(c, rcode)
		}
	}
	return errors.New("want: is POS, is NODATA ZONE, is NXDOMAIN ZONE or is RCODE")
}

func wantPositive(c *check) error {
	m := c.reply.msg
	if err := rcodeIs(c, dns.RcodeSuccess); err != nil {
		return err
	}
	if !m.Authoritative || m.Truncated {
		return fmt.Errorf("want AA and no TC, got AA %t, TC %t", m.Authoritative, m.Truncated)
	}
	if len(m.Answer) == 0 {
		return errors.New("want an answer, got none")
	}
	for _, rr := range m.Answer {
		if h := rr.Header(); h.Rrtype != c.question.qtype || !sameName(h.Name, c.question.name) {
			return fmt.Errorf("want nothing but %s of %s in ANSWER, got %s", dns.Type(c.question.qtype), c.question.name, rr)
		}
	}
	return nil
}

func wantNegative(c *check, rcode int, zone string) error {
	m := c.reply.msg
	if err := rcodeIs(c, rcode); err != nil {
		return err
	}
	if !m.Authoritative || m.Truncated {
		return fmt.Errorf("want AA and no TC, got AA %t, TC %t", m.Authoritative, m.Truncated)
	}
	if len(m.Answer) > 0 || len(withoutOPT(m.Extra)) > 0 {
		return errors.New("want nothing in ANSWER and ADDITIONAL")
	}
	if len(m.Ns) != 1 || !sameName(m.Ns[0].Header().Name, zone) || m.Ns[0].Header().Rrtype != dns.TypeSOA {
		return fmt.Errorf("want the SOA of %s in AUTHORITY and nothing else", zone)
	}
	return nil
}

// rcodeNamed is an rcode by its mnemonic. 16 is BADVERS here, as it is in replies to
// questions without TSIG (RFC 6891 section 9).
func rcodeNamed(text string) (int, bool) {
	if text = strings.ToUpper(text); text == "BADVERS" {
		return dns.RcodeBadVers, true
	}
	rcode, ok := dns.StringToRcode[text]
	return rcode, ok
}

func rcodeText(rcode int) string {
	if rcode == dns.RcodeBadVers {
		return "BADVERS"
	}
	return cmp.Or(dns.RcodeToString[rcode], strconv.Itoa(rcode))
}

func wantError(c *check, rcode int) error {
	if err := rcodeIs(c, rcode); err != nil {
		return err
	}
	m := c.reply.msg
	if m.Authoritative || len(m.Answer)+len(m.Ns)+len(withoutOPT(m.Extra)) > 0 {
		return fmt.Errorf("want no AA and no records beside %s", rcodeText(rcode))
	}
	return nil
}

func rcodeIs(c *check, want int) error {
	if got := c.reply.msg.Rcode; got != want {
		return fmt.Errorf("rcode: want %s, got %s", rcodeText(want), rcodeText(got))
	}
	return nil
}

func wantRcode(c *check, lines []Line) error {
	if len(lines[0].Words) != 2 {
		return errors.New("want: rcode NAME")
	}
	want, ok := rcodeNamed(lines[0].Words[1])
	if !ok {
		return fmt.Errorf("unknown rcode %q", lines[0].Words[1])
	}
	return rcodeIs(c, want)
}

// wantFlags: each named flag is set, each with ! before it is not.
func wantFlags(c *check, lines []Line) error {
	bits := map[string]uint16{"qr": bitQR, "aa": bitAA, "tc": bitTC, "rd": bitRD, "ra": bitRA, "z": bitZ, "ad": bitAD, "cd": bitCD}
	for _, word := range lines[0].Words[1:] {
		name, unset := strings.CutPrefix(word, "!")
		bit, ok := bits[name]
		if !ok {
			return fmt.Errorf("unknown flag %q", name)
		}
		if set := c.reply.layout.flags&bit != 0; set == unset {
			return fmt.Errorf("flag %s: want %t, got %t", name, !unset, set)
		}
	}
	return nil
}

// wantCount: "count SECTION NUMBER"; question, answer, authority, additional (without OPT).
func wantCount(c *check, lines []Line) error {
	counts := map[string]int{
		"question":   c.reply.layout.counts[0],
		"answer":     len(c.reply.msg.Answer),
		"authority":  len(c.reply.msg.Ns),
		"additional": len(withoutOPT(c.reply.msg.Extra)),
	}
	for _, line := range lines {
		if len(line.Words) != 3 {
			return errors.New("want: count SECTION NUMBER")
		}
		n, ok := counts[line.Words[1]]
		if !ok {
			return fmt.Errorf("unknown section %q", line.Words[1])
		}
		if err := wantSpan("records in "+line.Words[1], line.Words[2], int64(n)); err != nil {
			return err
		}
	}
	return nil
}

func wantSize(c *check, lines []Line) error {
	if len(lines[0].Words) != 2 {
		return errors.New("want: size BYTES")
	}
	return wantSpan("size of the reply", lines[0].Words[1], int64(len(c.reply.wire)))
}

// wantWithin: the reply came in that time. For bounds that matter by an order of
// magnitude, such as "did not wait for the upstream".
func wantWithin(c *check, lines []Line) error {
	if len(lines[0].Words) != 2 {
		return errors.New("want: within DURATION")
	}
	limit, err := time.ParseDuration(lines[0].Words[1])
	if err != nil {
		return err
	}
	if c.reply.took > limit {
		return fmt.Errorf("want a reply within %s, it took %s", limit, c.reply.took)
	}
	return nil
}

// wantEDNS: "edns none", or settings size=, version=, options= (codes, or none).
func wantEDNS(c *check, lines []Line) error {
	opt := c.reply.msg.IsEdns0()
	set, rest, err := parseSettings(lines[0].Words[1:], "size", "version", "options", "do")
	if err != nil {
		return err
	}
	if slices.Equal(rest, []string{"none"}) {
		if opt != nil {
			return errors.New("want no OPT")
		}
		return nil
	}
	if opt == nil {
		return errors.New("want an OPT, got none")
	}
	return wantOPT(opt, set)
}

func wantOPT(opt *dns.OPT, set settings) error {
	var codes []string
	for _, option := range opt.Option {
		codes = append(codes, strconv.Itoa(int(option.Option())))
	}
	got := map[string]string{
		"size":    strconv.Itoa(int(opt.UDPSize())),
		"version": strconv.Itoa(int(opt.Version())),
		"options": cmp.Or(strings.Join(codes, ","), "none"),
		"do":      strconv.FormatBool(opt.Do()),
	}
	for key, want := range set {
		if got[key] != want {
			return fmt.Errorf("EDNS %s: want %s, got %s", key, want, got[key])
		}
	}
	return nil
}

// wantEDE: "ede CODE…": these extended errors (RFC 8914), no other; "ede none".
func wantEDE(c *check, lines []Line) error {
	var want, got []string
	for _, word := range lines[0].Words[1:] {
		if word != "none" {
			want = append(want, word)
		}
	}
	if opt := c.reply.msg.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				got = append(got, strconv.Itoa(int(ede.InfoCode)))
			}
		}
	}
	return wantSet("extended errors", got, want)
}

// wantQuestion: "question none": the reply repeats no question (raw packets only; for
// others the question is always compared).
func wantQuestion(c *check, lines []Line) error {
	if len(lines[0].Words) != 2 || lines[0].Words[1] != "none" {
		return errors.New("want: question none")
	}
	if n := c.reply.layout.counts[0]; n != 0 {
		return fmt.Errorf("want no question in the reply, got %d", n)
	}
	return nil
}

// wantShown: "shows REGEXP": the reply, as dig prints it, matches.
func wantShown(c *check, lines []Line) error {
	for _, line := range lines {
		if err := matchAll("the reply", c.reply.String(), line.Words[1:]); err != nil {
			return err
		}
	}
	return nil
}
