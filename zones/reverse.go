package zones

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// reverseNames keeps the PTR records of the site cluster's cluster IPs and ready headless
// endpoints (DNS_RULES 15): one for each address, the first of its names in byte order,
// so that every replica says the same.
type reverseNames struct {
	on      bool
	claims  map[netip.Addr][]string // target names in wire form, sorted, with repeats
	claimed map[resolver.ServiceName][]claim
	inner   map[string]int // records at or below a name, by wire form without the root byte
	dirty   map[netip.Addr]struct{}
}

type claim struct {
	addr   netip.Addr
	target string
}

func newReverseNames(on bool) *reverseNames {
	return &reverseNames{
		on: on, claims: map[netip.Addr][]string{}, claimed: map[resolver.ServiceName][]claim{},
		inner: map[string]int{}, dirty: map[netip.Addr]struct{}{},
	}
}

// service takes a service's present claims in place of its earlier ones.
func (r *reverseNames) service(p *Publisher, v *View, name resolver.ServiceName, g *resolver.Group) {
	if !r.on {
		return
	}
	next := r.claimsOf(p, v, g)
	for _, c := range r.claimed[name] {
		r.release(c)
	}
	for _, c := range next {
		r.claim(c)
	}
	if len(next) == 0 {
		delete(r.claimed, name)
	} else {
		r.claimed[name] = next
	}
}

func (r *reverseNames) claim(c claim) {
	list := r.claims[c.addr]
	i, _ := slices.BinarySearch(list, c.target)
	r.claims[c.addr] = slices.Insert(list, i, c.target)
	r.dirty[c.addr] = struct{}{}
}

func (r *reverseNames) release(c claim) {
	list := r.claims[c.addr]
	if i, ok := slices.BinarySearch(list, c.target); ok {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(r.claims, c.addr)
	} else {
		r.claims[c.addr] = list
	}
	r.dirty[c.addr] = struct{}{}
}

// claimsOf are the PTR records that a service asks for.
func (r *reverseNames) claimsOf(p *Publisher, v *View, g *resolver.Group) []claim {
	site := v.snapshot.Cluster(v.snapshot.Settings.Site)
	if g == nil || site < 0 || v.zones.ofCluster[site] == nil {
		return nil
	}
	m := g.Member(site)
	if m == nil {
		return nil
	}
	base, err := v.zones.ofCluster[site].Name.Prepend(m.Name, m.Namespace, "svc")
	if err != nil {
		return nil
	}
	v.snapshot.InCluster(m, &p.own)
	var out []claim
	for j := range p.own.Parts {
		out = appendClaims(out, &p.own.Parts[j], base)
	}
	return out
}

func appendClaims(out []claim, part *resolver.Part, base names.Name) []claim {
	for list := part.Slice.Endpoints(); list.Next(); {
		e := &list.Endpoint
		if part.Reason(e) != resolver.Included || e.State != sources.Ready {
			continue
		}
		target := base
		if !part.Virtual {
			label := e.Hostname
			if label == "" {
				label = names.Dashed(e.Address)
			}
			host, err := base.Prepend(label)
			if err != nil {
				continue
			}
			target = host
		}
		out = append(out, claim{e.Address, target.Wire()})
	}
	return out
}

// write turns the addresses that moved into edits.
func (r *reverseNames) write(p *Publisher, v *View) {
	for addr := range r.dirty {
		name := ReverseName(addr)
		zone := v.zones.reverseZoneOf(name)
		if zone == nil {
			continue
		}
		key := []byte(strings.TrimSuffix(name.Wire(), "\x00"))
		var e entry
		if targets := r.claims[addr]; len(targets) > 0 {
			e = p.packReverse(v, key, targets[0])
		}
		old, changed := p.replace(v, classReverse, key, e)
		if !changed {
			continue
		}
		p.serials.changed(zone)
		if (old == nil) != (e == nil) {
			r.countInner(p, v, zone, name, e != nil)
		}
	}
	r.dirty = emptied(r.dirty)
}

func (p *Publisher) packReverse(v *View, key []byte, target string) entry {
	p.packer.begin(classReverse, key, 0)
	p.packer.setTTL(v.snapshot.Settings.TTL, time.Time{})
	p.packer.flags = fExists
	p.packer.text = append(p.packer.text, target...)
	return p.packer.finish()
}

// countInner keeps the empty non-terminals between a PTR record and its zone.
func (r *reverseNames) countInner(p *Publisher, v *View, zone *Zone, name names.Name, has bool) {
	by := -1
	if has {
		by = 1
	}
	for n := name.Parent(); n != zone.Name; n = n.Parent() {
		wire := n.Wire()
		key := wire[:len(wire)-1]
		r.inner[key] += by
		var e entry
		if r.inner[key] > 0 {
			e = p.packEmpty(classReverse, []byte(key))
		} else {
			delete(r.inner, key)
		}
		p.replace(v, classReverse, []byte(key), e)
	}
}

// reverseZoneOf is the reverse zone that a name is in, nil for none.
func (s *zoneSet) reverseZoneOf(name names.Name) *Zone {
	for n := name; !n.IsZero(); n = n.Parent() {
		if z := s.byWire[n.Wire()]; z != nil && z.Kind == Reverse {
			return z
		}
	}
	return nil
}
