package resolver

import (
	"strings"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

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

	groups  *iradix.Tree[*Group]           // by ServiceName.key
	mesh    *iradix.Tree[*Mesh]            // by the name's wire form
	members *iradix.Tree[*sources.Members] // by BackendKey
	others  []SourceState                  // sources that are not clusters
}

// ServiceName is a namespace and a name in it.
type ServiceName struct {
	Namespace, Name string
}

func (s ServiceName) key() []byte {
	b := make([]byte, 0, len(s.Namespace)+1+len(s.Name))
	b = append(b, s.Namespace...)
	b = append(b, '/')
	return append(b, s.Name...)
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
	Labelled []Member
}

// Member is one cluster's service.
type Member struct {
	Cluster int // index into Snapshot.Clusters
	ServiceName
	Service *sources.Service
}

// Mesh is a registered name.
type Mesh struct {
	Doc *registry.MeshService
	// Losers are documents of the same name that another one, older, keeps out.
	Losers []*registry.MeshService
}

// Group returns the group of a service name, nil when no cluster has it.
func (s *Snapshot) Group(name ServiceName) *Group {
	g, _ := s.groups.Get(name.key())
	return g
}

// Mesh returns a registered name, nil when it is not registered.
func (s *Snapshot) Mesh(name names.Name) *Mesh {
	m, _ := s.mesh.Get([]byte(name.Wire()))
	return m
}

// Members returns what a DNS, cloud or Consul locator stands for, nil when nothing is
// known of it.
func (s *Snapshot) Members(backendKey string) *sources.Members {
	m, _ := s.members.Get([]byte(backendKey))
	return m
}

// EachGroup calls f for every group in the order of namespace/name from after (not
// included; "" for the start) until f returns false.
func (s *Snapshot) EachGroup(after string, f func(*Group) bool) {
	it := s.groups.Root().Iterator()
	it.SeekLowerBound([]byte(after))
	for key, g, ok := it.Next(); ok; key, g, ok = it.Next() {
		if string(key) != after && !f(g) {
			return
		}
	}
}

// EachMesh calls f for every registered name in the order of the wire form from after
// (not included; "" for the start) until f returns false.
func (s *Snapshot) EachMesh(after string, f func(*Mesh) bool) {
	it := s.mesh.Root().Iterator()
	it.SeekLowerBound([]byte(after))
	for key, m, ok := it.Next(); ok; key, m, ok = it.Next() {
		if string(key) != after && !f(m) {
			return
		}
	}
}

// Endpoints is how many endpoints the services have, in whatever state.
func (g *Group) Endpoints() int {
	n := 0
	for _, m := range g.Members {
		for _, s := range m.Service.Slices {
			n += len(s.Endpoints)
		}
	}
	return n
}

// memberOf is Member of a group that may be nil.
func (g *Group) memberOf(cluster int) *Member {
	if g == nil {
		return nil
	}
	return g.Member(cluster)
}

// alias is the target of an ExternalName service, the zero Name for others and for what is
// no name.
func (m *Member) alias() (target names.Name) {
	if m.Service.Type == sources.ExternalName {
		target, _ = names.Parse(strings.TrimSpace(m.Service.ExternalName))
	}
	return target
}

// Member is the service of a cluster, nil when it has none of the name.
func (g *Group) Member(cluster int) *Member {
	for i := range g.Members {
		if g.Members[i].Cluster == cluster {
			return &g.Members[i]
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
	it := s.members.Root().Iterator()
	for key, _, ok := it.Next(); ok; key, _, ok = it.Next() {
		f(string(key))
	}
}
