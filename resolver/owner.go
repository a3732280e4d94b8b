package resolver

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// owner holds the state that only the owner goroutine touches, current excepted.
type owner struct {
	publisher Publisher
	up        Upstreams
	log       *slog.Logger
	now       func() time.Time
	in        *inbox
	started   time.Time

	settings *Settings
	clusters []ClusterState      // ordered by name, replaced on change
	index    map[string]int      // cluster name → index
	status   map[string]*tracked // every source by its name
	docs     *documents          // registry documents and what they stand on
	groups   *groups             // the trees of the next snapshot
	mesh     *tree[*Mesh]
	members  *tree[*located]
	touched  touched
	current  atomic.Pointer[Snapshot]

	others      []SourceState // sources that are no clusters, ordered
	othersDirty bool

	staleSince map[string]time.Time // locators that fail, and when they were last confirmed

	aged      time.Time // the last look at ages
	nextAge   time.Time // the next one, unless agesMoved
	agesMoved bool
	graceOver bool
}

func newOwner(c Config, in *inbox) *owner {
	o := &owner{
		publisher: c.Publisher, up: c.Upstreams, log: c.Logger, now: c.Now, in: in,
		started: c.Now(),
		status:  map[string]*tracked{},
		docs:    newDocuments(),
		touched: newTouched(), staleSince: map[string]time.Time{},
		groups:  newGroups(),
		mesh:    newTree(meshBefore),
		members: newTree(locatedBefore),
	}
	o.useSettings(c.Settings)
	return o
}

// touched collects a batch's changes without duplicates.
type touched struct {
	all      bool
	services map[ServiceName]*Group // as they are now; nil: gone
	mesh     map[names.Name]struct{}
	members  map[string]struct{}
	clusters bool // cluster states changed: publish even if nothing else did
}

func newTouched() touched {
	return touched{
		services: map[ServiceName]*Group{},
		mesh:     map[names.Name]struct{}{},
		members:  map[string]struct{}{},
	}
}

func (t *touched) reset() {
	if max(len(t.services), len(t.mesh), len(t.members)) > smallBatch {
		*t = newTouched() // to go over a map costs what it once held
		return
	}
	t.all, t.clusters = false, false
	clear(t.services)
	clear(t.mesh)
	clear(t.members)
}

func (t *touched) changes() Changes {
	c := Changes{All: t.all}
	if t.all {
		return c
	}
	for name, g := range t.services {
		c.Services = append(c.Services, ServiceChange{name, g})
	}
	c.Mesh = keys(t.mesh)
	c.Members = keys(t.members)
	return c
}

func keys[K comparable](m map[K]struct{}) []K {
	if len(m) == 0 {
		return nil
	}
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// apply merges a batch and publishes it as one step.
func (o *owner) apply(b *batch) {
	t := &o.touched
	t.reset()
	if len(b.updates) > 0 {
		o.applyUpdates(b.updates, t)
	}
	for _, s := range b.statuses {
		o.applyStatus(s, t)
	}
	o.docs.spread(t)
	if t.all || t.clusters || len(t.services)+len(t.mesh)+len(t.members) > 0 {
		o.publish(t.changes())
	}
	for _, f := range b.calls {
		f()
	}
}

func (o *owner) applyUpdates(updates []sources.Update, t *touched) {
	now := o.now()
	for _, u := range updates {
		o.track(u.Key.Source).Live.succeeded(now)
		switch u.Key.Kind {
		case sources.KindService:
			service, _ := u.Value.(sources.Service)
			o.applyService(u.Key, service, t)
		case sources.KindBackend:
			m, _ := u.Value.(*sources.Members)
			o.applyMembers(u.Key.Name, m, t)
		case sources.KindDocument:
			doc, _ := u.Value.(*registry.MeshService)
			o.applyDocument(u.Key, doc)
		}
	}
	o.rebuildMesh(t)
}

// applyMembers takes what a locator stands for now, nil when nobody asks for it any more.
func (o *owner) applyMembers(key string, m *sources.Members, t *touched) {
	if m == nil {
		o.members.remove(&located{key: key})
	} else {
		o.members.set(&located{key, m})
		o.countMembers(key, m)
	}
	delete(o.staleSince, key)
	if m != nil && m.Stale {
		o.staleSince[key] = m.Since
		o.agesMoved = true
	}
	o.touchMembers(key, t)
}

func (o *owner) touchMembers(key string, t *touched) {
	t.members[key] = struct{}{}
	o.docs.touchBackend(key, t)
}

func (o *owner) applyDocument(key sources.Key, doc *registry.MeshService) {
	live := o.track(key.Source).Live
	if old := o.docs.byKey[key]; old != nil && len(old.Faults) == 0 {
		live.Services.Add(-1)
	}
	if doc != nil && len(doc.Faults) == 0 {
		live.Services.Add(1)
	}
	o.docs.put(key, doc)
}

// rebuildMesh takes the touched documents into the mesh tree, notes what they stand on and
// tells the upstreams which locators are wanted now.
func (o *owner) rebuildMesh(t *touched) {
	dirty, moved := o.docs.takeDirty()
	if len(dirty)+len(moved) == 0 {
		return
	}
	for name := range dirty {
		t.mesh[name] = struct{}{}
		if m := o.docs.winner(name); m != nil {
			o.mesh.set(m)
		} else {
			o.mesh.remove(&Mesh{key: name.Wire()})
		}
	}
	s := o.snapshot()
	for _, names := range []map[names.Name]struct{}{dirty, moved} {
		for name := range names {
			o.stand(s, name)
		}
	}
	for _, name := range o.docs.above(dirty) {
		o.stand(s, name) // it may be part of a circle now, or of a chain that is too long
	}
	o.want()
}

// stand notes what a name stands on, and tells once of a circle that it is in, or of a
// chain that is too long.
func (o *owner) stand(s *Snapshot, name names.Name) {
	m := s.Mesh(name)
	if m == nil {
		o.docs.stand(name, footing{})
		return
	}
	now := s.footing(m.Doc)
	if len(now.names) > 0 || now.moving {
		now.fault = s.wayFault(m)
	}
	if now.fault != "" && now.fault != o.docs.standing[name].fault {
		o.log.Warn("registered name", "name", name.Text(), "problem", now.fault)
	}
	o.docs.stand(name, now)
}

func (o *owner) want() {
	if o.up == nil || !o.docs.takeWantChanged() {
		return
	}
	o.up.Want(o.docs.wanted(o.settings.UpstreamSource))
}

// snapshot is what the owner knows now, to read until it changes something, but for the
// time and the states of sources that are no clusters.
func (o *owner) snapshot() *Snapshot {
	return &Snapshot{
		Settings: o.settings, Clusters: o.clusters, RegistrySynced: o.registrySynced(), GraceOver: o.graceOver,
		groups: o.groups, mesh: o.mesh, members: o.members,
	}
}

// publish makes the next Snapshot and hands it over.
func (o *owner) publish(c Changes) {
	s := o.snapshot()
	s.groups, s.mesh, s.members = o.groups.snapshot(), o.mesh.snapshot(), o.members.snapshot()
	s.Taken, s.others = o.now(), o.otherSources()
	o.publisher.Publish(s, c)
	o.current.Store(s)
}

func (o *owner) setSettings(s *Settings) {
	o.useSettings(s)
	for _, tr := range o.status { // other limits, other states
		o.refreshState(tr, &o.touched)
	}
	o.publish(Changes{All: true})
}

// useSettings takes up settings; members of clusters that stay keep their services under
// the new cluster numbers, those of clusters that left are dropped.
func (o *owner) useSettings(s *Settings) {
	old := o.clusters
	o.settings, o.agesMoved = s, true
	o.clusters, o.index = nil, map[string]int{}
	for _, c := range sortedClusters(s.Clusters) {
		o.index[c.Name] = len(o.clusters)
		o.clusters = append(o.clusters, o.clusterState(c))
	}
	o.regroup(old)
	o.docs.markAll()
	o.touched.reset()
	o.rebuildMesh(&o.touched)
}

// withdraw takes back all that a source said and forgets the source. What only it could
// know is unknown from then on, not absent, for as long as the settings name it.
func (o *owner) withdraw(source string, t *touched) {
	if cluster, ok := o.index[source]; ok {
		o.withdrawServices(source, cluster, t)
	}
	for key := range o.docs.byKey {
		if key.Source == source {
			o.docs.put(key, nil)
		}
	}
	o.rebuildMesh(t)
	delete(o.status, source)
	o.othersDirty, t.clusters = true, true
	if i, ok := o.index[source]; ok {
		o.clusters = slices.Clone(o.clusters)
		o.clusters[i] = o.clusterState(o.clusters[i].Cluster)
	}
}

func (o *owner) withdrawServices(source string, cluster int, t *touched) {
	o.groups.snapshot().each(func(g *Group) bool {
		if g.Member(cluster) != nil {
			key := sources.Key{Source: source, Kind: sources.KindService, Namespace: g.Namespace, Name: g.Name}
			o.applyService(key, "", t)
		}
		return true
	})
}
