package zones

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// packer turns selections into entries. It belongs to the publishing goroutine and
// reuses its memory; the entry that finish returns is the caller's.
type packer struct {
	seed  maphash.Seed
	start time.Time // zero of the clock that entries count down by

	class   byte
	key     []byte
	flags   byte
	ttl     uint32
	expires int64
	text    []byte
	shares  shares // nil: all addresses are alike
	room    int    // bytes that host and site labels of a name may take together
	parts   []partBuilder
	used    int // parts in use: the others keep their memory
	set4    set4
	set6    map[[16]byte]struct{}
	out     []byte
	ports   []sources.Port // of the part that is added
	large   largeState
}

// span is a list that has been written: where and how many.
type span struct{ offset, count uint32 }

func newPacker(seed maphash.Seed, start time.Time) *packer {
	return &packer{
		seed: seed, start: start, set6: map[[16]byte]struct{}{},
		large: largeState{from: largeService, kept: map[string]map[sliceKey]*packedSlice{}},
	}
}

// begin starts an entry; suffix is the length in bytes of what follows a host and its
// site in their full name.
func (p *packer) begin(class byte, key []byte, suffix int) {
	p.class = class
	p.key = append(p.key[:0], key...)
	p.flags, p.ttl, p.expires, p.used = 0, 0, 0, 0
	p.text, p.shares = p.text[:0], nil
	p.room = names.MaxName - suffix
}

// setTTL takes a selection's TTL: whole seconds, and the moment that it counts down to.
func (p *packer) setTTL(ttl time.Duration, expires time.Time) {
	p.ttl = uint32(ttl / time.Second)
	if !expires.IsZero() {
		p.expires = max(1, expires.Sub(p.start).Milliseconds())
	}
}

// partKind keeps apart the parts that one site may have in an entry.
type partKind uint8

const (
	shared    partKind = iota // in the aggregate, and maybe in the cluster's own zone too
	virtual                   // the service's own addresses or alias in its cluster's zone
	ownOnly                   // hosts of the cluster's own zone that differ from the aggregate's
	lingering                 // hosts past keepShared: their names are nobody else's
)

// part finds or makes the builder of a site's part.
func (p *packer) part(cluster uint16, site string, kind partKind) *partBuilder {
	for i := range p.parts[:p.used] {
		b := &p.parts[i]
		if b.site == site && b.kind == kind {
			if b.cluster == noCluster {
				b.cluster = cluster
			}
			return b
		}
	}
	if p.used == len(p.parts) {
		p.parts = append(p.parts, partBuilder{})
	}
	b := &p.parts[p.used]
	p.used++
	b.reset(cluster, site, kind)
	return b
}

// partBuilder collects the hosts of one site.
type partBuilder struct {
	cluster uint16
	flags   byte
	site    string // wire form without a root byte
	kind    partKind
	alias   string

	hosts  []hostBuilder
	labels []byte
	table  []uint32 // 1 + index into hosts, open-addressed by the label's hash; scratch
	addrs4 []link4
	addrs6 []link6
	order4 [][4]byte // unique addresses, in the order they came
	order6 [][16]byte
	ports  []portBuilder
	bare   []target // not filled while there is one port only: its targets are the same
	seen   []seenPort
	used   []usedSlice // of a large service: in place of hosts and targets

	start      uint32 // where the part has been written, and its own lists in it
	own4, own6 span
}

// hostBuilder has no pointers: ten thousand of them cost the garbage collector nothing.
type hostBuilder struct {
	label   uint32 // offset in labels of the length byte and the label
	hash    uint32
	head4   int32 // latest of its addresses in addrs4; -1: none
	head6   int32
	n4, n6  uint16
	seen    int32 // latest of its (port, number) pairs
	written uint32
}

type link4 struct {
	addr [4]byte
	next int32
}

type link6 struct {
	addr [16]byte
	next int32
}

type portBuilder struct {
	name     string
	protocol sources.Protocol
	targets  []target
}

// target is an SRV record: host is an index into hosts, -1 for the service itself.
type target struct {
	number uint16
	host   int32
}

type seenPort struct {
	port   int32
	number uint16
	next   int32
}

func (b *partBuilder) reset(cluster uint16, site string, kind partKind) {
	*b = partBuilder{
		cluster: cluster, site: site, kind: kind,
		hosts: b.hosts[:0], labels: b.labels[:0], table: b.table[:0],
		addrs4: b.addrs4[:0], addrs6: b.addrs6[:0], order4: b.order4[:0], order6: b.order6[:0],
		ports: b.ports[:0], bare: b.bare[:0], seen: b.seen[:0], used: b.used[:0],
	}
}

// portIndex finds or makes a port.
func (b *partBuilder) portIndex(name string, protocol sources.Protocol) int32 {
	for i := range b.ports {
		if b.ports[i].name == name && b.ports[i].protocol == protocol {
			return int32(i)
		}
	}
	if len(b.ports) == 1 {
		b.bare = append(b.bare, b.ports[0].targets...)
	}
	if len(b.ports) < cap(b.ports) { // keep the targets' memory of an earlier use
		b.ports = b.ports[:len(b.ports)+1]
		last := &b.ports[len(b.ports)-1]
		*last = portBuilder{name: name, protocol: protocol, targets: last.targets[:0]}
	} else {
		b.ports = append(b.ports, portBuilder{name: name, protocol: protocol})
	}
	return int32(len(b.ports) - 1)
}

// addPart adds the endpoints of a selection's part that answer. It says whether there
// was any.
func (p *packer) addPart(b *partBuilder, from *resolver.Part) (any bool) {
	switch {
	case !from.Refused.In():
		return false
	case p.large.on && b.kind != virtual:
		return p.addLarge(b, from)
	}
	var room [16]int32
	indexes := room[:0]
	p.ports = from.Ports.Append(p.ports[:0])
	for _, port := range p.ports {
		indexes = append(indexes, b.portIndex(names.Lower(port.Name), port.Protocol))
	}
	b.expect(from.Slice.Len())
	for list := from.Slice.Endpoints(); list.Next(); {
		e := &list.Endpoint
		if !from.Reason(e).In() {
			continue
		}
		any = true
		h := int32(-1)
		if b.kind != virtual {
			h = p.hostIndex(b, e)
		}
		b.addAddress(h, e.Address)
		if h >= 0 || b.kind == virtual {
			b.addTargets(h, p.ports, indexes)
		}
	}
	return any
}

// hostIndex finds or makes the host of an endpoint: its hostname, else the dashed
// address; -1 when no name of it would fit into 255 bytes.
func (p *packer) hostIndex(b *partBuilder, e *sources.Endpoint) int32 {
	label := e.Hostname
	if label == "" || 1+len(label)+len(b.site) > p.room {
		label = names.Dashed(e.Address)
	}
	if 1+len(label)+len(b.site) > p.room {
		return -1
	}
	return b.host(uint32(maphash.String(p.seed, label)), label)
}

// host finds or makes a host. expect has made room in the table.
func (b *partBuilder) host(hash uint32, label string) int32 {
	mask := uint32(len(b.table) - 1)
	i := hash & mask
	for ; b.table[i] != 0; i = (i + 1) & mask {
		if h := &b.hosts[b.table[i]-1]; h.hash == hash && string(b.label(h)[1:]) == label {
			return int32(b.table[i] - 1)
		}
	}
	b.hosts = append(b.hosts, hostBuilder{label: uint32(len(b.labels)), hash: hash, head4: -1, head6: -1, seen: -1})
	b.labels = append(b.labels, byte(len(label)))
	b.labels = append(b.labels, label...)
	b.table[i] = uint32(len(b.hosts))
	return int32(len(b.hosts) - 1)
}

// label is a host's label with its length byte.
func (b *partBuilder) label(h *hostBuilder) []byte {
	return b.labels[h.label : h.label+1+uint32(b.labels[h.label])]
}

// expect makes room for n more hosts.
func (b *partBuilder) expect(n int) {
	size := tableSize(len(b.hosts) + n)
	if size <= len(b.table) {
		return
	}
	if cap(b.table) >= size {
		b.table = b.table[:size]
		clear(b.table)
	} else {
		b.table = make([]uint32, size)
	}
	mask := uint32(size - 1)
	for j := range b.hosts {
		i := b.hosts[j].hash & mask
		for b.table[i] != 0 {
			i = (i + 1) & mask
		}
		b.table[i] = uint32(j + 1)
	}
}

// tableSize is the power of two of slots of which n take at most three quarters.
func tableSize(n int) int {
	size := 2
	for size*3 < n*4 {
		size *= 2
	}
	return size
}

// addAddress adds an address under host h (-1: under the service alone), once.
func (b *partBuilder) addAddress(h int32, addr netip.Addr) {
	if addr.Is4() {
		a := addr.As4()
		if h >= 0 && !b.link4(&b.hosts[h], a) {
			return
		}
		b.order4 = append(b.order4, a)
		return
	}
	a := addr.As16()
	if h >= 0 && !b.link6(&b.hosts[h], a) {
		return
	}
	b.order6 = append(b.order6, a)
}

// link4 adds an address to a host; false when the host has it already.
func (b *partBuilder) link4(h *hostBuilder, a [4]byte) bool {
	for i := h.head4; i >= 0; i = b.addrs4[i].next {
		if b.addrs4[i].addr == a {
			return false
		}
	}
	b.addrs4 = append(b.addrs4, link4{a, h.head4})
	h.head4 = int32(len(b.addrs4) - 1)
	h.n4++
	return true
}

func (b *partBuilder) link6(h *hostBuilder, a [16]byte) bool {
	for i := h.head6; i >= 0; i = b.addrs6[i].next {
		if b.addrs6[i].addr == a {
			return false
		}
	}
	b.addrs6 = append(b.addrs6, link6{a, h.head6})
	h.head6 = int32(len(b.addrs6) - 1)
	h.n6++
	return true
}

// addTargets adds the SRV records of a host: under each of its ports, and under the bare
// name once for each number (DNS_RULES 13, 14). Number 0 is never served (C64).
func (b *partBuilder) addTargets(h int32, ports []sources.Port, indexes []int32) {
	for i, index := range indexes {
		number := ports[i].Number
		if number == 0 {
			continue
		}
		pair, bare := b.isNew(h, index, number)
		if pair {
			b.ports[index].targets = append(b.ports[index].targets, target{number, h})
			b.remember(h, index, number)
		}
		if bare && len(b.ports) > 1 {
			b.bare = append(b.bare, target{number, h})
		}
	}
}

// isNew says whether the host has no record yet for (port, number), and whether it has
// none for the number at all.
func (b *partBuilder) isNew(h, port int32, number uint16) (pair, bare bool) {
	if h < 0 {
		return b.isNewVirtual(port, number)
	}
	pair, bare = true, true
	for i := b.hosts[h].seen; i >= 0; i = b.seen[i].next {
		if b.seen[i].number == number {
			bare = false
			if b.seen[i].port == port {
				return false, false
			}
		}
	}
	return pair, bare
}

func (b *partBuilder) isNewVirtual(port int32, number uint16) (pair, bare bool) {
	pair, bare = true, true
	for _, t := range b.ports[port].targets {
		pair = pair && t.number != number
	}
	for _, t := range b.bare {
		bare = bare && t.number != number
	}
	return pair, bare
}

func (b *partBuilder) remember(h, port int32, number uint16) {
	if h < 0 {
		return
	}
	b.seen = append(b.seen, seenPort{port, number, b.hosts[h].seen})
	b.hosts[h].seen = int32(len(b.seen) - 1)
}

// set4 is a set of IPv4 addresses that is quick to fill and to empty.
type set4 struct {
	table []uint32 // 0: free; the address 0.0.0.0 is never an endpoint
}

func (s *set4) reset(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	if cap(s.table) < size {
		s.table = make([]uint32, size)
		return
	}
	s.table = s.table[:size]
	clear(s.table)
}

// add says whether a was not in the set yet.
func (s *set4) add(a [4]byte) bool {
	v := binary.BigEndian.Uint32(a[:])
	mask := uint32(len(s.table) - 1)
	for i := (v * 0x9e3779b1) >> 7 & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case v:
			return false
		case 0:
			s.table[i] = v
			return true
		}
	}
}

// appendNew appends the addresses that are not in the set yet, and adds them to it.
func (s *set4) appendNew(out []byte, list [][4]byte) []byte {
	for _, a := range list {
		if s.add(a) {
			out = append(out, a[:]...)
		}
	}
	return out
}

// appendNew6 is the same for IPv6, of which there are fewer.
func appendNew6(out []byte, set map[[16]byte]struct{}, list [][16]byte) []byte {
	for _, a := range list {
		if _, dup := set[a]; !dup {
			set[a] = struct{}{}
			out = append(out, a[:]...)
		}
	}
	return out
}
