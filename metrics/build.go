package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// RegisterProcess registers what the binary is and how its process and Go runtime are
// doing.
func RegisterProcess(registerer prometheus.Registerer, version, revision, goVersion string) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "meshdns_build_info",
		Help:        "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goVersion},
	})
	build.Set(1)
	registerer.MustRegister(
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
}
