package zones

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"unsafe"
)

// index finds entries by key. It is immutable; with makes the next one and shares all
// that did not change: of three levels of pointers the touched one is copied, and the
// touched shard is built anew, so nothing is ever left behind to be compacted. There are
// at least as many shards as entries: a lookup reads one pointer of each level, of which
// only the last are many, and then the shard, where hash, key and addresses of its one or
// two entries stand side by side.
type index struct {
	seed maphash.Seed
	root []*bough // a power of two of them
	len  int
	big  *index // entries above bigEntry; nil in itself
}

type (
	bough  [fan]*branch
	branch [fan]*shard
)

const (
	fanBits = 6
	fan     = 1 << fanBits
	// bigEntry is the size in bytes above which an entry is kept in an index of its own,
	// so that a neighbour's change does not copy it.
	bigEntry = 4096
)

// shard is a run of bytes without pointers, so that the garbage collector has nothing to
// follow in it, reached by one pointer. Its own length comes first, then the number of
// entries, a slot for each, and the entries in the order of their slots.
type shard [shardHeader]byte

const (
	shardCount  = 4 // uint32, after the length
	shardHeader = 8
	slotSize    = 8 // uint32 hash, uint32 offset of the entry
)

// edit is one change: entry is the new value of key, nil to remove it.
type edit struct {
	hash  uint64
	class byte
	key   []byte
	entry entry
}

func newIndex(seed maphash.Seed) *index {
	return &index{seed: seed, root: make([]*bough, 1), big: &index{seed: seed, root: make([]*bough, 1)}}
}

// hash spreads equal keys of different classes apart.
func (ix *index) hash(class byte, key []byte) uint64 {
	return maphash.Bytes(ix.seed, key) ^ uint64(class)*0x9e3779b97f4a7c15
}

// rootBits is how many of a hash's bits choose the bough.
func (ix *index) rootBits() uint { return uint(bits.TrailingZeros(uint(len(ix.root)))) }

// shards is how many there can be.
func (ix *index) shards() int { return len(ix.root) * fan * fan }

// get returns the entry of a class and key, nil when there is none.
func (ix *index) get(class byte, key []byte) entry {
	hash := ix.hash(class, key)
	if s := ix.shard(hash); s != nil {
		if e := s.get(uint32(hash), class, key); e != nil {
			return e
		}
	}
	if ix.big.len == 0 {
		return nil
	}
	if s := ix.big.shard(hash); s != nil {
		return s.get(uint32(hash), class, key)
	}
	return nil
}

// size is the number of entries.
func (ix *index) size() int { return ix.len + ix.big.len }

func (ix *index) shard(hash uint64) *shard {
	places := bits.RotateLeft64(hash, int(ix.rootBits())) // the root's bits become the lowest
	b := ix.root[places&uint64(len(ix.root)-1)]
	if b == nil {
		return nil
	}
	r := b[places>>(64-fanBits)]
	if r == nil {
		return nil
	}
	return r[places>>(64-2*fanBits)&(fan-1)]
}

// bytes is all of the shard.
func (s *shard) bytes() []byte {
	return unsafe.Slice(&s[0], binary.LittleEndian.Uint32(s[:]))
}

// size is the number of entries, 0 of no shard.
func (s *shard) size() int {
	if s == nil {
		return 0
	}
	return int(binary.LittleEndian.Uint32(s[shardCount:]))
}

func (s *shard) get(hash uint32, class byte, key []byte) entry {
	b := s.bytes()
	for i := range s.size() {
		if binary.LittleEndian.Uint32(b[shardHeader+slotSize*i:]) != hash {
			continue
		}
		if e := entryOf(b, i); e[hClass] == class && bytes.Equal(e.key(), key) {
			return e
		}
	}
	return nil
}

// entryOf is entry i of a shard's bytes: it ends where the next one begins.
func entryOf(b []byte, i int) entry {
	slot := b[shardHeader+slotSize*i:]
	end := uint32(len(b))
	if i+1 < int(binary.LittleEndian.Uint32(b[shardCount:])) {
		end = binary.LittleEndian.Uint32(slot[slotSize+4:])
	}
	return entry(b[binary.LittleEndian.Uint32(slot[4:]):end])
}

// with returns the index after edits, which it reorders. Keys are unique in edits.
func (ix *index) with(edits []edit) *index {
	next := *ix
	if large := next.splitBig(edits); len(large) > 0 {
		next.big = next.big.with(large)
	}
	if len(edits) > 1 {
		slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.hash, b.hash) })
	}
	next.makeRoom(ix.len + len(edits))
	next.apply(edits)
	return &next
}

// splitBig are the edits of big entries, and of those that were big before. In edits, an
// entry that is big becomes the removal of a small one.
func (ix *index) splitBig(edits []edit) (large []edit) {
	if ix.big == nil {
		return nil
	}
	for i := range edits {
		e := &edits[i]
		if len(e.entry) <= bigEntry && ix.big.len == 0 {
			continue
		}
		switch s := ix.big.shard(e.hash); {
		case len(e.entry) > bigEntry:
			large = append(large, *e)
			e.entry = nil
		case s != nil && s.get(uint32(e.hash), e.class, e.key) != nil:
			large = append(large, edit{hash: e.hash, class: e.class, key: e.key})
		}
	}
	return large
}

// makeRoom gives the index a root that n entries fit under. All shards are spread anew
// then, which happens each time that their number has doubled.
func (ix *index) makeRoom(n int) {
	if n <= ix.shards() {
		ix.root = slices.Clone(ix.root)
		return
	}
	old := *ix
	ix.root, ix.len = make([]*bough, 1<<(bits.Len(uint(n-1))-2*fanBits)), 0
	all := make([]edit, 0, old.len)
	old.eachHere(func(e entry) {
		all = append(all, edit{hash: ix.hash(e[hClass], e.key()), class: e[hClass], key: e.key(), entry: e})
	})
	slices.SortFunc(all, func(a, b edit) int { return cmp.Compare(a.hash, b.hash) })
	ix.apply(all)
}

// apply makes the changes below a root that is the index's own.
func (ix *index) apply(edits []edit) {
	level := ix.rootBits()
	eachRun(edits, level, func(edits []edit) {
		at := edits[0].hash >> (64 - level)
		ix.root[at] = ix.boughWith(ix.root[at], edits, level+fanBits)
	})
}

// eachRun calls f with the edits that share the highest n bits; they are sorted by hash.
func eachRun(edits []edit, n uint, f func(edits []edit)) {
	for len(edits) > 0 {
		end := 1
		for end < len(edits) && edits[end].hash>>(64-n) == edits[0].hash>>(64-n) {
			end++
		}
		f(edits[:end])
		edits = edits[end:]
	}
}

// boughWith and branchWith copy a level; n is how many bits of the hash choose in all.
func (ix *index) boughWith(b *bough, edits []edit, n uint) *bough {
	next := new(bough)
	if b != nil {
		*next = *b
	}
	eachRun(edits, n, func(edits []edit) {
		at := edits[0].hash >> (64 - n) & (fan - 1)
		next[at] = ix.branchWith(next[at], edits, n+fanBits)
	})
	return next
}

func (ix *index) branchWith(b *branch, edits []edit, n uint) *branch {
	next := new(branch)
	if b != nil {
		*next = *b
	}
	eachRun(edits, n, func(edits []edit) {
		at := edits[0].hash >> (64 - n) & (fan - 1)
		before := next[at].size()
		next[at] = next[at].with(edits)
		ix.len += next[at].size() - before
	})
	return next
}

// with builds the shard anew: the entries that edits don't name, then the new ones.
func (s *shard) with(edits []edit) *shard {
	b := shardBuilder{edits: edits, size: shardHeader}
	b.each(s, b.measure)
	if b.count == 0 {
		return nil
	}
	b.out = make([]byte, b.size)
	b.at = shardHeader + slotSize*b.count
	b.count = 0
	b.each(s, b.add)
	binary.LittleEndian.PutUint32(b.out, uint32(len(b.out)))
	binary.LittleEndian.PutUint32(b.out[shardCount:], uint32(b.count))
	return (*shard)(b.out)
}

type shardBuilder struct {
	edits []edit
	count int
	size  int // in bytes, of the whole shard
	out   []byte
	at    int // where the next entry goes
}

// each calls f for the entries that the shard will have.
func (b *shardBuilder) each(s *shard, f func(hash uint32, e entry)) {
	s.each(func(hash uint32, e entry) {
		if !b.replaced(hash, e) {
			f(hash, e)
		}
	})
	for i := range b.edits {
		if b.edits[i].entry != nil {
			f(uint32(b.edits[i].hash), b.edits[i].entry)
		}
	}
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

func (b *shardBuilder) measure(_ uint32, e entry) {
	b.count++
	b.size += slotSize + len(e)
}

func (b *shardBuilder) add(hash uint32, e entry) {
	slot := b.out[shardHeader+slotSize*b.count:]
	binary.LittleEndian.PutUint32(slot, hash)
	binary.LittleEndian.PutUint32(slot[4:], uint32(b.at))
	b.at += copy(b.out[b.at:], e)
	b.count++
}

// each calls f for every entry with its hash.
func (s *shard) each(f func(hash uint32, e entry)) {
	if s == nil {
		return
	}
	b := s.bytes()
	for i := range s.size() {
		f(binary.LittleEndian.Uint32(b[shardHeader+slotSize*i:]), entryOf(b, i))
	}
}

// each calls f for every entry, in no order that means anything.
func (ix *index) each(f func(entry)) {
	ix.eachHere(f)
	ix.big.eachHere(f)
}

// eachHere is each without the big entries.
func (ix *index) eachHere(f func(entry)) {
	for _, u := range ix.root {
		if u == nil {
			continue
		}
		for _, b := range u {
			if b == nil {
				continue
			}
			for _, s := range b {
				s.each(func(_ uint32, e entry) { f(e) })
			}
		}
	}
}
