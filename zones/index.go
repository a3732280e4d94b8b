package zones

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// index finds entries by key. It is immutable, and made by a store. Entries and the
// tables that find them lie in chunks: few large runs of bytes without pointers, in
// which the garbage collector has nothing to follow.
//
// A hash's highest bits choose a leaf, an open-addressed table of hashes and positions of
// about 24 entries; the position of a leaf stands in a branch, and branches in the root.
// Root and branches are small and stay in the cache, so that a lookup among millions
// touches memory twice: at the leaf's slot, and where header, key and addresses of the
// entry stand side by side.
type index struct {
	seed   maphash.Seed
	root   []*branch
	shift  uint     // a hash shifted right by it is the number of its leaf
	chunks [][]byte // nil: gone
	len    int      // entries
}

// branch holds the positions of leaves, 0 for one without entries.
type branch [fan]position

const (
	fanBits = 7
	fan     = 1 << fanBits // leaves of a branch

	slotBits = 6
	slots    = 1 << slotBits // of a leaf
	slotSize = 8             // position, hash: uint32 each; 0: free
	leafSize = slots * slotSize
	fullLeaf = slots * 7 / 8 // entries in a leaf that has no room for more
)

// position is where an entry or a leaf begins: the number of the chunk, from 1 on, and of
// the line in it. 0 is nowhere.
type position uint32

const (
	lineBits  = 6
	lineSize  = 1 << lineBits // bytes, what the memory system moves at once
	chunkBits = 16
	maxLines  = 1 << chunkBits // of a chunk
)

func (p position) chunk() int  { return int(p >> chunkBits) }
func (p position) offset() int { return int(p&(maxLines-1)) << lineBits }

// hash spreads equal keys of different classes apart.
func (ix *index) hash(class byte, key []byte) uint32 {
	h := maphash.Bytes(ix.seed, key) ^ uint64(class)*0x9e3779b97f4a7c15
	return uint32(h >> 32)
}

// get returns the entry of a class and key, nil when there is none.
func (ix *index) get(class byte, key []byte) entry {
	e, _ := ix.find(ix.hash(class, key), class, key)
	return e
}

// find is get with the hash that class and key have, and the entry's position.
func (ix *index) find(hash uint32, class byte, key []byte) (entry, position) {
	leaf := ix.leafOf(hash)
	if leaf == nil {
		return nil, 0
	}
	for i := hash % slots; ; i = (i + 1) % slots {
		s := slotAt(leaf, i)
		if s == 0 {
			return nil, 0
		}
		if s.hash() != hash {
			continue
		}
		if e := ix.entry(s.position()); e[hClass] == class && bytes.Equal(e.key(), key) {
			return e, s.position()
		}
	}
}

// leafOf is the leaf that has a hash's entries, nil when there are none.
func (ix *index) leafOf(hash uint32) []byte {
	p := ix.leafAt(hash >> ix.shift)
	if p == 0 {
		return nil
	}
	return ix.leaf(p)
}

// leafAt is where the leaf of a number is.
func (ix *index) leafAt(number uint32) position {
	b := ix.root[number/fan]
	if b == nil {
		return 0
	}
	return b[number%fan]
}

func (ix *index) leaf(p position) []byte {
	return ix.chunks[p.chunk()][p.offset():][:leafSize]
}

func (ix *index) entry(p position) entry {
	b := ix.chunks[p.chunk()][p.offset():]
	n := binary.LittleEndian.Uint32(b[hSize:])
	return entry(b[:n:n])
}

// slot is an entry's hash and position.
type slot uint64

func makeSlot(hash uint32, p position) slot { return slot(hash)<<32 | slot(p) }
func (s slot) hash() uint32                 { return uint32(s >> 32) }
func (s slot) position() position           { return position(s) }

func slotAt(leaf []byte, i uint32) slot {
	return slot(binary.LittleEndian.Uint64(leaf[i*slotSize:]))
}

// insert puts a slot into a leaf that has room.
func insert(leaf []byte, s slot) {
	i := s.hash() % slots
	for slotAt(leaf, i) != 0 {
		i = (i + 1) % slots
	}
	binary.LittleEndian.PutUint64(leaf[i*slotSize:], uint64(s))
}

// each calls f for every entry, in no order that means anything.
func (ix *index) each(f func(entry)) {
	for _, b := range ix.root {
		if b == nil {
			continue
		}
		for _, p := range b {
			if p != 0 {
				eachSlot(ix.leaf(p), func(s slot) { f(ix.entry(s.position())) })
			}
		}
	}
}

func eachSlot(leaf []byte, f func(slot)) {
	for i := range uint32(slots) {
		if s := slotAt(leaf, i); s != 0 {
			f(s)
		}
	}
}
