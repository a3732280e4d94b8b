// Package files is the source of the registry documents in a folder (registryDir).
//
// A change's way: dirwatch sees it and delivers all files as they are now →
//
//	files.go   Source: Run, Reconfigure; the changed files are decoded again (registry)
//	file.go    one file: its documents, and those that outlive a mistake in it
//	settle.go  documents that cannot be served together: which ones stay
//	push.go    what differs from before → Updates; Status; one log line a problem
//	check.go   the same, once and for people: `meshdns check`
//
// The way on: the Sink, which is the resolver's inbox.
//
// A mistake in a file ends nobody's DNS: what was good before in its place stays until it
// is good again or known to be gone.
package files

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/meshdns/meshdns/dirwatch"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// Name is the source's name: Key.Source and Status.Source.
const Name = "registryDir"

// Config is what a Source is made of.
type Config struct {
	Dir     string           // a folder or a file; "": there are no documents
	Options registry.Options // Source is set to Name
	Logger  *slog.Logger     // nil: none
	Now     func() time.Time // nil: time.Now
	// Recheck, when set, is the clock of dirwatch's re-checks in place of its own.
	Recheck <-chan time.Time
}

// Source implements sources.Source for a folder of documents.
type Source struct {
	logger  *slog.Logger
	now     func() time.Time
	recheck <-chan time.Time

	mu       sync.Mutex // guards all below
	dir      string
	opts     registry.Options
	restart  context.CancelFunc // ends the watch of dir; nil while none runs
	sink     sources.Sink
	snapshot dirwatch.Snapshot
	files    map[string]*file                      // by path
	pushed   map[sources.Key]*registry.MeshService // what the sink has
	reported map[string]int                        // problems of the last change, by text: how many
	unnamed  map[string]bool                       // paths of files with a document whose name cannot be read
	status   sources.Status
}

// New makes a Source. It reads nothing before Run.
func New(cfg Config) *Source {
	s := &Source{
		logger: cfg.Logger, now: cfg.Now, recheck: cfg.Recheck, dir: cfg.Dir, opts: cfg.Options,
		files: map[string]*file{}, pushed: map[sources.Key]*registry.MeshService{}, reported: map[string]int{}, unnamed: map[string]bool{},
		status: sources.Status{Source: Name, Kind: "files"},
	}
	s.opts.Source = Name
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run implements sources.Source. It may run only once at a time.
func (s *Source) Run(ctx context.Context, sink sources.Sink) error {
	for ctx.Err() == nil {
		if err := s.watch(ctx, sink); err != nil {
			return fmt.Errorf("watch %s: %w", Name, err)
		}
	}
	return nil
}

// watch follows the folder until ctx ends or another folder is configured.
func (s *Source) watch(ctx context.Context, sink sources.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.sink, s.restart = sink, cancel
	dir := s.dir
	s.mu.Unlock()
	if dir == "" {
		s.take(ctx, dirwatch.Snapshot{})
		<-ctx.Done()
		return nil
	}
	watcher := dirwatch.New(dirwatch.Config{Paths: []string{dir}, MaxFileSize: document.MaxBytes, Logger: s.logger, Recheck: s.recheck})
	return watcher.Run(ctx, func(snapshot dirwatch.Snapshot) { s.take(ctx, snapshot) })
}

// Reconfigure changes the folder and the surroundings in which documents are read, as one
// step: documents that are good before and after are served throughout. It is safe for
// concurrent use and returns once the new options are in force for the files known so
// far; a new folder is read soon after.
func (s *Source) Reconfigure(dir string, opts registry.Options) {
	opts.Source = Name
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts = opts
	if dir != s.dir {
		s.dir = dir
		if s.restart != nil {
			s.restart()
		}
	}
	for path, f := range s.files {
		s.files[path] = f.outdated(opts)
	}
	if s.sink != nil {
		s.applyLocked()
	}
}

// take takes up what the folder holds now. What a watch that has been ended still
// delivers is not looked at.
func (s *Source) take(ctx context.Context, snapshot dirwatch.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		s.snapshot = snapshot
		s.applyLocked()
	}
}

// applyLocked brings files, and then the sink, up to the snapshot.
func (s *Source) applyLocked() {
	seen := map[string]bool{}
	for _, f := range s.snapshot.Files {
		seen[f.Path] = true
		s.files[f.Path] = s.files[f.Path].next(f, s.opts, s.pushed)
	}
	for path := range s.files {
		if !seen[path] && s.snapshot.Unknown(path) == nil {
			delete(s.files, path)
		}
	}
	s.pushLocked()
}
