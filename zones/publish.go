package zones

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
)

// Config is what a Publisher is made of.
type Config struct {
	Naming *Naming
	Now    func() time.Time // nil: time.Now
	// Serials are the last serials of an earlier run by zone, where they are known:
	// a serial never goes back (RFC 1982). Without them the Unix time is the floor.
	Serials map[names.Name]uint32
}

// Publisher packs what the resolver publishes into Views. It implements
// resolver.Publisher; View and SetNaming are safe for concurrent use.
type Publisher struct {
	view   atomic.Pointer[View]
	naming atomic.Pointer[Naming]
	now    func() time.Time

	mu         sync.Mutex // of publishing: never taken by a query
	used       *Naming    // that the current view was made with
	packer     *packer
	sel        resolver.Selection
	own        resolver.Selection
	store      *store
	editAt     map[editKey]int // of mesh and reverse entries in the store's edits
	keyBuf     []byte
	namespaces map[string]*scopes
	dirty      map[string]struct{} // namespaces to write again
	inner      map[string]int      // names that stand below a name, by key of the mesh class
	reverse    *reverseNames
	serials    *serials
	start      time.Time
	asked      askedTargets
	largeFrom  int          // of tests; 0: largeService
	seed       maphash.Seed // of the index and of the hosts in entries: one for life
}

// New makes a Publisher. It has a View after the first Publish.
func New(c Config) *Publisher {
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Publisher{now: c.Now, start: c.Now(), seed: maphash.MakeSeed(), editAt: map[editKey]int{}, serials: newSerials(c.Now, c.Serials)}
	p.naming.Store(c.Naming)
	return p
}

// View is the current one; nil before the first Publish.
func (p *Publisher) View() *View { return p.view.Load() }

// SetNaming takes effect with the next Publish of everything: set it before the
// resolver's settings, and both change as one step.
func (p *Publisher) SetNaming(n *Naming) { p.naming.Store(n) }

// Publish implements resolver.Publisher.
func (p *Publisher) Publish(s *resolver.Snapshot, c resolver.Changes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	naming := p.naming.Load()
	if c.All || naming != p.used {
		p.rebuild(s, naming)
		return
	}
	p.update(s, c)
}

// rebuild makes a View from nothing.
func (p *Publisher) rebuild(s *resolver.Snapshot, naming *Naming) {
	clusters := make([]string, len(s.Clusters))
	for i := range s.Clusters {
		clusters[i] = s.Clusters[i].Name
	}
	p.store = newStore(p.seed)
	v := &View{index: p.store.commit(), zones: newZoneSet(naming, clusters), snapshot: s, start: p.start, asked: &p.asked}
	v.takeStates(s)
	p.used = naming
	p.packer = newPacker(p.seed, p.start)
	if p.largeFrom > 0 {
		p.packer.large.from = p.largeFrom
	}
	p.namespaces, p.dirty, p.inner = map[string]*scopes{}, map[string]struct{}{}, map[string]int{}
	p.reverse = newReverseNames(len(naming.Reverse) > 0)
	v.serials = p.serials.rebuild(v.zones)

	s.EachGroup(func(g *resolver.Group) bool {
		p.service(v, g.ServiceName, g)
		return true
	})
	s.EachMesh("", func(m *resolver.Mesh) bool {
		p.registered(v, m.Doc.Name)
		return true
	})
	s.EachMembers(func(key string) { p.target(v, key) })
	p.commit(v)
}

// update makes the next View from the current one and the changes.
func (p *Publisher) update(s *resolver.Snapshot, c resolver.Changes) {
	old := p.view.Load()
	next := *old
	v := &next
	v.snapshot = s
	if !sameStates(old.snapshot, s) {
		v.takeStates(s)
	}
	for _, s := range c.Services {
		p.service(v, s.ServiceName, s.Group)
	}
	for _, name := range c.Mesh {
		p.registered(v, name)
	}
	for _, key := range c.Members {
		p.target(v, key)
	}
	p.commit(v)
}

// sameStates says whether the sources' states are untouched: the resolver replaces the
// slice when one changes.
func sameStates(a, b *resolver.Snapshot) bool {
	return a.RegistrySynced == b.RegistrySynced && a.GraceOver == b.GraceOver &&
		len(a.Clusters) == len(b.Clusters) && (len(a.Clusters) == 0 || &a.Clusters[0] == &b.Clusters[0])
}

// commit applies the collected edits and publishes v.
func (p *Publisher) commit(v *View) {
	p.writeNamespaces(v)
	p.reverse.write(p, v)
	if p.store.pending() {
		v.index = p.store.commit()
		p.editAt = emptied(p.editAt)
	}
	v.serials = p.serials.bump(v.serials, p.later)
	p.view.Store(v)
}

// later gives zones that changed twice within a second their next serial.
func (p *Publisher) later() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serials.timer = false
	v := *p.view.Load()
	v.serials = p.serials.bump(v.serials, p.later)
	p.view.Store(&v)
}

// replace notes the new value of an entry, nil for none, unless it is the present one,
// which it returns with whether anything changes. Entries of services and namespaces are
// replaced once in a Publish; others may be replaced again, as their counts move.
func (p *Publisher) replace(v *View, class byte, key []byte, e entry) (old entry, changed bool) {
	again := class == classMesh || class == classReverse
	hash := v.index.hash(class, key)
	e.stamp(hash)
	if n, ok := p.editAt[editKey{class, string(key)}]; again && ok {
		old = p.store.noted(n)
		if changed = !bytes.Equal(old, e); changed {
			p.store.again(n, e)
		}
		return old, changed
	}
	old, at := v.index.find(hash, class, key)
	if bytes.Equal(old, e) {
		return old, false
	}
	n := p.store.replace(hash, at, e)
	if again {
		p.editAt[editKey{class, string(key)}] = n
	}
	return old, true
}

type editKey struct {
	class byte
	key   string
}

// service packs one service name again; g is nil when it is gone.
func (p *Publisher) service(v *View, name resolver.ServiceName, g *resolver.Group) {
	key, ok := p.serviceKey(name)
	if !ok {
		return // no DNS name: Kubernetes itself refuses such
	}
	var e entry
	if g != nil {
		e = p.packService(v, g, key)
	}
	p.reverse.service(p, v, name, g)
	old, changed := p.replace(v, classService, key, e)
	if !changed {
		return
	}
	if !sameScopes(old, e) {
		p.countScopes(name.Namespace, old, -1)
		p.countScopes(name.Namespace, e, +1)
	}
	p.serials.serviceChanged(v.zones, old, e)
}

// serviceKey is the service's and the namespace's label.
func (p *Publisher) serviceKey(name resolver.ServiceName) ([]byte, bool) {
	if n := len(name.Name); n == 0 || n > names.MaxLabel {
		return nil, false
	}
	if n := len(name.Namespace); n == 0 || n > names.MaxLabel {
		return nil, false
	}
	p.keyBuf = append(p.keyBuf[:0], byte(len(name.Name)))
	p.keyBuf = append(p.keyBuf, name.Name...)
	p.keyBuf = append(p.keyBuf, byte(len(name.Namespace)))
	p.keyBuf = append(p.keyBuf, name.Namespace...)
	return p.keyBuf, true
}

// packService packs the aggregate and each cluster's own service; nil when nothing of
// it exists.
func (p *Publisher) packService(v *View, g *resolver.Group, key []byte) entry {
	p.packer.beginLarge(key, g.Endpoints())
	defer p.packer.endLarge(key)
	e := p.packAll(v, g, key)
	if p.packer.large.failed {
		p.packer.large.on = false
		e = p.packAll(v, g, key)
	}
	return e
}

func (p *Publisher) packAll(v *View, g *resolver.Group, key []byte) entry {
	pk := p.packer
	pk.begin(classService, key, len(key)+len(labelSvc)+v.zones.longest)
	pk.setTTL(v.snapshot.Settings.TTL, time.Time{})
	if v.zones.global != nil {
		v.snapshot.Aggregate(g, &p.sel)
		p.addAggregate(v, &p.sel)
	}
	for _, m := range g.Members {
		if v.zones.ofCluster[m.Cluster] != nil {
			named := resolver.Named{ServiceName: g.ServiceName, Member: m}
			v.snapshot.InCluster(&named, &p.own)
			p.addOwn(v, m.Cluster)
		}
	}
	if pk.used == 0 && pk.flags == 0 {
		return nil
	}
	return pk.finish()
}

// addAggregate adds what a selection of several sites answers with.
func (p *Publisher) addAggregate(v *View, sel *resolver.Selection) {
	pk := p.packer
	for i := range sel.Parts {
		from := &sel.Parts[i]
		if from.Refused == resolver.StaleOthersServe {
			p.addLingering(v, from)
		}
		if !from.Refused.In() {
			continue
		}
		b := pk.part(clusterNumber(from.Cluster), v.siteLabels(from), shared)
		if pk.addPart(b, from) {
			b.flags |= pfAggregate
		}
	}
	if !sel.Exists {
		pk.dropUnused()
		return
	}
	pk.flags |= fExists
	pk.flags |= unknownFlags(sel)
	for _, d := range sel.Declared {
		b := pk.part(clusterNumber(d.Cluster), v.siteOf(d.Cluster), shared)
		b.flags |= pfAggregate
		b.portIndex(names.Lower(d.Name), d.Protocol)
	}
	pk.dropUnused()
}

// addLingering keeps the names of hosts whose endpoints left the aggregate for those of
// others: host.cid is a name that only their cluster has, so it goes by keepOnly.
func (p *Publisher) addLingering(v *View, from *resolver.Part) {
	kept := *from
	kept.Refused = resolver.Included
	b := p.packer.part(clusterNumber(from.Cluster), v.siteLabels(from), lingering)
	if p.packer.addPart(b, &kept) {
		b.flags |= pfLingering
	}
}

// dropUnused takes out parts that nothing was added to; the others keep their order.
func (p *packer) dropUnused() {
	for i := p.used - 1; i >= 0; i-- {
		if p.parts[i].flags == 0 {
			unused := p.parts[i]
			copy(p.parts[i:p.used], p.parts[i+1:p.used])
			p.used--
			p.parts[p.used] = unused
		}
	}
}

// unknownFlags say what is not known of a selection's name.
func unknownFlags(sel *resolver.Selection) (flags byte) {
	if sel.Unknown {
		flags |= fUnknown
	}
	if sel.Partial {
		flags |= fPartial
	}
	if sel.NotReady {
		flags |= fNotReady
	}
	return flags
}

func clusterNumber(cluster int) uint16 {
	if cluster == resolver.NoCluster {
		return noCluster
	}
	return uint16(cluster)
}

// siteOf is the wire form of a cluster's name.
func (v *View) siteOf(cluster int) string {
	if cluster == resolver.NoCluster {
		return ""
	}
	return v.zones.sites[cluster]
}

// siteLabels is the wire form of a part's site.
func (v *View) siteLabels(from *resolver.Part) string {
	if from.Cluster != resolver.NoCluster {
		return v.zones.sites[from.Cluster]
	}
	site, err := names.Parse(from.Site)
	if err != nil {
		return ""
	}
	wire := site.Wire()
	return wire[:len(wire)-1]
}

// addOwn adds a cluster's service as it stands in that cluster's own zone. Where that is
// the very set that the cluster has in the aggregate, both share one part.
func (p *Publisher) addOwn(v *View, cluster int) {
	pk, sel := p.packer, &p.own
	number, site := uint16(cluster), v.zones.sites[cluster]
	switch {
	case !sel.Alias.IsZero():
		b := pk.part(number, site, virtual)
		b.flags |= pfOwn
		b.alias = v.aliasTarget(cluster, sel.Alias).Wire()
		return
	case len(sel.Parts) > 0 && sel.Parts[0].Virtual:
		b := pk.part(number, site, virtual)
		b.flags |= pfOwn
		pk.addPart(b, &sel.Parts[0])
		b.declare(sel.Declared)
		return
	}
	b := p.sharedPart(cluster, site)
	if b == nil {
		b = pk.part(number, site, ownOnly)
		any := false
		for i := range sel.Parts {
			any = pk.addPart(b, &sel.Parts[i]) || any
		}
		if !any && !sel.Exists {
			pk.dropUnused()
			return
		}
	}
	b.flags |= pfOwn
	b.declare(sel.Declared)
}

func (b *partBuilder) declare(ports []resolver.Declared) {
	for _, d := range ports {
		b.portIndex(names.Lower(d.Name), d.Protocol)
	}
}

// sharedPart is the aggregate's part of a cluster if it was made from the same slices
// under the same verdicts, else nil.
func (p *Publisher) sharedPart(cluster int, site string) *partBuilder {
	pk := p.packer
	i := slices.IndexFunc(pk.parts[:pk.used], func(b partBuilder) bool {
		return b.kind == shared && b.cluster == uint16(cluster) && b.site == site
	})
	if i < 0 || pk.parts[i].flags&pfAggregate == 0 {
		return nil
	}
	n := 0
	for j := range p.sel.Parts {
		from := &p.sel.Parts[j]
		if from.Cluster != cluster {
			continue
		}
		if n >= len(p.own.Parts) || !from.SameAs(&p.own.Parts[n]) {
			return nil
		}
		n++
	}
	if n != len(p.own.Parts) {
		return nil
	}
	return &pk.parts[i]
}

// aliasTarget is an ExternalName's target: one inside of the cluster's own domain is the
// same name in the cluster's zone here (C62).
func (v *View) aliasTarget(cluster int, target names.Name) names.Name {
	var zone names.Name
	if z := v.zones.ofCluster[cluster]; z != nil {
		zone = z.Name
	}
	return v.snapshot.AliasTarget(cluster, target, zone)
}

// emptied is a map without its entries, for the next round: a new one where it was large,
// since to go over a map and to clear it cost what it once held.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 64 {
		return make(map[K]V)
	}
	clear(m)
	return m
}
