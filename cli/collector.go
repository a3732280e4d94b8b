package cli

import (
	"context"
	"os"
	"runtime/debug"
)

// collectorPercent is how much the heap may grow, in percent of what is alive, before the
// next garbage collection. Nearly all of the heap is data that lives long: the runtime's own
// 100 would double the memory of a server with a million endpoints, while at 40 their
// collection is still a small part of what a change costs (bench/results.md).
const collectorPercent = 40

// TuneCollector sets the garbage collector as serve has it, unless GOGC or GOMEMLIMIT says
// otherwise. It counts for the whole process; restore undoes it.
func TuneCollector() (restore func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(collectorPercent)
	return func() { debug.SetGCPercent(before) }
}

// giveBack returns the memory that only the start needed to the system: while whole lists
// are read a server holds about twice what it does afterwards, and without changes there is
// no collection for minutes after which the runtime would do it little by little.
func giveBack(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ready:
		debug.FreeOSMemory()
	}
}
