package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// workspace is what one goroutine needs to turn a query into a reply.
type workspace struct {
	handler Handler
	out     []byte   // empty, with room for the largest reply
	queries [][]byte // that are answered together
}

// workspaces lends workspaces to goroutines, so that one that only waits for a client or a
// lookup's slot holds none.
type workspaces struct {
	newHandler func() Handler
	pool       sync.Pool
}

func newWorkspaces(newHandler func() Handler, room int) *workspaces {
	w := &workspaces{newHandler: newHandler}
	w.pool.New = func() any {
		return &workspace{handler: newHandler(), out: make([]byte, 0, room)}
	}
	return w
}

func (w *workspaces) get() *workspace  { return w.pool.Get().(*workspace) }
func (w *workspaces) put(s *workspace) { w.pool.Put(s) }

// slots bounds how many may do something at a time.
type slots struct {
	limit int64
	taken atomic.Int64
}

// take gets a slot, which give returns, or says that there is none.
func (s *slots) take() bool {
	if s.taken.Add(1) > s.limit {
		s.taken.Add(-1)
		return false
	}
	return true
}

func (s *slots) give() { s.taken.Add(-1) }

// failures slows down a loop whose socket fails again and again, so that it neither ends nor
// takes a whole processor (no files left, no memory). A single failure costs nothing.
type failures struct{ inRow int }

const (
	freeFailures  = 10 // what a burst of ICMP errors may bring
	longestPause  = 100 * time.Millisecond
	pauseStep     = time.Millisecond
	failuresToLog = freeFailures + 1
)

func (f *failures) reset() { f.inRow = 0 }

// add counts one, pauses after several in a row, and reports whether this is the one of its
// row to log.
func (f *failures) add(stop <-chan struct{}) bool {
	f.inRow++
	if f.inRow <= freeFailures {
		return false
	}
	timer := time.NewTimer(min(longestPause, time.Duration(f.inRow-freeFailures)*pauseStep))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
	return f.inRow == failuresToLog
}

// isTimeout tells a deadline that has passed from a failure.
func isTimeout(err error) bool {
	netErr, ok := err.(net.Error)
	return ok && netErr.Timeout()
}

// past is a deadline that ends every wait at once.
func past() time.Time { return time.Unix(1, 0) }
