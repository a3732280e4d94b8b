package resolver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/sources"
)

// TestGroups: whatever comes and goes, groups are found by name and listed in order, and
// snapshots of before still show what they showed.
func TestGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g, want := newGroups(), map[ServiceName]int{}
	type kept struct {
		groups *groups
		want   map[ServiceName]int
	}
	var before []kept
	for round := range 3000 {
		name := ServiceName{fmt.Sprint("team", rng.IntN(20), "-"), fmt.Sprint("api-", rng.IntN(40))}
		if rng.IntN(3) == 0 {
			name.Namespace = name.Namespace[:4] + "." // sorts around the others
		}
		_, known := want[name]
		group := &Group{ServiceName: name}
		if rng.IntN(3) > 0 {
			group.Members = []Member{{Cluster: round, Service: sources.Service("x")}}
			want[name] = round
		} else {
			delete(want, name)
		}
		g.put(group, !known)
		if round%100 == 0 {
			before = append(before, kept{g.snapshot(), maps.Clone(want)})
		}
	}
	for _, k := range append(before, kept{g.snapshot(), want}) {
		s := &Snapshot{groups: k.groups}
		names := slices.SortedFunc(maps.Keys(k.want), ServiceName.compare)
		var all []ServiceName
		s.EachGroupAfter("", func(g *Group) bool {
			all = append(all, g.ServiceName)
			require.Equal(t, k.want[g.ServiceName], g.Members[0].Cluster)
			return true
		})
		require.Equal(t, names, all)
		for i, name := range names {
			require.Equal(t, k.want[name], s.Group(name).Members[0].Cluster)
			next := (*Group)(nil)
			s.EachGroupAfter(name.String(), func(g *Group) bool {
				next = g
				return false
			})
			if i+1 < len(names) {
				require.Equal(t, names[i+1], next.ServiceName)
			} else {
				require.Nil(t, next)
			}
		}
		count := 0
		s.EachGroup(func(*Group) bool {
			count++
			return true
		})
		require.Len(t, names, count)
		require.Nil(t, s.Group(ServiceName{"no", "such"}))
	}
}
