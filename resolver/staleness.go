package resolver

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/sources"
)

// Age is how far a failing source's data have aged (FAULTS 1, 2).
type Age uint8

const (
	// Current data: the source is fine, or failing for less than a moment that matters.
	Current Age = iota
	// KeptAll: the source fails; all it said last is still served, marked stale.
	KeptAll
	// KeptOnly: past KeepShared; only names that nobody else serves keep its data.
	KeptOnly
	// Expired: past KeepOnly; nothing of it is served.
	Expired
)

// ClusterState is a cluster of the settings and how its source is doing.
type ClusterState struct {
	Cluster
	SourceState
	Age       Age
	Staleness Staleness // the cluster's own, else the global one
}

// Live are a source's numbers, which move without a new Snapshot. They are written by
// the owner only and may be read at any time.
type Live struct {
	Services    atomic.Int64
	Endpoints   [3]atomic.Int64 // by sources.EndpointState, before role, mayServe and cidrs
	Refused     atomic.Int64    // endpoints that mayServe or cidrs keep out
	lastSuccess atomic.Int64    // Unix nanoseconds; 0: never
}

// LastSuccess is when the source last proved to be in touch with its backend; zero for
// never.
func (l *Live) LastSuccess() time.Time {
	if ns := l.lastSuccess.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

func (l *Live) succeeded(at time.Time) {
	if !at.IsZero() && at.UnixNano() > l.lastSuccess.Load() {
		l.lastSuccess.Store(at.UnixNano())
	}
}

// SourceState is a source's latest Status and since when it is in its state.
type SourceState struct {
	sources.Status
	State api.SourceState
	Since time.Time
	Live  *Live
}

// tracked is what the owner remembers of a source. failing is when its present trouble
// began, zero without trouble.
type tracked struct {
	SourceState
	failing time.Time
}

// applyStatus takes a source's word on itself.
func (o *owner) applyStatus(s sources.Status, t *touched) {
	if s.Kind == "" {
		o.withdraw(s.Source, t)
		return
	}
	tr := o.track(s.Source)
	tr.Live.succeeded(s.LastSuccess)
	o.agesMoved = true
	s.Synced = s.Synced || tr.Synced
	switch {
	case s.Error == "":
		tr.failing = time.Time{}
	case tr.failing.IsZero():
		tr.failing = o.now()
	}
	wasSynced := tr.Synced
	s.LastSuccess = tr.Status.LastSuccess // Live has it: no news by itself
	if s == tr.Status {
		return
	}
	tr.Status = s
	t.clusters = true
	o.refreshState(tr, t)
	if wasSynced != tr.Synced {
		o.synced(s.Source, t)
		o.log.Info("source synced", "source", s.Source, "kind", s.Kind)
	}
}

// synced has the registered names looked at again that a source's first list may
// complete: what was unknown of them may be an absence now.
func (o *owner) synced(source string, t *touched) {
	if _, isCluster := o.index[source]; isCluster {
		for service := range o.docs.onService {
			o.docs.touchService(service, t)
		}
	}
	if slices.Contains(o.settings.RegistrySources, source) {
		o.docs.touchInner(t)
	}
}

// track is what is remembered of a source, made at its first mention.
func (o *owner) track(source string) *tracked {
	tr := o.status[source]
	if tr == nil {
		tr = &tracked{SourceState: SourceState{
			Status: sources.Status{Source: source}, State: api.Syncing, Since: o.now(), Live: &Live{},
		}}
		o.status[source] = tr
	}
	return tr
}

// refreshState brings tr's state, and its cluster's, up to date.
func (o *owner) refreshState(tr *tracked, t *touched) {
	next := o.stateOf(tr)
	if next != tr.State {
		tr.State, tr.Since = next, o.now()
		t.clusters = true
	}
	i, ok := o.index[tr.Source]
	if !ok {
		o.othersDirty = true
		return
	}
	before := o.clusters[i].Age
	c := o.clusterState(o.clusters[i].Cluster)
	o.clusters = slices.Clone(o.clusters)
	o.clusters[i] = c
	if c.Age != before && (c.Age >= KeptOnly || before >= KeptOnly) {
		t.all = true // names of the whole cluster gain or lose its endpoints
	}
}

func (o *owner) stateOf(tr *tracked) api.SourceState {
	switch {
	case !tr.Synced:
		return api.Syncing
	case tr.failing.IsZero():
		return api.Fresh
	case o.ageOf(tr, o.stalenessOf(tr.Source)) == Expired:
		return api.Failed
	}
	return api.Stale
}

func (o *owner) stalenessOf(source string) Staleness {
	for _, c := range o.settings.Clusters {
		if c.Name == source && c.Staleness != nil {
			return *c.Staleness
		}
	}
	return o.settings.Staleness
}

// ageOf is how far the data of a source have aged now. Trouble counts from when it was
// first reported; readings are monotonic, so clock jumps don't matter (FAULTS 19).
func (o *owner) ageOf(tr *tracked, st Staleness) Age {
	if tr == nil || tr.failing.IsZero() || !tr.Synced {
		return Current
	}
	switch age := o.now().Sub(tr.failing); {
	case age >= st.KeepOnly:
		return Expired
	case age >= st.KeepShared:
		return KeptOnly
	}
	return KeptAll
}

func (o *owner) clusterState(c Cluster) ClusterState {
	st := ClusterState{Cluster: c, Staleness: o.settings.Staleness}
	if c.Staleness != nil {
		st.Staleness = *c.Staleness
	}
	tr := o.track(c.Name)
	st.SourceState = tr.SourceState
	st.Age = o.ageOf(tr, st.Staleness)
	return st
}

// untilNextAge is how long the owner may wait before it looks at ages again: until the
// first moment that counts and lies after the last look.
func (o *owner) untilNextAge() time.Duration {
	if o.agesMoved {
		o.nextAge, o.agesMoved = o.findNextAge(), false
	}
	return max(0, o.nextAge.Sub(o.now()))
}

func (o *owner) findNextAge() time.Time {
	next := o.now().Add(time.Hour)
	consider := func(at time.Time) {
		if at.After(o.aged) && at.Before(next) {
			next = at
		}
	}
	if !o.graceOver {
		consider(o.started.Add(o.settings.Startup.Grace))
	}
	for _, tr := range o.status {
		if !tr.failing.IsZero() {
			st := o.stalenessOf(tr.Source)
			consider(tr.failing.Add(st.KeepShared))
			consider(tr.failing.Add(st.KeepOnly))
		}
	}
	for _, since := range o.staleSince {
		consider(since.Add(o.settings.Staleness.KeepOnly))
	}
	return next
}

// age moves sources whose time is over to their next state.
func (o *owner) age() {
	t := &o.touched
	t.reset()
	o.aged, o.agesMoved = o.now(), true
	if !o.graceOver && o.now().Sub(o.started) >= o.settings.Startup.Grace {
		o.graceOver, t.clusters = true, true
	}
	for _, tr := range o.status {
		o.refreshState(tr, t)
	}
	for key, since := range o.staleSince {
		if o.now().Sub(since) >= o.settings.Staleness.KeepOnly {
			delete(o.staleSince, key)
			o.touchMembers(key, t)
		}
	}
	o.docs.spread(t)
	if t.all || t.clusters || len(t.members) > 0 {
		o.publish(t.changes())
	}
}

func (o *owner) registrySynced() bool {
	for _, source := range o.settings.RegistrySources {
		if tr := o.status[source]; tr == nil || !tr.Synced {
			return false
		}
	}
	return true
}

// otherSources are the states of sources that are no clusters, ordered by kind and name.
func (o *owner) otherSources() []SourceState {
	if !o.othersDirty {
		return o.others
	}
	var out []SourceState
	for name, tr := range o.status {
		if _, isCluster := o.index[name]; !isCluster && tr.Kind != "" { // no Kind: no word of its own yet
			out = append(out, tr.SourceState)
		}
	}
	slices.SortFunc(out, func(a, b SourceState) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Source, b.Source))
	})
	o.others, o.othersDirty = out, false
	return out
}

// count keeps the numbers of a cluster's services and endpoints.
func (o *owner) count(cluster int, name ServiceName, old, now sources.Service) {
	c := &o.clusters[cluster]
	refused := c.Role != Federated && !c.allows(name)
	if old != "" {
		c.Live.Services.Add(-1)
	}
	if now != "" {
		c.Live.Services.Add(+1)
	}
	for before, after := old.Slices(), now.Slices(); ; { // most slices are in both
		had, has := before.Next(), after.Next()
		if !had && !has {
			return
		}
		if had && has && before.Slice == after.Slice {
			continue
		}
		if had {
			c.tally(before.Slice, refused, -1)
		}
		if has {
			c.tally(after.Slice, refused, +1)
		}
	}
}

// tally counts a slice's endpoints; refused says that mayServe keeps all of them out.
func (c *ClusterState) tally(slice sources.Slice, refused bool, by int64) {
	l := c.Live
	var states [3]int64
	for e := slice.Endpoints(); e.Next(); {
		states[e.State] += by
		if refused || len(c.CIDRs) > 0 && !within(c.CIDRs, e.Address) {
			l.Refused.Add(by)
		}
	}
	for i, n := range states {
		if n != 0 {
			l.Endpoints[i].Add(n)
		}
	}
}

// countMembers keeps the number of endpoints of a locator that has a status of its own.
func (o *owner) countMembers(key string, m *sources.Members) {
	if len(o.docs.onBackend[key]) == 0 { // an alias target: it has no status
		return
	}
	tr := o.track(o.settings.UpstreamSource + ":" + key)
	n := 0
	for _, slice := range m.Slices {
		n += slice.Len()
	}
	tr.Live.Endpoints[sources.Ready].Store(int64(n))
}

func (l *Live) reset() {
	l.Services.Store(0)
	l.Refused.Store(0)
	for i := range l.Endpoints {
		l.Endpoints[i].Store(0)
	}
}
