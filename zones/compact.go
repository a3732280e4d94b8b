package zones

// moving is how far the chunk that is being emptied has been read.
type moving struct {
	chunk int // 0: none
	line  int
}

// Compaction: changes leave dead lines behind. While more than a third of all are dead,
// each commit also moves some of what lives in the emptiest chunk to where new entries
// go, in proportion to what it wrote itself, until nothing lives there and the chunk is
// dropped. So memory stays within one and a half of what is in use, and no commit waits
// for more than its share.
const (
	deadLines = minLines // that are always let be
	pace      = 4        // lines read of the emptied chunk for each one written
)

func (s *store) compact() {
	budget := pace * s.written
	for budget > 0 && s.dead > s.inUse()/2+deadLines {
		if s.moving.chunk == 0 && !s.choose() {
			break
		}
		if s.chunkOf[s.moving.chunk].kind == leaves {
			budget -= s.moveLeaves(budget)
		} else {
			budget -= s.moveEntries(budget)
		}
	}
	s.written = 0
}

// choose picks the chunk with the smallest share of live lines; false when no closed
// chunk has dead ones.
func (s *store) choose() bool {
	best, share := 0, 1.0
	for n, c := range s.chunkOf {
		if c.used == 0 || s.open[c.kind] == n {
			continue
		}
		if of := float64(c.live) / float64(c.used); of < share {
			best, share = n, of
		}
	}
	s.moving = moving{chunk: best}
	return best != 0
}

// at is where the moving stands.
func (m moving) at() position { return position(m.chunk<<chunkBits | m.line) }

// moveEntries moves what is in use within the next lines and returns how many it read.
// The chunk is dropped with its last entry's move.
func (s *store) moveEntries(budget int) (lines int) {
	edits := s.edits[:0]
	m, chunk := s.moving, &s.chunkOf[s.moving.chunk]
	for lines < budget && m.line < chunk.used {
		e := s.entry(m.at())
		n := e.lines()
		if !chunk.buried(m.line) {
			edits = append(edits, edit{e.u32(hHash), m.at(), s.put(e)})
			chunk = &s.chunkOf[m.chunk]
		}
		m.line += n
		lines += n
	}
	s.moving = m
	s.apply(edits)
	s.edits = edits[:0]
	return lines
}

// moveLeaves is moveEntries for a chunk of leaves.
func (s *store) moveLeaves(budget int) (lines int) {
	for lines < budget && s.moving.chunk != 0 {
		p := s.moving.at()
		buried := s.chunkOf[s.moving.chunk].buried(s.moving.line)
		s.moving.line += leafLines
		lines += leafLines
		if !buried {
			s.moveLeaf(p)
		}
	}
	return lines
}

func (s *store) moveLeaf(p position) {
	next := s.take(leaves, leafLines)
	leaf := s.leaf(next)
	copy(leaf, s.leaf(p))
	eachSlot(leaf, func(v slot) { s.branch(v.hash() >> s.shift)[v.hash()>>s.shift%fan] = next })
	s.release(p, leafLines)
}
