package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/api"
)

type counted struct {
	requests map[[4]string]uint64
	counts   []uint64
	panics   uint64
}

func (c *counted) Requests(each func(zone, typ, rcode, proto string, n uint64)) {
	for k, n := range c.requests {
		each(k[0], k[1], k[2], k[3], n-1) // in two parts, as several workers count
		each(k[0], k[1], k[2], k[3], 1)
	}
}

func (c *counted) Durations() ([]float64, []uint64, float64) {
	return []float64{0.001, 0.01}, c.counts, 1.5
}

func (c *counted) Panics() uint64    { return c.panics }
func (c *counted) Oversized() uint64 { return 2 }

func (c *counted) RateLimited(each func(action string, n uint64)) {
	each("truncated", 3)
	each("dropped", 4)
}

func (c *counted) Servfails(each func(reason string, n uint64)) {
	each("not_ready", 5)
	each("panic", 1)
}

type learned struct {
	list   []api.Source
	counts map[[2]string]int
}

func (l *learned) Sources() []api.Source { return l.list }

func (l *learned) EndpointCounts(each func(cluster, state string, n int)) {
	for k, n := range l.counts {
		each(k[0], k[1], n)
	}
}

func someCounted() *counted {
	return &counted{
		requests: map[[4]string]uint64{
			{"mesh", "A", "NOERROR", "udp"}:     3,
			{"none", "other", "REFUSED", "tcp"}: 1,
		},
		counts: []uint64{2, 1, 4},
		panics: 1,
	}
}

func someLearned() *learned {
	success := time.Unix(1_700_000_000, 500_000_000)
	return &learned{
		list: []api.Source{
			{Name: "east", Kind: "kubernetes", State: api.Stale, LastSuccess: &success, Services: 2, Endpoints: 5, Skipped: 1, Refused: 3},
			{Name: "west", Kind: "kubernetes", State: api.Fresh, LastSuccess: &success},
			{Name: "north", Kind: "manifests", State: api.Syncing},
		},
		counts: map[[2]string]int{{"east", "ready"}: 4, {"east", "notReady"}: 1},
	}
}

// CASES C190: SERVFAIL by its cause.
func TestServer(t *testing.T) {
	want := `
# HELP meshdns_oversized_total Answers over TCP that were cut at 65,535 bytes.
# TYPE meshdns_oversized_total counter
meshdns_oversized_total 2
# HELP meshdns_panics_total Questions whose handling ended in a panic; each was answered SERVFAIL.
# TYPE meshdns_panics_total counter
meshdns_panics_total 1
# HELP meshdns_rate_limited_total Answers over UDP above the rate limit of the client's prefix, by what became of them: truncated or dropped.
# TYPE meshdns_rate_limited_total counter
meshdns_rate_limited_total{action="dropped"} 4
meshdns_rate_limited_total{action="truncated"} 3
# HELP meshdns_request_duration_seconds Time from a question's arrival to its answer.
# TYPE meshdns_request_duration_seconds histogram
meshdns_request_duration_seconds_bucket{le="0.001"} 2
meshdns_request_duration_seconds_bucket{le="0.01"} 3
meshdns_request_duration_seconds_bucket{le="+Inf"} 7
meshdns_request_duration_seconds_sum 1.5
meshdns_request_duration_seconds_count 7
# HELP meshdns_requests_total Questions answered, by zone (none outside of all), type (other beyond the common ones), rcode and transport.
# TYPE meshdns_requests_total counter
meshdns_requests_total{proto="tcp",rcode="REFUSED",type="other",zone="none"} 1
meshdns_requests_total{proto="udp",rcode="NOERROR",type="A",zone="mesh"} 3
# HELP meshdns_servfail_total Questions answered SERVFAIL, by why.
# TYPE meshdns_servfail_total counter
meshdns_servfail_total{reason="not_ready"} 5
meshdns_servfail_total{reason="panic"} 1
`
	assert.NoError(t, testutil.CollectAndCompare(NewServer(someCounted()), strings.NewReader(want)))
}

func TestSources(t *testing.T) {
	want := `
# HELP meshdns_endpoints Endpoints by cluster and state, those included that the cluster may not serve (meshdns_source_refused_endpoints).
# TYPE meshdns_endpoints gauge
meshdns_endpoints{cluster="east",state="notReady"} 1
meshdns_endpoints{cluster="east",state="ready"} 4
# HELP meshdns_source_last_success_timestamp_seconds When the source's backend last confirmed what it said; absent before the first time.
# TYPE meshdns_source_last_success_timestamp_seconds gauge
meshdns_source_last_success_timestamp_seconds{source="east"} 1.7000000005e+09
meshdns_source_last_success_timestamp_seconds{source="west"} 1.7000000005e+09
# HELP meshdns_source_up 1 while the source is up to date, 0 while it syncs, is stale or has failed.
# TYPE meshdns_source_up gauge
meshdns_source_up{source="east"} 0
meshdns_source_up{source="north"} 0
meshdns_source_up{source="west"} 1
`
	assert.NoError(t, testutil.CollectAndCompare(NewSources(someLearned()), strings.NewReader(want),
		"meshdns_endpoints", "meshdns_source_up", "meshdns_source_last_success_timestamp_seconds"))
}

// A source that was removed takes its series along (CASES C136).
func TestRemovedSourceVanishes(t *testing.T) {
	from := someLearned()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewSources(from))
	before, err := testutil.GatherAndCount(registry, "meshdns_source_up")
	require.NoError(t, err)
	assert.Equal(t, 3, before)

	from.list, from.counts = from.list[1:], nil
	after, err := testutil.GatherAndCount(registry, "meshdns_source_up")
	require.NoError(t, err)
	assert.Equal(t, 2, after)
	endpoints, err := testutil.GatherAndCount(registry, "meshdns_endpoints")
	require.NoError(t, err)
	assert.Zero(t, endpoints)
}

func TestConfig(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c := NewConfig(registry)
	now := time.Unix(1_700_000_000, 0)
	tests := []struct {
		event                        func()
		valid, taken, refused, since float64
	}{
		{func() { c.Started(now) }, 1, 0, 0, 1_700_000_000},
		{c.Refused, 0, 0, 1, 1_700_000_000},
		{func() { c.Taken(now.Add(time.Second)) }, 1, 1, 1, 1_700_000_001},
	}
	for i, test := range tests {
		test.event()
		assert.Equal(t, test.valid, testutil.ToFloat64(c.valid), i)
		assert.Equal(t, test.taken, testutil.ToFloat64(c.reloads.WithLabelValues("taken")), i)
		assert.Equal(t, test.refused, testutil.ToFloat64(c.reloads.WithLabelValues("refused")), i)
		assert.Equal(t, test.since, testutil.ToFloat64(c.taken), i)
	}
}

func useSockets(s *Sockets) {
	s.ConnectionOpened()
	s.ConnectionOpened()
	s.ConnectionClosed("idle")
	s.ConnectionRefused("total")
	s.DatagramsDropped(3)
	s.WaitingRefused("udp")
	s.SocketFailed("tcp", "write")
}

func TestSockets(t *testing.T) {
	s := NewSockets(prometheus.NewPedanticRegistry())
	useSockets(s)
	assert.Equal(t, 1.0, testutil.ToFloat64(s.open))
	assert.Equal(t, 2.0, testutil.ToFloat64(s.opened))
	assert.Equal(t, 1.0, testutil.ToFloat64(s.closed.WithLabelValues("idle")))
	assert.Equal(t, 1.0, testutil.ToFloat64(s.refused.WithLabelValues("total")))
	assert.Equal(t, 3.0, testutil.ToFloat64(s.datagrams))
	assert.Equal(t, 1.0, testutil.ToFloat64(s.waiting.WithLabelValues("udp")))
	assert.Equal(t, 1.0, testutil.ToFloat64(s.failed.WithLabelValues("tcp", "write")))
}

func useUpstreams(u *Upstreams) {
	u.Exchange("udp", "answer", time.Millisecond)
	u.Cache("hit")
	u.Attempt("found")
}

func TestUpstreams(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	u := NewUpstreams(registry)
	useUpstreams(u)
	assert.Equal(t, 1.0, testutil.ToFloat64(u.exchanges.WithLabelValues("udp", "answer")))
	assert.Equal(t, 1.0, testutil.ToFloat64(u.cache.WithLabelValues("hit")))
	assert.Equal(t, 1.0, testutil.ToFloat64(u.attempts.WithLabelValues("found")))
	assert.Equal(t, 1, testutil.CollectAndCount(u.took))
}

// everything registers all that the program has, in a registry that checks consistency.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewServer(someCounted()), NewSources(someLearned()))
	NewConfig(registry).Started(time.Unix(1, 0))
	useSockets(NewSockets(registry))
	useUpstreams(NewUpstreams(registry))
	RegisterProcess(registry, "v1.2.3", "abc", "go1.26")
	return registry
}

func TestNamesAndHelpTexts(t *testing.T) {
	families, err := everything(t).Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	for _, family := range families {
		prefix, _, _ := strings.Cut(family.GetName(), "_")
		assert.Contains(t, []string{"meshdns", "go", "process"}, prefix, family.GetName())
	}
}

// The names that DESIGN.md section 6 promises.
func TestContract(t *testing.T) {
	registry := everything(t)
	for name, labels := range map[string][]string{
		"meshdns_requests_total":                        {"proto", "rcode", "type", "zone"},
		"meshdns_request_duration_seconds":              nil,
		"meshdns_source_up":                             {"source"},
		"meshdns_source_last_success_timestamp_seconds": {"source"},
		"meshdns_endpoints":                             {"cluster", "state"},
		"meshdns_config_valid":                          nil,
		"meshdns_panics_total":                          nil,
	} {
		assert.Equal(t, labels, labelsOf(t, registry, name), name)
	}
}

func labelsOf(t *testing.T, registry *prometheus.Registry, name string) []string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		return labels
	}
	t.Errorf("no metric %s", name)
	return nil
}

func TestLabelsAreText(t *testing.T) {
	from := &learned{list: []api.Source{{Name: "bad\xffname", State: api.Fresh}}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewSources(from))
	_, err := registry.Gather()
	assert.NoError(t, err)
}
