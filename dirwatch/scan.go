package dirwatch

import (
	"slices"
	"time"
)

const (
	// maxLooks bounds how often one scan looks again because something changed under it;
	// whatever still changes then is seen by the next event.
	maxLooks = 8
	// fresh is how old a file's time must be for equal times to mean equal contents: more
	// than the coarsest clock of a file system in use (2 s on FAT).
	fresh = 3 * time.Second
)

// scanner keeps what the last look saw. It belongs to one goroutine.
type scanner struct {
	paths   []string
	maxSize int64
	notify  *notifier // nil: nothing is watched
	round   int
	last    Snapshot
	seen    []entry                               // the walk that last belongs to
	known   map[string]*content                   // by File.Path
	decode  func(path string, content []byte) any // nil: contents are kept
}

// content is a file with what it was read from.
type content struct {
	entry
	file  *File
	fresh bool // the file was so young that its time may not show the next change
}

func newScanner(paths []string, maxSize int64, n *notifier) *scanner {
	return &scanner{paths: paths, maxSize: maxSize, notify: n, known: map[string]*content{}}
}

// first is the first look.
func (s *scanner) first() Snapshot {
	s.next(nil)
	return s.last
}

// next looks again. touched are real paths of files to be read even if nothing about
// them seems to have changed. changed is false when the snapshot equals the last one.
func (s *scanner) next(touched map[string]struct{}) (snapshot Snapshot, changed bool) {
	before := s.last.Files
	entries := s.walk()
	if len(touched) == 0 && !s.anyFresh() && slices.EqualFunc(entries, s.seen, entry.same) {
		return s.last, false
	}
	if !s.settle(entries, touched) {
		s.notify.signal()
	}
	s.notify.prune(s.round)
	return s.last, !slices.Equal(before, s.last.Files)
}

// settle reads entries, and again until nothing changed while it read; false says that
// it gave up.
func (s *scanner) settle(entries []entry, touched map[string]struct{}) bool {
	for range maxLooks {
		s.read(entries, touched)
		touched = nil
		again := s.walk()
		if slices.EqualFunc(entries, again, entry.same) {
			return true
		}
		entries = again
	}
	return false
}

func (s *scanner) walk() []entry {
	s.round++
	return walk(s.paths, s.notify, s.round)
}

func (s *scanner) anyFresh() bool {
	for _, c := range s.known {
		if c.fresh {
			return true
		}
	}
	return false
}

// read makes entries the last snapshot, with contents that are known taken over.
func (s *scanner) read(entries []entry, touched map[string]struct{}) {
	contents := make([]*content, len(entries))
	var missing []int
	for i, e := range entries {
		old := s.known[e.path]
		if _, read := touched[e.real]; read || !old.stands(e) {
			missing = append(missing, i)
		} else {
			contents[i] = old
		}
	}
	r := newReader(s.maxSize, s.decode)
	r.each(missing, func(i int, buffer *[]byte) {
		e := entries[i]
		contents[i] = r.content(e, s.known[e.path], buffer)
	})
	known := make(map[string]*content, len(entries))
	files := make([]*File, len(entries))
	for i, c := range contents {
		known[c.path], files[i] = c, c.file
	}
	s.known, s.seen, s.last = known, entries, Snapshot{Files: files}
}

// stands says whether c is the content of e for sure.
func (c *content) stands(e entry) bool {
	return c != nil && !c.fresh && c.err == nil && e.err == nil && c.same(e)
}
