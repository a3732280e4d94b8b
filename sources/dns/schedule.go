package dns

import (
	"container/heap"
	"time"
)

// queue holds the entries that wait for their next attempt, and bounds how many of them
// are under way at one time. There are two: names that answer, and names that fail, so
// that dead names, whose every attempt lasts the whole budget, never hold up living ones.
// It is guarded by Source.mu.
type queue struct {
	entries entryHeap
	limit   int
	running int
}

// put adds e, which is in no queue.
func (q *queue) put(e *entry) {
	e.queue = q
	heap.Push(&q.entries, e)
}

// remove takes e out where it waits.
func (q *queue) remove(e *entry) {
	if e.index >= 0 {
		heap.Remove(&q.entries, e.index)
	}
}

// moved puts e at its place after its due time has changed.
func (q *queue) moved(e *entry) {
	if e.index >= 0 {
		heap.Fix(&q.entries, e.index)
	}
}

// start takes out the entry whose turn it is and counts it as running; nil when none is
// due or too many are running. done has to be called for each.
func (q *queue) start(now time.Time) *entry {
	if q.running >= q.limit || len(q.entries) == 0 || q.entries[0].due.After(now) {
		return nil
	}
	q.running++
	return heap.Pop(&q.entries).(*entry)
}

func (q *queue) done() { q.running-- }

// next is when start may have an entry again, by the clock alone; zero for never.
func (q *queue) next() time.Time {
	if q.running >= q.limit || len(q.entries) == 0 {
		return time.Time{}
	}
	return q.entries[0].due
}

// entryHeap orders by urgency, then by due time (container/heap).
type entryHeap []*entry

func (h entryHeap) Len() int { return len(h) }

func (h entryHeap) Less(i, j int) bool {
	if h[i].urgent != h[j].urgent {
		return h[i].urgent
	}
	return h[i].due.Before(h[j].due)
}

func (h entryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *entryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
