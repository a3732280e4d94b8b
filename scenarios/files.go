package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// layOut writes the archive's files into the work folder, variables expanded.
func (r *run) layOut() error {
	if err := os.MkdirAll(r.path(staging), 0o755); err != nil {
		return err
	}
	for _, file := range r.script.Files {
		text, err := expand(string(file.Data), r.vars)
		if err != nil {
			return fmt.Errorf("file %s: %w", file.Name, err)
		}
		if err := r.write(file.Name, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// staging is where a file is written before it is moved to its place in one step, so
// that nobody sees half a file. No server watches it.
const staging = ".staging"

func (r *run) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

func (r *run) write(name string, data []byte) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("file %q is outside of the work folder", name)
	}
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		return err
	}
	staged := filepath.Join(r.path(staging), "file")
	if err := os.WriteFile(staged, data, 0o644); err != nil {
		return err
	}
	return os.Rename(staged, r.path(name))
}

// copy does "copy FROM TO": TO gets the content of FROM, in one step.
func (r *run) copy(_ context.Context, words []string, _ []Line) error {
	if len(words) != 2 {
		return errors.New("want: copy FROM TO")
	}
	data, err := os.ReadFile(r.path(words[0]))
	if err != nil {
		return err
	}
	return r.write(words[1], data)
}

// remove does "remove FILE…".
func (r *run) remove(_ context.Context, words []string, _ []Line) error {
	for _, name := range words {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("file %q is outside of the work folder", name)
		}
		if err := os.RemoveAll(r.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// link does "link TARGET NAME": NAME becomes a symbolic link to TARGET, in one step, as
// mounted ConfigMaps are changed.
func (r *run) link(_ context.Context, words []string, _ []Line) error {
	if len(words) != 2 {
		return errors.New("want: link TARGET NAME")
	}
	staged := filepath.Join(r.path(staging), "link")
	if err := os.Symlink(words[0], staged); err != nil {
		return err
	}
	return os.Rename(staged, r.path(words[1]))
}
