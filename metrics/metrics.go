// Package metrics says in Prometheus terms what the other packages count. Each of those
// declares what it wants counted, or hands out what it has counted, in standard types
// only; this package gives it names and help texts, one file for each consumer:
//
//	server.go   questions and answers: read from the server's own counters at scrape time
//	sockets.go  connections and datagrams
//	sources.go  sources and endpoints: read from the resolver at scrape time
//	dns.go      questions to upstream DNS servers
//	config.go   the configuration and its reloads
//	build.go    version, the Go runtime, the process
//
// What is read at scrape time costs a question nothing, cannot be stale, and vanishes
// with what it describes. All collectors go to one registry that is made once and lives
// as long as the process, so that counters go on over reloads (CASES C188). Labels are
// from closed sets or from the configuration, never from questions (DNS_RULES 37).
//
// Names are a contract with dashboards and alarms outside of the project.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// desc is a metric's description.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// number is 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// label makes a label value fit to be sent: text from outside may be no UTF-8.
func label(s string) string {
	return string([]rune(s))
}
