package resolver

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
)

// groups are the services' groups, found by a hash of their names: the way to one among a
// million has no group on it but the one that is found, where an order by name reads all
// that it compares with. The order by name, for lists, is made when somebody asks for it,
// and holds until a name comes or goes.
type groups struct {
	trie
	seed  maphash.Seed
	names *sortedNames
}

// sortedNames are the names of groups in order, for all snapshots that have the same.
type sortedNames struct {
	once sync.Once
	list []ServiceName
}

func newGroups() *groups {
	return &groups{trie: newTrie(), seed: maphash.MakeSeed(), names: &sortedNames{}}
}

func (g *groups) hash(name ServiceName) uint64 { return maphash.Comparable(g.seed, name) }

// find is the group of a name, nil for none.
func (g *groups) find(name ServiceName) *Group { return g.get(g.hash(name), name) }

// put stores a group, or takes it out when nobody is in it.
func (g *groups) put(group *Group, isNew bool) {
	if isNew || group.empty() {
		g.names = &sortedNames{}
	}
	hash := g.hash(group.ServiceName)
	if group.empty() {
		g.remove(hash, group.ServiceName)
		return
	}
	g.set(hash, group)
}

func (g *Group) empty() bool { return len(g.Members) == 0 && len(g.Labelled) == 0 }

// snapshot is the groups as they are now. The owner calls it.
func (g *groups) snapshot() *groups {
	return &groups{trie: g.trie.snapshot(), seed: g.seed, names: g.names}
}

// eachAfter calls f for the groups by namespace and name, from the first one behind after,
// until f returns false.
func (g *groups) eachAfter(after ServiceName, f func(*Group) bool) {
	g.names.once.Do(func() {
		g.each(func(group *Group) bool {
			g.names.list = append(g.names.list, group.ServiceName)
			return true
		})
		slices.SortFunc(g.names.list, ServiceName.compare)
	})
	i, found := slices.BinarySearchFunc(g.names.list, after, ServiceName.compare)
	if found {
		i++
	}
	for _, name := range g.names.list[i:] {
		if !f(g.find(name)) {
			return
		}
	}
}

func (s ServiceName) compare(t ServiceName) int {
	return cmp.Or(cmp.Compare(s.Namespace, t.Namespace), cmp.Compare(s.Name, t.Name))
}
