package server

import (
	"hash/maphash"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/zones"
)

// Counters are filled by the query path without a lock and read when somebody scrapes
// them. Handlers share a fixed number of shards, so that they rarely meet in one.
type Counters struct {
	mu        sync.Mutex
	shards    []*shard
	next      int
	current   atomic.Pointer[tally]
	past      []*tally // of zones that are gone
	panics    atomic.Uint64
	oversized atomic.Uint64
}

// reason says why a SERVFAIL was given (C190).
type reason uint8

const (
	reasonNone reason = iota
	reasonNotReady
	reasonUnavailable
	reasonPanic
	reasons
)

var reasonLabels = [reasons]string{"", "not_ready", "unavailable", "panic"}

// Label sets are closed (DNS_RULES 37): types and rcodes beyond them are "other".
var countedTypes = [...]uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypePTR, dns.TypeCNAME, dns.TypeSOA, dns.TypeNS,
	dns.TypeHTTPS, dns.TypeSVCB, dns.TypeMX, dns.TypeDS, dns.TypeDNSKEY, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR,
}

var countedRcodes = [...]int{
	dns.RcodeSuccess, dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNameError,
	dns.RcodeNotImplemented, dns.RcodeRefused, dns.RcodeNotAuth, dns.RcodeBadVers,
}

const (
	typeSlots  = len(countedTypes) + 1
	rcodeSlots = len(countedRcodes) + 1
	zoneSlots  = typeSlots * rcodeSlots * 2
)

// shard is one share of what is counted besides requests.
type shard struct {
	number    int
	durations [len(durationBounds) + 1]atomic.Uint64
	total     atomic.Int64 // nanoseconds
	servfail  [reasons]atomic.Uint64
	limited   [dropped + 1]atomic.Uint64 // by fate
}

// tally counts requests under one list of zones: slot 0 is outside of all, a zone has
// its number plus one.
type tally struct {
	zones  []*zones.Zone
	shards [][]atomic.Uint64
}

// durationBounds are the histogram's upper bounds: from what a lookup takes to what a
// first question may wait.
var durationBounds = [...]time.Duration{
	time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond, 10 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

func newCounters() *Counters {
	c := &Counters{}
	for i := range max(4, 2*runtime.GOMAXPROCS(0)) {
		c.shards = append(c.shards, &shard{number: i})
	}
	c.current.Store(&tally{})
	return c
}

func (c *Counters) shard() *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.shards[c.next%len(c.shards)]
}

// tallyOf is the tally of a View's zones. It changes only with the configuration.
func (c *Counters) tallyOf(list []*zones.Zone) *tally {
	t := c.current.Load()
	if len(t.zones) == len(list) && len(t.shards) > 0 && (len(list) == 0 || t.zones[0] == list[0]) {
		return t
	}
	return c.changeTally(list)
}

// changeTally starts a tally for new zones; those with the old names go on counting in
// the same place.
func (c *Counters) changeTally(list []*zones.Zone) *tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current.Load()
	next := &tally{zones: list}
	if len(old.shards) > 0 && slices.EqualFunc(old.zones, list, sameName) {
		next.shards = old.shards
	} else {
		if len(old.shards) > 0 {
			c.past = append(c.past, old)
		}
		next.shards = c.shardsFor(list)
	}
	c.current.Store(next)
	return next
}

// shardsFor are new counts for zones, or those that the same zones had in the past. mu
// must be held.
func (c *Counters) shardsFor(list []*zones.Zone) (shards [][]atomic.Uint64) {
	for i, t := range c.past {
		if slices.EqualFunc(t.zones, list, sameName) {
			c.past = slices.Delete(c.past, i, i+1)
			return t.shards
		}
	}
	for range c.shards {
		shards = append(shards, make([]atomic.Uint64, (len(list)+1)*zoneSlots))
	}
	return shards
}

func sameName(a, b *zones.Zone) bool { return a.Name == b.Name }

// count counts the reply at hand.
func (h *handler) count(view *zones.View, p Protocol) {
	t := h.counts.tallyOf(view.ZoneList())
	zone := 0
	if h.reply.looked && h.answer.Asked != nil {
		zone = 1 + h.answer.Asked.Number()
	}
	slot := zone*zoneSlots + (typeSlot(h.q.Type)*rcodeSlots+rcodeSlot(h.reply.rcode))*2 + int(p)
	h.batch.add(&t.shards[h.shard.number][slot])
	if h.reply.reason != reasonNone {
		h.shard.servfail[h.reply.reason].Add(1)
	}
}

// countQuick counts an answer of the fast path.
func (h *handler) countQuick(view *zones.View, q *question, p Protocol) {
	t := h.counts.tallyOf(view.ZoneList())
	zone := 1 + h.answer.Asked.Number()
	slot := zone*zoneSlots + typeSlot(q.Type)*rcodeSlots*2 + int(p)
	h.batch.add(&t.shards[h.shard.number][slot])
}

func typeSlot(typ uint16) int {
	for i, t := range countedTypes {
		if t == typ {
			return i
		}
	}
	return len(countedTypes)
}

func rcodeSlot(rcode int) int {
	for i, r := range countedRcodes {
		if r == rcode {
			return i
		}
	}
	return len(countedRcodes)
}

// observe adds n queries that took d together.
func (s *shard) observe(d time.Duration, n int) {
	i, each := 0, d/time.Duration(n)
	for i < len(durationBounds) && each > durationBounds[i] {
		i++
	}
	s.durations[i].Add(uint64(n))
	s.total.Add(int64(d))
}

// Requests calls f with every count that is not zero; labels may come more than once and
// then add up.
func (c *Counters) Requests(f func(zone, typ, rcode, proto string, n uint64)) {
	c.mu.Lock()
	tallies := append(slices.Clone(c.past), c.current.Load())
	c.mu.Unlock()
	for _, t := range tallies {
		for _, counts := range t.shards {
			t.each(counts, f)
		}
	}
}

func (t *tally) each(counts []atomic.Uint64, f func(zone, typ, rcode, proto string, n uint64)) {
	for slot := range counts {
		n := counts[slot].Load()
		if n == 0 {
			continue
		}
		zone := "none"
		if i := slot / zoneSlots; i > 0 {
			zone = t.zones[i-1].Name.Text()
		}
		rest := slot % zoneSlots
		f(zone, typeLabel(rest/2/rcodeSlots), rcodeLabel(rest/2%rcodeSlots), Protocol(rest%2).String(), n)
	}
}

func typeLabel(slot int) string {
	if slot == len(countedTypes) {
		return "other"
	}
	return dns.TypeToString[countedTypes[slot]]
}

func rcodeLabel(slot int) string {
	switch {
	case slot == len(countedRcodes):
		return "other"
	case countedRcodes[slot] == dns.RcodeBadVers: // 16 is BADSIG in TSIG, BADVERS in OPT
		return "BADVERS"
	}
	return dns.RcodeToString[countedRcodes[slot]]
}

// Durations are the histogram of the time that answers took, in seconds: upper bounds,
// how many were within each bound but not the one before, those beyond all last, and the
// sum.
func (c *Counters) Durations() (bounds []float64, counts []uint64, sum float64) {
	counts = make([]uint64, len(durationBounds)+1)
	for _, d := range durationBounds {
		bounds = append(bounds, d.Seconds())
	}
	for _, s := range c.shards {
		for i := range counts {
			counts[i] += s.durations[i].Load()
		}
		sum += time.Duration(s.total.Load()).Seconds()
	}
	return bounds, counts, sum
}

// Servfails calls f with the number of SERVFAILs for each reason.
func (c *Counters) Servfails(f func(reason string, n uint64)) {
	for r := reasonNone + 1; r < reasons; r++ {
		n := uint64(0)
		for _, s := range c.shards {
			n += s.servfail[r].Load()
		}
		f(reasonLabels[r], n)
	}
}

// RateLimited calls f with the number of replies that the rate limit kept back, by what became
// of them: "truncated" or "dropped". Requests counts them too.
func (c *Counters) RateLimited(f func(action string, n uint64)) {
	for i, action := range [...]string{truncated: "truncated", dropped: "dropped"} {
		n := uint64(0)
		for _, s := range c.shards {
			n += s.limited[i].Load()
		}
		if action != "" {
			f(action, n)
		}
	}
}

// Panics is how many queries made us panic.
func (c *Counters) Panics() uint64 { return c.panics.Load() }

// Oversized is how many answers did not fit into a TCP message.
func (c *Counters) Oversized() uint64 { return c.oversized.Load() }

// oversized has each name logged once whose answer is larger than a TCP message (C32): a
// query sets a mark, by a hash of the name, and the first one to do so has a goroutine
// log it. Marks bound both the log and the goroutines.
type oversized struct {
	log   *slog.Logger
	seed  maphash.Seed
	marks [1024]atomic.Bool
}

func newOversized(log *slog.Logger) *oversized {
	return &oversized{log: log, seed: maphash.MakeSeed()}
}

func (o *oversized) note(wire []byte) {
	mark := &o.marks[maphash.Bytes(o.seed, wire)%uint64(len(o.marks))]
	if mark.Load() || mark.Swap(true) {
		return
	}
	if name, err := names.FromWire(wire); err == nil {
		go o.log.Warn("answer does not fit into 65535 bytes: sent cut, with TC", "name", name.Text())
	}
}
