package dirwatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of a walk, against links that lead in circles.
const (
	maxLinks = 40 // as Linux follows in one path
	maxDepth = 32 // folders below a configured path
)

var (
	errLinks     = errors.New("too many symbolic links")
	errDepth     = errors.New("folders nested too deep")
	errCircle    = errors.New("symbolic link to a folder above itself")
	errNoRegular = errors.New("not a regular file")
)

// entry is what a walk found at one path.
type entry struct {
	path   string      // as File.Path
	real   string      // without symbolic links; "" when err is set
	info   fs.FileInfo // of the file at real; nil when err is set
	err    error
	folder bool // as File.Folder
}

// same says whether nothing points to a change between the two.
func (e entry) same(f entry) bool {
	if e.path != f.path || e.real != f.real || errorText(e.err) != errorText(f.err) {
		return false
	}
	if e.info == nil || f.info == nil {
		return e.info == nil && f.info == nil
	}
	return os.SameFile(e.info, f.info) && e.info.Size() == f.info.Size() &&
		e.info.ModTime().Equal(f.info.ModTime())
}

// walker lists the files below the configured paths. It watches what it passes.
type walker struct {
	notify  *notifier
	round   int
	above   []fs.FileInfo // the folders that the walk is in
	entries []entry
}

// walk lists the files of paths by path, each once.
func walk(paths []string, n *notifier, round int) []entry {
	w := &walker{notify: n, round: round}
	for _, path := range paths {
		w.configured(path)
	}
	slices.SortStableFunc(w.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(w.entries, func(a, b entry) bool { return a.path == b.path })
}

// configured lists a path of the Config: a file whatever its name, or a folder.
func (w *walker) configured(path string) {
	real, info, err := w.resolve(path)
	switch {
	case err != nil:
		w.fail(path, err, true)
	case info.IsDir():
		w.folder(path, real, info)
	default:
		w.file(path, real, info)
	}
}

// folder lists the files below a folder.
func (w *walker) folder(path, real string, info fs.FileInfo) {
	if err := w.enter(info); err != nil {
		w.fail(path, err, true)
		return
	}
	defer func() { w.above = w.above[:len(w.above)-1] }()
	w.notify.watch(real, "", w.round)
	children, err := os.ReadDir(real)
	if err != nil {
		w.fail(path, err, true)
		return
	}
	for _, child := range children {
		if !isHidden(child.Name()) {
			w.child(filepath.Join(path, child.Name()), filepath.Join(real, child.Name()), child)
		}
	}
}

// enter notes that the walk goes into a folder; the caller takes it off again.
func (w *walker) enter(info fs.FileInfo) error {
	if len(w.above) >= maxDepth {
		return errDepth
	}
	for _, a := range w.above {
		if os.SameFile(a, info) {
			return errCircle
		}
	}
	w.above = append(w.above, info)
	return nil
}

// child lists one name of a folder: a folder, a file with a known ending, or a link to
// one of them.
func (w *walker) child(path, real string, child fs.DirEntry) {
	var info fs.FileInfo
	var err error
	if child.Type()&fs.ModeSymlink != 0 {
		real, info, err = w.resolve(real)
	} else {
		info, err = child.Info()
	}
	switch {
	case err != nil && !isDocument(path):
		// Neither a document nor a folder that could be entered.
	case err != nil:
		w.fail(path, err, false)
	case info.IsDir():
		w.folder(path, real, info)
	case isDocument(path):
		w.file(path, real, info)
	}
}

func (w *walker) file(path, real string, info fs.FileInfo) {
	if !info.Mode().IsRegular() {
		w.fail(path, errNoRegular, false)
		return
	}
	w.entries = append(w.entries, entry{path: path, real: real, info: info})
}

func (w *walker) fail(path string, err error, folder bool) {
	w.entries = append(w.entries, entry{path: path, err: fmt.Errorf("read %s: %w", path, err), folder: folder})
}

// resolve follows the symbolic links of path, and watches each place where a link, the
// end of the path, or something missing is: the places where a change leads elsewhere.
func (w *walker) resolve(path string) (real string, info fs.FileInfo, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	root := filepath.VolumeName(abs) + string(filepath.Separator)
	real, rest := root, strings.TrimPrefix(abs, root)
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			real = filepath.Dir(real)
			continue
		}
		target, isLink, err := w.look(real, name, rest == "")
		if err != nil {
			return "", nil, err
		}
		if !isLink {
			real = filepath.Join(real, name)
			continue
		}
		if links++; links > maxLinks {
			return "", nil, errLinks
		}
		if filepath.IsAbs(target) {
			real = root
		}
		rest = target + string(filepath.Separator) + rest
	}
	if info, err = os.Lstat(real); err != nil {
		return "", nil, err
	}
	return real, info, nil
}

// look says whether name in the folder dir is a link, and to where.
func (w *walker) look(dir, name string, last bool) (target string, isLink bool, err error) {
	full := filepath.Join(dir, name)
	info, err := os.Lstat(full)
	if last || err != nil || info.Mode()&fs.ModeSymlink != 0 {
		w.notify.watch(dir, name, w.round)
		info, err = os.Lstat(full) // again: it may have changed before the watch was there
	}
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false, err
	}
	target, err = os.Readlink(full)
	return target, true, err
}

func isDocument(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
