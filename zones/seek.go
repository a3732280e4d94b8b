package zones

import (
	"bytes"
	"encoding/binary"
)

// Queries that came together are looked up together: all seek their slots, which are
// fetched in one go; all find their entries, which are fetched in one go; then each is
// answered. A lookup among a million names waits for memory twice; so a batch of them
// waits little longer than a single one does.

// spot is where a question's entry is, as far as it was sought.
type spot struct {
	zone  *Zone // nil: not sought
	hash  uint32
	class byte
	end   uint8    // the key is the name's first bytes up to here
	at    position // of an entry with that hash; 0 for none
}

// Ahead are the places in memory that are to be fetched.
type Ahead struct {
	list []*byte
	sum  byte // of what was read: without it nothing would be
}

// Fetch has the processor read what the list names. The loop is as short as can be: many
// reads are under way before the first one has ended.
func (f *Ahead) Fetch() {
	sum := f.sum
	for _, p := range f.list {
		sum += *p
	}
	clear(f.list) // or they would keep chunks that are gone
	f.list, f.sum = f.list[:0], sum
}

// Seek finds the zone of a question for addresses and its slot in the index, to be fetched
// before Find.
func (v *View) Seek(q *Query, f *Ahead) {
	p := &q.spot
	p.zone, p.at = nil, 0
	z := v.zones.find(q)
	if z == nil || !q.wantsAddresses() {
		return
	}
	n := len(q.Labels) - z.labels
	switch {
	case z.Kind == Mesh && n > 0:
		p.class, p.end = classMesh, q.Labels[n-1]+1+q.Name[q.Labels[n-1]]
	case n == 3 && z.Kind != Reverse && string(q.below(2, 3)) == labelSvc:
		p.class, p.end = classService, q.Labels[2]
	default:
		return
	}
	p.zone, p.hash = z, v.index.hash(p.class, q.Name[:p.end])
	if leaf := v.index.leafOf(p.hash); leaf != nil {
		f.list = append(f.list, &leaf[p.hash%slots*slotSize])
	}
}

func (q *Query) wantsAddresses() bool { return q.Type == typeA || q.Type == typeAAAA }

// Find finds the entry of a question that was sought, to be fetched before Quick: header
// and key, and the line behind, where its addresses mostly are.
func (v *View) Find(q *Query, f *Ahead) {
	p := &q.spot
	if p.zone == nil {
		return
	}
	leaf := v.index.leafOf(p.hash)
	if leaf == nil {
		return
	}
	for i := p.hash % slots; ; i = (i + 1) % slots {
		s := slotAt(leaf, i)
		if s == 0 {
			return
		}
		if s.hash() == p.hash {
			p.at = s.position()
			b := v.index.chunks[p.at.chunk()][p.at.offset():]
			f.list = append(f.list, &b[0], &b[lineSize])
			return
		}
	}
}

// Quick answers a question that was found, for the addresses of a service or of a
// registered name of which all is known and nothing counts down. Of any other it says
// false, and Lookup answers: as it would have answered this one.
func (v *View) Quick(q *Query, a *Answer) bool {
	p := &q.spot
	if p.at == 0 || v.anyStale {
		return false
	}
	e := v.index.entry(p.at)
	if e[hClass] != p.class || !bytes.Equal(e.key(), q.Name[:p.end]) || binary.LittleEndian.Uint64(e[hExpires:]) != 0 {
		return false
	}
	list := v.quickList(e, p.zone, q.Type)
	if len(list) == 0 {
		return false
	}
	a.reset(v)
	if p.zone.Kind != Cluster {
		a.weights = e.weights(q.Type)
	}
	a.Zone, a.Asked, a.Serial = p.zone, p.zone, v.serials[p.zone.number]
	a.foundAddresses(q.Type, list, e.u32(hTTL))
	return true
}

// quickList are the addresses at an entry's own name in a zone, nil where there is more to
// say than them.
func (v *View) quickList(e entry, z *Zone, typ uint16) []byte {
	if z.Kind != Cluster {
		if e[hFlags] != fExists {
			return nil
		}
		return e.addresses(typ)
	}
	own := e.ownPart(z.cluster)
	if own == nil || v.expired[z.cluster] || len(own.alias()) > 0 {
		return nil
	}
	return own.addresses(typ)
}

// WriteQuick writes the ANSWER section of a Quick answer, for which there is room.
func (w *Writer) WriteQuick(a *Answer) {
	set := addressSet{a.Type, 4, a.list, a.weights}
	if a.Type == typeAAAA {
		set.width = 16
	}
	w.addresses(questionOffset, a.ttl, set)
}

// Records is how many records a Quick answer has, and how many bytes they take.
func (a *Answer) Records() (count, size int) {
	width := 4
	if a.Type == typeAAAA {
		width = 16
	}
	count = len(a.list) / width
	return count, count * (headSize + width)
}
