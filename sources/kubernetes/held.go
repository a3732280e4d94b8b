package kubernetes

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/sources"
)

// entry is a service with its slices: one that is known, or one that only slices name.
type entry struct {
	namespace *namespace
	name      string
	// value is the service with its slices while it is not open; of a service that is not
	// known it has slices only.
	value   sources.Service
	open    int32 // 1 + its place among the open ones; 0: it is not
	known   bool  // a Service object exists
	selects bool  // it has a selector
	pushed  bool  // the Sink has a value of it
	dirty   bool  // touched since the last flush
}

func (e *entry) key() key { return key{e.namespace.name, e.name} }

// namespace is shared by its entries.
type namespace struct {
	name    string
	entries int
}

// opened is an entry's value while it is being changed: it is packed once, however many of
// its slices a list brings.
type opened struct {
	number uint32
	bare   sources.Service // without slices
	slices []sources.Slice // ordered by name
}

// maxOpen bounds how many values are open at a time: a list may touch all services.
const maxOpen = 256

// slab holds entries under numbers, many in one piece of memory.
type slab struct {
	chunks []*[perChunk]entry
	free   []uint32 // numbers that were given back
	used   uint32   // numbers that were ever given
}

const perChunk = 64

func (s *slab) at(number uint32) *entry { return &s.chunks[number/perChunk][number%perChunk] }

// take gives out an entry that is zero.
func (s *slab) take() (number uint32) {
	if last := len(s.free) - 1; last >= 0 {
		number, s.free = s.free[last], s.free[:last]
		return number
	}
	if s.used%perChunk == 0 {
		s.chunks = append(s.chunks, new([perChunk]entry))
	}
	s.used++
	return s.used - 1
}

func (s *slab) release(number uint32) {
	*s.at(number) = entry{}
	s.free = append(s.free, number)
}

// each calls f for every entry that is given out.
func (s *slab) each(f func(number uint32, e *entry)) {
	for number := range s.used {
		if e := s.at(number); e.namespace != nil {
			f(number, e)
		}
	}
}

// index finds entries by a key of their own or of one of their slices. It has a hash in
// place of the key, which the entry has anyway: a few bytes without pointers for each. Who
// asks says whether the entry that the hash leads to is the one. Of two keys with one hash
// the second is kept whole.
type index struct {
	seed    maphash.Seed
	mask    uint32 // of tests, which want clashes
	slots   map[uint32]uint32
	clashes map[key]uint32
}

func newIndex() index {
	return index{seed: maphash.MakeSeed(), mask: ^uint32(0), slots: map[uint32]uint32{}, clashes: map[key]uint32{}}
}

func (x *index) hash(k key) uint32 {
	namespace := bits.RotateLeft64(maphash.String(x.seed, k.namespace), 1)
	return uint32(namespace^maphash.String(x.seed, k.name)) & x.mask
}

// find is the number of k's entry; has says whether an entry is k's.
func (x *index) find(k key, has func(number uint32) bool) (number uint32, found bool) {
	if number, found = x.clashes[k]; found {
		return number, true
	}
	number, found = x.slots[x.hash(k)]
	return number, found && has(number)
}

// add enters k, which must not be there yet.
func (x *index) add(k key, number uint32) {
	h := x.hash(k)
	if _, taken := x.slots[h]; taken {
		x.clashes[key{strings.Clone(k.namespace), strings.Clone(k.name)}] = number
		return
	}
	x.slots[h] = number
}

// remove takes out k, which must be there.
func (x *index) remove(k key) {
	if _, clashed := x.clashes[k]; clashed {
		delete(x.clashes, k)
		return
	}
	delete(x.slots, x.hash(k))
}

// findEntry is the entry of a service.
func (t *table) findEntry(id key) (number uint32, found bool) {
	return t.byName.find(id, func(number uint32) bool {
		e := t.entries.at(number)
		return e.name == id.name && e.namespace.name == id.namespace
	})
}

// findOwner is the entry that has a slice.
func (t *table) findOwner(id key) (number uint32, found bool) {
	return t.bySlice.find(id, func(number uint32) bool {
		e := t.entries.at(number)
		if e.namespace.name != id.namespace {
			return false
		}
		_, has := t.sliceOf(e, id.name)
		return has
	})
}

// sliceOf is an entry's slice of that name.
func (t *table) sliceOf(e *entry, name string) (slice sources.Slice, has bool) {
	if e.open > 0 {
		list := t.open[e.open-1].slices
		if at, found := findSlice(list, name); found {
			return list[at], true
		}
		return "", false
	}
	for list := e.value.Slices(); list.Next(); {
		if list.Name() == name {
			return list.Slice, true
		}
	}
	return "", false
}

// bareOf is an entry's value without slices.
func (t *table) bareOf(e *entry) sources.Service {
	if e.open > 0 {
		return t.open[e.open-1].bare
	}
	return e.value.Bare()
}

// openLocked makes an entry's value one to change. What it returns is valid until the next
// call.
func (t *table) openLocked(number uint32) *opened {
	e := t.entries.at(number)
	if e.open > 0 {
		return &t.open[e.open-1]
	}
	if len(t.open) == maxOpen {
		t.packLocked()
	}
	if len(t.open) < cap(t.open) { // keep the memory of an earlier use
		t.open = t.open[:len(t.open)+1]
	} else {
		t.open = append(t.open, opened{})
	}
	e.open = int32(len(t.open))
	o := &t.open[e.open-1]
	o.number, o.bare, o.slices = number, e.value.Bare(), e.value.AppendSlices(o.slices[:0])
	return o
}

// packLocked closes what is open.
func (t *table) packLocked() {
	for i := range t.open {
		o := &t.open[i]
		e := t.entries.at(o.number)
		e.value, e.open = o.bare.With(o.slices), 0
		clear(o.slices)
		o.bare, o.slices = "", o.slices[:0]
	}
	t.open = t.open[:0]
}

func findSlice(list []sources.Slice, name string) (at int, found bool) {
	return slices.BinarySearchFunc(list, name, func(s sources.Slice, name string) int {
		return strings.Compare(s.Name(), name)
	})
}
