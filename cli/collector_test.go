package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

func gcPercent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func TestTuneCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	for _, test := range []struct {
		name, variable string
		want           int
	}{
		{"by itself", "", collectorPercent},
		{"GOGC is the operator's word", "GOGC", 77},
		{"GOMEMLIMIT too", "GOMEMLIMIT", 77},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if test.variable != "" {
				t.Setenv(test.variable, "77")
			}
			restore := TuneCollector()
			require.Equal(t, test.want, gcPercent())
			restore()
			require.Equal(t, 77, gcPercent())
		})
	}
}

func TestGiveBack(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	ended, end := context.WithCancel(t.Context())
	end()
	before := forced()
	giveBack(ended, nil)
	require.Equal(t, before, forced(), "not before the server is ready")

	ready := make(chan struct{})
	close(ready)
	giveBack(t.Context(), ready)
	require.Greater(t, forced(), before)
}
