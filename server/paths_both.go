//go:build bothpaths

package server

import (
	"bytes"
	"fmt"
)

// checked answers each query on the general path too and ends the program when that gives
// other bytes: so that all that scenarios ask goes both ways.
func (s *Answers) checked(h *handler) Handler {
	general := *s
	general.counts = newCounters()
	g := &handler{Answers: &general, shard: general.counts.shard()}
	rng := *h.writer.Rand
	g.writer.Rand = &rng
	return &bothPaths{handler: h, general: g, out: make([]byte, 0, tcpReplyRoom)}
}

type bothPaths struct {
	*handler
	general *handler
	out     []byte
}

func (b *bothPaths) Handle(i int, out []byte, t *Transport) ([]byte, Verdict) {
	*b.general.writer.Rand = *b.writer.Rand
	msg, verdict := b.handleOne(i, out, t)
	g, a := b.general, &b.batch.queries[i]
	g.q = &g.spare
	want, wanted := g.handle(b.out, a.packet, b.batch.view, t, false)
	// Where TTLs count down, the clock may have moved in between.
	differ := !g.answer.CountsDown() && (verdict != wanted || !bytes.Equal(msg, want))
	if differ {
		panic(fmt.Sprintf("the paths differ for %x: fast %d %x, general %d %x", a.packet, verdict, msg, wanted, want))
	}
	if b.rate.limiter != nil && verdict == Reply {
		return b.limited(msg, a.packet, t, false)
	}
	return msg, verdict
}
