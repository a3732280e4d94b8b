package zones

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// model drives a resolver and its zones with random events and compares the index that
// grew from them with one that is built from the final objects (FAULTS 12).
type model struct {
	t         *testing.T
	rng       *rand.Rand
	resolver  *resolver.Resolver
	publisher *Publisher
}

func modelNaming() *Naming {
	return &Naming{
		Mesh: names.MustParse("mesh"), Global: names.MustParse("cluster.global"), PerCluster: "cluster.{id}",
		Reverse:     []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
		NegativeTTL: 5 * time.Second, TTL: 5 * time.Second,
	}
}

func modelSettings(match resolver.Match) *resolver.Settings {
	return &resolver.Settings{
		Site: "c1", Mesh: names.MustParse("mesh"), Global: names.MustParse("cluster.global"),
		Clusters: []resolver.Cluster{
			{Name: "c1", Zone: names.MustParse("cluster.c1"), Role: resolver.Core, Reach: resolver.ReachEndpoints},
			{Name: "c2", Zone: names.MustParse("cluster.c2"), Role: resolver.Core, Reach: resolver.ReachClusterIP},
			{Name: "c3.eu", Zone: names.MustParse("cluster.c3.eu"), Role: resolver.Extension, MayServe: []string{"shop/*"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("2001:db8::/33")}},
			{Name: "c4", Role: resolver.Federated, Reach: resolver.ReachEndpoints},
		},
		Equivalence: resolver.Equivalence{Match: match, Exclude: []string{"default/kubernetes"}},
		Staleness:   resolver.Staleness{KeepShared: time.Hour, KeepOnly: 2 * time.Hour, Then: resolver.ThenServfail},
		TTL:         5 * time.Second, UpstreamSource: "dns",
	}
}

func newModel(t *testing.T, seed uint64, match resolver.Match) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	m.publisher = New(Config{Naming: modelNaming()})
	m.resolver = resolver.New(resolver.Config{Settings: modelSettings(match), Publisher: m.publisher})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.resolver.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

func (m *model) flush() { require.NoError(m.t, m.resolver.Flush(context.Background())) }

func (m *model) pick(s ...string) string { return s[m.rng.IntN(len(s))] }

// event chooses a random change of one key.
func (m *model) event() sources.Update {
	switch m.rng.IntN(10) {
	case 0, 1:
		return m.document()
	case 2:
		return m.members()
	}
	u := sources.Update{Key: sources.Key{
		Source: m.pick("c1", "c2", "c3.eu", "c4"), Kind: sources.KindService,
		Namespace: m.pick("shop", "default", "svc"), Name: m.pick("api", "kubernetes", "com"),
	}}
	if m.rng.IntN(4) > 0 {
		u.Value = m.service()
	}
	return u
}

func (m *model) service() sources.Service {
	s := &sources.ServiceFields{
		Type:         sources.ServiceType(m.rng.IntN(3)),
		Created:      time.Unix(int64(m.rng.IntN(3)), 0),
		ExternalName: m.pick("db.example.com", "api.shop.svc.cluster.local", "foo.mesh", "bad..name"),
		Ports:        []sources.Port{{Name: m.pick("http", "dns", ""), Protocol: sources.Protocol(m.rng.IntN(2)), Number: uint16(m.rng.IntN(3))}},
		EquivalentTo: m.pick("", "api.shop", "com.svc", "nonsense"),
	}
	if s.Type == sources.ClusterIP && m.rng.IntN(3) > 0 {
		s.ClusterIPs = []netip.Addr{m.address()}
	}
	for i := range m.rng.IntN(4) {
		s.Slices = append(s.Slices, m.slice(i))
	}
	return s.Pack()
}

func (m *model) slice(i int) sources.Slice {
	s := &sources.SliceFields{Name: fmt.Sprint("slice-", i)}
	for range m.rng.IntN(3) {
		s.Ports = append(s.Ports, sources.Port{Name: m.pick("http", "dns", ""), Protocol: sources.Protocol(m.rng.IntN(3)), Number: uint16(m.rng.IntN(4))})
	}
	for range m.rng.IntN(4) {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Address: m.address(), Hostname: m.pick("", "web-0", "web-1"), State: sources.EndpointState(m.rng.IntN(3)),
		})
	}
	return s.Pack()
}

func (m *model) address() netip.Addr {
	if m.rng.IntN(3) == 0 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%d", m.rng.IntN(2)<<15, 1+m.rng.IntN(5)))
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + m.rng.IntN(60))})
}

func (m *model) document() sources.Update {
	name := m.pick("foo.mesh", "a.foo.mesh", "x.y.z.mesh", "bar.mesh")
	u := sources.Update{Key: sources.Key{
		Source: "registryDir", Kind: sources.KindDocument, Namespace: m.pick("a.yaml", "b.yaml"), Name: name,
	}}
	if m.rng.IntN(3) == 0 {
		return u
	}
	doc := &registry.MeshService{
		Name: names.MustParse(name), Origin: registry.Origin{Source: "registryDir", File: u.Key.Namespace},
		Ports: []sources.Port{{Name: "http", Number: 80}}, Identity: m.pick("", "spiffe://x/y"),
	}
	for range 1 + m.rng.IntN(3) {
		doc.Backends = append(doc.Backends, m.backend())
	}
	u.Value = doc
	return u
}

func (m *model) backend() registry.Backend {
	switch m.rng.IntN(6) {
	case 4, 5:
		return m.innerBackend()
	case 0:
		return registry.Backend{Type: registry.Static, Locator: "static", Addresses: []netip.Addr{m.address()}, Port: uint16(m.rng.IntN(2))}
	case 1:
		return registry.Backend{Type: registry.DNS, Host: names.MustParse("db.example.com")}
	case 2:
		return registry.Backend{Type: registry.Azure, Locator: "/subscriptions/x"}
	}
	return registry.Backend{
		Type: registry.Kubernetes, Namespace: "shop", Service: m.pick("api", "com"),
		Cluster: m.pick("", "*", "c2", "c3.eu", "c4", "nope"),
	}
}

// innerBackend leads to a name of the server's own zones, in circles too.
func (m *model) innerBackend() registry.Backend {
	host := m.pick("foo.mesh", "a.foo.mesh", "bar.mesh", "absent.mesh", "web-0.c1.foo.mesh", "api.shop.svc.cluster.global",
		"web-0.c2.api.shop.svc.cluster.global", "api.shop.svc.cluster.c1", "com.svc.svc.cluster.c2", "web-1.api.shop.svc.cluster.c3.eu")
	b := registry.Backend{Type: registry.DNS, Host: names.MustParse(host), Cluster: m.pick("", "there"), Port: uint16(m.rng.IntN(2))}
	if m.rng.IntN(3) == 0 {
		b.Host, b.SRV = names.MustParse("_http._tcp."+host), true
	}
	return b
}

func (m *model) members() sources.Update {
	u := sources.Update{Key: sources.Key{Source: "dns", Kind: sources.KindBackend, Name: "db.example.com"}}
	if m.rng.IntN(4) > 0 {
		u.Value = &sources.Members{
			Outcome: sources.Outcome(m.rng.IntN(3)), Last: sources.Outcome(m.rng.IntN(3)), EverAnswered: true,
			Slices: []sources.Slice{m.slice(0)}, TTL: 7 * time.Second,
		}
	}
	return u
}

// index is a copy of every entry by class and key.
func (m *model) index() map[string]string {
	out := map[string]string{}
	v := m.publisher.View()
	v.index.each(func(e entry) { out[string(e[hClass])+string(e.key())] = string(e) })
	require.Equal(m.t, v.Entries(), len(out), "keys are unique and counted")
	return out
}

// difference lists the keys whose entries differ.
func difference(a, b map[string]string) (keys []string) {
	for key, e := range a {
		if b[key] != e {
			keys = append(keys, fmt.Sprintf("%q", key))
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, fmt.Sprintf("%q is extra", key))
		}
	}
	return keys
}

// TestFaults12EventOrder: whatever order events come in and however they are batched,
// the index is the one that the final objects give, and two orders give the same one.
func TestFaults12EventOrder(t *testing.T) {
	runs := uint64(1500)
	if testing.Short() {
		runs = 100
	}
	for seed := range runs {
		match := resolver.MatchName
		if seed%3 == 0 {
			match = resolver.MatchLabel
		}
		m := newModel(t, seed, match)
		for range 5 + m.rng.IntN(20) {
			m.resolver.Update(m.event())
			if m.rng.IntN(3) == 0 {
				m.flush()
			}
		}
		m.flush()
		grown := m.index()
		m.resolver.SetSettings(modelSettings(match))
		m.flush()
		require.Empty(t, difference(m.index(), grown), "seed %d", seed)
	}
}

// TestFaults12Replicas: two servers that see the events of each key in order, but the
// keys in different orders, end in the same answers (C97).
func TestFaults12Replicas(t *testing.T) {
	for seed := range uint64(300) {
		a, b := newModel(t, seed, resolver.MatchName), newModel(t, seed, resolver.MatchName)
		b.publisher.seed = a.publisher.seed
		b.resolver.SetSettings(modelSettings(resolver.MatchName)) // rebuild with the seed
		last := map[sources.Key]sources.Update{}
		for range 20 {
			u := a.event()
			last[u.Key] = u
			a.resolver.Update(u)
		}
		for _, u := range last { // map order: another one
			b.resolver.Update(u)
			b.flush()
		}
		a.flush()
		b.flush()
		require.Empty(t, difference(a.index(), b.index()), "seed %d", seed)
	}
}

// numbered is the n-th of a long row of addresses.
func (m *model) numbered(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
}
