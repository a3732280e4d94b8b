package server_test

import (
	"context"

	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/zones"
)

// world is a resolver, its zones and a handler, fed by hand.
var udp = &server.Transport{Protocol: server.UDP}

type world struct {
	t         testing.TB
	resolver  *resolver.Resolver
	publisher *zones.Publisher
	answers   *server.Answers
	handler   *server.Single
}

func naming() *zones.Naming {
	return &zones.Naming{
		Mesh: names.MustParse("mesh"), Global: names.MustParse("cluster.global"), PerCluster: "cluster.{id}",
		Glue: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, NegativeTTL: 5 * time.Second, TTL: 5 * time.Second,
	}
}

func settings(clusters ...string) *resolver.Settings {
	s := &resolver.Settings{
		Equivalence: resolver.Equivalence{Match: resolver.MatchName},
		Staleness:   resolver.Staleness{KeepShared: time.Minute, KeepOnly: time.Hour, Then: resolver.ThenServfail},
		Startup:     resolver.Startup{Grace: time.Minute, Then: resolver.ThenServfail},
		TTL:         5 * time.Second,
	}
	for _, c := range clusters {
		s.Clusters = append(s.Clusters, resolver.Cluster{Name: c, Role: resolver.Core, Reach: resolver.ReachEndpoints})
	}
	if len(clusters) > 0 {
		s.Site = clusters[0]
	}
	return s
}

func newWorld(t testing.TB, s *resolver.Settings) *world {
	w := &world{t: t, publisher: zones.New(zones.Config{Naming: naming()})}
	w.resolver = resolver.New(resolver.Config{Settings: s, Publisher: w.publisher})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.resolver.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.answers = server.NewAnswers(server.AnswersConfig{Views: w.publisher})
	w.handler = &server.Single{Handler: w.answers.NewHandler()}
	for _, c := range s.Clusters {
		w.resolver.Status(sources.Status{Source: c.Name, Kind: "manifests", Synced: true})
	}
	w.flush()
	return w
}

func (w *world) flush() {
	require.NoError(w.t, w.resolver.Flush(context.Background()))
}

func (w *world) put(cluster, namespace, name string, s *sources.ServiceFields) {
	u := sources.Update{Key: sources.Key{Source: cluster, Kind: sources.KindService, Namespace: namespace, Name: name}}
	if s != nil {
		u.Value = s.Pack()
	}
	w.resolver.Update(u)
	w.flush()
}

func (w *world) ask(name string, typ uint16) *dns.Msg {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), typ)
	return w.exchange(q)
}

func (w *world) exchange(q *dns.Msg) *dns.Msg {
	packed, err := q.Pack()
	require.NoError(w.t, err)
	out, verdict := w.handler.Answer(make([]byte, 0, 65535), packed, &server.Transport{Protocol: server.TCP})
	require.Equal(w.t, server.Reply, verdict)
	reply := new(dns.Msg)
	require.NoError(w.t, reply.Unpack(out), "%x", out)
	return reply
}

func headless(endpoints ...sources.Endpoint) *sources.ServiceFields {
	slice := sources.SliceFields{Name: "s", Ports: []sources.Port{{Name: "http", Number: 8080}}, Endpoints: endpoints}
	return &sources.ServiceFields{
		Type: sources.Headless, Ports: []sources.Port{{Name: "http", Number: 8080}}, Slices: []sources.Slice{slice.Pack()},
	}
}

func endpoint(addr, host string, state sources.EndpointState) sources.Endpoint {
	return sources.Endpoint{Address: netip.MustParseAddr(addr), Hostname: host, State: state}
}

func TestAggregateOfTwoClusters(t *testing.T) {
	w := newWorld(t, settings("c1", "c2"))
	w.put("c1", "shop", "api", headless(
		endpoint("192.0.2.1", "web-0", sources.Ready), endpoint("192.0.2.2", "", sources.Ready),
		endpoint("192.0.2.9", "", sources.NotReady)))
	w.put("c2", "shop", "api", headless(endpoint("192.0.2.3", "web-0", sources.Ready)))

	a := w.ask("api.shop.svc.cluster.global", dns.TypeA)
	require.Len(t, a.Answer, 3, a.String())
	srv := w.ask("_http._tcp.api.shop.svc.cluster.global", dns.TypeSRV)
	require.Len(t, srv.Answer, 3, srv.String())
	require.Len(t, srv.Extra, 3, srv.String())
	for _, rr := range srv.Answer {
		target := rr.(*dns.SRV).Target
		require.Len(t, w.ask(target, dns.TypeA).Answer, 1, target)
	}
	for _, c := range []struct {
		name  string
		typ   uint16
		rcode int
		n     int
	}{
		{"web-0.c1.api.shop.svc.cluster.global", dns.TypeA, dns.RcodeSuccess, 1},
		{"web-0.c1.api.shop.svc.cluster.global", dns.TypeAAAA, dns.RcodeSuccess, 0},
		{"web-0.api.shop.svc.cluster.c2", dns.TypeA, dns.RcodeSuccess, 1},
		{"web-1.api.shop.svc.cluster.c2", dns.TypeA, dns.RcodeNameError, 0},
		{"c1.api.shop.svc.cluster.global", dns.TypeA, dns.RcodeSuccess, 0},
		{"c3.api.shop.svc.cluster.global", dns.TypeA, dns.RcodeNameError, 0},
		{"_tcp.api.shop.svc.cluster.global", dns.TypeA, dns.RcodeSuccess, 0},
		{"_udp.api.shop.svc.cluster.global", dns.TypeA, dns.RcodeNameError, 0},
		{"shop.svc.cluster.global", dns.TypeA, dns.RcodeSuccess, 0},
		{"shops.svc.cluster.global", dns.TypeA, dns.RcodeNameError, 0},
		{"svc.cluster.global", dns.TypeA, dns.RcodeSuccess, 0},
		{"x.cluster.global", dns.TypeA, dns.RcodeNameError, 0},
		{"ns.dns.cluster.global", dns.TypeA, dns.RcodeSuccess, 1},
		{"cluster.c1", dns.TypeNS, dns.RcodeSuccess, 1},
		{"cluster.c1", dns.TypeSOA, dns.RcodeSuccess, 1},
		{"cluster.c9", dns.TypeSOA, dns.RcodeRefused, 0},
		{"dns-version.cluster.c1", dns.TypeTXT, dns.RcodeSuccess, 1},
		{"api.shop.svc.cluster.global", dns.TypeSRV, dns.RcodeSuccess, 3},
	} {
		r := w.ask(c.name, c.typ)
		require.Equal(t, c.rcode, r.Rcode, r.String())
		require.Len(t, r.Answer, c.n, r.String())
	}
	w.put("c1", "shop", "api", nil)
	require.Len(t, w.ask("api.shop.svc.cluster.global", dns.TypeA).Answer, 1)
	w.put("c2", "shop", "api", nil)
	require.Equal(t, dns.RcodeNameError, w.ask("shop.svc.cluster.global", dns.TypeA).Rcode)
	require.Zero(t, w.publisher.View().Entries())
}
