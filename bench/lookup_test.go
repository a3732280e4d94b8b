package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

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
				b.Run("lookup", func(b *testing.B) { benchLookup(b, f, queries) })
				b.Run("compose", func(b *testing.B) { benchCompose(b, f, queries) })
				for _, batch := range []int{1, 32} {
					b.Run(fmt.Sprintf("query/batch=%d", batch), func(b *testing.B) { benchQuery(b, f, all, batch) })
				}
			})
		})
	}
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

func benchLookup(b *testing.B, f *fleet, queries []zones.Query) {
	view, w := f.publisher.View(), newWriter()
	var a zones.Answer
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		view.Lookup(&queries[i%manyDraws], &a)
		w.Msg = w.Msg[:40]
		checkCount(b, w.WriteAnswer(&a, 0).Count)
	}
}

// benchCompose goes round a few answers, so that their addresses are in the cache, as those
// of an answer that was just looked up are.
func benchCompose(b *testing.B, f *fleet, queries []zones.Query) {
	view, w := f.publisher.View(), newWriter()
	answers := make([]zones.Answer, 64)
	for i := range answers {
		view.Lookup(&queries[i], &answers[i])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w.Msg = w.Msg[:40]
		checkCount(b, w.WriteAnswer(&answers[i%len(answers)], 0).Count)
	}
}

func benchQuery(b *testing.B, f *fleet, packets [][]byte, batch int) {
	h := server.NewAnswers(server.AnswersConfig{Views: f.publisher}).NewHandler()
	out := make([]byte, 0, 4096)
	t := &server.Transport{Protocol: server.UDP}
	b.ReportAllocs()
	b.ResetTimer()
	for at, left := 0, b.N; left > 0; left -= batch {
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
