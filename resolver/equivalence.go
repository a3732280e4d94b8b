package resolver

import (
	"cmp"
	"slices"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// Service equivalence (second seed): services of several clusters that are one. With
// MatchName the members of a group are equivalent; with MatchLabel those that name the
// group in their label are, whatever they are called themselves.

// Equivalent are the services that the aggregate name of g stands for.
func (s *Snapshot) Equivalent(g *Group) []Member {
	if s.Settings.Equivalence.Match == MatchLabel {
		return g.Labelled
	}
	return g.Members
}

// Excluded says that the configuration keeps a service name out of the aggregate.
func (s *Settings) Excluded(name ServiceName) bool {
	return len(s.Equivalence.Exclude) > 0 && matchAny(s.Equivalence.Exclude, name.String())
}

// labelled is the group that an equivalence label's value, <service>.<namespace>, names.
func labelled(value string) (ServiceName, bool) {
	service, namespace, ok := strings.Cut(names.Lower(value), ".")
	if !ok || !names.IsHostLabel(service) || !names.IsHostLabel(namespace) {
		return ServiceName{}, false
	}
	return ServiceName{Namespace: namespace, Name: service}, true
}

// applyService puts one cluster's service, nil when it is gone, into its groups.
func (o *owner) applyService(txn *iradix.Txn[*Group], key sources.Key, service *sources.Service, t *touched) {
	cluster, ok := o.index[key.Source]
	if !ok {
		return // a cluster that the settings no longer have
	}
	m := Member{Cluster: cluster, ServiceName: ServiceName{key.Namespace, key.Name}, Service: service}
	old := replaceMember(txn, m)
	t.services[m.ServiceName] = struct{}{}
	o.docs.touchService(m.ServiceName, t)
	o.count(cluster, m.ServiceName, old, service)
	o.applyLabel(txn, m, old, t)
}

// applyLabel keeps the groups that the old and the new value's labels name.
func (o *owner) applyLabel(txn *iradix.Txn[*Group], m Member, old *sources.Service, t *touched) {
	if o.settings.Equivalence.Match != MatchLabel {
		return
	}
	var was, is ServiceName
	var had, has bool
	if old != nil {
		was, had = labelled(old.EquivalentTo)
	}
	if m.Service != nil {
		is, has = labelled(m.Service.EquivalentTo)
	}
	if had && (!has || was != is) {
		gone := m
		gone.Service = nil
		replaceLabelled(txn, was, gone)
		t.services[was] = struct{}{}
		o.docs.touchService(was, t)
	}
	if has {
		replaceLabelled(txn, is, m)
		t.services[is] = struct{}{}
		o.docs.touchService(is, t)
	}
}

// replaceMember stores m in its own group and returns the service that was there.
func replaceMember(txn *iradix.Txn[*Group], m Member) (old *sources.Service) {
	g := groupOf(txn, m.ServiceName)
	m.ServiceName = g.ServiceName // one copy of the strings for all clusters
	g.Members, old = replaced(g.Members, m)
	store(txn, g)
	return old
}

func replaceLabelled(txn *iradix.Txn[*Group], name ServiceName, m Member) {
	g := groupOf(txn, name)
	g.Labelled, _ = replaced(g.Labelled, m)
	store(txn, g)
}

// groupOf is a copy of the group, or a new one, to change and store.
func groupOf(txn *iradix.Txn[*Group], name ServiceName) *Group {
	if g, ok := txn.Get(name.key()); ok {
		next := *g
		return &next
	}
	return &Group{ServiceName: name}
}

func store(txn *iradix.Txn[*Group], g *Group) {
	if len(g.Members) == 0 && len(g.Labelled) == 0 {
		txn.Delete(g.key())
		return
	}
	txn.Insert(g.key(), g)
}

// replaced is members with m in its place; a nil Service takes it out. members itself is
// not changed.
func replaced(members []Member, m Member) (next []Member, old *sources.Service) {
	i, found := slices.BinarySearchFunc(members, m, compareMembers)
	if found {
		old = members[i].Service
	}
	switch {
	case m.Service == nil && !found:
		return members, nil
	case m.Service == nil:
		return slices.Concat(members[:i], members[i+1:]), old
	case found:
		next = slices.Clone(members)
		next[i] = m
		return next, old
	}
	next = make([]Member, 0, len(members)+1)
	next = append(next, members[:i]...)
	next = append(next, m)
	return append(next, members[i:]...), nil
}

func compareMembers(a, b Member) int {
	return cmp.Or(
		cmp.Compare(a.Cluster, b.Cluster),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name))
}

// regroup builds the groups anew under the current cluster numbers; old are the clusters
// that the present groups count by.
func (o *owner) regroup(old []ClusterState) {
	previous := o.groups
	txn := iradix.New[*Group]().Txn()
	for i := range o.clusters {
		o.clusters[i].Live.reset()
	}
	it := previous.Root().Iterator()
	for _, g, ok := it.Next(); ok; _, g, ok = it.Next() {
		for _, m := range g.Members {
			o.applyService(txn, sources.Key{
				Source: old[m.Cluster].Name, Kind: sources.KindService, Namespace: m.Namespace, Name: m.Name,
			}, m.Service, &o.touched)
		}
	}
	o.groups = txn.Commit()
}
