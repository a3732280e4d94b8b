package server_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// ede is a reply's extended error, 0 for none.
func ede(r *dns.Msg) uint16 {
	if opt := r.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return e.InfoCode
			}
		}
	}
	return 0
}

// TestNeverSynced is DNS_RULES 5: what a source that never synced could hold is unknown,
// what it could not hold is absent, and nothing of it allocates.
func TestNeverSynced(t *testing.T) {
	s := settings("c1")
	s.Clusters = append(s.Clusters, resolver.Cluster{Name: "c2", Role: resolver.Core, MayServe: []string{"shop/*", "a-namespace-with-quite-a-long-name/a-service-with-a-long-name"}})
	w := newWorld(t, settings("c1"))
	w.resolver.SetSettings(s)
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready)))
	w.resolver.Update(sources.Update{
		Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "all.mesh"},
		Value: &registry.MeshService{Name: names.MustParse("all.mesh"), Backends: []registry.Backend{
			{Type: registry.Kubernetes, Namespace: "shop", Service: "api", Cluster: registry.AllClusters},
		}},
	})
	w.flush()
	for _, c := range []struct {
		name  string
		rcode int
	}{
		{"api.shop.svc.cluster.global", dns.RcodeSuccess},
		{"nosuch.shop.svc.cluster.global", dns.RcodeServerFailure},
		{"nosuch.other.svc.cluster.global", dns.RcodeNameError},
		{"other.svc.cluster.global", dns.RcodeNameError},
		{"a-namespace-with-quite-a-long-name.svc.cluster.global", dns.RcodeServerFailure},
		{"a-service-with-a-long-name.a-namespace-with-quite-a-long-name.svc.cluster.global", dns.RcodeServerFailure},
		{"web-9.c1.api.shop.svc.cluster.global", dns.RcodeNameError},
		{"web-9.c2.api.shop.svc.cluster.global", dns.RcodeServerFailure},
		{"web-9.c7.api.shop.svc.cluster.global", dns.RcodeNameError},
		{"a.b.c.d.api.shop.svc.cluster.global", dns.RcodeNameError},
		{"api.shop.svc.cluster.c2", dns.RcodeServerFailure},
		{"all.mesh", dns.RcodeSuccess},
		{"web-9.c2.all.mesh", dns.RcodeServerFailure},
		{"_foo._tcp.all.mesh", dns.RcodeServerFailure},
	} {
		q := new(dns.Msg).SetQuestion(dns.Fqdn(c.name), dns.TypeA).SetEdns0(1232, false)
		r := w.exchange(q)
		assert.Equal(t, dns.RcodeToString[c.rcode], dns.RcodeToString[r.Rcode], c.name)
		if c.rcode == dns.RcodeServerFailure {
			assert.Equal(t, dns.ExtendedErrorCodeNotReady, ede(r), c.name)
			assert.Empty(t, r.Ns, c.name)
		}
		packed, err := q.Pack()
		require.NoError(t, err)
		out := make([]byte, 0, 4096)
		assert.Zero(t, testing.AllocsPerRun(50, func() { w.handler.Answer(out, packed, udp) }), c.name)
	}
}

// TestHostsOutliveTheAggregate: a failing cluster's hosts keep their names past
// keepShared, when its addresses have left the aggregate, and are unknown after keepOnly.
func TestHostsOutliveTheAggregate(t *testing.T) {
	s := settings("c1", "c2")
	s.Staleness = resolver.Staleness{KeepShared: 0, KeepOnly: time.Hour, Then: resolver.ThenServfail}
	w := newWorld(t, s)
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready)))
	w.put("c2", "shop", "api", headless(endpoint("192.0.2.2", "web-0", sources.Ready)))
	w.resolver.Status(sources.Status{Source: "c2", Kind: "manifests", Synced: true, Error: "down"})
	w.flush()
	a := w.ask("api.shop.svc.cluster.global", dns.TypeA)
	require.Len(t, a.Answer, 1, a.String())
	assert.Equal(t, netip.MustParseAddr("192.0.2.1").String(), a.Answer[0].(*dns.A).A.String())
	assert.Len(t, w.ask("_http._tcp.api.shop.svc.cluster.global", dns.TypeSRV).Answer, 1)
	assert.Len(t, w.ask("web-0.c2.api.shop.svc.cluster.global", dns.TypeA).Answer, 1)

	expired := *s
	expired.Staleness.KeepOnly = 0
	w.resolver.SetSettings(&expired)
	w.flush()
	assert.Equal(t, dns.RcodeServerFailure, w.ask("web-0.c2.api.shop.svc.cluster.global", dns.TypeA).Rcode)
	assert.Equal(t, dns.RcodeServerFailure, w.ask("api.shop.svc.cluster.c2", dns.TypeA).Rcode)
	assert.Len(t, w.ask("api.shop.svc.cluster.global", dns.TypeA).Answer, 1)
}

// TestAliasHasItsOwnTTL: one TTL an RRset, that of the service, whatever its target's is.
func TestAliasHasItsOwnTTL(t *testing.T) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "out", alias("db.example.com"))
	w.members("db.example.com", found("203.0.113.1"))
	for _, typ := range []uint16{dns.TypeA, dns.TypeCNAME} {
		assert.Equal(t, uint32(5), w.ask("out.shop.svc.cluster.c1", typ).Answer[0].Header().Ttl)
	}
	assert.Equal(t, uint32(30), w.ask("out.shop.svc.cluster.c1", dns.TypeA).Answer[1].Header().Ttl)
}

// TestClusterIPTargetsHaveGlue: SRV of a service with cluster IPs points at the service.
func TestClusterIPTargetsHaveGlue(t *testing.T) {
	w := newWorld(t, settings("c1"))
	s := headless(endpoint("192.0.2.1", "web-0", sources.Ready))
	s.Type, s.ClusterIPs = sources.ClusterIP, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	w.put("c1", "shop", "api", s)
	r := w.ask("_http._tcp.api.shop.svc.cluster.c1", dns.TypeSRV)
	require.Len(t, r.Answer, 1)
	assert.Equal(t, "api.shop.svc.cluster.c1.", r.Answer[0].(*dns.SRV).Target)
	assert.Len(t, r.Extra, 2, r.String())
}
