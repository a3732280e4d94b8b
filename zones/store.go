package zones

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// store makes one index after the other. Its goroutine writes entries and leaves behind
// all that earlier indexes know of, so that they and the queries that use them see
// nothing of it; what a change leaves behind is moved together by compact.go.
type store struct {
	index // the one being made
	edits []edit

	chunkOf []chunkState // by number; 0 is none
	free    []int        // numbers of chunks that are gone
	open    [kinds]int   // chunk that is being filled
	live    [kinds]int   // lines in use
	dead    int          // lines that nothing refers to
	written int          // lines since the last compaction
	moving  moving
	own     map[*branch]struct{} // branches made since the last commit
	ownRoot bool
	scratch []slot
}

// edit is one change of the index: an entry of that hash leaves its old position, 0 for
// one that is new, for another, 0 for none.
type edit struct {
	hash     uint32
	old, now position
}

// kind tells what lies in a chunk.
type kind uint8

const (
	entries kind = iota
	leaves
	kinds
)

// chunkState is what a store knows of a chunk, in lines.
type chunkState struct {
	kind       kind
	live, used int
	dead       []uint64 // a bit for each line: what began there is referred to no more
}

const (
	leafLines = leafSize / lineSize
	// minLines is a small server's chunk, 64 KB: chunks grow with what there is.
	minLines = 1 << 10
	// bigEntry is the size in bytes from which on an entry is a chunk of its own.
	bigEntry = 64 << 10
)

func newStore(seed maphash.Seed) *store {
	return &store{
		index:   index{seed: seed, root: make([]*branch, 1), shift: 32, chunks: make([][]byte, 1)},
		chunkOf: make([]chunkState, 1),
		own:     map[*branch]struct{}{},
	}
}

// linesOf is how many lines n bytes take.
func linesOf(n int) int { return (n + lineSize - 1) / lineSize }

// lines is how many an entry takes: two at least, so that both can be fetched (seek.go)
// before its size is known.
func (e entry) lines() int { return max(2, linesOf(len(e))) }

// put writes an entry and returns its position. Of less than bigEntry bytes it is
// copied; from there on it is handed over and must not be touched again.
func (s *store) put(e entry) position {
	if len(e) >= bigEntry {
		p := position(s.addChunk(entries, e) << chunkBits)
		s.count(p, e.lines())
		return p
	}
	p := s.take(entries, e.lines())
	copy(s.chunks[p.chunk()][p.offset():], e)
	return p
}

// take finds room for lines in the open chunk of a kind.
func (s *store) take(k kind, lines int) position {
	n := s.open[k]
	if linesOf(len(s.chunks[n]))-s.chunkOf[n].used < lines {
		n = s.openChunk(k, lines)
	}
	p := position(n<<chunkBits | s.chunkOf[n].used)
	s.count(p, lines)
	return p
}

// count notes that lines at p are in use.
func (s *store) count(p position, lines int) {
	c := &s.chunkOf[p.chunk()]
	c.used += lines
	c.live += lines
	s.live[c.kind] += lines
	s.written += lines
}

// openChunk begins a new chunk of a kind: an eighth of what there is, within bounds.
func (s *store) openChunk(k kind, lines int) int {
	size := minLines
	for size < maxLines && size < s.live[k]/8 {
		size *= 2
	}
	full := s.open[k]
	s.open[k] = s.addChunk(k, makeChunk(max(size, lines)*lineSize))
	if full != 0 && s.chunkOf[full].live == 0 {
		s.drop(full)
	}
	return s.open[k]
}

// addChunk gives memory a number.
func (s *store) addChunk(k kind, memory []byte) int {
	last := len(s.free) - 1
	if last < 0 {
		s.chunks, s.chunkOf = append(s.chunks, memory), append(s.chunkOf, chunkState{kind: k})
		return len(s.chunks) - 1
	}
	n := s.free[last]
	s.free = s.free[:last]
	s.chunks = slices.Clone(s.chunks) // indexes of before have another chunk there
	s.chunks[n], s.chunkOf[n] = memory, chunkState{kind: k}
	return n
}

// release notes that nothing refers to lines at p any more.
func (s *store) release(p position, lines int) {
	n := p.chunk()
	c := &s.chunkOf[n]
	c.bury(int(p & (maxLines - 1)))
	c.live -= lines
	s.live[c.kind] -= lines
	s.dead += lines
	if c.live == 0 && s.open[c.kind] != n {
		s.drop(n)
	}
}

// bury notes that what began at a line is dead.
func (c *chunkState) bury(line int) {
	for len(c.dead) <= line/64 {
		c.dead = append(c.dead, 0)
	}
	c.dead[line/64] |= 1 << (line % 64)
}

// buried says whether what began at a line is dead.
func (c *chunkState) buried(line int) bool {
	return line/64 < len(c.dead) && c.dead[line/64]>>(line%64)&1 != 0
}

// drop takes a chunk that nothing refers to out. Indexes of before keep it.
func (s *store) drop(n int) {
	s.dead -= s.chunkOf[n].used
	s.chunks = slices.Clone(s.chunks)
	s.chunks[n], s.chunkOf[n] = nil, chunkState{}
	s.free = append(s.free, n)
	if s.moving.chunk == n {
		s.moving = moving{}
	}
}

// replace notes a change: e instead of what is at old, 0 for nothing. It returns the
// edit's number.
func (s *store) replace(hash uint32, old position, e entry) int {
	s.edits = append(s.edits, edit{hash: hash, old: old})
	n := len(s.edits) - 1
	s.again(n, e)
	return n
}

// again changes what an edit of before will have done.
func (s *store) again(n int, e entry) {
	if before := s.noted(n); before != nil {
		s.release(s.edits[n].now, before.lines())
	}
	s.edits[n].now = 0
	if e != nil {
		s.edits[n].now = s.put(e)
	}
}

// noted is the entry that an edit will bring, nil for none.
func (s *store) noted(n int) entry {
	if now := s.edits[n].now; now != 0 {
		return s.entry(now)
	}
	return nil
}

// pending says whether there are edits to commit.
func (s *store) pending() bool { return len(s.edits) > 0 }

// inUse is how many lines something refers to.
func (s *store) inUse() int { return s.live[entries] + s.live[leaves] }

// commit returns the index after all edits noted.
func (s *store) commit() *index {
	s.apply(s.edits)
	s.edits = s.edits[:0]
	s.compact()
	s.own = emptied(s.own)
	s.ownRoot = false
	next := s.index
	return &next
}

// apply makes edits, which it reorders.
func (s *store) apply(edits []edit) {
	if len(edits) > 1 {
		slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.hash, b.hash) })
	}
	s.makeRoom(s.len + len(edits))
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].hash>>s.shift == edits[0].hash>>s.shift {
			n++
		}
		if !s.change(edits[:n]) {
			s.double()
			continue
		}
		edits = edits[n:]
	}
}

// change makes the edits of one leaf; false when it has no room for them.
func (s *store) change(edits []edit) bool {
	number := edits[0].hash >> s.shift
	b := s.branch(number)
	old := b[number%fan]
	if e := edits[0]; len(edits) == 1 && e.old != 0 && e.now != 0 {
		b[number%fan] = s.patched(old, e)
		s.settle(e)
		return true
	}
	s.scratch = s.scratch[:0]
	if old != 0 {
		eachSlot(s.leaf(old), func(v slot) {
			if !slices.ContainsFunc(edits, func(e edit) bool { return v == makeSlot(e.hash, e.old) }) {
				s.scratch = append(s.scratch, v)
			}
		})
	}
	for _, e := range edits {
		if e.now != 0 {
			s.scratch = append(s.scratch, makeSlot(e.hash, e.now))
		}
	}
	if len(s.scratch) > fullLeaf {
		return false
	}
	b[number%fan] = s.newLeaf(s.scratch)
	if old != 0 {
		s.release(old, leafLines)
	}
	for _, e := range edits {
		s.settle(e)
	}
	return true
}

// patched is a copy of a leaf in which an entry has moved.
func (s *store) patched(old position, e edit) position {
	p := s.take(leaves, leafLines)
	leaf := s.leaf(p)
	copy(leaf, s.leaf(old))
	i := e.hash % slots
	for slotAt(leaf, i) != makeSlot(e.hash, e.old) {
		i = (i + 1) % slots
	}
	binary.LittleEndian.PutUint64(leaf[i*slotSize:], uint64(makeSlot(e.hash, e.now)))
	s.release(old, leafLines)
	return p
}

// settle counts an edit that was made.
func (s *store) settle(e edit) {
	if e.old != 0 {
		s.release(e.old, s.entry(e.old).lines())
		s.len--
	}
	if e.now != 0 {
		s.len++
	}
}

// newLeaf writes a leaf of slots; 0 when there are none.
func (s *store) newLeaf(list []slot) position {
	if len(list) == 0 {
		return 0
	}
	p := s.take(leaves, leafLines)
	leaf := s.leaf(p)
	for _, v := range list {
		insert(leaf, v)
	}
	return p
}

// branch is a leaf's branch, which this commit may write.
func (s *store) branch(leaf uint32) *branch {
	if !s.ownRoot {
		s.root, s.ownRoot = slices.Clone(s.root), true
	}
	b := s.root[leaf/fan]
	if _, ok := s.own[b]; ok && b != nil {
		return b
	}
	next := new(branch)
	if b != nil {
		*next = *b
	}
	s.own[next] = struct{}{}
	s.root[leaf/fan] = next
	return next
}

// makeRoom doubles the leaves until n entries fill half of their slots at most.
func (s *store) makeRoom(n int) {
	for n > (slots/2)<<(32-s.shift) && s.shift > 0 {
		if s.len == 0 {
			s.resize(s.shift - 1)
		} else {
			s.double()
		}
	}
}

// resize gives an index without entries the leaves that shift says.
func (s *store) resize(shift uint) {
	s.shift = shift
	s.root, s.ownRoot = make([]*branch, max(1, 1<<(32-shift)/fan)), true
	s.own = emptied(s.own)
}

// double splits each leaf in two. A slot holds all of the hash that this needs: a
// million entries take a few milliseconds, and none of them is read.
func (s *store) double() {
	old := s.root
	s.resize(s.shift - 1)
	for i, b := range old {
		if b == nil {
			continue
		}
		for j, p := range b {
			if p != 0 {
				s.split(p, uint32(i*fan+j)*2)
			}
		}
	}
}

// split writes the slots of a leaf of before into the two that it becomes.
func (s *store) split(p position, first uint32) {
	var half [2][]slot
	var room [2][slots]slot
	half[0], half[1] = room[0][:0], room[1][:0]
	eachSlot(s.leaf(p), func(v slot) {
		side := v.hash() >> s.shift & 1
		half[side] = append(half[side], v)
	})
	for side, list := range half {
		if len(list) > 0 {
			s.branch(first + uint32(side))[(first+uint32(side))%fan] = s.newLeaf(list)
		}
	}
	s.release(p, leafLines)
}

// stamp writes into an entry's header what finding and moving it needs.
func (e entry) stamp(hash uint32) {
	if e != nil {
		binary.LittleEndian.PutUint32(e[hSize:], uint32(len(e)))
		binary.LittleEndian.PutUint32(e[hHash:], hash)
	}
}
