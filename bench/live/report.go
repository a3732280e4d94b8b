package main

import (
	"time"

	"github.com/meshdns/meshdns/bench/stats"
)

// Report says what happened in one period.
type Report struct {
	Seconds   float64       `json:"seconds"`
	Changes   int           `json:"changes"`   // published
	Coalesced int           `json:"coalesced"` // beside them: taken in one step with one before
	P50       time.Duration `json:"p50"`       // from Update to published, nanoseconds
	P99       time.Duration `json:"p99"`
	P9999     time.Duration `json:"p9999"`
	Max       time.Duration `json:"max"`
}

// report takes what was counted since the report before.
func (f *fleet) report(period time.Duration) Report {
	f.mu.Lock()
	latencies, coalesced := f.latencies, f.coalesced
	f.latencies, f.coalesced = nil, 0
	f.mu.Unlock()
	return Report{
		Seconds: period.Seconds(), Changes: len(latencies), Coalesced: coalesced,
		P50:   stats.Percentile(latencies, 50),
		P99:   stats.Percentile(latencies, 99),
		P9999: stats.Percentile(latencies, 99.99),
		Max:   stats.Percentile(latencies, 100),
	}
}
