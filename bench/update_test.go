package bench

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/sources"
)

// BenchmarkUpdate is the cost of one change, from the Update to the published View, as
// CPU time of the whole process with its garbage collection. One change in fifty adds or
// removes the only service of a namespace.
//
//	go test -bench Update -benchtime 10000x ./bench
func BenchmarkUpdate(b *testing.B) {
	for _, endpoints := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			f := newFleet(b, endpoints)
			changes := f.changes(b.N)
			runtime.GC()
			b.ReportAllocs()
			start := cpuTime(b)
			b.ResetTimer()
			f.push(changes)
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkUpdateLarge is the same for one endpoint of a service with 10,000.
func BenchmarkUpdateLarge(b *testing.B) {
	f := newFleet(b, 1_000)
	changes := largeChanges(b.N)
	runtime.GC()
	start := cpuTime(b)
	b.ResetTimer()
	f.push(changes)
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
}

// changes are the next n changes: a source has made their values before it pushes them.
func (f *fleet) changes(n int) []sources.Update {
	out := make([]sources.Update, n)
	for i := range out {
		c, n := i%clusters, i*7919%f.services
		if i%50 == 49 {
			out[i] = toggleNamespace(i)
		} else {
			out[i] = update(c, n, service(c, n, 1+i))
		}
	}
	return out
}

// toggleNamespace adds the first service of a namespace, or removes it again.
func toggleNamespace(i int) sources.Update {
	u := update(0, 0, nil)
	u.Key.Namespace = "now-and-then"
	if i/50%2 == 0 {
		u.Value = service(0, 0, i)
	}
	return u
}

// largeSlices are slices of a hundred endpoints.
func largeSlices(endpoints int) []*sources.Slice {
	var out []*sources.Slice
	for n := 0; n < endpoints; n += 100 {
		out = append(out, largeSlice(n, 0))
	}
	return out
}

func largeSlice(first, round int) *sources.Slice {
	s := &sources.Slice{Name: fmt.Sprintf("large-%05d", first), Ports: ports}
	for n := first; n < first+100; n++ {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Address: address(0, 1<<20+n, 0), Hostname: fmt.Sprintf("large-%d", n),
		})
	}
	s.Endpoints[0].Address = address(1, first, round)
	return s
}

// largeChanges are n changes of one endpoint each.
func largeChanges(n int) []sources.Update {
	slices := largeSlices(10_000)
	out := make([]sources.Update, n)
	for i := range out {
		at := i % len(slices)
		next := append([]*sources.Slice(nil), slices...)
		next[at] = largeSlice(at*100, i+1)
		slices = next
		out[i] = update(0, 0, &sources.Service{Type: sources.Headless, Ports: ports, Slices: next})
		out[i].Key.Namespace, out[i].Key.Name = "big", "large"
	}
	return out
}

// cpuTime is user and system time of the process so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
