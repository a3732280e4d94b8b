package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

func alias(target string) *sources.ServiceFields {
	return &sources.ServiceFields{Type: sources.ExternalName, ExternalName: target}
}

func (w *world) members(host string, m *sources.Members) {
	w.resolver.Update(sources.Update{Key: sources.Key{Source: "dns", Kind: sources.KindBackend, Name: host}, Value: m})
	w.flush()
}

func found(addresses ...string) *sources.Members {
	s := &sources.SliceFields{}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, endpoint(a, "", sources.Ready))
	}
	return &sources.Members{Outcome: sources.Found, Last: sources.Found, EverAnswered: true, Slices: []sources.Slice{s.Pack()}, TTL: 30 * time.Second}
}

// TestAliases is DNS_RULES 18: an ExternalName's chain, its final rcode, its SOA.
func TestAliases(t *testing.T) {
	w := newWorld(t, settings("c1", "c2"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready)))
	w.put("c2", "shop", "out", alias("db.example.com"))
	w.put("c2", "shop", "in", alias("api.shop.svc.cluster.local"))
	w.put("c1", "shop", "in", alias("api.shop.svc.cluster.local."))
	w.put("c1", "shop", "x", alias("y.shop.svc.cluster.c1"))
	w.put("c1", "shop", "y", alias("x.shop.svc.cluster.c1"))
	w.put("c1", "shop", "self", alias("self.shop.svc.cluster.c1"))
	w.members("db.example.com", &sources.Members{
		Outcome: sources.Found, Last: sources.Found, EverAnswered: true, TTL: 30 * time.Second,
		Slices: found("203.0.113.1", "203.0.113.2").Slices,
		Chain:  []sources.Alias{{Owner: names.MustParse("db.example.com"), Target: names.MustParse("cdn.example.net")}},
	})
	for _, c := range []struct {
		name   string
		typ    uint16
		rcode  int
		answer []string // types, in order
		soa    string
	}{
		{"out.shop.svc.cluster.c2", dns.TypeA, dns.RcodeSuccess, []string{"CNAME", "CNAME", "A", "A"}, ""},
		{"out.shop.svc.cluster.c2", dns.TypeAAAA, dns.RcodeSuccess, []string{"CNAME", "CNAME"}, ""},
		{"out.shop.svc.cluster.c2", dns.TypeCNAME, dns.RcodeSuccess, []string{"CNAME"}, ""},
		{"out.shop.svc.cluster.global", dns.TypeA, dns.RcodeNameError, nil, "cluster.global."},
		{"_http._tcp.out.shop.svc.cluster.c2", dns.TypeSRV, dns.RcodeNameError, nil, "cluster.c2."},
		{"in.shop.svc.cluster.c1", dns.TypeA, dns.RcodeSuccess, []string{"CNAME", "A"}, ""},
		{"in.shop.svc.cluster.c1", dns.TypeTXT, dns.RcodeSuccess, []string{"CNAME"}, "cluster.c1."},
		{"in.shop.svc.cluster.c2", dns.TypeA, dns.RcodeNameError, []string{"CNAME"}, "cluster.c2."},
		{"x.shop.svc.cluster.c1", dns.TypeA, dns.RcodeServerFailure, nil, ""},
		{"self.shop.svc.cluster.c1", dns.TypeA, dns.RcodeServerFailure, nil, ""},
	} {
		r := w.ask(c.name, c.typ)
		var types []string
		for _, rr := range r.Answer {
			types = append(types, dns.TypeToString[rr.Header().Rrtype])
		}
		assert.Equal(t, dns.RcodeToString[c.rcode], dns.RcodeToString[r.Rcode], r.String())
		assert.Equal(t, c.answer, types, r.String())
		soa := ""
		if len(r.Ns) > 0 {
			soa = r.Ns[0].Header().Name
		}
		assert.Equal(t, c.soa, soa, r.String())
	}
	assert.Equal(t, []string{"db.example.com"}, w.publisher.TakeAsked())
	assert.Empty(t, w.publisher.TakeAsked())
}

// fetcher answers first lookups.
type fetcher struct {
	w     *world
	asked [][]string
}

func (f *fetcher) Fetch(_ context.Context, keys []string) error {
	f.asked = append(f.asked, keys)
	for _, k := range keys {
		f.w.members(k, found("203.0.113.9"))
	}
	return nil
}

// TestFirstQuestionWaits: a target that was never asked is asked once, and then the
// question is answered; one that cannot be asked is SERVFAIL, never a lone CNAME.
func TestFirstQuestionWaits(t *testing.T) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "out", alias("new.example.com"))
	f := &fetcher{w: w}
	packed, err := new(dns.Msg).SetQuestion("out.shop.svc.cluster.c1.", dns.TypeA).SetEdns0(1232, false).Pack()
	require.NoError(t, err)
	transport := &server.Transport{Protocol: server.UDP}

	alone := &server.Single{Handler: w.answers.NewHandler()}
	_, verdict := alone.Answer(make([]byte, 0, 4096), packed, transport)
	require.Equal(t, server.Wait, verdict)
	out, verdict := alone.HandleWaiting(context.Background(), make([]byte, 0, 4096), packed, transport)
	require.Equal(t, server.Reply, verdict)
	reply := new(dns.Msg)
	require.NoError(t, reply.Unpack(out))
	require.Equal(t, dns.RcodeServerFailure, reply.Rcode)
	require.Empty(t, reply.Answer)

	h := &server.Single{Handler: server.NewAnswers(server.AnswersConfig{Views: w.publisher, Fetcher: f}).NewHandler()}
	_, verdict = h.Answer(make([]byte, 0, 4096), packed, transport)
	require.Equal(t, server.Wait, verdict)
	out, verdict = h.HandleWaiting(context.Background(), make([]byte, 0, 4096), packed, transport)
	require.Equal(t, server.Reply, verdict)
	require.NoError(t, reply.Unpack(out))
	require.Len(t, reply.Answer, 2, reply.String())
	_, verdict = h.Answer(make([]byte, 0, 4096), packed, transport)
	require.Equal(t, server.Reply, verdict, "known from now on")
	require.Equal(t, [][]string{{"new.example.com"}}, f.asked)
}
