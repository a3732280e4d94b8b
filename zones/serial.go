package zones

import (
	"bytes"
	"slices"
	"time"

	"github.com/meshdns/meshdns/names"
)

// serials gives each zone its SOA serial: the larger of the one before plus one and the
// Unix time, at most one a second and zone, so that it never runs ahead of the clock and
// never goes back over a restart.
type serials struct {
	now     func() time.Time
	last    map[names.Name]uint32
	bumped  []time.Time // by zone number
	zones   []*Zone
	pending []bool
	timer   bool
}

func newSerials(now func() time.Time, last map[names.Name]uint32) *serials {
	s := &serials{now: now, last: map[names.Name]uint32{}}
	for name, serial := range last {
		s.last[name] = serial
	}
	return s
}

// rebuild starts the zones of a new set: zones that were there before keep their order.
func (s *serials) rebuild(set *zoneSet) []uint32 {
	s.zones = set.list
	s.bumped = make([]time.Time, len(set.list))
	s.pending = make([]bool, len(set.list))
	out := make([]uint32, len(set.list))
	for i, z := range set.list {
		out[i] = s.next(z)
		s.bumped[i] = s.now()
	}
	return out
}

func (s *serials) next(z *Zone) uint32 {
	serial := max(s.last[z.Name]+1, uint32(s.now().Unix()))
	s.last[z.Name] = serial
	return serial
}

func (s *serials) changed(z *Zone) {
	if z != nil {
		s.pending[z.number] = true
	}
}

// serviceChanged marks the zones that see a difference between two values of a service.
func (s *serials) serviceChanged(set *zoneSet, old, now entry) {
	if set.global != nil && !s.pending[set.global.number] && !sameAggregate(old, now) {
		s.changed(set.global)
	}
	for c, z := range set.ofCluster {
		if z != nil && !s.pending[z.number] && !bytes.Equal(old.ownPart(c).whole(), now.ownPart(c).whole()) {
			s.changed(z)
		}
	}
}

// sameAggregate says whether the aggregate shows the same of two values.
func sameAggregate(a, b entry) bool {
	shown := func(e entry) bool { return e != nil && e.flag(fExists|fUnknown) }
	if !shown(a) || !shown(b) {
		return shown(a) == shown(b)
	}
	if a[hFlags] != b[hFlags] || a.u32(hTTL) != b.u32(hTTL) {
		return false
	}
	i, j := 0, 0
	for {
		pa, pb := a.nextAggregated(&i), b.nextAggregated(&j)
		if !bytes.Equal(pa.whole(), pb.whole()) {
			return false
		}
		if pa == nil {
			return true
		}
	}
}

// nextAggregated is the next part from i on that is in the aggregate, nil at the end.
func (e entry) nextAggregated(i *int) part {
	for *i < e.parts() {
		p := e.part(*i)
		*i++
		if p.flag(pfAggregate) {
			return p
		}
	}
	return nil
}

// sameButExpiry says whether two entries differ at most in the moment that TTLs count
// down to.
func sameButExpiry(a, b entry) bool {
	return a != nil && b != nil && bytes.Equal(a[:hExpires], b[:hExpires]) && bytes.Equal(a[hA:], b[hA:])
}

// bump returns the serials with those of changed zones moved on. Zones that had their
// bump less than a second ago stay pending, and later is called when their time comes.
func (s *serials) bump(current []uint32, later func()) []uint32 {
	if !slices.Contains(s.pending, true) {
		return current
	}
	next := slices.Clone(current)
	now := s.now()
	again := false
	for i, pending := range s.pending {
		switch {
		case !pending:
		case now.Sub(s.bumped[i]) < time.Second:
			again = true
		default:
			next[i], s.pending[i], s.bumped[i] = s.next(s.zones[i]), false, now
		}
	}
	if again && !s.timer {
		s.timer = true
		time.AfterFunc(time.Second, later)
	}
	return next
}
