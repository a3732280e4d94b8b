// Package dirwatch reads files and folders and says when they change: the main
// configuration, the folder of registry documents, folders of Kubernetes manifests.
//
//	dirwatch.go  Config, Watcher: Run's loop, Read for a single look
//	notify.go    fsnotify's events, filtered to what matters, gathered while the
//	             consumer is busy
//	walk.go      what is there: folders walked, symbolic links followed, with each
//	             folder watched before it is read
//	scan.go      contents: read once, on all processors, kept while unchanged, looked at
//	             again until two walks agree, so that a folder swap is one step
//	read.go      the bytes of a file; those that are decoded at once are not kept
//	snapshot.go  Snapshot, File: what the consumer gets
//
// The way on: config, sources/files and sources/kubernetes decode the contents.
package dirwatch

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	// DefaultMaxFileSize holds a dump of about 500,000 endpoints; a larger file is more
	// likely a mistake than a document.
	DefaultMaxFileSize = 256 << 20
	// DefaultInterval bounds how long a change goes unseen where events do not arrive
	// (network file systems, exhausted watch limits). A check is one stat a file.
	DefaultInterval = 5 * time.Second
	// DefaultSettle is how long files must be quiet before they are read, so that a file
	// written in several pieces is usually seen whole. A stream of changes delays the
	// reading by ten times this at most.
	DefaultSettle = 10 * time.Millisecond
)

// Config says what to watch. Only Paths is needed.
type Config struct {
	// Paths are files or folders. Of a folder, the files ending in .yaml, .yml and .json
	// are read, subfolders included, names that begin with a dot left out. A path that
	// names a file is read whatever its ending. What does not exist yet is waited for.
	Paths       []string
	MaxFileSize int64         // bytes; 0: DefaultMaxFileSize
	Interval    time.Duration // between re-checks; 0: DefaultInterval
	Settle      time.Duration // 0: DefaultSettle
	Logger      *slog.Logger  // nil: nothing is logged
	// Recheck, when set, is the clock of the re-checks in place of Interval.
	Recheck <-chan time.Time
	// Decode, when set, makes File.Decoded of each file that has a content it did not have
	// before, as soon as it is read; the content is then let go of, and File.Content is nil.
	// It is called by several goroutines at a time and must not keep content. What it
	// returns may never be delivered: the file may change again before the others are read.
	Decode func(path string, content []byte) any
}

// Watcher watches the files of one Config.
type Watcher struct {
	cfg Config
}

// New makes a Watcher. It opens nothing before Run.
func New(cfg Config) *Watcher {
	if cfg.MaxFileSize <= 0 {
		cfg.MaxFileSize = DefaultMaxFileSize
	}
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Settle <= 0 {
		cfg.Settle = DefaultSettle
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg}
}

// Run calls deliver with the files as they are now, at once and whatever is there, and
// again after each change, until ctx ends; it then returns nil. deliver is called by the
// goroutine of Run, one call after the other: what changes during a call is gathered into
// the next one. Run returns an error only for a Config without Paths. It may be called
// more than once, at the same time too; the calls share nothing.
func (w *Watcher) Run(ctx context.Context, deliver func(Snapshot)) error {
	if len(w.cfg.Paths) == 0 {
		return errors.New("watch files: no path given")
	}
	n := newNotifier(w.cfg.Logger)
	defer n.close()
	recheck := w.cfg.Recheck
	if recheck == nil {
		ticker := time.NewTicker(w.cfg.Interval)
		defer ticker.Stop()
		recheck = ticker.C
	}
	s := newScanner(w.cfg.Paths, w.cfg.MaxFileSize, n)
	s.decode = w.cfg.Decode
	deliver(s.first())
	for w.wait(ctx, n, recheck) {
		if snapshot, changed := s.next(n.take()); changed {
			deliver(snapshot)
		}
	}
	return nil
}

// wait returns true when it is time to look again, false when ctx has ended.
func (w *Watcher) wait(ctx context.Context, n *notifier, recheck <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-recheck:
		return true
	case <-n.changed:
	}
	quiet := time.NewTimer(w.cfg.Settle)
	defer quiet.Stop()
	latest := time.NewTimer(10 * w.cfg.Settle)
	defer latest.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-n.changed:
			quiet.Reset(w.cfg.Settle)
		case <-quiet.C:
			return true
		case <-latest.C:
			return true
		}
	}
}

// Read is a single look at paths, read as Config.Paths are. The error joins those of the
// files and folders that could not be read, each of which is in the Snapshot too.
func Read(paths ...string) (Snapshot, error) { return ReadDecoded(nil, paths...) }

// ReadDecoded is Read with a Config.Decode.
func ReadDecoded(decode func(path string, content []byte) any, paths ...string) (Snapshot, error) {
	s := newScanner(paths, DefaultMaxFileSize, nil)
	s.decode = decode
	snapshot := s.first()
	var errs []error
	for _, f := range snapshot.Files {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return snapshot, errors.Join(errs...)
}
