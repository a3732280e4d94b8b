package dirwatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
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

var errTooLarge = errors.New("file too large")

// scanner keeps what the last look saw. It belongs to one goroutine.
type scanner struct {
	paths   []string
	maxSize int64
	notify  *notifier // nil: nothing is watched
	round   int
	last    Snapshot
	seen    []entry             // the walk that last belongs to
	known   map[string]*content // by File.Path
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
	known := make(map[string]*content, len(entries))
	files := make([]*File, 0, len(entries))
	for _, e := range entries {
		c := s.content(e, touched)
		known[e.path] = c
		files = append(files, c.file)
	}
	s.known, s.seen, s.last = known, entries, Snapshot{Files: files}
}

// content is the content of e: the known one, or the file read now. A file that was read
// but holds the same bytes keeps its old *File.
func (s *scanner) content(e entry, touched map[string]struct{}) *content {
	old := s.known[e.path]
	_, read := touched[e.real]
	if old != nil && !read && !old.fresh && old.err == nil && e.err == nil && old.same(e) {
		return old
	}
	c := &content{entry: e, file: &File{Path: e.path, Err: e.err, Folder: e.folder}}
	if e.err == nil {
		c.fresh = time.Since(e.info.ModTime()) < fresh
		c.file.Content, c.file.Err = readFile(e, s.maxSize)
	}
	if old != nil && old.file.equal(c.file) {
		c.file = old.file
	}
	return c
}

// readFile reads at most limit bytes; errors name the path as configured.
func readFile(e entry, limit int64) ([]byte, error) {
	data, err := readRegular(e.real, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.path, err)
	}
	return data, nil
}

func readRegular(path string, limit int64) (data []byte, err error) {
	// Without O_NONBLOCK, opening a pipe that took the file's place would wait for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoRegular
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, info.Size(), limit)
	}
	return readBounded(f, info, limit)
}

// readBounded reads a file that may grow meanwhile.
func readBounded(f io.Reader, info fs.FileInfo, limit int64) ([]byte, error) {
	data := make([]byte, 0, info.Size()+1)
	for int64(len(data)) <= limit {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data)/2+512)
		}
	}
	return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
}
