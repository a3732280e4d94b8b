package resolver

import (
	"cmp"
	"slices"
)

// trie holds groups by a hash of their names, copy-on-write, for one writer and any number
// of readers: the owner changes its trie, readers have snapshots of it, and both share all
// nodes that no change has touched since. Hashes are spread evenly, so that it needs no
// balancing, and the way to a group at 200,000 names is six nodes of which most are in the
// processor's cache. A balanced tree of the same items took twice the memory for a change.
type trie struct {
	root *node
	edit uint64 // nodes of this number are in no snapshot: they may be written to
}

const (
	trieBits = 3 // of the hash for each level
	trieFan  = 1 << trieBits
	// leafMax is how many groups a leaf has before it becomes a branch. What a change copies
	// is one leaf and the nodes above it: with 16 groups and 8 kids half of what it was with
	// 64 and 16, which at a million endpoints is a sixth of all garbage.
	leafMax  = 16
	hashBits = 64
)

// node is a leaf, with items, or a branch, without, whose kids without a group are nil.
type node struct {
	edit  uint64
	kids  [trieFan]*node
	items []hashed // by hash and name
}

func (n *node) isBranch() bool { return n.items == nil }

// hashed is a group with the hash of its name.
type hashed struct {
	hash  uint64
	group *Group
}

func newTrie() trie { return trie{edit: 1} }

// snapshot is the trie as it is now, to read for as long as one likes. The owner calls it.
func (t *trie) snapshot() trie {
	t.edit++
	return trie{root: t.root}
}

// get is the group of a name with that hash, nil for none.
func (t *trie) get(hash uint64, name ServiceName) *Group {
	n := t.root
	for shift := 0; n != nil && n.isBranch(); shift += trieBits {
		n = n.kids[hash>>shift%trieFan]
	}
	if n == nil {
		return nil
	}
	if at, found := n.find(hash, name); found {
		return n.items[at].group
	}
	return nil
}

// find is where in a leaf a name stands or would stand.
func (n *node) find(hash uint64, name ServiceName) (at int, found bool) {
	return slices.BinarySearchFunc(n.items, hash, func(item hashed, hash uint64) int {
		if item.hash != hash {
			return cmp.Compare(item.hash, hash)
		}
		return item.group.compare(name)
	})
}

// set puts a group in, in place of the one of its name.
func (t *trie) set(hash uint64, g *Group) { t.root = t.put(t.root, 0, hashed{hash, g}) }

func (t *trie) put(n *node, shift int, item hashed) *node {
	if n == nil {
		return &node{edit: t.edit, items: []hashed{item}}
	}
	n = t.own(n)
	if n.isBranch() {
		kid := &n.kids[item.hash>>shift%trieFan]
		*kid = t.put(*kid, shift+trieBits, item)
		return n
	}
	at, found := n.find(item.hash, item.group.ServiceName)
	if found {
		n.items[at] = item
		return n
	}
	n.items = slices.Insert(n.items, at, item)
	if len(n.items) > leafMax && shift < hashBits {
		t.split(n, shift)
	}
	return n
}

// own is a node to write to: n itself, or a copy where snapshots have n.
func (t *trie) own(n *node) *node {
	if n.edit == t.edit {
		return n
	}
	mine := *n
	mine.edit, mine.items = t.edit, slices.Clone(n.items)
	return &mine
}

// split makes a leaf a branch.
func (t *trie) split(n *node, shift int) {
	items := n.items
	n.items = nil
	for _, item := range items {
		kid := &n.kids[item.hash>>shift%trieFan]
		*kid = t.put(*kid, shift+trieBits, item)
	}
}

// remove takes the group of a name out.
func (t *trie) remove(hash uint64, name ServiceName) {
	if t.get(hash, name) != nil {
		t.root = t.without(t.root, 0, hash, name)
	}
}

// without is n without a name that it has.
func (t *trie) without(n *node, shift int, hash uint64, name ServiceName) *node {
	n = t.own(n)
	if n.isBranch() {
		kid := &n.kids[hash>>shift%trieFan]
		*kid = t.without(*kid, shift+trieBits, hash, name)
		n.join()
		return n
	}
	at, _ := n.find(hash, name)
	n.items = slices.Delete(n.items, at, at+1)
	if len(n.items) == 0 {
		return nil
	}
	return n
}

// join makes a branch that has become small a leaf again: at half of what makes a leaf a
// branch, so that one name that comes and goes does not do both each time.
func (n *node) join() {
	total := 0
	for _, kid := range n.kids {
		if kid == nil {
			continue
		}
		if total += len(kid.items); kid.isBranch() || total > leafMax/2 {
			return
		}
	}
	items := make([]hashed, 0, total)
	for _, kid := range n.kids {
		if kid != nil {
			items = append(items, kid.items...)
		}
	}
	slices.SortFunc(items, func(a, b hashed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), a.group.compare(b.group.ServiceName))
	})
	n.kids, n.items = [trieFan]*node{}, items
}

// each calls f for every group until f returns false. f must not change the trie.
func (t *trie) each(f func(*Group) bool) { t.root.each(f) }

func (n *node) each(f func(*Group) bool) bool {
	if n == nil {
		return true
	}
	for _, item := range n.items {
		if !f(item.group) {
			return false
		}
	}
	for _, kid := range n.kids {
		if !kid.each(f) {
			return false
		}
	}
	return true
}
