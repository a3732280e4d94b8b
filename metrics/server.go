package metrics

import "github.com/prometheus/client_golang/prometheus"

// Queries is what a server has counted since it started. The methods are called at
// scrape time, from any goroutine; numbers never go back.
type Queries interface {
	// Requests calls each for all combinations that were counted; one that comes more than
	// once adds up. zone is the zone's name without its final dot or "none", type and rcode
	// are text from closed sets, proto is udp or tcp.
	Requests(each func(zone, typ, rcode, proto string, n uint64))
	// Durations is how long answers took: counts[i] answers took at most bounds[i]
	// seconds and longer than the bound before; the last count, one more than there are
	// bounds, is of those that took longer than all. sum is in seconds.
	Durations() (bounds []float64, counts []uint64, sum float64)
	// Servfails calls each with how many questions were answered SERVFAIL for a reason,
	// one of a closed set.
	Servfails(each func(reason string, n uint64))
	// RateLimited calls each with how many replies the rate limit kept back, by what became
	// of them: "truncated" (sent without records) or "dropped".
	RateLimited(each func(action string, n uint64))
	// Panics is how many questions ended in a panic that was caught.
	Panics() uint64
	// Oversized is how many answers did not fit into a TCP message.
	Oversized() uint64
}

var (
	requestsDesc = desc("meshdns_requests_total",
		"Questions answered, by zone (none outside of all), type (other beyond the common ones), rcode and transport.",
		"zone", "type", "rcode", "proto")
	durationDesc = desc("meshdns_request_duration_seconds",
		"Time from a question's arrival to its answer.")
	servfailDesc = desc("meshdns_servfail_total",
		"Questions answered SERVFAIL, by why.", "reason")
	oversizedDesc = desc("meshdns_oversized_total",
		"Answers over TCP that were cut at 65,535 bytes.")
	limitedDesc = desc("meshdns_rate_limited_total",
		"Answers over UDP above the rate limit of the client's prefix, by what became of them: truncated or dropped.", "action")
	panicsDesc = desc("meshdns_panics_total",
		"Questions whose handling ended in a panic; each was answered SERVFAIL.")
)

// server reads Queries.
type server struct {
	queries Queries
}

// NewServer is a collector of what queries has counted.
func NewServer(queries Queries) prometheus.Collector {
	return &server{queries: queries}
}

// Describe implements prometheus.Collector.
func (*server) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- durationDesc
	ch <- servfailDesc
	ch <- oversizedDesc
	ch <- limitedDesc
	ch <- panicsDesc
}

// Collect implements prometheus.Collector.
func (s *server) Collect(ch chan<- prometheus.Metric) {
	s.collectRequests(ch)
	s.queries.Servfails(func(reason string, n uint64) {
		ch <- counter(servfailDesc, float64(n), reason)
	})
	s.queries.RateLimited(func(action string, n uint64) {
		ch <- counter(limitedDesc, float64(n), action)
	})
	ch <- counter(oversizedDesc, float64(s.queries.Oversized()))
	ch <- histogram(s.queries.Durations())
	ch <- counter(panicsDesc, float64(s.queries.Panics()))
}

func (s *server) collectRequests(ch chan<- prometheus.Metric) {
	sums := map[[4]string]uint64{}
	s.queries.Requests(func(zone, typ, rcode, proto string, n uint64) {
		sums[[4]string{label(zone), typ, rcode, proto}] += n
	})
	for labels, n := range sums {
		ch <- counter(requestsDesc, float64(n), labels[:]...)
	}
}

// histogram adds the counts of the buckets up, as Prometheus wants them.
func histogram(bounds []float64, counts []uint64, sum float64) prometheus.Metric {
	upTo := make(map[float64]uint64, len(bounds))
	var total uint64
	for i, n := range counts {
		total += n
		if i < len(bounds) {
			upTo[bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(durationDesc, total, sum, upTo)
}
