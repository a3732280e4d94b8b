package metrics

import "github.com/prometheus/client_golang/prometheus"

// Sockets counts what happens to the server's sockets. It implements
// server.SocketMetrics; its methods are safe for concurrent use.
type Sockets struct {
	open      prometheus.Gauge
	opened    prometheus.Counter
	closed    *prometheus.CounterVec
	refused   *prometheus.CounterVec
	datagrams prometheus.Counter
	waiting   *prometheus.CounterVec
	failed    *prometheus.CounterVec
}

// NewSockets makes a Sockets and registers it.
func NewSockets(registerer prometheus.Registerer) *Sockets {
	s := &Sockets{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "meshdns_tcp_connections",
			Help: "TCP connections that are open.",
		}),
		opened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "meshdns_tcp_connections_opened_total",
			Help: "TCP connections that were let in.",
		}),
		closed: counterVec("meshdns_tcp_connections_closed_total",
			"TCP connections that ended, by why.", "reason"),
		refused: counterVec("meshdns_tcp_connections_refused_total",
			"TCP connections over a limit, by which.", "limit"),
		datagrams: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "meshdns_udp_dropped_total",
			Help: "Datagrams that the system dropped since they were not read in time.",
		}),
		waiting: counterVec("meshdns_waiting_refused_total",
			"Questions that needed a lookup while too many were waiting, by transport.", "proto"),
		failed: counterVec("meshdns_socket_errors_total",
			"Errors of sockets, by transport and operation.", "proto", "operation"),
	}
	registerer.MustRegister(s.open, s.opened, s.closed, s.refused, s.datagrams, s.waiting, s.failed)
	return s
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// ConnectionOpened implements server.SocketMetrics.
func (s *Sockets) ConnectionOpened() {
	s.opened.Inc()
	s.open.Inc()
}

// ConnectionClosed implements server.SocketMetrics.
func (s *Sockets) ConnectionClosed(why string) {
	s.open.Dec()
	s.closed.WithLabelValues(why).Inc()
}

// ConnectionRefused implements server.SocketMetrics.
func (s *Sockets) ConnectionRefused(limit string) { s.refused.WithLabelValues(limit).Inc() }

// DatagramsDropped implements server.SocketMetrics.
func (s *Sockets) DatagramsDropped(n int) { s.datagrams.Add(float64(n)) }

// WaitingRefused implements server.SocketMetrics.
func (s *Sockets) WaitingRefused(protocol string) { s.waiting.WithLabelValues(protocol).Inc() }

// SocketFailed implements server.SocketMetrics.
func (s *Sockets) SocketFailed(protocol, operation string) {
	s.failed.WithLabelValues(protocol, operation).Inc()
}
