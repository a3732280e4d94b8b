package resolver

import (
	"strings"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// Snapshot is everything that is known at one moment. It is immutable, shares what did
// not change with the Snapshot before it, and may be read by any number of goroutines
// for as long as they like.
type Snapshot struct {
	Settings *Settings
	// Clusters are the settings' clusters ordered by name; a cluster's index in here is
	// its number everywhere below.
	Clusters []ClusterState
	// Taken is when the snapshot was made.
	Taken time.Time
	// RegistrySynced: every registry source has pushed its first whole list.
	RegistrySynced bool
	// GraceOver: the start-up grace has ended.
	GraceOver bool

	groups  *groups
	mesh    *tree[*Mesh]    // by the name's wire form
	members *tree[*located] // by BackendKey
	others  []SourceState   // sources that are not clusters
}

// ServiceName is a namespace and a name in it.
type ServiceName struct {
	Namespace, Name string
}

// String is namespace/name.
func (s ServiceName) String() string { return s.Namespace + "/" + s.Name }

// Group is one service name with all that clusters say of it.
type Group struct {
	ServiceName
	// Members are the services of this very name, one a cluster, ordered by cluster.
	Members []Member
	// Labelled are the services that name this one in their equivalence label, ordered
	// by cluster, namespace, name. Only with MatchLabel.
	Labelled []Named

	few [fewMembers]Member // memory of Members where they are no more
}

// fewMembers is of how many clusters the services stand in their group itself, which spares
// the collector a second object for each group.
const fewMembers = 3

// Member is one cluster's service.
type Member struct {
	Cluster int // index into Snapshot.Clusters
	Service sources.Service
}

// Named is a Member with its name.
type Named struct {
	ServiceName
	Member
}

// Mesh is a registered name.
type Mesh struct {
	Doc *registry.MeshService
	// Losers are documents of the same name that another one, older, keeps out.
	Losers []*registry.MeshService

	key string // the name's wire form
}

func meshBefore(a, b *Mesh) bool { return a.key < b.key }

// located is what a locator stands for.
type located struct {
	key     string // BackendKey
	members *sources.Members
}

func locatedBefore(a, b *located) bool { return a.key < b.key }

// Group returns the group of a service name, nil when no cluster has it.
func (s *Snapshot) Group(name ServiceName) *Group {
	return s.groups.find(name)
}

// Mesh returns a registered name, nil when it is not registered.
func (s *Snapshot) Mesh(name names.Name) *Mesh {
	return s.mesh.get(&Mesh{key: name.Wire()})
}

// Members returns what a DNS, cloud or Consul locator stands for, nil when nothing is
// known of it.
func (s *Snapshot) Members(backendKey string) *sources.Members {
	if l := s.members.get(&located{key: backendKey}); l != nil {
		return l.members
	}
	return nil
}

// EachGroup calls f for every group, in no order that means anything, until f returns
// false.
func (s *Snapshot) EachGroup(f func(*Group) bool) {
	s.groups.each(f)
}

// EachGroupAfter calls f for every group in the order of namespace and name from after
// (namespace/name, not included; "" for the start) until f returns false.
func (s *Snapshot) EachGroupAfter(after string, f func(*Group) bool) {
	namespace, name, _ := strings.Cut(after, "/")
	s.groups.eachAfter(ServiceName{namespace, name}, f)
}

// EachMesh calls f for every registered name in the order of the wire form from after
// (not included; "" for the start) until f returns false.
func (s *Snapshot) EachMesh(after string, f func(*Mesh) bool) {
	s.mesh.from(&Mesh{key: after}, func(m *Mesh) bool { return m.key == after || f(m) })
}

// Endpoints is how many endpoints the services have, in whatever state.
func (g *Group) Endpoints() int {
	n := 0
	for _, m := range g.Members {
		for list := m.Service.Slices(); list.Next(); {
			n += list.Len()
		}
	}
	return n
}

// memberOf is Member of a group that may be nil.
func (g *Group) memberOf(cluster int) *Named {
	if g == nil {
		return nil
	}
	return g.Member(cluster)
}

// alias is the target of an ExternalName service, the zero Name for others and for what is
// no name.
func (m *Member) alias() (target names.Name) {
	if m.Service.Type() == sources.ExternalName {
		target, _ = names.Parse(strings.TrimSpace(m.Service.ExternalName()))
	}
	return target
}

// Member is the service of a cluster, nil when it has none of the name.
func (g *Group) Member(cluster int) *Named {
	for _, m := range g.Members {
		if m.Cluster == cluster {
			return &Named{g.ServiceName, m}
		}
	}
	return nil
}

// Cluster is the index of the cluster of that name, -1 for none.
func (s *Snapshot) Cluster(name string) int {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return i
		}
	}
	return -1
}

// EachMembers calls f for the key of every locator that something is known of.
func (s *Snapshot) EachMembers(f func(backendKey string)) {
	s.members.each(func(l *located) bool {
		f(l.key)
		return true
	})
}
