package resolver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// Service equivalence (second seed): services of several clusters that are one. With
// MatchName the members of a group are equivalent; with MatchLabel those that name the
// group in their label are, whatever they are called themselves.

// Equivalent appends the services that the aggregate name of g stands for to out.
func (s *Snapshot) Equivalent(g *Group, out []Named) []Named {
	if s.Settings.Equivalence.Match == MatchLabel {
		return append(out, g.Labelled...)
	}
	for _, m := range g.Members {
		out = append(out, Named{g.ServiceName, m})
	}
	return out
}

// OfSet is Equivalent without the services of federated clusters, which have no part in the
// aggregate whatever they are called.
func (s *Snapshot) OfSet(g *Group) []Named {
	return slices.DeleteFunc(s.Equivalent(g, nil), func(m Named) bool {
		return s.Clusters[m.Cluster].Role == Federated
	})
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

// applyService puts one cluster's service, "" when it is gone, into its groups.
func (o *owner) applyService(key sources.Key, service sources.Service, t *touched) {
	cluster, ok := o.index[key.Source]
	if !ok {
		return // a cluster that the settings no longer have
	}
	n := Named{ServiceName{key.Namespace, key.Name}, Member{cluster, service}}
	old := o.replaceMember(n, t)
	o.docs.touchService(n.ServiceName, t)
	o.count(cluster, n.ServiceName, old, service)
	o.applyLabel(n, old, t)
}

// applyLabel keeps the groups that the old and the new value's labels name.
func (o *owner) applyLabel(n Named, old sources.Service, t *touched) {
	if o.settings.Equivalence.Match != MatchLabel {
		return
	}
	was, had := labelOf(old)
	is, has := labelOf(n.Service)
	if had && (!has || was != is) {
		gone := n
		gone.Service = ""
		o.replaceLabelled(was, gone, t)
		o.docs.touchService(was, t)
	}
	if has {
		o.replaceLabelled(is, n, t)
		o.docs.touchService(is, t)
	}
}

// labelOf is the group that a service's equivalence label names.
func labelOf(service sources.Service) (ServiceName, bool) {
	if service == "" {
		return ServiceName{}, false
	}
	return labelled(service.EquivalentTo())
}

// replaceMember stores n in its own group and returns the service that was there.
func (o *owner) replaceMember(n Named, t *touched) (old sources.Service) {
	g := o.groupOf(n.ServiceName)
	isNew := g.empty()
	i, found := slices.BinarySearchFunc(g.Members, n.Cluster, func(m Member, cluster int) int { return cmp.Compare(m.Cluster, cluster) })
	switch stays := n.Service != ""; {
	case found && stays:
		old, g.Members[i] = g.Members[i].Service, n.Member
	case found:
		old = g.Members[i].Service // before Delete: one statement leaves their order open
		g.Members = slices.Delete(g.Members, i, i+1)
	case stays:
		g.Members = slices.Insert(g.Members, i, n.Member)
	}
	o.store(g, isNew, t)
	return old
}

func (o *owner) replaceLabelled(name ServiceName, n Named, t *touched) {
	g := o.groupOf(name)
	isNew := g.empty()
	i, found := slices.BinarySearchFunc(g.Labelled, n, compareNamed)
	g.Labelled = replaced(g.Labelled, i, found, n, n.Service != "")
	o.store(g, isNew, t)
}

// groupOf is a copy of the group, or a new one, whose members may be changed.
func (o *owner) groupOf(name ServiceName) *Group {
	next := &Group{ServiceName: name}
	if g := o.groups.find(name); g != nil {
		next.ServiceName, next.Labelled = g.ServiceName, g.Labelled
		next.Members = append(next.few[:0], g.Members...)
	}
	return next
}

func (o *owner) store(g *Group, isNew bool, t *touched) {
	o.groups.put(g, isNew)
	t.services[g.ServiceName] = g
	if g.empty() {
		t.services[g.ServiceName] = nil
	}
}

// replaced is list with m at i, in the place of the one that is found there; without it
// when m is not to stay. list itself is not changed.
func replaced(list []Named, i int, found bool, m Named, stays bool) []Named {
	switch {
	case found && stays:
		next := slices.Clone(list)
		next[i] = m
		return next
	case found:
		return slices.Concat(list[:i], list[i+1:])
	case !stays:
		return list
	}
	next := make([]Named, 0, len(list)+1)
	next = append(next, list[:i]...)
	next = append(next, m)
	return append(next, list[i:]...)
}

func compareNamed(a, b Named) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.ServiceName.compare(b.ServiceName))
}

// regroup builds the groups anew under the current cluster numbers; old are the clusters
// that the present groups count by.
func (o *owner) regroup(old []ClusterState) {
	previous := o.groups
	o.groups = newGroups()
	for i := range o.clusters {
		o.clusters[i].Live.reset()
	}
	previous.each(func(g *Group) bool {
		for _, m := range g.Members {
			o.applyService(sources.Key{
				Source: old[m.Cluster].Name, Kind: sources.KindService, Namespace: g.Namespace, Name: g.Name,
			}, m.Service, &o.touched)
		}
		return true
	})
}
