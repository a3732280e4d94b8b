package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Env is one run: a temporary folder, the binaries in use and the running processes. Its
// methods may be called from any goroutine.
type Env struct {
	dir     string
	log     io.Writer
	builder *Builder
	spawner *spawner

	mu        sync.Mutex
	names     map[string]int   // how often a process name was given out
	processes []*Process       // in order of start
	found     map[Tool]finding // what Binary has found or built
}

// finding is a binary, or why there is none.
type finding struct {
	path string
	err  error
}

// New makes the folder of a run. What the harness does, and why, is written to log.
func New(log io.Writer) (*Env, error) {
	builder, err := NewBuilder(log)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "meshdns-e2e-")
	if err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	return &Env{
		dir:     dir,
		log:     log,
		builder: builder,
		spawner: newSpawner(),
		names:   map[string]int{},
		found:   map[Tool]finding{},
	}, nil
}

// Close stops what still runs, the youngest first, and removes the folder.
func (e *Env) Close() error {
	e.mu.Lock()
	processes := e.processes
	e.processes = nil
	e.mu.Unlock()
	var errs []error
	for i := len(processes) - 1; i >= 0; i-- {
		errs = append(errs, processes[i].Stop())
	}
	e.spawner.close()
	errs = append(errs, os.RemoveAll(e.dir))
	return errors.Join(errs...)
}

// Binary is the path of a tool, found or built at the first call. A MissingError says
// that this machine cannot have it; the product failing to build is another error.
func (e *Env) Binary(t Tool) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.found[t]; ok {
		return f.path, f.err
	}
	var f finding
	if t == Meshdns {
		f.path, f.err = e.builder.Product(filepath.Join(e.dir, "meshdns"))
	} else {
		f.path, f.err = e.builder.Tool(t)
	}
	e.found[t] = f
	return f.path, f.err
}

// Folder makes a new folder under the run's own, named after what it is for.
func (e *Env) Folder(name string) (string, error) {
	dir := filepath.Join(e.dir, e.unique(name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a folder for %s: %w", name, err)
	}
	return dir, nil
}

// unique makes a name that no folder or log of this run has yet.
func (e *Env) unique(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names[name]++
	if n := e.names[name]; n > 1 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// WriteFile puts content into a file of dir and gives its path.
func WriteFile(dir, name, content string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
