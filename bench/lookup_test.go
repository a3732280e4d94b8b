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

// BenchmarkLookup is the resolution of an aggregated name in process: lookup in the View
// and the records of the answer, names uniformly random. The sub-benchmark "query" is the
// whole handling of a packet, alone or in batches: parsing, lookup, reply, counters.
//
//	go test -bench Lookup -benchmem ./bench
func BenchmarkLookup(b *testing.B) {
	for _, services := range []int{1_000, 100_000} {
		f := newFleet(b, services*clusters*endpointsPerPart)
		names := queries(b, services)
		b.Run(fmt.Sprintf("services=%d/lookup", services), func(b *testing.B) { benchLookup(b, f, names) })
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("services=%d/query/batch=%d", services, batch), func(b *testing.B) { benchQuery(b, f, names, batch) })
		}
	}
}

// manyQueries is how many different packets a benchmark cycles through.
const manyQueries = 1 << 18

// queries are packets that ask for A of aggregated names. They lie one behind the other,
// as a socket's buffers do, so that it is the server's memory that is waited for.
func queries(tb testing.TB, services int) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, manyQueries)
	all := make([]byte, 0, manyQueries*64)
	for i := range out {
		n := rng.IntN(services)
		name := fmt.Sprintf("%s.%s.svc.cluster.global.", nameOf(n), namespaceOf(n))
		packed, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		require.NoError(tb, err)
		at := len(all)
		all = append(all, packed...)
		out[i] = all[at:]
	}
	return out
}

func benchLookup(b *testing.B, f *fleet, packets [][]byte) {
	asked := make([]zones.Query, len(packets))
	for i, p := range packets {
		asked[i].SetName(p[12 : len(p)-4])
		asked[i].Type = dns.TypeA
	}
	view := f.publisher.View()
	w := zones.Writer{Msg: make([]byte, 0, 512), Rand: rand.NewPCG(3, 4), Limit: 512}
	var a zones.Answer
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		view.Lookup(&asked[i%manyQueries], &a)
		w.Msg = w.Msg[:40]
		if n := w.WriteAnswer(&a, 0).Count; n != clusters*endpointsPerPart {
			b.Fatalf("%d records", n)
		}
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
		at = (at + batch) % manyQueries
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
