package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config counts what became of the configuration. Its methods are safe for concurrent
// use.
type Config struct {
	valid   prometheus.Gauge
	reloads *prometheus.CounterVec
	taken   prometheus.Gauge
}

// NewConfig makes a Config and registers it.
func NewConfig(registerer prometheus.Registerer) *Config {
	c := &Config{
		valid: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "meshdns_config_valid",
			Help: "1 while the configuration file, as it is now, is the one in use; 0 while it is bad and an earlier one is in use.",
		}),
		reloads: counterVec("meshdns_config_reloads_total",
			"Times that the configuration was read again, by result (taken or refused).", "result"),
		taken: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "meshdns_config_last_taken_timestamp_seconds",
			Help: "When the configuration in use was taken up.",
		}),
	}
	c.reloads.WithLabelValues("taken")
	c.reloads.WithLabelValues("refused")
	registerer.MustRegister(c.valid, c.reloads, c.taken)
	return c
}

// Started says that the first configuration is in use since now.
func (c *Config) Started(now time.Time) {
	c.valid.Set(1)
	c.taken.Set(float64(now.UnixNano()) / 1e9)
}

// Taken says that a changed configuration is in use since now.
func (c *Config) Taken(now time.Time) {
	c.Started(now)
	c.reloads.WithLabelValues("taken").Inc()
}

// Refused says that a changed configuration is bad and changed nothing.
func (c *Config) Refused() {
	c.valid.Set(0)
	c.reloads.WithLabelValues("refused").Inc()
}
