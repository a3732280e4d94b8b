package server

import (
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/zones"
)

// batch is what a Handler knows of the queries between Begin and End.
type batch struct {
	began   time.Time
	view    *zones.View
	queries []ahead
	served  int
	fetch   zones.Ahead
	// run is a count that is not yet added: queries of a batch are mostly of a kind.
	run struct {
		of *atomic.Uint64
		n  uint64
	}
}

// ahead is a query that was read ahead.
type ahead struct {
	packet   []byte
	ordinary bool // q is read
	q        question
}

// Begin implements Handler: ordinary questions are read, and what the View has for them
// is fetched from memory, for all at once.
func (h *handler) Begin(queries [][]byte) {
	b := &h.batch
	b.began = time.Now()
	h.takeRate()
	for len(b.queries) < len(queries) {
		b.queries = append(b.queries, ahead{})
	}
	for i, packet := range queries {
		b.queries[i].packet, b.queries[i].ordinary = packet, false
	}
	h.readAhead(b.queries[:len(queries)])
}

// readAhead leaves what makes it panic to Handle, which says so.
func (h *handler) readAhead(list []ahead) {
	defer func() { _ = recover() }()
	b := &h.batch
	b.view = h.views.View()
	for i := range list {
		a := &list[i]
		if a.ordinary = a.q.parseOrdinary(a.packet); a.ordinary {
			b.view.Seek(&a.q.Query, &b.fetch)
		}
	}
	b.fetch.Fetch()
	for i := range list {
		if a := &list[i]; a.ordinary {
			b.view.Find(&a.q.Query, &b.fetch)
		}
	}
	b.fetch.Fetch()
}

// End implements Handler.
func (h *handler) End() {
	b := &h.batch
	b.flush()
	if b.served > 0 {
		h.shard.observe(time.Since(b.began), b.served)
		b.served = 0
	}
	b.view = nil
	h.answer.Release()
}

// add counts one more of what c counts.
func (b *batch) add(c *atomic.Uint64) {
	if b.run.of != c {
		b.flush()
		b.run.of = c
	}
	b.run.n++
}

func (b *batch) flush() {
	if b.run.n > 0 {
		b.run.of.Add(b.run.n)
		b.run.n = 0
	}
}
