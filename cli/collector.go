package cli

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// collectorPercent is how much the heap may grow, in percent of what is alive, before the
	// next garbage collection. Nearly all of the heap is data that lives long: the runtime's
	// own 100 would double the memory of a server with a million endpoints.
	collectorPercent = 35
	// collectorFloor in bytes is counted as alive beside what is, so that a small heap grows
	// by a third of it at least. A collection has a price of its own, milliseconds that the
	// libraries' tables take, and a server of some thousand endpoints otherwise spends more
	// on them than on its changes (bench/results.md).
	collectorFloor = 40 << 20
)

// TuneCollector sets the garbage collector as serve has it, unless GOGC or GOMEMLIMIT says
// otherwise. It counts for the whole process; restore undoes it.
func TuneCollector() (restore func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(collectorPercent)
	floor := make([]byte, collectorFloor) // never touched: the system backs none of it
	return func() {
		runtime.KeepAlive(floor)
		debug.SetGCPercent(before)
	}
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
