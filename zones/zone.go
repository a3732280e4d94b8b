package zones

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
)

// Record types and names that the index knows; others exist as types only.
const (
	typeA     = dns.TypeA
	typeNS    = dns.TypeNS
	typeCNAME = dns.TypeCNAME
	typeSOA   = dns.TypeSOA
	typePTR   = dns.TypePTR
	typeTXT   = dns.TypeTXT
	typeAAAA  = dns.TypeAAAA
	typeSRV   = dns.TypeSRV
	typeANY   = dns.TypeANY
)

// Naming is what the configuration says of zones. A Naming is never changed once it has
// been handed over.
type Naming struct {
	Mesh, Global names.Name     // the zero Name turns a zone off
	PerCluster   string         // template with "{id}"; "" turns cluster zones off
	Reverse      []netip.Prefix // networks with PTR records, none by default
	Nameservers  []names.Name   // NS targets of every zone; none: ns.dns.<zone>
	Glue         []netip.Addr   // addresses of ns.dns.<zone>
	NegativeTTL  time.Duration  // of SOA, as its TTL and MINIMUM alike (C158)
	TTL          time.Duration  // of NS records and their addresses
}

// ClusterZone is the zone of a cluster's own services.
func (n *Naming) ClusterZone(id string) (names.Name, error) {
	return names.Parse(strings.ReplaceAll(n.PerCluster, "{id}", id))
}

// Kind is what a zone holds.
type Kind uint8

const (
	Mesh Kind = iota
	Aggregate
	Cluster
	Reverse
)

// Zone is one zone of authority. It is immutable.
type Zone struct {
	Name names.Name
	Kind Kind

	number      int
	cluster     int // of Cluster zones: index into the snapshot's clusters
	labels      int
	wire        string
	mname       []byte // wire forms
	rname       []byte
	ns          [][]byte
	negativeTTL uint32
	ttl         uint32
	fixed       map[string]*fixed // by relative wire form: names that no source gives
}

// Number is the zone's place in its View's ZoneList.
func (z *Zone) Number() int { return z.number }

// fixed is a name of the zone's own. Without records it is an empty non-terminal.
type fixed struct {
	a, aaaa []byte
	txt     []byte
	txtTTL  uint32
}

// Serial arithmetic and timers of the SOA that nobody but secondaries reads: refresh
// and retry are short because serials move often, expire is a week as RFC 1912 section
// 2.2 recommends at least.
const (
	soaRefresh = 60
	soaRetry   = 10
	soaExpire  = 7 * 24 * 3600
)

// versionTTL is what the Kubernetes DNS specification's example gives dns-version.
const versionTTL = 28800

// zoneSet is all zones of a configuration.
type zoneSet struct {
	list   []*Zone
	byWire map[string]*Zone
	counts []int   // distinct numbers of labels, longest first
	table  []*Zone // open-addressed by slotOf, less than half full
	mesh   *Zone   // nil when off
	global *Zone
	// ofCluster is each cluster's own zone, by its number; nil without a usable name.
	ofCluster []*Zone
	sites     []string // each cluster's name as labels, wire form without a root byte
	reach     int      // most labels that a host and a site have together
	longest   int      // bytes of the longest zone name
}

func newZoneSet(n *Naming, clusters []string) *zoneSet {
	s := &zoneSet{byWire: map[string]*Zone{}, ofCluster: make([]*Zone, len(clusters)), reach: 2}
	s.mesh = s.add(n, n.Mesh, Mesh, 0)
	s.global = s.add(n, n.Global, Aggregate, 0)
	for i, id := range clusters {
		s.addCluster(n, i, id)
	}
	for _, name := range reverseZones(n.Reverse) {
		s.add(n, name, Reverse, 0)
	}
	for _, z := range s.list {
		if !slices.Contains(s.counts, z.labels) {
			s.counts = append(s.counts, z.labels)
		}
	}
	slices.SortFunc(s.counts, func(a, b int) int { return b - a })
	s.fillTable()
	return s
}

func (s *zoneSet) fillTable() {
	s.table = make([]*Zone, 1<<bits.Len(uint(2*len(s.list))))
	for _, z := range s.list {
		at := s.slotOf([]byte(z.wire))
		for s.table[at] != nil {
			at = (at + 1) & uint32(len(s.table)-1)
		}
		s.table[at] = z
	}
}

// slotOf is where a zone of that name stands in the table, or from where on. Names come
// from the configuration: nobody can choose them so that they meet.
func (s *zoneSet) slotOf(wire []byte) uint32 {
	mixed := uint32(len(wire))
	if len(wire) >= 8 { // the ends: templates differ at one of them
		first, last := binary.LittleEndian.Uint64(wire), binary.LittleEndian.Uint64(wire[len(wire)-8:])
		mixed += uint32((first ^ bits.RotateLeft64(last, 29)) * 0x9e3779b97f4a7c15 >> 32)
	} else {
		for _, c := range wire {
			mixed = mixed*31 + uint32(c)
		}
	}
	return mixed & uint32(len(s.table)-1)
}

func (s *zoneSet) addCluster(n *Naming, i int, id string) {
	site, err := names.Parse(id)
	if err != nil { // config refuses such names; without a label there is no zone
		s.sites = append(s.sites, "")
		return
	}
	s.sites = append(s.sites, strings.TrimSuffix(site.Wire(), "\x00"))
	s.reach = max(s.reach, 1+site.NumLabels())
	if n.PerCluster == "" {
		return
	}
	if name, err := n.ClusterZone(id); err == nil {
		s.ofCluster[i] = s.add(n, name, Cluster, i)
	}
}

func (s *zoneSet) add(n *Naming, name names.Name, kind Kind, cluster int) *Zone {
	if name.IsZero() || s.byWire[name.Wire()] != nil {
		return nil
	}
	z := &Zone{
		Name: name, Kind: kind, number: len(s.list), cluster: cluster,
		labels: name.NumLabels(), wire: name.Wire(),
		negativeTTL: uint32(n.NegativeTTL / time.Second),
		ttl:         uint32(n.TTL / time.Second),
		fixed:       map[string]*fixed{},
	}
	z.addNameservers(n)
	switch kind {
	case Aggregate:
		z.fix("dns-version").setText("1.0.0")
	case Cluster:
		z.fix("dns-version").setText("1.1.0")
	}
	s.list = append(s.list, z)
	s.longest = max(s.longest, len(z.wire))
	s.byWire[z.wire] = z
	return z
}

// addNameservers sets NS targets, SOA names and glue (DNS_RULES 8).
func (z *Zone) addNameservers(n *Naming) {
	targets := n.Nameservers
	if len(targets) == 0 {
		own, err := z.Name.Prepend("ns", "dns")
		if err != nil {
			own = z.Name
		}
		targets = []names.Name{own}
	}
	for _, t := range targets {
		z.ns = append(z.ns, []byte(t.Wire()))
		if relative, ok := t.Relative(z.Name); ok && relative != "" {
			z.fixWire(relative).setAddresses(n.Glue)
		}
	}
	z.mname = z.ns[0]
	z.rname = append([]byte("\x0ahostmaster"), z.wire...)
}

// fix makes a name of one label below the zone.
func (z *Zone) fix(label string) *fixed {
	return z.fixWire(string(append([]byte{byte(len(label))}, label...)))
}

// fixWire makes a name and the empty non-terminals above it.
func (z *Zone) fixWire(relative string) *fixed {
	for rest := relative; rest != ""; rest = rest[1+rest[0]:] {
		if z.fixed[rest] == nil {
			z.fixed[rest] = &fixed{}
		}
	}
	return z.fixed[relative]
}

func (f *fixed) setText(s string) {
	f.txt, f.txtTTL = []byte(s), versionTTL
}

func (f *fixed) setAddresses(addrs []netip.Addr) {
	for _, a := range addrs {
		if a.Is4() {
			f.a = append(f.a, a.AsSlice()...)
		} else {
			f.aaaa = append(f.aaaa, a.AsSlice()...)
		}
	}
}

func (f *fixed) addresses(typ uint16) []byte {
	if typ == typeA {
		return f.a
	}
	return f.aaaa
}

// find is the longest zone that the query's name is in, nil for none.
func (s *zoneSet) find(q *Query) *Zone {
	for _, n := range s.counts {
		if n > len(q.Labels) {
			continue
		}
		wire := q.tail(n)
		for at := s.slotOf(wire); s.table[at] != nil; at = (at + 1) & uint32(len(s.table)-1) {
			if z := s.table[at]; string(wire) == z.wire {
				return z
			}
		}
	}
	return nil
}

// reverseZones are the octet (IPv4) and nibble (IPv6) zones that networks cover; one off
// a border becomes all those inside of it (DNS_RULES 15).
func reverseZones(networks []netip.Prefix) []names.Name {
	var out []names.Name
	for _, p := range networks {
		step := 4
		if p.Addr().Is4() {
			step = 8
		}
		whole := (p.Bits() + step - 1) / step * step
		for i := 0; i < 1<<(whole-p.Bits()); i++ {
			out = append(out, reverseZone(p.Masked().Addr(), whole, step, i))
		}
	}
	return out
}

// reverseZone is the zone of the i-th subnet of whole bits.
func reverseZone(base netip.Addr, whole, step, i int) names.Name {
	b := base.AsSlice()
	if whole > 0 {
		last := (whole - 1) / 8
		shift := (8 - whole%8) % 8
		b[last] |= byte(i << shift)
	}
	addr, _ := netip.AddrFromSlice(b)
	full := ReverseName(addr)
	for drop := (addr.BitLen() - whole) / step; drop > 0; drop-- {
		full = full.Parent()
	}
	return full
}

// ReverseName is an address's name below in-addr.arpa (RFC 1035 section 3.5) or ip6.arpa
// (RFC 3596 section 2.5).
func ReverseName(addr netip.Addr) names.Name {
	text, err := dns.ReverseAddr(addr.String())
	if err != nil {
		return names.Name{}
	}
	return names.MustParse(text)
}
