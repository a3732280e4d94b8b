package zones

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// chances are how likely each place of an alias table is, exactly.
func chances(table []byte) []float64 {
	n := len(table) / aliasSize
	out := make([]float64, n)
	for i := range n {
		own := float64(binary.LittleEndian.Uint32(table[i*aliasSize:])) / (1 << 32)
		out[i] += own / float64(n)
		out[binary.LittleEndian.Uint32(table[i*aliasSize+4:])] += (1 - own) / float64(n)
	}
	return out
}

// TestAliasTables: a table gives every address its share, up to what 32 bits can say.
func TestAliasTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + rng.IntN(200)
		s, list, total := shares{}, []byte{}, 0.0
		for i := range n {
			a := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
			s[a] = float64(rng.IntN(4)) * math.Exp(rng.Float64()*10)
			total += s[a]
			list = append(list, a.AsSlice()...)
		}
		table := s.appendAliases(nil, list, 4)
		if total == 0 {
			require.Empty(t, table)
			continue
		}
		for i, chance := range chances(table) {
			a, _ := netip.AddrFromSlice(list[4*i : 4*i+4])
			require.InDelta(t, s[a]/total, chance, 1e-7)
			require.Equal(t, s[a] == 0, chance < 1e-9, "%v of %v", s[a], total)
		}
	}
}

// weighted registers all.mesh with static backends of four addresses each but the last,
// which has two; a weight below 0 is one that is not written.
func weighted(t *testing.T, weights ...int) *View {
	m := newModel(t, 1, resolver.MatchName)
	doc := &registry.MeshService{Name: names.MustParse("all.mesh")}
	for i, w := range weights {
		b := registry.Backend{Type: registry.Static, Weight: max(w, 0), HasWeight: w >= 0}
		for j := range 4 {
			if i < len(weights)-1 || j < 2 {
				b.Addresses = append(b.Addresses, netip.AddrFrom4([4]byte{192, 0, 2, byte(10*i + j)}))
			}
		}
		doc.Backends = append(doc.Backends, b)
	}
	m.resolver.Update(sources.Update{Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "all.mesh"}, Value: doc})
	m.flush()
	return m.publisher.View()
}

// drawnFrom counts which last byte of an address stands at a place of many answers.
func drawnFrom(t *testing.T, v *View, limit, place int) map[byte]float64 {
	var q Query
	q.SetName([]byte("\x03all\x04mesh\x00"))
	q.Type = typeA
	w := Writer{Msg: make([]byte, 0, 4096), Rand: rand.NewPCG(3, 4)}
	var a Answer
	const rounds = 20_000
	counts := map[byte]float64{}
	for range rounds {
		v.Lookup(&q, &a)
		require.Equal(t, Found, a.Status)
		w.Msg, w.Limit = w.Msg[:0], limit
		r := w.WriteAnswer(&a, 0)
		require.Positive(t, r.Count)
		counts[w.Msg[16*place+15]] += 1.0 / rounds
		seen := map[byte]bool{}
		for i := range int(r.Count) {
			require.False(t, seen[w.Msg[16*i+15]], "each address once")
			seen[w.Msg[16*i+15]] = true
		}
	}
	return counts
}

// TestRule23Weights: the first place follows the weights (chi-square), the answer is whole
// and what follows has every address; few and many addresses take different ways.
func TestRule23Weights(t *testing.T) {
	for name, test := range map[string]struct {
		weights []int
		shares  []float64 // by backend
	}{
		"80 to 20":            {[]int{80, 20}, []float64{0.8, 0.2}},
		"one is not written":  {[]int{3, -1}, []float64{0.75, 0.25}},
		"none is written":     {[]int{-1, -1}, []float64{4.0 / 6, 2.0 / 6}},
		"never first":         {[]int{0, 7}, []float64{0, 1}},
		"nobody has a weight": {[]int{0, 0}, []float64{4.0 / 6, 2.0 / 6}},
		"many addresses":      {[]int{1, 2, 3, 4, 5}, []float64{1.0 / 15, 2.0 / 15, 3.0 / 15, 4.0 / 15, 5.0 / 15}},
	} {
		t.Run(name, func(t *testing.T) {
			v := weighted(t, test.weights...)
			for _, limit := range []int{16, 40, 4096} { // one record, two, all
				counts := drawnFrom(t, v, limit, 0)
				chi, degrees := 0.0, -1
				for i, share := range test.shares {
					each := share / float64(4)
					if i == len(test.shares)-1 {
						each = share / 2
					}
					for j := range 4 {
						if i == len(test.shares)-1 && j >= 2 {
							continue
						}
						got := counts[byte(10*i+j)]
						if each == 0 {
							require.Zero(t, got)
							continue
						}
						chi += 20_000 * (got - each) * (got - each) / each
						degrees++
					}
				}
				assert.Less(t, chi, float64(degrees)+5*math.Sqrt(2*float64(degrees))+5, "chi-square of %d degrees, limit %d: %v", degrees, limit, counts)
			}
			second := drawnFrom(t, v, 4096, 1)
			assert.Len(t, second, 4*(len(test.weights)-1)+2, "any address follows")
		})
	}
}
