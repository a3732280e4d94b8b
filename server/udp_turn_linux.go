package server

import (
	"runtime"
	"time"
)

// turnTime is how long a loop runs before it lets other goroutines have its place for a moment.
// 3 ms: well below the 10 ms after which Go's monitor takes a place away. It then does so at each
// look that finds the loop in a system call, and looks every 20 µs as long as it finds something:
// a seventh of a processor for the monitor and a change of threads for every few queries,
// measured with 4 queries in flight. A loop that gives its place up by itself is left alone.
const turnTime = 3 * time.Millisecond

// turn counts the time of a loop, from began on.
type turn struct {
	began  time.Time
	passed time.Duration // when the loop last gave its place up
}

// pass gives the place up if it is time to. It costs one look at the clock.
func (t *turn) pass() {
	if now := time.Since(t.began); now-t.passed >= turnTime {
		runtime.Gosched()
		t.passed = now
	}
}
