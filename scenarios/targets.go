package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// wantTargets asks for the target of every SRV and NS record in ANSWER. "targets
// resolve": each has an address, and what ADDITIONAL says of it is what it answers itself
// (C11, C68). "targets glued": ADDITIONAL also has an address of each.
func wantTargets(c *check, lines []Line) error {
	words := lines[0].Words[1:]
	if len(words) != 1 || words[0] != "resolve" && words[0] != "glued" {
		return errors.New("want: targets resolve, or targets glued")
	}
	targets := targetNames(c.reply.msg.Answer)
	if len(targets) == 0 {
		return errors.New("no target in ANSWER")
	}
	glue := map[string][]string{} // by owner and type
	for _, rr := range withoutOPT(c.reply.msg.Extra) {
		key := glueKey(rr.Header().Name, rr.Header().Rrtype)
		if !slices.Contains(targets, dns.CanonicalName(rr.Header().Name)) {
			return fmt.Errorf("a record in ADDITIONAL is of no target: %s", rr)
		}
		glue[key] = append(glue[key], addresses([]dns.RR{rr})...)
	}
	for _, target := range targets {
		if err := c.wantTarget(target, glue, words[0] == "glued"); err != nil {
			return err
		}
	}
	return nil
}

func glueKey(name string, rtype uint16) string {
	return dns.CanonicalName(name) + dns.Type(rtype).String()
}

func targetNames(records []dns.RR) []string {
	var names []string
	for _, rr := range records {
		var target string
		switch rr := rr.(type) {
		case *dns.SRV:
			target = dns.CanonicalName(rr.Target)
		case *dns.NS:
			target = dns.CanonicalName(rr.Ns)
		default:
			continue
		}
		if !slices.Contains(names, target) {
			names = append(names, target)
		}
	}
	return names
}

func (c *check) wantTarget(target string, glue map[string][]string, glued bool) error {
	var all []string
	inAdditional := 0
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		reply, err := c.askAlso(target, qtype)
		if err != nil {
			return err
		}
		own := addresses(reply.msg.Answer)
		all = append(all, own...)
		if given := glue[glueKey(target, qtype)]; len(given) > 0 {
			inAdditional += len(given)
			if err := wantSet("ADDITIONAL for "+target+" beside its own answer", given, own); err != nil {
				return err
			}
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("the target %s has no address", target)
	}
	if glued && inAdditional == 0 {
		return fmt.Errorf("ADDITIONAL has no address of the target %s", target)
	}
	return nil
}

// askAlso asks the same server for another name, over TCP so that nothing is cut.
func (c *check) askAlso(name string, qtype uint16) (*reply, error) {
	q := c.question
	q.name, q.qtype, q.transport, q.authority = name, qtype, "tcp", nil
	reply, err := ask(c.ctx, &q)
	if err != nil {
		return nil, fmt.Errorf("asking also %s: %w", &q, err)
	}
	return reply, nil
}

// wantSame: "same NAME [TYPE]": that question has the same rcode and the same data.
func wantSame(c *check, lines []Line) error {
	words := lines[0].Words
	if len(words) < 2 {
		return errors.New("want: same NAME [TYPE]")
	}
	qtype := c.question.qtype
	if len(words) > 2 {
		var err error
		if qtype, err = parseNumbered(words[2], dns.StringToType, "TYPE"); err != nil {
			return err
		}
	}
	other, err := c.askAlso(dns.Fqdn(words[1]), qtype)
	if err != nil {
		return err
	}
	if err := rcodeIs(c, other.msg.Rcode); err != nil {
		return fmt.Errorf("same as %s: %w", words[1], err)
	}
	return wantSet("data, beside those of "+words[1], allData(c.reply.msg.Answer), allData(other.msg.Answer))
}

func allData(records []dns.RR) []string {
	var all []string
	for _, rr := range records {
		all = append(all, rdata(rr))
	}
	return all
}

// serial does "serial ZONE [grows]": the zone's serial is not less than when this step
// last saw it; with "grows" it is more.
func (r *run) serial(ctx context.Context, words []string, _ []Line) error {
	if len(words) == 0 || len(words) > 2 || len(words) == 2 && words[1] != "grows" {
		return errors.New("want: serial ZONE [grows]")
	}
	zone := dns.CanonicalName(words[0])
	q := question{name: zone, qtype: dns.TypeSOA, class: dns.ClassINET, transport: "udp", server: r.dns, rd: true}
	reply, err := ask(ctx, &q)
	r.last = reply
	if err != nil {
		return err
	}
	if len(reply.msg.Answer) != 1 {
		return fmt.Errorf("want one SOA of %s", zone)
	}
	soa, ok := reply.msg.Answer[0].(*dns.SOA)
	if !ok {
		return fmt.Errorf("want the SOA of %s", zone)
	}
	before, known := r.serials[zone]
	if step := int32(soa.Serial - before); known && (step < 0 || step == 0 && len(words) == 2) { // RFC 1982
		return fmt.Errorf("serial of %s: %d before, %d now", zone, before, soa.Serial)
	}
	r.serials[zone] = soa.Serial
	return nil
}
