package dirwatch

import (
	"bytes"
	"crypto/sha256"
	"path/filepath"
	"strings"
)

// Snapshot is all files at one moment. It and all that it points to are read-only.
type Snapshot struct {
	// Files are ordered by Path. Between two snapshots of one Run, a file that did not
	// change is the same pointer.
	Files []*File
}

// File is a file, or a folder that could not be read.
type File struct {
	// Path is the configured path, with what follows it below a folder.
	Path string
	// Content is the whole file; nil when Err is set. A file that is being rewritten may
	// be seen empty, or with its beginning only, before it is seen whole.
	Content []byte
	// Decoded is what Config.Decode made of the content, in its place.
	Decoded any
	// Err is why Content is not known: whoever has an earlier content should keep it. It
	// names the path. A symbolic link that leads nowhere is such an error too.
	Err error
	// Folder says that Path is not a file, or may not be one: a folder that could not be
	// read, a configured path that does not exist. Nothing is known of the files below it
	// (Snapshot.Unknown).
	Folder bool

	sum [sha256.Size]byte // of the content, where that is not kept
}

// Unknown says why the content of path is not known at the moment: its own error, or that
// of a folder above it. It is nil for a file that was read, and for one that is known not
// to exist.
func (s Snapshot) Unknown(path string) error {
	for _, f := range s.Files {
		if f.Err == nil {
			continue
		}
		if f.Path == path || f.Folder && isBelow(path, f.Path) {
			return f.Err
		}
	}
	return nil
}

func isBelow(path, folder string) bool {
	folder = filepath.Clean(folder)
	if folder == "." {
		return !filepath.IsAbs(path)
	}
	if !strings.HasSuffix(folder, string(filepath.Separator)) {
		folder += string(filepath.Separator)
	}
	return strings.HasPrefix(filepath.Clean(path), folder)
}

// equal says whether f and g would mean the same to a consumer.
func (f *File) equal(g *File) bool {
	return f.Path == g.Path && f.Folder == g.Folder &&
		errorText(f.Err) == errorText(g.Err) && f.sum == g.sum && bytes.Equal(f.Content, g.Content)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
