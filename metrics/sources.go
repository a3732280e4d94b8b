package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshdns/meshdns/api"
)

// Sources is what the server learns from.
type Sources interface {
	Sources() []api.Source
	// EndpointCounts calls each once for each cluster and state (ready, terminating,
	// notReady) with the number of endpoints.
	EndpointCounts(each func(cluster, state string, n int))
}

var (
	sourceUpDesc = desc("meshdns_source_up",
		"1 while the source is up to date, 0 while it syncs, is stale or has failed.", "source")
	sourceStateDesc = desc("meshdns_source_state",
		"1 for the state that the source is in.", "source", "kind", "state")
	sourceSuccessDesc = desc("meshdns_source_last_success_timestamp_seconds",
		"When the source's backend last confirmed what it said; absent before the first time.", "source")
	sourceServicesDesc = desc("meshdns_source_services",
		"Services or documents that the source holds.", "source")
	sourceEndpointsDesc = desc("meshdns_source_endpoints",
		"Endpoints that the source holds, in every state.", "source")
	sourceSkippedDesc = desc("meshdns_source_skipped",
		"Objects or documents of the source that are left out because they are bad.", "source")
	sourceRefusedDesc = desc("meshdns_source_refused_endpoints",
		"Endpoints of the source that are left out because it may not serve them.", "source")
	endpointsDesc = desc("meshdns_endpoints",
		"Endpoints by cluster and state, those included that the cluster may not serve (meshdns_source_refused_endpoints).", "cluster", "state")
)

// sources reads Sources.
type sources struct {
	from Sources
}

// NewSources is a collector of the state of sources and their endpoints.
func NewSources(from Sources) prometheus.Collector {
	return &sources{from: from}
}

// Describe implements prometheus.Collector.
func (*sources) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		sourceUpDesc, sourceStateDesc, sourceSuccessDesc, sourceServicesDesc,
		sourceEndpointsDesc, sourceSkippedDesc, sourceRefusedDesc, endpointsDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *sources) Collect(ch chan<- prometheus.Metric) {
	for _, source := range s.from.Sources() {
		collectSource(ch, source)
	}
	s.from.EndpointCounts(func(cluster, state string, n int) {
		ch <- gauge(endpointsDesc, float64(n), label(cluster), state)
	})
}

func collectSource(ch chan<- prometheus.Metric, s api.Source) {
	name := label(s.Name)
	ch <- gauge(sourceUpDesc, number(s.State == api.Fresh), name)
	ch <- gauge(sourceStateDesc, 1, name, s.Kind, string(s.State))
	ch <- gauge(sourceServicesDesc, float64(s.Services), name)
	ch <- gauge(sourceEndpointsDesc, float64(s.Endpoints), name)
	ch <- gauge(sourceSkippedDesc, float64(s.Skipped), name)
	ch <- gauge(sourceRefusedDesc, float64(s.Refused), name)
	if s.LastSuccess != nil {
		ch <- gauge(sourceSuccessDesc, float64(s.LastSuccess.UnixNano())/1e9, name)
	}
}
