package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/bench/stats"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/zones"
)

// BenchmarkLookup is the resolution of an aggregated name in process, six A records of three
// clusters:
//
//	lookup       in the View, and the records of the answer
//	compose      the records alone, of an answer that was just looked up
//	query/batch  the whole handling of packets that came together: parsing, lookup, reply,
//	             counters
//
// The services asked for are drawn uniformly or by a Zipf distribution (names_test.go).
//
//	go test -run '^$' -bench Lookup/services=100000/names=zipf ./bench
func BenchmarkLookup(b *testing.B) {
	for _, services := range sizes() {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			f := newFleet(b, services*clusters*endpointsPerPart)
			eachSpread(b, services, func(b *testing.B, drawn []uint32) {
				all := packets(drawn)
				queries := asked(all)
				b.Run("lookup", func(b *testing.B) { benchSteps(b, lookups(b, f, queries)) })
				b.Run("compose", func(b *testing.B) { benchSteps(b, compositions(b, f, queries)) })
				for _, batch := range []int{1, 32} {
					b.Run(fmt.Sprintf("query/batch=%d", batch), func(b *testing.B) { benchSteps(b, replies(b, f, all, batch)) })
				}
			})
		})
	}
}

// steps does the next n of what is measured.
type steps func(n int)

func benchSteps(b *testing.B, do steps) {
	b.ReportAllocs()
	b.ResetTimer()
	do(b.N)
}

func newWriter() *zones.Writer {
	return &zones.Writer{Msg: make([]byte, 0, 512), Rand: rand.NewPCG(3, 4), Limit: 512}
}

// checkCount ends a benchmark whose answers are not whole.
func checkCount(b *testing.B, n uint16) {
	if n != clusters*endpointsPerPart {
		b.Fatalf("%d records", n)
	}
}

func lookups(b *testing.B, f *fleet, queries []zones.Query) steps {
	view, w := f.publisher.View(), newWriter()
	var a zones.Answer
	at := 0
	return func(n int) {
		for range n {
			view.Lookup(&queries[at], &a)
			w.Msg = w.Msg[:40]
			checkCount(b, w.WriteAnswer(&a, 0).Count)
			at = (at + 1) % manyDraws
		}
	}
}

// compositions go round a few answers, so that their addresses are in the cache, as those
// of an answer that was just looked up are.
func compositions(b *testing.B, f *fleet, queries []zones.Query) steps {
	view, w := f.publisher.View(), newWriter()
	answers := make([]zones.Answer, 64)
	for i := range answers {
		view.Lookup(&queries[i], &answers[i])
	}
	return func(n int) {
		for i := range n {
			w.Msg = w.Msg[:40]
			checkCount(b, w.WriteAnswer(&answers[i%len(answers)], 0).Count)
		}
	}
}

func replies(b *testing.B, f *fleet, packets [][]byte, batch int) steps {
	h := server.NewAnswers(server.AnswersConfig{Views: f.publisher}).NewHandler()
	out := make([]byte, 0, 4096)
	t := &server.Transport{Protocol: server.UDP}
	at := 0
	return func(n int) {
		for ; n > 0; n -= batch {
			h.Begin(packets[at : at+batch])
			for i := range batch {
				if _, verdict := h.Handle(i, out, t); verdict != server.Reply {
					b.Fatal(verdict)
				}
			}
			h.End()
			at = (at + batch) % manyDraws
		}
	}
}

// BenchmarkGrowth is how much longer the same takes among the most services than among
// 1,000. Both are measured in turns of a few hundredths of a second, since machines are
// unsteady; x-of-1000 is the median of the turns' ratios.
//
//	go test -run '^$' -bench Growth -benchtime 2000000x ./bench
func BenchmarkGrowth(b *testing.B) {
	many := sizes()[0]
	b.Run(fmt.Sprintf("services=%d", many), func(b *testing.B) {
		large, small := newFleet(b, many*clusters*endpointsPerPart), newFleet(b, 1_000*clusters*endpointsPerPart)
		for _, s := range []spread{uniform, zipf} {
			packetsOf := [2][][]byte{packets(s.draw(many)), packets(s.draw(1_000))}
			queriesOf := [2][]zones.Query{asked(packetsOf[0]), asked(packetsOf[1])}
			b.Run(fmt.Sprintf("names=%s/lookup", s), func(b *testing.B) {
				benchTurns(b, lookups(b, large, queriesOf[0]), lookups(b, small, queriesOf[1]))
			})
			for _, batch := range []int{1, 32} {
				b.Run(fmt.Sprintf("names=%s/query/batch=%d", s, batch), func(b *testing.B) {
					benchTurns(b, replies(b, large, packetsOf[0], batch), replies(b, small, packetsOf[1], batch))
				})
			}
		}
	})
}

// benchTurns measures two by turns. A turn is long enough that filling the cache again after
// the other one's does not count.
func benchTurns(b *testing.B, large, small steps) {
	const turn = 1 << 16
	var inLarge, inSmall, ratios []float64
	per := func(do steps, n int) float64 {
		at := time.Now()
		do(n)
		return float64(time.Since(at).Nanoseconds()) / float64(n)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		l, s := per(large, min(left, turn)), per(small, min(left, turn))
		inLarge, inSmall, ratios = append(inLarge, l), append(inSmall, s), append(ratios, l/s)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stats.Median(inLarge), "ns")
	b.ReportMetric(stats.Median(inSmall), "ns-of-1000")
	b.ReportMetric(stats.Median(ratios), "x-of-1000")
}

// TestQueryPathAllocatesNothing is the budget of a query.
func TestQueryPathAllocatesNothing(t *testing.T) {
	f := newFleet(t, 600)
	h := server.NewAnswers(server.AnswersConfig{Views: f.publisher}).NewHandler()
	out := make([]byte, 0, 4096)
	for _, q := range []struct {
		name string
		typ  uint16
	}{
		{"service-1.team-0.svc.cluster.global.", dns.TypeA},
		{"service-1.team-0.svc.cluster.global.", dns.TypeAAAA},
		{"_http._tcp.service-1.team-0.svc.cluster.global.", dns.TypeSRV},
		{"service-1-7c9f8d6b5d-10000.c1.service-1.team-0.svc.cluster.global.", dns.TypeA},
		{"service-1.team-0.svc.cluster.c1.", dns.TypeA},
		{"absent.team-0.svc.cluster.global.", dns.TypeA},
		{"absent.mesh.", dns.TypeA},
		{"www.example.org.", dns.TypeA},
	} {
		packed, err := new(dns.Msg).SetQuestion(q.name, q.typ).SetEdns0(1232, false).Pack()
		require.NoError(t, err)
		transport := &server.Transport{Protocol: server.UDP}
		batch := [][]byte{packed}
		allocs := testing.AllocsPerRun(200, func() {
			h.Begin(batch)
			h.Handle(0, out, transport)
			h.End()
		})
		require.Zero(t, allocs, "%s %d", q.name, q.typ)
	}
}
