package dirwatch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notifier turns fsnotify's events into one signal. Folders are watched, never files: a
// watch on a file stays with the old one when an editor renames a new one over it. All but
// pump and matters belongs to the goroutine of Run.
type notifier struct {
	logger  *slog.Logger
	fs      *fsnotify.Watcher // nil when the system has no watches left
	changed chan struct{}     // capacity 1: something that matters has changed
	done    chan struct{}     // closed when the pump has ended
	warned  bool              // a watch failed and the log says so

	mu      sync.Mutex
	folders map[string]*folder  // by real path
	touched map[string]struct{} // real paths of files with events since take
}

// folder is a watched folder.
type folder struct {
	info  fs.FileInfo         // of the folder when the watch was made
	round int                 // the last walk that asked for the folder
	all   bool                // guarded by mu: every name that is not hidden matters
	names map[string]struct{} // guarded by mu: these names matter, hidden or not
}

func newNotifier(logger *slog.Logger) *notifier {
	n := &notifier{
		logger:  logger,
		changed: make(chan struct{}, 1),
		done:    make(chan struct{}),
		folders: map[string]*folder{},
		touched: map[string]struct{}{},
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		n.warn("", err)
		close(n.done)
		return n
	}
	n.fs = watcher
	go n.pump()
	return n
}

// close ends the watches and the pump, and waits for both.
func (n *notifier) close() {
	if n.fs != nil {
		if err := n.fs.Close(); err != nil {
			n.logger.Warn("closing the file watch failed", "error", err)
		}
	}
	<-n.done
}

// pump takes events as they come, so that fsnotify never waits for a busy consumer.
func (n *notifier) pump() {
	defer close(n.done)
	for {
		select {
		case event, ok := <-n.fs.Events:
			if !ok {
				return
			}
			if n.matters(filepath.Clean(event.Name)) {
				n.signal()
			}
		case _, ok := <-n.fs.Errors:
			if !ok {
				return
			}
			n.signal() // events were lost: look at everything
		}
	}
}

func (n *notifier) signal() {
	if n == nil {
		return
	}
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// matters says whether the event of name may change a snapshot, and notes it.
func (n *notifier) matters(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, watched := n.folders[name]; watched {
		return true
	}
	dir, base := filepath.Split(name)
	f := n.folders[filepath.Clean(dir)]
	if f == nil {
		return false
	}
	if _, named := f.names[base]; !named && (!f.all || isHidden(base)) {
		return false
	}
	n.touched[name] = struct{}{}
	return true
}

// take returns the touched files and forgets them.
func (n *notifier) take() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	touched := n.touched
	n.touched = map[string]struct{}{}
	return touched
}

// watch makes sure that events of name in dir arrive from now on; name "" means every
// name that is not hidden. dir must be free of symbolic links. To be called before dir is
// looked at. A nil notifier watches nothing.
func (n *notifier) watch(dir, name string, round int) {
	if n == nil {
		return
	}
	if f, isNew := n.want(dir, name, round); isNew {
		n.ensure(dir, f)
	}
}

// want notes that events of name in dir matter; isNew is true the first time in a round.
func (n *notifier) want(dir, name string, round int) (f *folder, isNew bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f = n.folders[dir]
	if f == nil {
		f = &folder{names: map[string]struct{}{}}
		n.folders[dir] = f
	}
	isNew = f.round != round
	if isNew {
		f.round, f.all = round, false
		clear(f.names)
	}
	if name == "" {
		f.all = true
	} else {
		f.names[name] = struct{}{}
	}
	return f, isNew
}

// ensure makes the system's watch of dir, again if another folder has its place. mu must
// not be held: the pump takes it, and fsnotify may wait for the pump.
func (n *notifier) ensure(dir string, f *folder) {
	if n.fs == nil {
		return
	}
	info, err := os.Stat(dir)
	if err != nil {
		return // the walk meets the same error and reports it
	}
	if f.info != nil && !os.SameFile(f.info, info) {
		n.drop(dir)
	}
	f.info = info
	if err := n.fs.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.warn(dir, err)
	}
}

// prune ends the watches that round did not ask for.
func (n *notifier) prune(round int) {
	if n == nil {
		return
	}
	for _, dir := range n.forget(round) {
		n.drop(dir)
	}
}

// forget takes the folders that round did not ask for out of the notifier's own list.
func (n *notifier) forget(round int) (dirs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for dir, f := range n.folders {
		if f.round != round {
			delete(n.folders, dir)
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// drop ends the watch of dir and asks for another look: fsnotify knows a folder by the
// path that it first had, so that after a rename this may have been the watch of a folder
// that is still needed. The look makes it again.
func (n *notifier) drop(dir string) {
	if n.fs == nil {
		return
	}
	n.signal()
	if err := n.fs.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		n.logger.Debug("ending the watch of a folder failed", "folder", dir, "error", err)
	}
}

func (n *notifier) warn(dir string, err error) {
	if n.warned {
		return
	}
	n.warned = true
	n.logger.Warn("files cannot be watched, changes are found by re-checks only", "folder", dir, "error", err)
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }
