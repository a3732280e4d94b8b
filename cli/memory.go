package cli

import (
	"context"
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage there may be on top of what is in use, in percent of
// that, before it is collected. What is in use are mostly endpoints without pointers, which
// cost a collection little and memory much: at a million endpoints Go's preset of 100 kept
// 988 MB resident, this keeps below 600.
const garbagePercent = 40

// tuneMemory sets garbagePercent unless the environment says how to collect, and gives
// what undoes it.
func tuneMemory() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(garbagePercent)
	return func() { debug.SetGCPercent(before) }
}

// giveBack returns the memory to the system that only the start needed, once ready is
// closed.
func giveBack(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ready:
		debug.FreeOSMemory()
	case <-ctx.Done():
	}
}
