package resolver

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

func zonedSettings() *Settings {
	s := threeClusters()
	s.Mesh, s.Global = names.MustParse("mesh"), names.MustParse("cluster.global")
	s.RegistrySources, s.UpstreamSource = []string{"registryDir"}, "dns"
	for i := range s.Clusters {
		s.Clusters[i].Zone = names.MustParse("cluster." + s.Clusters[i].Name)
	}
	return s
}

// document registers a name with DNS backends; nil hosts take it away.
func (g *rig) document(name string, hosts ...string) {
	u := sources.Update{Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Namespace: "f.yaml", Name: name}}
	if len(hosts) > 0 {
		doc := &registry.MeshService{Name: names.MustParse(name), Origin: registry.Origin{File: "f.yaml", Line: 1}}
		for _, host := range hosts {
			doc.Backends = append(doc.Backends, registry.Backend{Type: registry.DNS, Locator: host, Host: names.MustParse(host)})
		}
		u.Value = doc
	}
	g.r.Update(u)
}

func (g *rig) members(key string, addresses ...string) {
	m := &sources.Members{Outcome: sources.Found, Last: sources.Found, EverAnswered: true}
	m.Slices = plain(addresses...).Slices
	g.r.Update(sources.Update{Key: sources.Key{Source: "dns", Kind: sources.KindBackend, Name: key}, Value: m})
}

// registeredAs are the addresses that a registered name answers with.
func registeredAs(s *Snapshot, name string) (out []string, sel Selection) {
	m := s.Mesh(names.MustParse(name))
	s.Registered(m, &sel)
	for _, r := range s.Rows(&sel, m.Doc) {
		if r.Reason.In() {
			out = append(out, r.Address.String())
		}
	}
	slices.Sort(out)
	return out, sel
}

func touchedNames(c Changes) []string {
	var out []string
	for _, name := range c.Mesh {
		out = append(out, name.Text())
	}
	slices.Sort(out)
	return out
}

// A change of an inner name touches those that stand on it, and no other.
func TestInnerChangesTouchWhatStandsOnThem(t *testing.T) {
	g := newRig(t, zonedSettings())
	for i := range 1000 {
		g.document(fmt.Sprintf("other%d.mesh", i), fmt.Sprintf("leaf%d.mesh", i))
	}
	g.document("a.mesh", "b.mesh")
	g.document("b.mesh", "192-0-2-1.c1.c.mesh", "api.shop.svc.cluster.c1")
	g.document("c.mesh", "db.example")
	g.step()
	last := func() []string { return touchedNames(g.got[len(g.got)-1]) }

	g.members("db.example", "192.0.2.1")
	s := g.step()
	assert.Equal(t, []string{"a.mesh", "b.mesh", "c.mesh"}, last())
	got, _ := registeredAs(s, "a.mesh")
	assert.Equal(t, []string{"192.0.2.1"}, got)
	g.service("c1", "shop", "api", plain("192.0.2.2"))
	g.step()
	assert.Equal(t, []string{"a.mesh", "b.mesh"}, last())
	g.document("leaf7.mesh", "x.example")
	g.step()
	assert.Equal(t, []string{"leaf7.mesh", "other7.mesh"}, last())

	// A service that becomes an alias is stood on no more alone: what it leads to is.
	g.service("c1", "shop", "api", &sources.ServiceFields{Type: sources.ExternalName, ExternalName: "far.example"})
	s = g.step()
	_, sel := registeredAs(s, "a.mesh")
	assert.True(t, sel.Wait && sel.Partial)
	assert.Equal(t, []string{"far.example"}, s.Unasked(names.MustParse("a.mesh")))
	g.members("far.example", "192.0.2.3")
	s = g.step()
	assert.Equal(t, []string{"a.mesh", "b.mesh"}, last())
	got, _ = registeredAs(s, "a.mesh")
	assert.Equal(t, []string{"192.0.2.1", "192.0.2.3"}, got)
	g.service("c1", "shop", "api", nil)
	g.step()
	g.members("far.example", "192.0.2.4")
	g.step()
	assert.Empty(t, last(), "nobody stands on it any more")
	g.document("a.mesh")
	g.members("db.example", "192.0.2.1")
	g.step()
	assert.Equal(t, []string{"a.mesh", "b.mesh", "c.mesh"}, last())
	g.members("db.example", "192.0.2.9")
	g.step()
	assert.Equal(t, []string{"b.mesh", "c.mesh"}, last())
}

// An inner name that a silent source could hold is unknown, not absent.
func TestInnerUnknown(t *testing.T) {
	g := newRig(t, zonedSettings())
	g.document("reg.mesh", "absent.mesh")
	g.document("global.mesh", "api.shop.svc.cluster.global")
	g.document("ext.mesh", "api.ext.svc.cluster.global")
	g.document("own.mesh", "api.shop.svc.cluster.c2")
	unknown := func(s *Snapshot) (out []string) {
		for _, name := range []string{"ext.mesh", "global.mesh", "own.mesh", "reg.mesh"} {
			if _, sel := registeredAs(s, name); sel.Unknown {
				out = append(out, name)
				assert.True(t, sel.NotReady, name)
			}
		}
		return out
	}
	assert.Equal(t, []string{"ext.mesh", "global.mesh", "own.mesh", "reg.mesh"}, unknown(g.step()))
	g.r.Status(sources.Status{Source: "registryDir", Kind: "files", Synced: true})
	s := g.step()
	assert.Equal(t, []string{"ext.mesh", "global.mesh", "own.mesh"}, unknown(s))
	assert.Contains(t, touchedNames(g.got[len(g.got)-1]), "reg.mesh")
	g.r.Status(sources.Status{Source: "c1", Kind: "kubernetes", Synced: true})
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true})
	s = g.step()
	assert.Equal(t, []string{"ext.mesh"}, unknown(s), "c3 could hold nothing of shop")
	assert.Equal(t, []string{"ext.mesh", "global.mesh", "own.mesh"}, touchedNames(g.got[len(g.got)-1]))
	g.r.Status(sources.Status{Source: "c3", Kind: "kubernetes", Synced: true})
	assert.Empty(t, unknown(g.step()))

	// Past keepOnly what a cluster alone had is unknown.
	g.service("c2", "shop", "api", plain("192.0.2.2"))
	g.r.Status(sources.Status{Source: "c2", Kind: "kubernetes", Synced: true, Error: "gone"})
	got, _ := registeredAs(g.step(), "own.mesh")
	assert.Equal(t, []string{"192.0.2.2"}, got)
	s = g.pass(2 * time.Hour)
	for _, name := range []string{"own.mesh", "global.mesh"} {
		got, sel := registeredAs(s, name)
		assert.Empty(t, got)
		assert.True(t, sel.Unknown, name)
	}
}

// CASES C20: circles add nothing, end at once, and take nothing else away.
func TestInnerCircles(t *testing.T) {
	g := newRig(t, zonedSettings())
	g.r.Status(sources.Status{Source: "registryDir", Kind: "files", Synced: true})
	g.document("self.mesh", "x.c1.self.mesh")
	g.document("x.mesh", "y.mesh")
	g.document("y.mesh", "x.mesh", "db.example")
	g.document("z.mesh", "x.mesh")
	// Each name of a level leads to all of the next: no more work than there are names.
	const levels, width = 8, 12
	for level := range levels {
		var next []string
		for i := range width {
			next = append(next, fmt.Sprintf("n%d-%d.mesh", level+1, i))
		}
		for i := range width {
			g.document(fmt.Sprintf("n%d-%d.mesh", level, i), next...)
		}
	}
	for i := range width {
		g.document(fmt.Sprintf("n%d-%d.mesh", levels, i), "db.example")
	}
	g.members("db.example", "192.0.2.1")
	s := g.step()
	for name, want := range map[string]struct {
		addresses []string
		unknown   bool
		circle    string
	}{
		"self.mesh": {nil, true, "self.mesh > self.mesh"},
		"x.mesh":    {[]string{"192.0.2.1"}, false, "x.mesh > y.mesh > x.mesh"},
		"y.mesh":    {[]string{"192.0.2.1"}, false, "y.mesh > x.mesh > y.mesh"},
		"z.mesh":    {[]string{"192.0.2.1"}, false, ""},
		"n0-0.mesh": {[]string{"192.0.2.1"}, false, ""},
	} {
		got, sel := registeredAs(s, name)
		assert.Equal(t, want.addresses, got, name)
		assert.Equal(t, want.unknown, sel.Unknown, name)
		assert.Equal(t, want.circle, circleText(s.circle(s.Mesh(names.MustParse(name)))), name)
		if name[0] != 'n' {
			assert.True(t, sel.Partial, name)
		}
	}
}

// What upstreams last said of a locator holds while they fail, be it that there is nothing.
func TestLastNegativeAnswer(t *testing.T) {
	g := newRig(t, zonedSettings())
	g.document("a.mesh", "db.example")
	stale := func(last sources.Outcome) *Snapshot {
		g.r.Update(sources.Update{Key: sources.Key{Source: "dns", Kind: sources.KindBackend, Name: "db.example"}, Value: &sources.Members{
			Outcome: sources.Failed, Last: last, EverAnswered: true, Stale: last != sources.Failed, Since: g.now, Error: "timeout"}})
		return g.step()
	}
	for last, want := range map[sources.Outcome]struct{ unknown, noName bool }{
		sources.Failed: {true, false}, sources.Found: {false, false}, sources.NoName: {false, true},
	} {
		s := stale(last)
		var sel Selection
		assert.True(t, s.Target("db.example", &sel))
		assert.Equal(t, want.unknown, sel.Unknown)
		assert.Equal(t, want.noName, sel.NoName)
		_, sel = registeredAs(s, "a.mesh")
		assert.Equal(t, want.unknown, sel.Unknown)
		assert.Equal(t, !want.unknown, sel.Stale)
	}
	stale(sources.NoName)
	s := g.pass(time.Hour)
	_, sel := registeredAs(s, "a.mesh")
	assert.True(t, sel.Unknown, "past keepOnly")
	assert.True(t, s.Target("db.example", &sel) && sel.Unknown)
}

// What is wrong with a name's way is said once, whichever document closes it.
func TestInnerFaultsAreSaidInAnyOrder(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		g := newRig(t, zonedSettings())
		var log bytes.Buffer
		g.r.owner.log = slog.New(slog.NewTextHandler(&log, nil))
		chain := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		if backwards {
			slices.Reverse(chain)
		}
		for _, i := range chain {
			g.document(fmt.Sprintf("s%d.mesh", i), fmt.Sprintf("s%d.mesh", i+1))
			g.step()
		}
		g.document("around.mesh", "round.mesh")
		g.step()
		g.document("round.mesh", "around.mesh")
		g.step()
		for name, times := range map[string]int{"s0": 1, "s1": 1, "s2": 0, "s10": 0, "round": 1, "around": 1} {
			assert.Equal(t, times, strings.Count(log.String(), "name="+name+".mesh problem="), "%s, backwards %v: %s", name, backwards, log.String())
		}
	}
}
