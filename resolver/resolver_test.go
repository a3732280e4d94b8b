package resolver

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// rig is a resolver on a clock of the test's own.
type rig struct {
	t   *testing.T
	r   *Resolver
	now time.Time
	got []Changes
}

// Publish implements Publisher.
func (g *rig) Publish(_ *Snapshot, c Changes) { g.got = append(g.got, c) }

func newRig(t *testing.T, s *Settings) *rig {
	g := &rig{t: t, now: time.Now()}
	g.r = New(Config{Settings: s, Publisher: g, Now: func() time.Time { return g.now }})
	return g
}

// step applies what has been pushed, as the owner goroutine would.
func (g *rig) step() *Snapshot {
	g.r.owner.apply(g.r.in.take())
	return g.r.Snapshot()
}

// pass moves the clock and has the owner look at it.
func (g *rig) pass(d time.Duration) *Snapshot {
	g.now = g.now.Add(d)
	g.r.owner.age()
	return g.r.Snapshot()
}

func threeClusters() *Settings {
	return &Settings{
		Site: "c1",
		Clusters: []Cluster{
			{Name: "c2", Role: Core, Reach: ReachEndpoints},
			{Name: "c1", Role: Core, Reach: ReachEndpoints},
			{Name: "c3", Role: Extension, MayServe: []string{"ext/*"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		},
		Staleness: Staleness{KeepShared: time.Minute, KeepOnly: time.Hour, Then: ThenServfail},
		Startup:   Startup{Grace: time.Minute, Then: ThenServfail},
		TTL:       5 * time.Second,
	}
}

func (g *rig) service(cluster, namespace, name string, s *sources.ServiceFields) {
	u := sources.Update{Key: sources.Key{Source: cluster, Kind: sources.KindService, Namespace: namespace, Name: name}}
	if s != nil {
		u.Value = s.Pack()
	}
	g.r.Update(u)
}

func plain(addresses ...string) *sources.ServiceFields {
	slice := &sources.SliceFields{Name: "s", Ports: []sources.Port{{Name: "http", Number: 80}}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, sources.Endpoint{Address: netip.MustParseAddr(a)})
	}
	return &sources.ServiceFields{Type: sources.ClusterIP, Ports: []sources.Port{{Name: "http", Number: 80}}, Slices: []sources.Slice{slice.Pack()}}
}

// answered are the addresses that the aggregate of a service answers with.
func answered(s *Snapshot, namespace, name string) (out []string, sel Selection) {
	g := s.Group(ServiceName{namespace, name})
	if g == nil {
		return nil, sel
	}
	s.Aggregate(g, &sel)
	for _, r := range s.Rows(&sel, nil) {
		if r.Reason.In() {
			out = append(out, r.Address.String())
		}
	}
	return out, sel
}

// TestFaults2Staleness: a failing cluster's endpoints leave names that others serve too
// after keepShared, and those that only it has after keepOnly (C104).
func TestFaults2Staleness(t *testing.T) {
	g := newRig(t, threeClusters())
	g.service("c1", "shop", "api", plain("192.0.2.1"))
	g.service("c2", "shop", "api", plain("192.0.2.2"))
	g.service("c2", "shop", "only", plain("192.0.2.3"))
	for _, c := range []string{"c1", "c2", "c3"} {
		g.r.Status(sources.Status{Source: c, Kind: "kubernetes", Synced: true})
	}
	s := g.step()
	got, _ := answered(s, "shop", "api")
	assert.Equal(t, []string{"192.0.2.1", "192.0.2.2"}, got)

	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true, Error: "connection refused"})
	s = g.step()
	assert.Equal(t, api.Stale, s.Clusters[1].State)
	got, _ = answered(s, "shop", "api")
	assert.Len(t, got, 2, "kept at first")

	s = g.pass(59 * time.Second)
	assert.Equal(t, KeptAll, s.Clusters[1].Age)
	s = g.pass(2 * time.Second)
	assert.True(t, g.got[len(g.got)-1].All, "names of the whole cluster change")
	got, _ = answered(s, "shop", "api")
	assert.Equal(t, []string{"192.0.2.1"}, got, "others serve")
	got, _ = answered(s, "shop", "only")
	assert.Equal(t, []string{"192.0.2.3"}, got, "nobody else serves")

	s = g.pass(time.Hour)
	assert.Equal(t, api.Failed, s.Clusters[1].State)
	got, sel := answered(s, "shop", "only")
	assert.Empty(t, got)
	assert.True(t, sel.Unknown && sel.Exists, "SERVFAIL, not an absence")

	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true})
	s = g.step()
	assert.Equal(t, api.Fresh, s.Clusters[1].State)
	got, _ = answered(s, "shop", "api")
	assert.Len(t, got, 2)
}

func TestStalenessDrop(t *testing.T) {
	settings := threeClusters()
	settings.Staleness.Then = ThenDrop
	g := newRig(t, settings)
	g.service("c2", "shop", "only", plain("192.0.2.3"))
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true})
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true, Error: "gone"})
	g.step()
	_, sel := answered(g.pass(2*time.Hour), "shop", "only")
	assert.False(t, sel.Unknown)
	assert.False(t, sel.Exists, "vanishes")
}

// TestFaults22Provenance: an extension cluster serves what mayServe allows, from
// addresses that cidrs allow, and nothing else.
func TestFaults22Provenance(t *testing.T) {
	g := newRig(t, threeClusters())
	g.service("c3", "shop", "api", plain("192.0.2.66"))
	g.service("c3", "ext", "tool", plain("192.0.2.7", "198.51.100.7"))
	s := g.step()
	got, sel := answered(s, "shop", "api")
	assert.Empty(t, got)
	assert.Equal(t, NotInMayServe, s.Rows(&sel, nil)[0].Reason)
	got, sel = answered(s, "ext", "tool")
	assert.Equal(t, []string{"192.0.2.7"}, got)
	assert.Equal(t, OutsideCIDRs, s.Rows(&sel, nil)[1].Reason)
	assert.Equal(t, 2, s.Sources()[2].Refused, "one by mayServe, one by cidrs")
}

// TestReadiness is DNS_RULES 16 and CASES C88–C92 over clusters.
func TestReadiness(t *testing.T) {
	state := func(states ...sources.EndpointState) *sources.ServiceFields {
		s := plain()
		slice := s.Slices[0].Fields()
		for i, st := range states {
			slice.Endpoints = append(slice.Endpoints, sources.Endpoint{
				Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), State: st,
			})
		}
		s.Slices[0] = slice.Pack()
		return s
	}
	for _, c := range []struct {
		name   string
		c1, c2 *sources.ServiceFields
		want   int
	}{
		{"ready only", state(sources.Ready, sources.NotReady), nil, 1},
		{"terminating beside ready", state(sources.Ready, sources.Serving), nil, 1},
		{"all terminating", state(sources.Serving, sources.Serving, sources.NotReady), nil, 2},
		{"terminating, another cluster is ready", state(sources.Serving, sources.Serving), plain("192.0.2.50"), 1},
		{"all terminating in all clusters", state(sources.Serving), plain(), 1},
		{"none", state(sources.NotReady), nil, 0},
	} {
		g := newRig(t, threeClusters())
		g.service("c1", "shop", "api", c.c1)
		g.service("c2", "shop", "api", c.c2)
		got, _ := answered(g.step(), "shop", "api")
		assert.Len(t, got, c.want, c.name)
	}
}

// TestC92OneAddressTwice: in if any slice says in.
func TestC92OneAddressTwice(t *testing.T) {
	for _, swap := range []bool{false, true} {
		s := plain("192.0.2.5")
		fields := sources.SliceFields{Name: "a", Endpoints: []sources.Endpoint{{Address: netip.MustParseAddr("192.0.2.5"), State: sources.NotReady}}}
		unready := fields.Pack()
		if swap {
			s.Slices = []sources.Slice{unready, s.Slices[0]}
		} else {
			s.Slices = append(s.Slices, unready)
		}
		g := newRig(t, threeClusters())
		g.service("c1", "shop", "api", s)
		got, _ := answered(g.step(), "shop", "api")
		assert.Equal(t, []string{"192.0.2.5"}, got)
	}
}

// TestC98Conflicts: reported for the service that has them, for all clusters involved,
// and gone with their cause.
func TestC98Conflicts(t *testing.T) {
	g := newRig(t, threeClusters())
	other := plain("192.0.2.2")
	other.Type, other.Ports = sources.Headless, []sources.Port{{Name: "http", Number: 8080}}
	g.service("c1", "shop", "api", plain("192.0.2.1"))
	g.service("c2", "shop", "api", other)
	g.service("c1", "shop", "cart", plain("192.0.2.3"))
	s := g.step()
	conflicts := s.Conflicts(s.Group(ServiceName{"shop", "api"}))
	assert.Equal(t, []string{
		"TypeConflict: ClusterIP in c1, headless in c2",
		`PortConflict: port "http"/TCP is 80 in c1; 8080 in c2`,
	}, conflicts)
	assert.Empty(t, s.Conflicts(s.Group(ServiceName{"shop", "cart"})))
	g.service("c2", "shop", "api", plain("192.0.2.2"))
	s = g.step()
	assert.Empty(t, s.Conflicts(s.Group(ServiceName{"shop", "api"})))
}

// TestOldestDocumentWins: of two documents with one name, whatever order they come in
// (C95).
func TestOldestDocumentWins(t *testing.T) {
	name := names.MustParse("web.mesh")
	doc := func(file string, created int64) *registry.MeshService {
		return &registry.MeshService{Name: name, Created: time.Unix(created, 0), Origin: registry.Origin{File: file},
			Backends: []registry.Backend{{Type: registry.Static, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}}
	}
	put := func(g *rig, file string, d *registry.MeshService) {
		u := sources.Update{Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Namespace: file, Name: "web.mesh"}}
		if d != nil {
			u.Value = d
		}
		g.r.Update(u)
	}
	g := newRig(t, threeClusters())
	put(g, "young", doc("young", 20))
	put(g, "old", doc("old", 10))
	m := g.step().Mesh(name)
	require.NotNil(t, m)
	assert.Equal(t, "old", m.Doc.Origin.File)
	assert.Len(t, m.Conflicts(), 1)
	put(g, "old", nil)
	assert.Equal(t, "young", g.step().Mesh(name).Doc.Origin.File)
	put(g, "young", nil)
	assert.Nil(t, g.step().Mesh(name))
}

// TestCoalesced: a burst for one key is one change, and only touched names are listed.
func TestCoalesced(t *testing.T) {
	g := newRig(t, threeClusters())
	for range 100 {
		g.service("c1", "shop", "api", plain("192.0.2.1"))
	}
	g.service("c1", "shop", "cart", plain("192.0.2.1"))
	published := len(g.got)
	g.step()
	require.Len(t, g.got, published+1)
	s := g.r.Snapshot()
	assert.ElementsMatch(t, []ServiceChange{
		{ServiceName{"shop", "api"}, s.Group(ServiceName{"shop", "api"})},
		{ServiceName{"shop", "cart"}, s.Group(ServiceName{"shop", "cart"})},
	}, g.got[published].Services)
}

// slowUpstreams counts what it is asked.
type slowUpstreams struct {
	rig   *rig
	asked chan sources.Key
}

func (u *slowUpstreams) Want([]sources.Key) {}

func (u *slowUpstreams) Resolve(_ context.Context, key sources.Key) error {
	u.asked <- key
	u.rig.r.Update(sources.Update{Key: key, Value: &sources.Members{Outcome: sources.Found, Last: sources.Found, EverAnswered: true}})
	return nil
}

// TestFetch: a first question's fan-out is published when it returns.
func TestFetch(t *testing.T) {
	g := &rig{t: t, now: time.Now()}
	up := &slowUpstreams{rig: g, asked: make(chan sources.Key, 2)}
	settings := threeClusters()
	settings.UpstreamSource = "dns"
	g.r = New(Config{Settings: settings, Publisher: g, Upstreams: up})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = g.r.Run(ctx) }()
	require.NoError(t, g.r.Fetch(ctx, []string{"a.example", "b.example"}))
	assert.Len(t, up.asked, 2)
	assert.NotNil(t, g.r.Snapshot().Members("a.example"))
	assert.NotNil(t, g.r.Snapshot().Members("b.example"))
	cancel()
	<-done
}

// TestAgesAreNotMissed: a batch that is applied just after a moment that counts does not
// hide it.
func TestAgesAreNotMissed(t *testing.T) {
	g := newRig(t, threeClusters())
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true})
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true, Error: "down"})
	g.step()
	g.pass(59 * time.Second) // before keepShared and the end of the grace, which are a minute
	assert.Equal(t, time.Second, g.r.owner.untilNextAge())
	g.now = g.now.Add(2 * time.Second)
	g.service("c1", "shop", "api", plain("192.0.2.1"))
	g.step()
	assert.Zero(t, g.r.owner.untilNextAge(), "due, whatever came in between")
	assert.Equal(t, KeptOnly, g.pass(0).Clusters[1].Age)
	assert.Equal(t, time.Hour-61*time.Second, g.r.owner.untilNextAge())
}

// TestExpiredClusterKeepsNothing: with then: drop its own zone loses its names too.
func TestExpiredClusterKeepsNothing(t *testing.T) {
	settings := threeClusters()
	settings.Staleness.Then = ThenDrop
	g := newRig(t, settings)
	g.service("c2", "shop", "only", plain("192.0.2.3"))
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true})
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true, Error: "gone"})
	s := g.step()
	m := s.Group(ServiceName{"shop", "only"}).Member(1)
	var sel Selection
	s.InCluster(m, &sel)
	assert.True(t, sel.Usable())
	s = g.pass(2 * time.Hour)
	s.InCluster(m, &sel)
	assert.False(t, sel.Exists || sel.Usable())
	assert.Equal(t, StaleExpired, s.Rows(&sel, nil)[0].Reason)
}

// TestCIDRsBoundEndpoints: the site's cluster IPs are its own zone's, whatever cidrs say.
func TestCIDRsBoundEndpoints(t *testing.T) {
	settings := threeClusters()
	settings.Clusters[1].CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	g := newRig(t, settings)
	service := plain("192.0.2.1", "198.51.100.1")
	service.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	g.service("c1", "shop", "api", service)
	s := g.step()
	var sel Selection
	s.InCluster(s.Group(ServiceName{"shop", "api"}).Member(0), &sel)
	require.Len(t, s.Rows(&sel, nil), 1)
	assert.Equal(t, Included, s.Rows(&sel, nil)[0].Reason)
	got, _ := answered(s, "shop", "api")
	assert.Equal(t, []string{"192.0.2.1"}, got)
}

// TestMayNeverContribute: a cluster that mayServe keeps out leaves nothing unknown.
func TestMayNeverContribute(t *testing.T) {
	g := newRig(t, threeClusters()) // c3, an extension, may serve ext/* only
	doc := &registry.MeshService{Name: names.MustParse("web.mesh"), Backends: []registry.Backend{
		{Type: registry.Kubernetes, Namespace: "shop", Service: "api", Cluster: "c3"},
	}}
	g.r.Update(sources.Update{Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "web.mesh"}, Value: doc})
	s := g.step()
	var sel Selection
	s.Registered(s.Mesh(doc.Name), &sel)
	assert.False(t, sel.Unknown)
	assert.False(t, s.CouldHold(2, "shop/api"))
	assert.False(t, s.CouldHoldNamespace(2, "shop"))
	assert.True(t, s.CouldHold(2, "ext/tool"))
	assert.True(t, s.CouldHoldNamespace(2, "ext"))
}

// TestThreeTypesConflict: an alias beside both other kinds is reported with them.
func TestThreeTypesConflict(t *testing.T) {
	settings := threeClusters()
	settings.Clusters[2] = Cluster{Name: "c3", Role: Core, Reach: ReachEndpoints}
	g := newRig(t, settings)
	headless, alias := plain("192.0.2.2"), plain()
	headless.Type, alias.Type = sources.Headless, sources.ExternalName
	g.service("c1", "shop", "api", plain("192.0.2.1"))
	g.service("c2", "shop", "api", headless)
	g.service("c3", "shop", "api", alias)
	s := g.step()
	assert.Equal(t, []string{
		"AliasConflict: ExternalName in c3 is left out",
		"TypeConflict: ClusterIP in c1, headless in c2",
	}, s.Conflicts(s.Group(ServiceName{"shop", "api"})))
}
