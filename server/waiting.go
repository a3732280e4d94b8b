package server

import (
	"context"
	"time"

	"github.com/meshdns/meshdns/zones"
)

// Fetcher resolves locators that were never asked: the fan-out of a first question.
type Fetcher interface {
	// Fetch returns when what could be learnt until ctx ends is in the View.
	Fetch(ctx context.Context, backendKeys []string) error
}

// fetchTime bounds what a question waits for a first lookup: well below the 2 to 5 s
// after which stub resolvers ask again.
const fetchTime = 1500 * time.Millisecond

// HandleWaiting implements Handler.
func (h *handler) HandleWaiting(ctx context.Context, out, query []byte, t *Transport) (msg []byte, verdict Verdict) {
	defer func() {
		if r := recover(); r != nil {
			msg, verdict = h.panicked(out, query, r)
		}
	}()
	start := time.Now()
	h.q = &h.spare
	h.takeRate()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	for ctx.Err() == nil {
		msg, verdict = h.handle(out, query, h.views.View(), t, false)
		if verdict != Wait {
			break
		}
		if !h.fetch(ctx) {
			break
		}
	}
	if verdict == Wait || msg == nil {
		msg, verdict = h.handle(out, query, h.views.View(), t, true)
	}
	h.batch.flush()
	h.shard.observe(time.Since(start), 1)
	if h.rate.limiter != nil && verdict == Reply {
		return h.limited(msg, query, t, false)
	}
	return msg, verdict
}

// fetch asks for what the answer at hand waits for; false says that asking again now
// would not help.
func (h *handler) fetch(ctx context.Context) bool {
	if h.fetcher == nil || h.answer.Status != zones.Wait {
		return false
	}
	keys := h.answer.Awaited()
	if len(keys) == 0 {
		return false
	}
	return h.fetcher.Fetch(ctx, keys) == nil
}
