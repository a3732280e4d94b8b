package dns

import "time"

// Metrics counts what the source does. All labels are from closed sets. Implementations
// must be safe for concurrent use and must not block.
type Metrics interface {
	// Exchange is one query sent to an upstream server: proto is "udp" or "tcp",
	// outcome one of Outcomes.
	Exchange(proto, outcome string, took time.Duration)
	// Cache is one use of the cache of upstream answers: event is one of CacheEvents.
	Cache(event string)
	// Attempt is one whole attempt to resolve a locator: result is one of Results.
	Attempt(result string)
}

// Outcomes of Metrics.Exchange. Truncated and malformed replies over UDP are asked again
// over TCP, which is another exchange.
const (
	OutcomeAnswer      = "answer"      // NOERROR
	OutcomeNoName      = "nxdomain"    // NXDOMAIN
	OutcomeServFail    = "servfail"    // SERVFAIL
	OutcomeRefused     = "refused"     // REFUSED
	OutcomeOther       = "other"       // any other RCODE
	OutcomeTruncated   = "truncated"   // TC was set
	OutcomeMalformed   = "malformed"   // not readable, or shorter than its counts say
	OutcomeTimeout     = "timeout"     // no reply in time
	OutcomeUnreachable = "unreachable" // refused, no route, closed
)

// Outcomes are the values of Metrics.Exchange's outcome.
func Outcomes() []string {
	return []string{OutcomeAnswer, OutcomeNoName, OutcomeServFail, OutcomeRefused, OutcomeOther,
		OutcomeTruncated, OutcomeMalformed, OutcomeTimeout, OutcomeUnreachable}
}

// Events of Metrics.Cache.
const (
	CacheHit     = "hit"     // answered from the cache, a remembered failure included
	CacheMiss    = "miss"    // an upstream was asked
	CacheJoined  = "joined"  // waited for a lookup that was already under way
	CacheEvicted = "evicted" // the least recently used answer made room
)

// CacheEvents are the values of Metrics.Cache's event.
func CacheEvents() []string {
	return []string{CacheHit, CacheMiss, CacheJoined, CacheEvicted}
}

// Results of Metrics.Attempt.
const (
	ResultFound   = "found"   // every part answered
	ResultPartial = "partial" // some parts answered, others failed (CASES C166)
	ResultNoName  = "noname"  // NXDOMAIN
	ResultFailed  = "failed"  // nothing answered
)

// Results are the values of Metrics.Attempt's result.
func Results() []string {
	return []string{ResultFound, ResultPartial, ResultNoName, ResultFailed}
}

// noMetrics is what is counted with when Config.Metrics is nil.
type noMetrics struct{}

func (noMetrics) Exchange(string, string, time.Duration) {}
func (noMetrics) Cache(string)                           {}
func (noMetrics) Attempt(string)                         {}
