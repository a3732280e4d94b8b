package dns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// MaxAliases is how many CNAME records are followed from one name: twice the longest
// chains seen in the wild, and what large resolvers allow too.
const MaxAliases = 16

var (
	// errUnproven: NOERROR, no records, and no SOA that says so (RFC 2308 section 2.2,
	// type 3).
	errUnproven = errors.New("empty answer without an SOA record")
	// errLame: the server points elsewhere instead of answering.
	errLame = errors.New("referral instead of an answer (lame, or recursion not offered)")
	errLoop = errors.New("CNAME loop")
	errDeep = fmt.Errorf("more than %d CNAME records in a row", MaxAliases)
)

// answerKind says what an answer is.
type answerKind uint8

const (
	hasRecords answerKind = iota
	noData                // the name exists, without such records: an SOA says so
	noName                // NXDOMAIN
	stopsShort            // an alias whose target has to be asked for (CASES C148)
)

// answer is what a reply says about a question. It is immutable.
type answer struct {
	kind  answerKind
	addrs []netip.Addr    // of A and AAAA, sorted, each once
	srvs  []srvRecord     // of SRV, sorted, each once
	chain []sources.Alias // CNAME records from the question's name on
	end   names.Name      // where the chain ends: the question's name without one
	// ttl is the smallest one of all records used, not capped; of a negative answer the
	// smaller one of the SOA's TTL and MINIMUM (RFC 2308 section 5).
	ttl time.Duration
}

// srvRecord is an SRV record without priority and weight, which nothing uses yet.
type srvRecord struct {
	target names.Name // Root: the service is not offered there (RFC 2782)
	port   uint16
}

func (a srvRecord) compare(b srvRecord) int {
	return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.target.Wire(), b.target.Wire()))
}

// noSOATTL is how long NXDOMAIN holds where no SOA gives a time: as long as a failure,
// since it should not be kept at all (RFC 2308 section 5).
const noSOATTL = 2 * time.Second

// convert reads the answer to q out of a reply. Records that do not belong to the alias
// chain, RRSIG and NSEC among them, are left out (CASES C44).
func convert(msg *mdns.Msg, q Question) (*answer, error) {
	if msg.Rcode != mdns.RcodeSuccess && msg.Rcode != mdns.RcodeNameError {
		return nil, errors.New((&Reply{Msg: msg}).Rcode())
	}
	a := &answer{end: q.Name, ttl: maxDuration}
	if err := a.followAliases(msg.Answer); err != nil {
		return nil, err
	}
	if err := a.takeRecords(msg.Answer, q.Type); err != nil {
		return nil, err
	}
	found := len(a.addrs) > 0 || len(a.srvs) > 0
	switch {
	case found && msg.Rcode == mdns.RcodeNameError:
		return nil, fmt.Errorf("%w: NXDOMAIN with records of %s", ErrMalformed, a.end.Text())
	case found:
		return a, nil
	}
	return a, a.settleEmpty(msg)
}

const maxDuration = time.Duration(1<<63 - 1)

// lower takes a record's TTL in seconds into account.
func (a *answer) lower(seconds uint32) {
	a.ttl = min(a.ttl, time.Duration(seconds)*time.Second)
}

// followAliases walks the CNAME records from a.end on.
func (a *answer) followAliases(rrs []mdns.RR) error {
	aliases, err := aliasesOf(rrs)
	if err != nil {
		return err
	}
	seen := map[names.Name]bool{a.end: true}
	for {
		next, ok := aliases[a.end]
		if !ok {
			return nil
		}
		a.chain = append(a.chain, sources.Alias{Owner: a.end, Target: next.target})
		a.lower(next.ttl)
		a.end = next.target
		if seen[a.end] {
			return fmt.Errorf("%w at %s", errLoop, a.end.Text())
		}
		if len(a.chain) > MaxAliases {
			return fmt.Errorf("%w, at %s", errDeep, a.end.Text())
		}
		seen[a.end] = true
	}
}

type cname struct {
	target names.Name
	ttl    uint32
}

// aliasesOf are the CNAME records by owner. Two different ones of one owner are an error
// (RFC 2181 section 10.1): which one would be meant?
func aliasesOf(rrs []mdns.RR) (map[names.Name]cname, error) {
	out := make(map[names.Name]cname)
	for _, rr := range rrs {
		record, ok := rr.(*mdns.CNAME)
		if !ok || record.Hdr.Class != mdns.ClassINET {
			continue
		}
		owner, err := nameOf(record.Hdr.Name)
		if err != nil {
			return nil, err
		}
		target, err := nameOf(record.Target)
		if err != nil {
			return nil, err
		}
		if before, twice := out[owner]; twice && before.target != target {
			return nil, fmt.Errorf("%w: %s has two CNAME records", ErrMalformed, owner.Text())
		}
		out[owner] = cname{target: target, ttl: record.Hdr.Ttl}
	}
	return out, nil
}

func nameOf(text string) (names.Name, error) {
	n, err := names.Parse(text)
	if err != nil {
		return names.Name{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return n, nil
}

// takeRecords keeps the records of a.end that have the asked type.
func (a *answer) takeRecords(rrs []mdns.RR, qtype uint16) error {
	for _, rr := range rrs {
		h := rr.Header()
		if h.Rrtype != qtype || h.Class != mdns.ClassINET {
			continue
		}
		owner, err := nameOf(h.Name)
		if err != nil {
			return err
		}
		if owner != a.end {
			continue
		}
		if err := a.take(rr); err != nil {
			return err
		}
		a.lower(h.Ttl)
	}
	slices.SortFunc(a.addrs, netip.Addr.Compare)
	a.addrs = slices.Compact(a.addrs)
	slices.SortFunc(a.srvs, srvRecord.compare)
	a.srvs = slices.Compact(a.srvs)
	return nil
}

func (a *answer) take(rr mdns.RR) error {
	switch rr := rr.(type) {
	case *mdns.A:
		a.takeAddr(rr.A.To4())
	case *mdns.AAAA:
		a.takeAddr(rr.AAAA.To16())
	case *mdns.SRV:
		target, err := nameOf(rr.Target)
		if err != nil {
			return err
		}
		a.srvs = append(a.srvs, srvRecord{target: target, port: rr.Port})
	}
	return nil
}

// takeAddr keeps an address. A record without one, and an AAAA record with an IPv4
// address mapped into it, which no client could use, are left out alone.
func (a *answer) takeAddr(raw []byte) {
	if addr, ok := netip.AddrFromSlice(raw); ok && !addr.Is4In6() {
		a.addrs = append(a.addrs, addr)
	}
}

// settleEmpty decides what an answer without records of the asked type means.
func (a *answer) settleEmpty(msg *mdns.Msg) error {
	soa, referral := authorityOf(msg.Ns, a.end)
	switch {
	case msg.Rcode == mdns.RcodeNameError && soa == nil: // final code counts (RFC 6604)
		a.kind = noName
		a.ttl = min(a.ttl, noSOATTL)
	case msg.Rcode == mdns.RcodeNameError:
		a.kind = noName
		a.lower(min(soa.Hdr.Ttl, soa.Minttl))
	case soa != nil:
		a.kind = noData
		a.lower(min(soa.Hdr.Ttl, soa.Minttl))
	case len(a.chain) > 0:
		a.kind = stopsShort
	case referral:
		return errLame
	default:
		return errUnproven
	}
	return nil
}

// authorityOf finds the SOA record that may speak for name, and whether there are NS
// records, as in a referral.
func authorityOf(rrs []mdns.RR, name names.Name) (soa *mdns.SOA, referral bool) {
	for _, rr := range rrs {
		switch rr := rr.(type) {
		case *mdns.NS:
			referral = true
		case *mdns.SOA:
			zone, err := names.Parse(rr.Hdr.Name)
			if err == nil && name.IsAtOrBelow(zone) {
				soa = rr
			}
		}
	}
	return soa, referral
}
