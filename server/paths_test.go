package server_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	dnsnames "github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

// paths are two Handlers of one server with the same random numbers: the fast path with
// the general one behind it, and the general one alone.
type paths struct {
	fast, general server.Handler
	mark          int // queries so far
}

func newPaths(w *world) *paths {
	answers := server.NewAnswers(server.AnswersConfig{Views: w.publisher, Seed: func() (uint64, uint64) { return 5, 6 }})
	return &paths{fast: answers.NewHandler(), general: answers.NewGeneralHandler()}
}

// compare answers a batch on both ways.
func (p *paths) compare(t *testing.T, queries [][]byte, protocol server.Protocol) {
	p.fast.Begin(queries)
	p.general.Begin(queries)
	defer p.fast.End()
	defer p.general.End()
	transport := &server.Transport{Protocol: protocol}
	for i, query := range queries {
		p.mark++
		before := slices.Clone(query)
		got, verdict := p.fast.Handle(i, make([]byte, 0, 65535), transport)
		want, wanted := p.general.Handle(i, make([]byte, 0, 65535), transport)
		require.Equal(t, wanted, verdict, "query %d: %x", p.mark, query)
		require.Equal(t, want, got, "query %d: %x", p.mark, query)
		require.Equal(t, before, query, "queries are not written to")
	}
}

// pathsWorld has names of every kind: small and large, of one family and of both, of one
// cluster and of several, aliases, unknown ones.
func pathsWorld(t testing.TB) (w *world, names []string) {
	w = newWorld(t, settings("c1", "c2"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready), endpoint("192.0.2.2", "", sources.Ready), endpoint("2001:db8::1", "web-0", sources.Ready)))
	w.put("c2", "shop", "api", headless(endpoint("192.0.2.3", "web-0", sources.Ready)))
	w.put("c1", "shop", "large", manyEndpoints(200))
	w.put("c2", "shop", "only", headless(endpoint("2001:db8::2", "", sources.Ready)))
	w.put("c2", "shop", "none", headless())
	w.put("c2", "shop", "db", alias("api.shop.svc.cluster.local"))
	w.put("c2", "shop", "out", alias("www.example.com"))
	w.resolver.Update(sources.Update{
		Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "all.apps.mesh"},
		Value: &registry.MeshService{Name: dnsnames.MustParse("all.apps.mesh"), Backends: []registry.Backend{
			{Type: registry.Kubernetes, Namespace: "shop", Service: "api", Cluster: registry.AllClusters},
		}},
	})
	w.resolver.Update(sources.Update{
		Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "weighted.mesh"},
		Value: &registry.MeshService{Name: dnsnames.MustParse("weighted.mesh"), Backends: []registry.Backend{
			{Type: registry.Kubernetes, Namespace: "shop", Service: "api", Cluster: registry.AllClusters, Weight: 5, HasWeight: true},
			{Type: registry.Kubernetes, Namespace: "shop", Service: "large", Cluster: registry.AllClusters},
		}},
	})
	w.flush()
	for _, service := range []string{"api", "large", "only", "none", "db", "out", "absent", "svc"} {
		for _, zone := range []string{"cluster.global.", "cluster.c1.", "cluster.c2."} {
			root := service + ".shop.svc." + zone
			names = append(names, root, "web-0."+root, "web-0.c1."+root, "c1."+root, "_http._tcp."+root, "_tcp."+root)
		}
	}
	return w, append(names, ".", "mesh.", "cluster.global.", "cluster.c1.", "svc.cluster.global.", "shop.svc.cluster.global.", "a.b.c.d.mesh.",
		"absent.mesh.", "weighted.mesh.", "apps.mesh.", "all.apps.mesh.", "web-0.c1.all.apps.mesh.", "_http._tcp.all.apps.mesh.", "x.all.apps.mesh.", "www.example.com.", "dns-version.cluster.global.", "API.Shop.SVC.cluster.GLOBAL.", "shop.svc.mesh.", "api.shop.xvc.cluster.global.")
}

var pathsTypes = []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeANY, dns.TypeSOA, dns.TypeAXFR, dns.TypeHTTPS, 65535}

// made is a query with what varies in it: flags, case, OPT, and now and then a byte that
// is wrong.
func made(t testing.TB, rng *rand.Rand, name string, typ uint16) []byte {
	q := new(dns.Msg).SetQuestion(name, typ)
	q.RecursionDesired, q.CheckingDisabled = rng.IntN(2) == 0, rng.IntN(2) == 0
	if rng.IntN(3) > 0 {
		q.SetEdns0(uint16(rng.IntN(5000)), rng.IntN(2) == 0)
	}
	packed, err := q.Pack()
	require.NoError(t, err)
	for i := 12; packed[i] != 0; i++ {
		if c := packed[i]; 'a' <= c && c <= 'z' && rng.IntN(4) == 0 {
			packed[i] -= 'a' - 'A'
		}
	}
	switch rng.IntN(8) {
	case 0:
		packed[rng.IntN(len(packed))] ^= byte(1 << rng.IntN(8))
	case 1:
		packed = packed[:rng.IntN(len(packed)+1)]
	case 2:
		packed = append(packed, byte(rng.Uint32()))
	}
	return packed
}

// TestBothPathsSayTheSame: whatever is asked in whatever batches, the fast path gives the
// very bytes of the general one.
func TestBothPathsSayTheSame(t *testing.T) {
	w, names := pathsWorld(t)
	p, rng := newPaths(w), rand.New(rand.NewPCG(7, 8))
	ordinary := 0
	for range 3000 {
		var batch [][]byte
		for range 1 + rng.IntN(40) {
			q := made(t, rng, names[rng.IntN(len(names))], pathsTypes[rng.IntN(len(pathsTypes))])
			if server.Ordinary(q) {
				ordinary++
			}
			batch = append(batch, q)
		}
		p.compare(t, batch, server.Protocol(rng.IntN(2)))
	}
	require.Greater(t, ordinary, 30_000)
}

// TestOrdinaryQuestions are those that the fast path must read, not leave to the other.
func TestOrdinaryQuestions(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(q *dns.Msg)
		ordinary bool
	}{
		{"plain", func(*dns.Msg) {}, true},
		{"without RD, with CD and AD", func(q *dns.Msg) { q.RecursionDesired, q.CheckingDisabled, q.AuthenticatedData = false, true, true }, true},
		{"OPT", func(q *dns.Msg) { q.SetEdns0(1232, false) }, true},
		{"OPT with DO", func(q *dns.Msg) { q.SetEdns0(1232, true) }, true},
		{"type of all kinds", func(q *dns.Msg) { q.Question[0].Qtype = 65280 }, true},
		{"OPT of version 1", func(q *dns.Msg) { q.SetEdns0(1232, true).IsEdns0().SetVersion(1) }, false},
		{"OPT with an option", func(q *dns.Msg) {
			q.SetEdns0(1232, true).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
		}, false},
		{"another class", func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }, false},
		{"a reply", func(q *dns.Msg) { q.Response = true }, false},
		{"NOTIFY", func(q *dns.Msg) { q.Opcode = dns.OpcodeNotify }, false},
		{"two questions", func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }, false},
		{"a record", func(q *dns.Msg) { q.Ns = append(q.Ns, &dns.NULL{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeNULL}}) }, false},
		{"transfer", func(q *dns.Msg) { q.Question[0].Qtype = dns.TypeAXFR }, false},
	} {
		q := new(dns.Msg).SetQuestion("Api.shop.svc.cluster.global.", dns.TypeA)
		c.change(q)
		packed, err := q.Pack()
		require.NoError(t, err)
		require.Equal(t, c.ordinary, server.Ordinary(packed), c.name)
		require.False(t, server.Ordinary(append(packed, 0)), "bytes behind: %s", c.name)
	}
	for labels := 1; labels <= 127; labels++ { // up to the longest name
		q := binary.BigEndian.AppendUint64([]byte{0, 1, 0, 0}, 1<<48)
		for range labels {
			q = append(q, 1, 'x')
		}
		require.True(t, server.Ordinary(append(q, 0, 0, 1, 0, 1)), labels)
		require.Equal(t, labels < 127, server.Ordinary(append(q, 1, 'y', 0, 0, 1, 0, 1)), labels)
	}
}

// FuzzBothPaths: the fast path gives the bytes of the general one.
func FuzzBothPaths(f *testing.F) {
	w, names := pathsWorld(f)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 200 {
		f.Add(made(f, rng, names[i%len(names)], pathsTypes[i%len(pathsTypes)]))
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		p := newPaths(w)
		p.compare(t, [][]byte{query}, server.UDP)
		p.compare(t, [][]byte{query, query}, server.TCP)
	})
}
