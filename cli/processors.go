package cli

import (
	"os"
	"runtime"
)

// makeRoom gives the scheduler a place for each worker on top of those for the processors,
// unless GOMAXPROCS is set, and gives what undoes it. A worker that waits for queries in the
// system keeps its place for up to 10 ms, and what becomes ready there, such as a change
// from an API server, would wait as long.
func makeRoom(workers int) (undo func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	if workers == 0 {
		workers = before
	}
	runtime.GOMAXPROCS(before + workers)
	return func() { runtime.GOMAXPROCS(before) }
}
