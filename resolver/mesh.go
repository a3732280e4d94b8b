package resolver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// documents are the registry documents and what they stand on. Owner goroutine only.
type documents struct {
	byKey  map[sources.Key]*registry.MeshService
	byName map[names.Name][]sources.Key

	standing map[names.Name]footing // of each registered name
	// The same by what they stand on: which names to look at again when it changes.
	onService map[ServiceName]map[names.Name]struct{}
	onBackend map[string]map[names.Name]struct{}
	onName    map[names.Name]map[names.Name]struct{}

	dirty       map[names.Name]struct{} // whose documents changed
	moved       map[names.Name]struct{} // whose footing may have
	wantChanged bool
}

func newDocuments() *documents {
	return &documents{
		byKey:     map[sources.Key]*registry.MeshService{},
		byName:    map[names.Name][]sources.Key{},
		standing:  map[names.Name]footing{},
		onService: map[ServiceName]map[names.Name]struct{}{},
		onBackend: map[string]map[names.Name]struct{}{},
		onName:    map[names.Name]map[names.Name]struct{}{},
		dirty:     map[names.Name]struct{}{},
		moved:     map[names.Name]struct{}{},
	}
}

// put stores a document, nil when it is gone.
func (d *documents) put(key sources.Key, doc *registry.MeshService) {
	if old := d.byKey[key]; old != nil {
		d.remove(key, old)
	}
	if doc != nil {
		d.byKey[key] = doc
		d.byName[doc.Name] = append(d.byName[doc.Name], key)
		d.dirty[doc.Name] = struct{}{}
	}
}

func (d *documents) remove(key sources.Key, old *registry.MeshService) {
	delete(d.byKey, key)
	left := slices.DeleteFunc(d.byName[old.Name], func(k sources.Key) bool { return k == key })
	if len(left) == 0 {
		delete(d.byName, old.Name)
	} else {
		d.byName[old.Name] = left
	}
	d.dirty[old.Name] = struct{}{}
}

// stand notes what a name stands on now.
func (d *documents) stand(name names.Name, now footing) {
	before := d.standing[name]
	d.link(name, before, false)
	d.link(name, now, true)
	d.wantChanged = d.wantChanged || !slices.Equal(before.wanted, now.wanted)
	if d.standing[name] = now; len(d.byName[name]) == 0 {
		delete(d.standing, name)
	}
}

func (d *documents) link(name names.Name, f footing, on bool) {
	for _, service := range f.services {
		link(d.onService, service, name, on)
	}
	for _, key := range f.backends {
		link(d.onBackend, key, name, on)
	}
	for _, inner := range f.names {
		link(d.onName, inner, name, on)
	}
}

func link[K comparable](m map[K]map[names.Name]struct{}, key K, name names.Name, on bool) {
	set := m[key]
	switch {
	case on && set == nil:
		m[key] = map[names.Name]struct{}{name: {}}
	case on:
		set[name] = struct{}{}
	default:
		delete(set, name)
		if len(set) == 0 {
			delete(m, key)
		}
	}
}

// touchService marks the names that a service is behind.
func (d *documents) touchService(service ServiceName, t *touched) {
	for name := range d.onService[service] {
		t.mesh[name] = struct{}{}
		if d.standing[name].moving {
			d.moved[name] = struct{}{}
		}
	}
}

// touchBackend marks the names that a locator is behind.
func (d *documents) touchBackend(key string, t *touched) {
	for name := range d.onBackend[key] {
		t.mesh[name] = struct{}{}
	}
}

// touchInner marks all names that stand on others: what is absent may be known to be.
func (d *documents) touchInner(t *touched) {
	for _, outer := range d.onName {
		for name := range outer {
			t.mesh[name] = struct{}{}
		}
	}
}

// spread marks the names that stand on a marked one, and those that stand on these.
func (d *documents) spread(t *touched) {
	for _, name := range d.above(t.mesh) {
		t.mesh[name] = struct{}{}
	}
}

// above are the names that stand on some, and those that stand on these, but for the some
// themselves.
func (d *documents) above(some map[names.Name]struct{}) (above []names.Name) {
	if len(d.onName) == 0 {
		return nil
	}
	seen := map[names.Name]struct{}{}
	for queue := keys(some); len(queue) > 0; queue = queue[1:] {
		for outer := range d.onName[queue[0]] {
			if _, known := some[outer]; known || has(seen, outer) {
				continue
			}
			seen[outer] = struct{}{}
			above, queue = append(above, outer), append(queue, outer)
		}
	}
	return above
}

func has[K comparable](set map[K]struct{}, key K) bool {
	_, ok := set[key]
	return ok
}

func (d *documents) markAll() {
	for name := range d.byName {
		d.dirty[name] = struct{}{}
	}
}

// takeDirty are the names whose documents changed, and those whose footing alone may have.
func (d *documents) takeDirty() (dirty, moved map[names.Name]struct{}) {
	return taken(&d.dirty), taken(&d.moved)
}

func taken(set *map[names.Name]struct{}) map[names.Name]struct{} {
	out := *set
	if len(out) > 0 {
		*set = map[names.Name]struct{}{}
	}
	return out
}

func (d *documents) takeWantChanged() bool {
	changed := d.wantChanged
	d.wantChanged = false
	return changed
}

// wanted are the DNS locators that registered names stand on.
func (d *documents) wanted(source string) []sources.Key {
	seen := map[string]bool{}
	var out []sources.Key
	for _, f := range d.standing {
		for _, key := range f.wanted {
			if !seen[key] {
				seen[key] = true
				out = append(out, sources.Key{Source: source, Kind: sources.KindBackend, Name: key})
			}
		}
	}
	slices.SortFunc(out, func(a, b sources.Key) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// winner is the document that a name is served from: the oldest that is good, ties by source, then
// by place, so that every replica chooses the same.
func (d *documents) winner(name names.Name) *Mesh {
	keys := d.byName[name]
	if len(keys) == 0 {
		return nil
	}
	docs := make([]*registry.MeshService, len(keys))
	for i, k := range keys {
		docs[i] = d.byKey[k]
	}
	slices.SortFunc(docs, goodFirst)
	return &Mesh{Doc: docs[0], Losers: docs[1:], key: name.Wire()}
}

// goodFirst puts documents that can be used first, then by olderFirst.
func goodFirst(a, b *registry.MeshService) int {
	return cmp.Or(cmp.Compare(min(1, len(a.Faults)), min(1, len(b.Faults))), olderFirst(a, b))
}

func olderFirst(a, b *registry.MeshService) int {
	return cmp.Or(
		a.Created.Compare(b.Created),
		strings.Compare(a.Origin.Source, b.Origin.Source),
		strings.Compare(a.Origin.File, b.Origin.File),
		cmp.Compare(a.Origin.Line, b.Origin.Line))
}
