package dns

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// SourceName is the Source of keys and the Kind of statuses.
const SourceName = "dns"

// statusSource is the Status.Source of a locator.
func statusSource(locator string) string { return SourceName + ":" + locator }

// namedInLog bounds the locators that one log line names.
const namedInLog = 5

// reporter writes at most one line an interval about failures, and one about
// recoveries, however many there are (CASES C187). It is safe for concurrent use.
type reporter struct {
	log      *slog.Logger
	clock    Clock
	interval time.Duration

	mu             sync.Mutex
	failed, mended burst
}

// burst is what has been held back since the last line.
type burst struct {
	count int
	names []string // up to namedInLog different ones
	err   string   // of the latest
	until time.Time
}

// failure notes an attempt that failed, in whole or in part.
func (r *reporter) failure(name, err string) {
	r.note(&r.failed, name, err)
}

// recovery notes that a locator that failed before is fine again.
func (r *reporter) recovery(name string) {
	r.note(&r.mended, name, "")
}

func (r *reporter) note(b *burst, name, err string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.count++
	b.err = err
	if len(b.names) < namedInLog && !slices.Contains(b.names, name) {
		b.names = append(b.names, name)
	}
	r.flushLocked()
}

// flush writes what is due and says when there is more to write, zero for never.
func (r *reporter) flush() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flushLocked()
}

func (r *reporter) flushLocked() (next time.Time) {
	now := r.clock.Now()
	for _, b := range []*burst{&r.failed, &r.mended} {
		if b.count == 0 {
			continue
		}
		if now.Before(b.until) {
			next = earlier(next, b.until)
			continue
		}
		r.write(b)
		*b = burst{until: now.Add(r.interval)}
	}
	return next
}

func (r *reporter) write(b *burst) {
	if b == &r.failed {
		r.log.Warn("dns lookups fail", "repeats", b.count, "locators", b.names, "error", b.err)
		return
	}
	r.log.Info("dns lookups answer again", "repeats", b.count, "locators", b.names)
}
