package bench

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/cli"
	"github.com/meshdns/meshdns/sources"
)

// BenchmarkUpdate is the cost of one change, from the Update to the published View, as
// CPU time of the whole process with its garbage collection; the making of the values,
// which is their source's, is in it. One change in fifty adds or removes the only service
// of a namespace; of the others it is drawn whose they are (names_test.go). The collector is
// set as serve sets it. Only a run over several collections, which are counted, shows the
// whole cost: at 1,000,000 endpoints one takes about 25,000 changes.
//
// Sizes are numbers of endpoints, as the project's bar has them, or of services of six.
//
//	go test -run '^$' -bench Update/endpoints -benchtime 200000x ./bench
func BenchmarkUpdate(b *testing.B) {
	for _, endpoints := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) { benchUpdates(b, endpoints) })
	}
	for _, services := range sizes() {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) { benchUpdates(b, services*clusters*endpointsPerPart) })
	}
}

func benchUpdates(b *testing.B, endpoints int) {
	f := newFleet(b, endpoints)
	c := &changer{}
	eachSpread(b, f.services, func(b *testing.B, drawn []uint32) {
		c.drawn = drawn
		benchUpdate(b, f, c.next)
	})
}

// BenchmarkUpdateLarge is the same for one endpoint of a service with 10,000.
func BenchmarkUpdateLarge(b *testing.B) {
	large := newLarge(10_000)
	benchUpdate(b, newFleet(b, 1_000), large.change)
}

// benchUpdate pushes b.N changes; change makes the i-th one of a run.
func benchUpdate(b *testing.B, f *fleet, change func(i int) sources.Update) {
	defer cli.TuneCollector()()
	runtime.GC()
	b.ReportAllocs()
	start, cycles := cpuTime(b), gcCycles()
	b.ResetTimer()
	f.push(b.N, change)
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(gcCycles()-cycles), "gc-cycles")
	b.ReportMetric(float64(gcPercent()), "gc-percent")
}

// changer makes changes, each of them other than all before: a run must not find what an
// earlier one has put there.
type changer struct {
	drawn []uint32
	round int // changes so far
}

// next is the next change.
func (c *changer) next(int) sources.Update {
	c.round++
	if c.round%50 == 0 {
		return toggleNamespace(c.round / 50)
	}
	n := int(c.drawn[c.round%manyDraws])
	cluster := c.round % clusters
	return update(cluster, n, service(cluster, n, c.round))
}

// toggleNamespace adds the first service of a namespace, or removes it again.
func toggleNamespace(round int) sources.Update {
	u := update(0, 0, "")
	u.Key.Namespace = "now-and-then"
	if round%2 == 1 {
		u.Value = service(0, 0, round)
	}
	return u
}

// large is a service of slices of a hundred endpoints.
type large struct {
	bare   sources.Service
	slices []sources.Slice
}

func newLarge(endpoints int) *large {
	fields := sources.ServiceFields{Type: sources.Headless, Ports: ports}
	l := &large{bare: fields.Pack()}
	for n := 0; n < endpoints; n += 100 {
		l.slices = append(l.slices, largeSlice(n, 0))
	}
	return l
}

func largeSlice(first, round int) sources.Slice {
	s := sources.SliceFields{Name: fmt.Sprintf("large-%05d", first), Ports: ports}
	for n := first; n < first+100; n++ {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Address: address(0, 1<<20+n, 0), Hostname: podOf(0, n),
		})
	}
	s.Endpoints[0].Address = address(1, first, round)
	return s.Pack()
}

// change replaces one endpoint.
func (l *large) change(i int) sources.Update {
	at := i % len(l.slices)
	l.slices[at] = largeSlice(at*100, i+1)
	u := update(0, 0, l.bare.With(l.slices))
	u.Key.Namespace, u.Key.Name = "big", "large"
	return u
}

// gcPercent is what GOGC says, or who has set it since.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// gcCycles is how many garbage collections have ended so far.
func gcCycles() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// cpuTime is user and system time of the process so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
