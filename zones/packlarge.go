package zones

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// Very large services are put together from slices that are packed once: of a hundred
// slices a change touches one. That works while each host is in one slice with one
// address, which is how Kubernetes fills slices of one family; where it does not hold,
// the service is packed endpoint by endpoint like any other.

// largeService is from how many endpoints on a service is worth keeping packed slices.
const largeService = 1024

// sliceKey names a packed slice: whose it is, and whether its endpoints that only serve
// are in. Two services of one label may have slices of one name.
type sliceKey struct {
	cluster int
	name    string
	serving bool
}

// packedSlice is a slice's hosts as they stand in a part, one address each.
type packedSlice struct {
	from  sources.Slice // a copy: the slice itself is a part of a whole service's memory
	nodes []byte
	hosts []packedHost
	v4    [][4]byte
	v6    [][16]byte
	fits  bool // false: a host comes twice, or no name of it would fit
}

type packedHost struct {
	hash   uint32 // of the label
	offset uint32 // in nodes
}

// usedSlice is a packed slice in a part that is being built.
type usedSlice struct {
	*packedSlice
	ports   []sources.Port // names are not read
	indexes []int32        // of ports in the part
	base    uint32         // where nodes have been written in the part
}

// largeState is what the packer knows of large services.
type largeState struct {
	from   int  // endpoints from which on a service is large
	on     bool // the entry at hand is packed from slices
	failed bool // it can't be: pack it again without
	kept   map[string]map[sliceKey]*packedSlice
	before map[sliceKey]*packedSlice // of the entry at hand, from its last packing
	now    map[sliceKey]*packedSlice
	size   int      // of the large entry that was packed last: about that of the next
	hashes []uint32 // by slot of a host table, while it is filled
}

// beginLarge decides how the entry of key is packed.
func (p *packer) beginLarge(key []byte, endpoints int) {
	l := &p.large
	l.on, l.failed = endpoints >= l.from, false
	if !l.on {
		delete(l.kept, string(key))
		return
	}
	l.before, l.now = l.kept[string(key)], map[sliceKey]*packedSlice{}
}

// endLarge keeps the entry's slices for its next packing.
func (p *packer) endLarge(key []byte) {
	l := &p.large
	if l.on && !l.failed {
		l.kept[string(key)] = l.now
	}
	l.on, l.before, l.now = false, nil, nil
}

// addLarge is addPart for a part of packed slices.
func (p *packer) addLarge(b *partBuilder, from *resolver.Part) (any bool) {
	s := p.packedSlice(b, from)
	u := usedSlice{packedSlice: s, ports: from.Ports.List()}
	if !s.fits || sameNumberTwice(u.ports) {
		p.large.failed = true
		return false
	}
	for _, port := range u.ports {
		u.indexes = append(u.indexes, b.portIndex(names.Lower(port.Name), port.Protocol))
	}
	b.used = append(b.used, u)
	b.order4 = append(b.order4, s.v4...)
	b.order6 = append(b.order6, s.v6...)
	return len(s.hosts) > 0
}

// sameNumberTwice says whether two ports share a number: then the bare name's targets
// are not simply those of all ports.
func sameNumberTwice(ports []sources.Port) bool {
	for i := range ports {
		for j := range i {
			if ports[i].Number == ports[j].Number {
				return true
			}
		}
	}
	return false
}

func (p *packer) packedSlice(b *partBuilder, from *resolver.Part) *packedSlice {
	key := sliceKey{from.Cluster, from.Slice.Name(), from.Serving()}
	if s := p.large.now[key]; s != nil && s.from == from.Slice {
		return s
	}
	s := p.large.before[key]
	if s == nil || s.from != from.Slice {
		s = p.packSlice(b, from)
	}
	key.name = s.from.Name()
	p.large.now[key] = s
	return s
}

func (p *packer) packSlice(b *partBuilder, from *resolver.Part) *packedSlice {
	s := &packedSlice{from: sources.Slice(strings.Clone(string(from.Slice))), fits: true}
	for list := from.Slice.Endpoints(); list.Next(); {
		e := &list.Endpoint
		if !from.Reason(e).In() {
			continue
		}
		label := e.Hostname
		if label == "" {
			label = names.Dashed(e.Address)
		}
		if 1+len(label)+len(b.site) > p.room {
			s.fits = false
			return s
		}
		s.add(uint32(maphash.String(p.seed, label)), label, e)
	}
	return s
}

func (s *packedSlice) add(hash uint32, label string, e *sources.Endpoint) {
	s.hosts = append(s.hosts, packedHost{hash, uint32(len(s.nodes))})
	s.nodes = append(s.nodes, byte(len(label)))
	s.nodes = append(s.nodes, label...)
	if e.Address.Is4() {
		a := e.Address.As4()
		s.v4 = append(s.v4, a)
		s.nodes = append(append(s.nodes, 1, 0, 0, 0), a[:]...)
		return
	}
	a := e.Address.As16()
	s.v6 = append(s.v6, a)
	s.nodes = append(append(s.nodes, 0, 0, 1, 0), a[:]...)
}

// largeHosts writes the hosts of packed slices and the table that finds them. Two hosts
// of one hash may be one host of two slices: then this way fails.
func (w *partWriter) largeHosts() {
	n := 0
	for i := range w.b.used {
		u := &w.b.used[i]
		u.base = w.here()
		w.out = append(w.out, u.nodes...)
		n += len(u.hosts)
	}
	size := tableSize(n)
	w.put(pHosts, span{w.here(), uint32(size)})
	at := len(w.out)
	w.out = slices.Grow(w.out, 4*size)[:at+4*size]
	table := w.out[at:]
	clear(table)
	hashes := w.large.slots(size)
	for i := range w.b.used {
		if !insertHosts(table, hashes, &w.b.used[i]) {
			w.large.failed = true
			return
		}
	}
}

// slots is room for the hashes of a table's slots.
func (l *largeState) slots(size int) []uint32 {
	if cap(l.hashes) < size {
		l.hashes = make([]uint32, size)
	}
	return l.hashes[:size]
}

// insertHosts enters a slice's hosts into a table; false when a hash is there already.
func insertHosts(table []byte, hashes []uint32, u *usedSlice) bool {
	mask := uint32(len(hashes) - 1)
	for _, h := range u.hosts {
		slot := h.hash & mask
		for binary.LittleEndian.Uint32(table[4*slot:]) != 0 {
			if hashes[slot] == h.hash {
				return false
			}
			slot = (slot + 1) & mask
		}
		hashes[slot] = h.hash
		binary.LittleEndian.PutUint32(table[4*slot:], u.base+h.offset)
	}
	return true
}

// largeTargets writes the targets of one port (-1: of all) at packed slices.
func (w *partWriter) largeTargets(port int32) span {
	at, count := w.here(), uint32(0)
	for i := range w.b.used {
		u := &w.b.used[i]
		for j, index := range u.indexes {
			if number := u.ports[j].Number; number != 0 && (port < 0 || port == index) {
				w.out = appendTargets(w.out, u, number)
				count += uint32(len(u.hosts))
			}
		}
	}
	return span{at, count}
}

func appendTargets(out []byte, u *usedSlice, number uint16) []byte {
	at := len(out)
	n := len(u.hosts) * targetSize
	out = slices.Grow(out, n)[:at+n]
	for i, h := range u.hosts {
		record := out[at+i*targetSize:]
		binary.LittleEndian.PutUint16(record, number)
		binary.LittleEndian.PutUint32(record[2:], u.base+h.offset)
	}
	return out
}
