package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Upstreams counts what the source of DNS backends asks its upstream servers. It
// implements the Metrics of sources/dns; its methods are safe for concurrent use.
type Upstreams struct {
	exchanges *prometheus.CounterVec
	took      *prometheus.HistogramVec
	cache     *prometheus.CounterVec
	attempts  *prometheus.CounterVec
}

// NewUpstreams makes an Upstreams and registers it.
func NewUpstreams(registerer prometheus.Registerer) *Upstreams {
	u := &Upstreams{
		exchanges: counterVec("meshdns_upstream_exchanges_total",
			"Questions sent to upstream DNS servers, by transport and outcome.", "proto", "outcome"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "meshdns_upstream_duration_seconds",
			Help:    "Time that upstream DNS servers took to reply, or failed to.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13), // 0.5 ms to 2 s, past the budget of one question
		}, []string{"proto"}),
		cache: counterVec("meshdns_upstream_cache_total",
			"Uses of the cache of upstream answers, by event.", "event"),
		attempts: counterVec("meshdns_upstream_attempts_total",
			"Whole attempts to resolve the host name of a backend, by result.", "result"),
	}
	registerer.MustRegister(u.exchanges, u.took, u.cache, u.attempts)
	return u
}

// Exchange counts one question to one server.
func (u *Upstreams) Exchange(proto, outcome string, took time.Duration) {
	u.exchanges.WithLabelValues(proto, outcome).Inc()
	u.took.WithLabelValues(proto).Observe(took.Seconds())
}

// Cache counts one use of the cache.
func (u *Upstreams) Cache(event string) { u.cache.WithLabelValues(event).Inc() }

// Attempt counts one attempt.
func (u *Upstreams) Attempt(result string) { u.attempts.WithLabelValues(result).Inc() }
