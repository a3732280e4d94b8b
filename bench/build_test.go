package bench

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/meshdns/meshdns/cli"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/zones"
)

// BenchmarkBuild is the start of a server, from nothing to the View that has everything: a
// resolver and its zones take all services of all clusters, which are pushed by a source for
// each cluster. The values are there before and their source's; live-B/endpoint is what is
// alive on the heap afterwards, the values that are kept included. The collector is set as
// serve sets it.
//
//	go test -run '^$' -bench Build -benchtime 1x ./bench
func BenchmarkBuild(b *testing.B) {
	for _, services := range sizes() {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) { benchBuild(b, services) })
	}
}

func benchBuild(b *testing.B, services int) {
	defer cli.TuneCollector()()
	before := liveHeap()
	updates := allUpdates(services)
	endpoints := float64(services * clusters * endpointsPerPart)
	b.ReportAllocs()
	start := cpuTime(b)
	b.ResetTimer()
	var f *fleet
	var made []weak.Pointer[zones.Publisher]
	for range b.N {
		f = build(b, services, updates)
		made = append(made, weak.Make(f.publisher))
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*endpoints/b.Elapsed().Seconds(), "endpoints/s")
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1000/float64(b.N)/endpoints, "cpu-µs/endpoint")
	updates = [clusters][]sources.Update{}
	untilGone(made[:b.N-1])
	b.ReportMetric(float64(liveHeap()-before)/endpoints, "live-B/endpoint")
	checkBuilt(b, f)
	untilGone(made)
}

// untilGone collects until nothing holds the publishers: the timer of a serial does for a
// second after the last change.
func untilGone(made []weak.Pointer[zones.Publisher]) {
	for _, p := range made {
		for p.Value() != nil {
			runtime.GC()
		}
	}
}

// allUpdates is what the source of each cluster pushes.
func allUpdates(services int) (all [clusters][]sources.Update) {
	for c := range clusters {
		all[c] = make([]sources.Update, services)
		for i := range services {
			all[c][i] = update(c, i, service(c, i, 0))
		}
	}
	return all
}

func build(b *testing.B, services int, updates [clusters][]sources.Update) *fleet {
	f := emptyFleet(b, services)
	defer f.run()()
	f.fill(func(c, i int) sources.Update { return updates[c][i] })
	return f
}

// checkBuilt asks for the first service and for the last.
func checkBuilt(b *testing.B, f *fleet) {
	for _, q := range asked(packets([]uint32{0, uint32(f.services - 1)})) {
		var a zones.Answer
		f.publisher.View().Lookup(&q, &a)
		checkCount(b, newWriter().WriteAnswer(&a, 0).Count)
	}
}
