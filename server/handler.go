package server

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/zones"
)

// Views gives the current View.
type Views interface {
	View() *zones.View
}

// Answers is what all Handlers of a server share.
type Answers struct {
	views   Views
	fetcher Fetcher
	size    uint16
	log     *slog.Logger
	counts  *Counters
	seed    func() (uint64, uint64)
	over    *oversized
	limits  *rateLimits
}

// AnswersConfig is what Answers are made of.
type AnswersConfig struct {
	Views   Views   // must not be nil
	Fetcher Fetcher // nil: names whose locator was never asked are SERVFAIL
	// UDPSize is our limit for UDP replies in bytes, and what our OPTs say; 0: 1232, which
	// passes every path with an IPv6 MTU of 1280 unfragmented.
	UDPSize uint16
	Logger  *slog.Logger
	// Now is the clock of the rate limit (SetRateLimit); nil: the system's.
	Now func() time.Time
	// Seed seeds each Handler's random numbers; nil: from the system.
	Seed func() (uint64, uint64)
}

const defaultUDPSize = 1232

// NewAnswers makes what Handlers share.
func NewAnswers(c AnswersConfig) *Answers {
	if c.UDPSize == 0 {
		c.UDPSize = defaultUDPSize
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Seed == nil {
		c.Seed = func() (uint64, uint64) { return rand.Uint64(), rand.Uint64() }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Answers{
		views: c.Views, fetcher: c.Fetcher, size: c.UDPSize, log: c.Logger,
		counts: newCounters(), seed: c.Seed, over: newOversized(c.Logger), limits: &rateLimits{now: c.Now},
	}
}

// Counters are what the query path counts.
func (s *Answers) Counters() *Counters { return s.counts }

// NewHandler makes a Handler for one goroutine.
func (s *Answers) NewHandler() Handler { return s.checked(s.newHandler()) }

func (s *Answers) newHandler() *handler {
	a, b := s.seed()
	h := &handler{Answers: s, shard: s.counts.shard()}
	h.writer.Rand = rand.NewPCG(a, b)
	return h
}

// handler implements Handler. It reuses all of its memory.
type handler struct {
	*Answers
	shard  *shard
	q      *question // at hand
	spare  question  // of a query that waits
	answer zones.Answer
	writer zones.Writer
	reply  reply
	batch  batch
	rate   rate
	optAt  int // where the reply at hand has its OPT; 0: it has none
}

// Handle implements Handler.
func (h *handler) Handle(i int, out []byte, t *Transport) ([]byte, Verdict) {
	msg, verdict := h.handleOne(i, out, t)
	if h.rate.limiter != nil && verdict == Reply {
		return h.limited(msg, h.batch.queries[i].packet, t, false)
	}
	return msg, verdict
}

// handleOne is Handle without the rate limit.
func (h *handler) handleOne(i int, out []byte, t *Transport) (msg []byte, verdict Verdict) {
	a := &h.batch.queries[i]
	h.q = &a.q
	defer func() {
		if r := recover(); r != nil {
			msg, verdict = h.panicked(out, a.packet, r)
		}
	}()
	if h.batch.view == nil { // Begin panicked
		h.batch.view = h.views.View()
	}
	if a.ordinary {
		if msg, ok := h.quick(out, a.packet, &a.q, h.batch.view, t.Protocol); ok {
			h.batch.served++
			return msg, Reply
		}
	}
	msg, verdict = h.handle(out, a.packet, h.batch.view, t, false)
	if verdict == Reply {
		h.batch.served++
	}
	return msg, verdict
}

// handle answers a query; last says that nothing is waited for.
func (h *handler) handle(out, query []byte, view *zones.View, t *Transport, last bool) ([]byte, Verdict) {
	if len(query) < headerSize || query[2]&bitQR != 0 {
		return nil, Drop
	}
	rcode := h.q.parse(query)
	r := &h.reply
	*r = reply{rcode: rcode, limit: limitOf(t.Protocol, &h.q.opt, h.size)}
	if rcode == dns.RcodeSuccess {
		h.q.NoWait = last
		view.Lookup(&h.q.Query, &h.answer)
		if h.answer.Status == zones.Wait {
			return nil, Wait
		}
		r.looked = true
		r.take(&h.answer)
	}
	msg := h.compose(out, query, view)
	h.count(view, t.Protocol)
	if r.cut && t.Protocol == TCP {
		h.counts.oversized.Add(1)
		h.over.note(h.q.Name)
	}
	return msg, Reply
}

// reply is what is decided of a reply before it is written.
type reply struct {
	rcode  int
	aa     bool
	looked bool // the View was asked
	data   bool // the answer has records or an SOA to write
	ede    uint16
	reason reason
	limit  int
	cut    bool
}

// take decides rcode, AA and EDE by what the lookup found (DNS_RULES 1, 4, 5, 32).
func (r *reply) take(a *zones.Answer) {
	switch a.Status {
	case zones.Found, zones.NoData:
		r.aa, r.data = true, true
	case zones.NoName:
		r.rcode, r.aa, r.data = dns.RcodeNameError, true, true
	case zones.NotReady:
		r.rcode, r.ede, r.reason = dns.RcodeServerFailure, edeNotReady, reasonNotReady
	case zones.Outside:
		r.rcode = dns.RcodeRefused
	default:
		r.rcode, r.ede, r.reason = dns.RcodeServerFailure, edeUnreachable, reasonUnavailable
	}
	if a.Stale && r.data {
		r.ede = edeStale
	}
}

// panicked is the SERVFAIL of a query that made us fail (DNS_RULES 38).
func (h *handler) panicked(out, query []byte, r any) ([]byte, Verdict) {
	h.counts.panics.Add(1)
	h.optAt = 0
	h.log.Error("query handling panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	if len(query) < headerSize {
		return nil, Drop
	}
	h.shard.servfail[reasonPanic].Add(1)
	msg := appendHeader(out[:0], query, dns.RcodeServerFailure, false)
	if h.q.end > headerSize && h.q.end <= len(query) {
		msg = append(msg, query[headerSize:h.q.end]...)
		msg[5] = 1
	}
	if h.q.opt.present {
		h.optAt = len(msg)
		msg = appendOPT(msg, &h.q.opt, h.size, dns.RcodeServerFailure, edeNone, len(msg)+optSize)
		msg[11] = 1
	}
	return msg, Reply
}
