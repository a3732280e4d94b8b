package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seriesOf has a sample for each number of microseconds of CPU per answer.
func seriesOf(name string, perAnswer ...int) *series {
	s := &series{running: &running{kind: kind{name: name}}, memory: memory{Resident: 5e6, Peak: 6e6}}
	for _, n := range perAnswer {
		one := loaded{
			perfResult: perfResult{
				Sent: 1000, Completed: 1000, ReplySize: 152, RunTime: 20 * time.Millisecond,
				PerSecond: 1e6 / float64(n), GeneratorCPU: 10 * time.Millisecond,
			},
			serverCPU: time.Duration(n) * time.Millisecond,
		}
		s.samples = append(s.samples, sample{saturated: one, few: one, paced: probeResult{
			Rate: 100, Sent: 10, P50: time.Microsecond, P99: time.Duration(n) * time.Microsecond, P9999: time.Millisecond,
		}})
	}
	return s
}

func text(t *table) string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func TestTables(t *testing.T) {
	ours, other := seriesOf("meshdns", 2, 4, 3), seriesOf("nsd", 4, 4, 10)
	all := []*series{other, ours}
	load := text(loadTable("Saturation", all, func(s sample) loaded { return s.saturated }))
	assert.Equal(t, `
Saturation

| server  | queries/s | lost | CPU/answer | spread | server busy | generator busy | bytes |
|---|---|---|---|---|---|---|---|
| nsd     | 250000    | 0    | 4.00 µs    | 150 %  | 20 %        | 50 %           | 152   |
| meshdns | 333333    | 0    | 3.00 µs    | 67 %   | 15 %        | 50 %           | 152   |
`, load)
	assert.Contains(t, text(pacedTable(all)), "| meshdns | 100       | 0    | 1 µs | 3 µs | 1000 µs | 5.0 MB   | 6.0 MB |")
	ratio := text(ratioTable(all))
	// Ratios inside of rounds: 2/4, 4/4, 3/10; not the ratio of the medians, 3/4.
	assert.Contains(t, ratio, "| meshdns / nsd | 0.50                 | 2.00                | 0.50                     | 0.50      |")
	assert.NotContains(t, ratio, "nsd / meshdns")
}

func TestFaults(t *testing.T) {
	s := seriesOf("nsd", 3)
	require.NoError(t, s.samples[0].faults("nsd"))
	lost := s.samples[0]
	lost.saturated.Lost = 10
	require.NoError(t, lost.faults("nsd"), "one in a hundred")
	lost.saturated.Lost, lost.paced.Wrong = 11, 1
	err := lost.faults("nsd")
	require.ErrorContains(t, err, "nsd, saturated: 11 answers lost, 0 wrong, of 1000")
	require.ErrorContains(t, err, "nsd, paced: 0 answers lost, 1 wrong, of 10")
	assert.NotContains(t, err.Error(), "few")
}

// TestChangesTable has no latency of changes where none were made.
func TestChangesTable(t *testing.T) {
	one := period{
		paced:     probeResult{P50: time.Microsecond},
		pacedLive: liveReport{Seconds: 1, P50: 20 * time.Microsecond, P99: 30 * time.Microsecond},
		full:      seriesOf("live", 2).samples[0].saturated,
		fullLive:  liveReport{Seconds: 1, Changes: 10, P50: 40 * time.Microsecond, P99: 50 * time.Microsecond},
	}
	l := &lab{options: options{seconds: 1}}
	got := text(l.changesTable([]int{0, 10}, map[int][]period{0: {one}, 10: {one}}))
	assert.Regexp(t, `\| 0 .*\| –  .*\| – .*\| – .*\| – `, got)
	assert.Regexp(t, `\| 10 .*\| 20 µs .*\| 30 µs .*\| 40 µs .*\| 50 µs`, got)
}
