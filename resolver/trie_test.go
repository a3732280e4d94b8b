package resolver

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTrie: whatever comes and goes, under hashes that are spread, that agree in their
// first bits or altogether, each name has its group, and snapshots stay as they were.
func TestTrie(t *testing.T) {
	for _, test := range []struct {
		name string
		hash func(n int) uint64
	}{
		{"spread", func(n int) uint64 { return rand.New(rand.NewPCG(uint64(n), 9)).Uint64() }},
		{"the first bits are the same", func(n int) uint64 { return uint64(n)<<40 | 0x1234567890 }},
		{"few hashes", func(n int) uint64 { return uint64(n%5) << 62 }},
	} {
		t.Run(test.name, func(t *testing.T) { modelTrie(t, test.hash) })
	}
}

func modelTrie(t *testing.T, hash func(n int) uint64) {
	const numbers = 3000
	rng := rand.New(rand.NewPCG(3, 4))
	held, want := newTrie(), map[int]*Group{}
	type kept struct {
		trie trie
		want map[int]*Group
	}
	var before []kept
	for round := range 20_000 {
		n := rng.IntN(numbers)
		name := ServiceName{"n", strconv.Itoa(n)}
		if grows := round/5000%2 == 0; rng.IntN(10) < 8 == grows {
			want[n] = &Group{ServiceName: name}
			held.set(hash(n), want[n])
		} else {
			delete(want, n)
			held.remove(hash(n), name)
		}
		if round%1000 == 0 {
			before = append(before, kept{held.snapshot(), maps.Clone(want)})
		}
	}
	for _, k := range append(before, kept{held.snapshot(), want}) {
		for n := range numbers {
			require.Same(t, k.want[n], k.trie.get(hash(n), ServiceName{"n", strconv.Itoa(n)}))
		}
		count := 0
		k.trie.each(func(g *Group) bool { count++; return true })
		require.Len(t, k.want, count)
	}
	for n := range numbers {
		held.remove(hash(n), ServiceName{"n", strconv.Itoa(n)})
	}
	held.each(func(g *Group) bool { t.Error(g.Name); return true })
	require.False(t, held.root != nil && held.root.isBranch(), "what is small is a leaf again")
}

func TestTrieEachEnds(t *testing.T) {
	trie := newTrie()
	for n := range 500 {
		trie.set(uint64(n), &Group{ServiceName: ServiceName{"n", strconv.Itoa(n)}})
	}
	count := 0
	trie.each(func(*Group) bool { count++; return count < 100 })
	require.Equal(t, 100, count)
}
