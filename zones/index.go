package zones

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// index finds entries by key. It is immutable; with makes the next one and shares all
// that did not change: of three levels of pointers the touched one is copied, and the
// touched shard is built anew. A shard holds its entries as bytes without pointers, so
// the garbage collector has nothing to follow in them.
type index struct {
	seed maphash.Seed
	root [fan]*bough
	len  int
}

type (
	bough  [fan]*branch
	branch [fan]*shard
)

const (
	fanBits = 6
	fan     = 1 << fanBits // 262,144 shards: most hold one service at 1,000,000 endpoints
	// bigEntry is the size in bytes above which an entry is kept outside of its shard's
	// bytes, so that a neighbour's change does not copy it.
	bigEntry = 4096
	bigMark  = 1 << 31
	slotSize = 8
)

// at is a hash's place in the given level, 1 being the root.
func at(hash uint64, level uint) uint64 { return hash >> shift(level) & (fan - 1) }

// shift is where a level's bits end.
func shift(level uint) uint { return 64 - level*fanBits }

// shard is an open-addressed table of (hash, offset) with the entries behind it, each
// after its length. An offset with bigMark is an index into big.
type shard struct {
	mask  uint32
	len   int
	bytes []byte
	big   [][]byte
}

// edit is one change: entry is the new value of key, nil to remove it.
type edit struct {
	hash  uint64
	class byte
	key   []byte
	entry entry
}

func newIndex(seed maphash.Seed) *index { return &index{seed: seed} }

// hash spreads equal keys of different classes apart.
func (ix *index) hash(class byte, key []byte) uint64 {
	return maphash.Bytes(ix.seed, key) ^ uint64(class)*0x9e3779b97f4a7c15
}

// get returns the entry of a class and key, nil when there is none.
func (ix *index) get(class byte, key []byte) entry {
	hash := ix.hash(class, key)
	u := ix.root[at(hash, 1)]
	if u == nil {
		return nil
	}
	b := u[at(hash, 2)]
	if b == nil {
		return nil
	}
	s := b[at(hash, 3)]
	if s == nil {
		return nil
	}
	return s.get(uint32(hash), class, key)
}

func (s *shard) get(hash uint32, class byte, key []byte) entry {
	for i := hash & s.mask; ; i = (i + 1) & s.mask {
		slot := s.bytes[i*slotSize:]
		offset := binary.LittleEndian.Uint32(slot[4:])
		if offset == 0 {
			return nil
		}
		if binary.LittleEndian.Uint32(slot) == hash {
			if e := s.entry(offset); e[hClass] == class && bytes.Equal(e.key(), key) {
				return e
			}
		}
	}
}

func (s *shard) entry(offset uint32) entry {
	if offset&bigMark != 0 {
		return s.big[offset&^bigMark]
	}
	n := binary.LittleEndian.Uint32(s.bytes[offset:])
	return entry(s.bytes[offset+4 : offset+4+n])
}

// with returns the index after edits, which it reorders. Keys are unique in edits.
func (ix *index) with(edits []edit) *index {
	if len(edits) > 1 {
		slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.hash, b.hash) })
	}
	next := *ix
	eachRun(edits, 1, func(i uint64, edits []edit) { next.root[i] = next.boughWith(next.root[i], edits) })
	return &next
}

// eachRun calls f with the edits of each place of a level; they are sorted by hash.
func eachRun(edits []edit, level uint, f func(i uint64, edits []edit)) {
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].hash>>shift(level) == edits[0].hash>>shift(level) {
			n++
		}
		f(at(edits[0].hash, level), edits[:n])
		edits = edits[n:]
	}
}

func (ix *index) boughWith(b *bough, edits []edit) *bough {
	next := new(bough)
	if b != nil {
		*next = *b
	}
	eachRun(edits, 2, func(i uint64, edits []edit) { next[i] = ix.branchWith(next[i], edits) })
	return next
}

func (ix *index) branchWith(b *branch, edits []edit) *branch {
	next := new(branch)
	if b != nil {
		*next = *b
	}
	eachRun(edits, 3, func(i uint64, edits []edit) {
		before := next[i].size()
		next[i] = next[i].with(edits)
		ix.len += next[i].size() - before
	})
	return next
}

func (s *shard) size() int {
	if s == nil {
		return 0
	}
	return s.len
}

// with builds the shard anew: the entries that edits don't name, then the new ones.
func (s *shard) with(edits []edit) *shard {
	b := shardBuilder{edits: edits}
	if s != nil {
		s.each(b.measureOld)
	}
	b.measureNew()
	if b.count == 0 {
		return nil
	}
	b.begin()
	if s != nil {
		s.each(b.addOld)
	}
	for i := range edits {
		if edits[i].entry != nil {
			b.add(uint32(edits[i].hash), edits[i].entry)
		}
	}
	return b.shard
}

// each calls f for every entry with its hash.
func (s *shard) each(f func(hash uint32, e entry)) {
	for i := uint32(0); i <= s.mask; i++ {
		slot := s.bytes[i*slotSize:]
		if offset := binary.LittleEndian.Uint32(slot[4:]); offset != 0 {
			f(binary.LittleEndian.Uint32(slot), s.entry(offset))
		}
	}
}

type shardBuilder struct {
	edits      []edit
	count, big int
	bytes      int
	shard      *shard
	at         uint32
}

func (b *shardBuilder) replaced(hash uint32, e entry) bool {
	for i := range b.edits {
		ed := &b.edits[i]
		if uint32(ed.hash) == hash && ed.class == e[hClass] && bytes.Equal(ed.key, e.key()) {
			return true
		}
	}
	return false
}

func (b *shardBuilder) measureOld(hash uint32, e entry) {
	if !b.replaced(hash, e) {
		b.measure(e)
	}
}

func (b *shardBuilder) measureNew() {
	for i := range b.edits {
		if b.edits[i].entry != nil {
			b.measure(b.edits[i].entry)
		}
	}
}

func (b *shardBuilder) measure(e entry) {
	b.count++
	if len(e) > bigEntry {
		b.big++
	} else {
		b.bytes += 4 + len(e)
	}
}

// begin makes the table: a power of two of slots, at most three quarters of them taken.
func (b *shardBuilder) begin() {
	slots := tableSize(b.count)
	b.at = uint32(slots * slotSize)
	b.shard = &shard{mask: uint32(slots - 1), len: b.count, bytes: make([]byte, int(b.at)+b.bytes)}
	if b.big > 0 {
		b.shard.big = make([][]byte, 0, b.big)
	}
}

func (b *shardBuilder) addOld(hash uint32, e entry) {
	if !b.replaced(hash, e) {
		b.add(hash, e)
	}
}

func (b *shardBuilder) add(hash uint32, e entry) {
	s := b.shard
	offset := b.at
	if len(e) > bigEntry {
		offset = bigMark | uint32(len(s.big))
		s.big = append(s.big, e)
	} else {
		binary.LittleEndian.PutUint32(s.bytes[b.at:], uint32(len(e)))
		copy(s.bytes[b.at+4:], e)
		b.at += 4 + uint32(len(e))
	}
	i := hash & s.mask
	for binary.LittleEndian.Uint32(s.bytes[i*slotSize+4:]) != 0 {
		i = (i + 1) & s.mask
	}
	binary.LittleEndian.PutUint32(s.bytes[i*slotSize:], hash)
	binary.LittleEndian.PutUint32(s.bytes[i*slotSize+4:], offset)
}

// each calls f for every entry, in no order that means anything.
func (ix *index) each(f func(entry)) {
	for _, u := range ix.root {
		if u == nil {
			continue
		}
		for _, b := range u {
			if b == nil {
				continue
			}
			for _, s := range b {
				if s != nil {
					s.each(func(_ uint32, e entry) { f(e) })
				}
			}
		}
	}
}
