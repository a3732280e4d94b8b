package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
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

// What counts as alive and is not touched takes no memory: in a process of its own, as serve
// does it first of all, since memory that was used before is cleared.
func TestTuneCollectorFloor(t *testing.T) {
	const inside = "MESHDNS_TEST_FLOOR"
	if os.Getenv(inside) != "" {
		testFloor(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), inside+"=1", "GOGC=", "GOMEMLIMIT=")
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip("no /proc")
	}
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func testFloor(t *testing.T) {
	before := resident(t)
	restore := TuneCollector()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	require.Greater(t, sample[0].Value.Uint64(), uint64(collectorFloor+collectorFloor*collectorPercent/100))
	require.Less(t, resident(t), before+collectorFloor/4)
	restore()
}

// resident is the memory of this process in bytes.
func resident(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc:", err)
	}
	var size, pages int
	_, err = fmt.Sscan(string(status), &size, &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
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
