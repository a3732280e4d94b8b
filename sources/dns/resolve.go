package dns

import (
	"context"
	"fmt"
	"strings"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// targetsAtOnce bounds the hosts of one SRV record set that are looked up at one time.
const targetsAtOnce = 8

// locator is what a key's name stands for.
type locator struct {
	name names.Name
	// srv: follow SRV records of name, which begins with the labels _service and _proto.
	srv      bool
	service  string           // the service label without "_"
	protocol sources.Protocol // by the proto label
}

// parseLocator reads a host name, or _service._proto.host.
func parseLocator(text string) (locator, error) {
	name, err := names.Parse(text)
	if err != nil {
		return locator{}, fmt.Errorf("dns locator: %w", err)
	}
	labels := name.Labels()
	if len(labels) < 2 || labels[0][0] != '_' || labels[1][0] != '_' {
		return locator{name: name}, nil
	}
	loc := locator{name: name, srv: true, service: labels[0][1:]}
	for _, p := range []sources.Protocol{sources.TCP, sources.UDP, sources.SCTP} {
		if p.Label() == labels[1] {
			loc.protocol = p
			return loc, nil
		}
	}
	return locator{}, fmt.Errorf("dns locator %q: protocol is not _tcp, _udp or _sctp", text)
}

// attempt is what one attempt to resolve a locator found.
type attempt struct {
	srv     *result  // of a locator that follows SRV records
	targets []target // the host itself, or the SRV records' targets, ordered by name
}

// target is one host and the SRV ports under which it was named (none of a plain host).
type target struct {
	name   names.Name
	ports  []uint16
	v4, v6 result
}

// result is what is at the end of the alias chain of one name, for one type.
type result struct {
	err     error // the rest but chain means nothing then
	kind    answerKind
	piece   piece // the last answer of the chain
	chain   []sources.Alias
	fetched time.Time // when the oldest answer of the chain came
	expires time.Time // when the first answer of the chain expires
	zero    bool      // one of the answers has TTL 0
}

// lookups makes attempts.
type lookups struct {
	cache *cache
}

// attempt resolves loc within ctx's time.
func (l *lookups) attempt(ctx context.Context, loc locator) attempt {
	if !loc.srv {
		return attempt{targets: l.hosts(ctx, []target{{name: loc.name}})}
	}
	srv := l.follow(ctx, Question{Name: loc.name, Type: mdns.TypeSRV})
	if srv.err != nil || srv.kind != hasRecords {
		return attempt{srv: &srv}
	}
	return attempt{srv: &srv, targets: l.hosts(ctx, targetsOf(srv.piece.srvs))}
}

// targetsOf groups SRV records, sorted by port, by target. Target "." says that the
// service is not there (RFC 2782); port 0 is kept as a host without a known port.
func targetsOf(srvs []srvRecord) []target {
	var out []target
	at := make(map[names.Name]int)
	for _, srv := range srvs {
		if srv.target == names.Root {
			continue
		}
		i, ok := at[srv.target]
		if !ok {
			i = len(out)
			at[srv.target] = i
			out = append(out, target{name: srv.target})
		}
		out[i].ports = append(out[i].ports, srv.port)
	}
	return out
}

// hosts fills in the addresses of targets: A and AAAA in parallel, and a few hosts at once.
func (l *lookups) hosts(ctx context.Context, targets []target) []target {
	var group errgroup.Group
	group.SetLimit(2 * targetsAtOnce)
	ask := func(into *result, name names.Name, qtype uint16) {
		group.Go(func() error {
			*into = l.follow(ctx, Question{Name: name, Type: qtype})
			return nil // failures are results here: one must not end the others
		})
	}
	for i := range targets {
		t := &targets[i]
		ask(&t.v4, t.name, mdns.TypeA)
		ask(&t.v6, t.name, mdns.TypeAAAA)
	}
	_ = group.Wait() // none of them returns an error
	return targets
}

// follow looks q up, and the target of each alias that the upstream's answer stops at,
// across zones (DNS_RULES 22, CASES C148, C152). It makes at most MaxAliases + 1 lookups.
func (l *lookups) follow(ctx context.Context, q Question) result {
	r := result{}
	seen := map[names.Name]bool{q.Name: true}
	for {
		p, err := l.cache.lookup(ctx, q)
		if err != nil {
			r.err = err
			return r
		}
		r.include(p)
		if err := r.checkChain(p.chain, seen); err != nil {
			r.err = err
			return r
		}
		if p.kind != stopsShort {
			return r
		}
		q.Name = p.end
	}
}

// include adds the next answer of the chain.
func (r *result) include(p piece) {
	if r.piece.answer == nil || p.fetched.Before(r.fetched) {
		r.fetched = p.fetched
	}
	if r.piece.answer == nil || p.expires.Before(r.expires) {
		r.expires = p.expires
	}
	r.zero = r.zero || p.ttl == 0
	r.chain = append(r.chain, p.chain...)
	r.piece, r.kind = p, p.kind
}

// checkChain refuses loops over several answers, and chains that are too long.
func (r *result) checkChain(added []sources.Alias, seen map[names.Name]bool) error {
	for _, alias := range added {
		if seen[alias.Target] {
			return fmt.Errorf("%w: %s", errLoop, chainText(r.chain))
		}
		seen[alias.Target] = true
	}
	if len(r.chain) > MaxAliases {
		return fmt.Errorf("%w: %s", errDeep, chainText(r.chain))
	}
	return nil
}

// chainText is a chain for people: "a.example > b.example > c.example".
func chainText(chain []sources.Alias) string {
	var b strings.Builder
	for i, alias := range chain {
		if i == 0 {
			b.WriteString(alias.Owner.Text())
		}
		b.WriteString(" > " + alias.Target.Text())
	}
	return b.String()
}
