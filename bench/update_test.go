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
			runtime.GC()
			b.ReportAllocs()
			start := cpuTime(b)
			b.ResetTimer()
			for i := range b.N {
				f.change(i)
			}
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkUpdateLarge is the same for one endpoint of a service with 10,000.
func BenchmarkUpdateLarge(b *testing.B) {
	f := newFleet(b, 1_000)
	slices := largeSlices(10_000)
	runtime.GC()
	start := cpuTime(b)
	b.ResetTimer()
	for i := range b.N {
		f.changeLarge(slices, i)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
}

// change makes the i-th change and waits until it is published.
func (f *fleet) change(i int) {
	c := i % clusters
	if i%50 == 49 {
		f.toggleNamespace(c, i)
	} else {
		n := i * 7919 % f.services
		f.resolver.Update(update(c, n, service(c, n, 1+i)))
	}
	f.flush()
}

// toggleNamespace adds the first service of a namespace, or removes it again.
func (f *fleet) toggleNamespace(c, i int) {
	u := update(c, 0, nil)
	u.Key.Namespace = "now-and-then"
	if i/50%2 == 0 {
		u.Value = service(c, 0, i)
	}
	u.Key.Source = clusterName(0)
	f.resolver.Update(u)
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

func (f *fleet) changeLarge(slices []*sources.Slice, i int) {
	at := i % len(slices)
	next := append([]*sources.Slice(nil), slices...)
	next[at] = largeSlice(at*100, i+1)
	copy(slices, next)
	u := update(0, 0, &sources.Service{Type: sources.Headless, Ports: ports, Slices: next})
	u.Key.Namespace, u.Key.Name = "big", "large"
	f.resolver.Update(u)
	f.flush()
}

// cpuTime is user and system time of the process so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
