package zones

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storeModel is a store beside a map that says what should be in it.
type storeModel struct {
	*store
	t    *testing.T
	rng  *rand.Rand
	want map[string]string
	last *index
}

func newStoreModel(t *testing.T, seed uint64) *storeModel {
	s := newStore(maphash.MakeSeed())
	return &storeModel{store: s, t: t, rng: rand.New(rand.NewPCG(seed, 1)), want: map[string]string{}, last: s.commit()}
}

// made is an entry of a key and a size in bytes.
func (m *storeModel) made(key string, size int) entry {
	e := make(entry, max(size, hKey+len(key)))
	e[hClass] = classService
	binary.LittleEndian.PutUint16(e[hKeyLen:], uint16(len(key)))
	copy(e[hKey:], key)
	for i := hKey + len(key); i < len(e); i++ {
		e[i] = byte(m.rng.Uint32())
	}
	e.stamp(m.hash(classService, []byte(key)))
	return e
}

// set notes a change; size 0 removes.
func (m *storeModel) set(key string, size int) {
	hash := m.hash(classService, []byte(key))
	_, old := m.last.find(hash, classService, []byte(key))
	if size == 0 {
		m.replace(hash, old, nil)
		delete(m.want, key)
		return
	}
	e := m.made(key, size)
	m.want[key] = string(e)
	n := m.replace(hash, old, m.made(key, size))
	m.again(n, e)
}

func (m *storeModel) commit() *index {
	m.last = m.store.commit()
	return m.last
}

// check compares an index with what should be in it.
func check(t *testing.T, ix *index, want map[string]string) {
	got := map[string]string{}
	ix.each(func(e entry) { got[string(e.key())] = string(e) })
	require.Equal(t, want, got)
	require.Equal(t, len(want), ix.len)
	for key := range want {
		require.Equal(t, want[key], string(ix.get(classService, []byte(key))), key)
		require.Nil(t, ix.get(classMesh, []byte(key)))
	}
}

// account compares the counts that compaction stands on with what is there.
func (m *storeModel) account() {
	live := 0
	m.each(func(e entry) { live += e.lines() })
	for _, b := range m.root {
		for i := 0; b != nil && i < fan; i++ {
			if b[i] != 0 {
				live += leafLines
			}
		}
	}
	assert.Equal(m.t, live, m.inUse(), "lines in use")
	used, counted := 0, 0
	for _, c := range m.chunkOf {
		used, counted = used+c.used, counted+c.live
	}
	assert.Equal(m.t, used, m.inUse()+m.dead)
	assert.Equal(m.t, m.inUse(), counted)
}

func copyOf(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestStore: after any changes the index has what it should, indexes of before have what
// they had, and what is dead is bounded.
func TestStore(t *testing.T) {
	for seed := range uint64(5) {
		m := newStoreModel(t, seed)
		type kept struct {
			ix   *index
			want map[string]string
		}
		var before []kept
		names := 1 << m.rng.IntN(12)
		for round := range 300 {
			changed := map[string]bool{}
			for range 1 + m.rng.IntN(1<<m.rng.IntN(8)) {
				key := fmt.Sprint("key-", m.rng.IntN(names))
				if changed[key] {
					continue
				}
				changed[key] = true
				m.set(key, m.size())
			}
			ix := m.commit()
			if round%50 == 0 {
				before = append(before, kept{ix, copyOf(m.want)})
				check(t, ix, m.want)
				m.account()
			}
			require.LessOrEqual(t, m.dead, m.inUse()/2+deadLines+2*bigEntry/lineSize+pace*m.written+maxChange, "seed %d", seed)
		}
		check(t, m.last, m.want)
		m.account()
		for _, k := range before {
			check(t, k.ix, k.want)
		}
	}
}

// maxChange is what one round of TestStore can leave behind in lines: compaction takes
// it up in the rounds that follow.
const maxChange = 1 << 14

func (m *storeModel) size() int {
	switch m.rng.IntN(40) {
	case 0:
		return bigEntry + m.rng.IntN(3*bigEntry)
	case 1, 2, 3, 4, 5, 6, 7, 8:
		return 0
	}
	return 1 + m.rng.IntN(1500)
}

// TestStoreMemory: changes of the same names, five for each, leave no more memory behind
// than half of what is in use, besides one chunk of each kind.
func TestStoreMemory(t *testing.T) {
	m := newStoreModel(t, 1)
	const names = 5000
	for i := range names {
		m.set(fmt.Sprint("key-", i), 600)
	}
	m.commit()
	most := 0
	for range 5 * names {
		m.set(fmt.Sprint("key-", m.rng.IntN(names)), 600)
		m.commit()
		most = max(most, m.dead-m.inUse()/2)
	}
	assert.LessOrEqual(t, most, deadLines+2*8192, "what is dead beyond a half is less than two chunks")
	check(t, m.last, m.want)
	m.account()
	bytes := 0
	for _, c := range m.chunks {
		bytes += len(c)
	}
	assert.Less(t, bytes, (m.inUse()*3/2)*lineSize+2*lineSize*(m.inUse()/4+minLines), "%d chunks", len(m.chunks)-len(m.free))
}

// A leaf that is full has the table doubled, however few entries there are beside it.
func TestStoreGrowsWithAFullLeaf(t *testing.T) {
	m := newStoreModel(t, 1)
	for i := range 64 * 64 {
		m.set(fmt.Sprint("key-", i), 10)
	}
	m.commit()
	shift, added := m.shift, 0
	for i := 64 * 64; m.shift == shift; i++ {
		key := fmt.Sprint("key-", i)
		if m.hash(classService, []byte(key))>>shift == 0 {
			m.set(key, 10)
			m.commit()
			added++
		}
	}
	assert.Less(t, added, slots)
	check(t, m.last, m.want)
	m.account()
}
