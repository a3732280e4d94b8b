package resolver

import (
	"sync"

	"github.com/meshdns/meshdns/sources"
)

// inbox is where sources leave what they say until the owner takes it. Only the latest
// value of a key is kept: bursts coalesce for as long as the owner is busy, and no
// longer. It is safe for concurrent use.
type inbox struct {
	mu    sync.Mutex
	batch *batch
	spare *batch
	wake  chan struct{} // capacity 1: something is in the batch
}

// batch is what one take returns.
type batch struct {
	at       map[sources.Key]int // index of a key's update
	updates  []sources.Update
	statuses []sources.Status
	calls    []func() // run by the owner after updates and statuses are published
}

func newInbox() *inbox {
	return &inbox{batch: newBatch(), spare: newBatch(), wake: make(chan struct{}, 1)}
}

func newBatch() *batch { return &batch{at: make(map[sources.Key]int)} }

// smallBatch is up to where a batch's memory is kept for the next one.
const smallBatch = 64

func (b *batch) reset() {
	if len(b.updates) > smallBatch {
		*b = *newBatch()
		return
	}
	clear(b.at)
	clear(b.updates)
	clear(b.statuses)
	clear(b.calls)
	b.updates, b.statuses, b.calls = b.updates[:0], b.statuses[:0], b.calls[:0]
}

func (in *inbox) update(u sources.Update) {
	in.mu.Lock()
	if i, ok := in.batch.at[u.Key]; ok {
		in.batch.updates[i] = u
	} else {
		in.batch.at[u.Key] = len(in.batch.updates)
		in.batch.updates = append(in.batch.updates, u)
	}
	in.mu.Unlock()
	in.signal()
}

func (in *inbox) status(s sources.Status) {
	in.mu.Lock()
	in.batch.statuses = append(in.batch.statuses, s)
	in.mu.Unlock()
	in.signal()
}

// call has the owner run f after everything that was said before is published.
func (in *inbox) call(f func()) {
	in.mu.Lock()
	in.batch.calls = append(in.batch.calls, f)
	in.mu.Unlock()
	in.signal()
}

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take returns what has come since the last take. The batch is the caller's until the
// next take.
func (in *inbox) take() *batch {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.batch
	in.spare.reset()
	in.batch, in.spare = in.spare, b
	return b
}
