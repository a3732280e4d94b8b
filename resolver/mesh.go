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
	// Which names to look at again when something that they stand on changes.
	onService map[ServiceName]map[names.Name]struct{}
	onBackend map[string]map[names.Name]struct{}

	dirty       map[names.Name]struct{}
	wantChanged bool
}

func newDocuments() *documents {
	return &documents{
		byKey:     map[sources.Key]*registry.MeshService{},
		byName:    map[names.Name][]sources.Key{},
		onService: map[ServiceName]map[names.Name]struct{}{},
		onBackend: map[string]map[names.Name]struct{}{},
		dirty:     map[names.Name]struct{}{},
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
		d.depend(doc, true)
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
	d.depend(old, false)
	for _, k := range left { // a loser may stand on the same things
		d.depend(d.byKey[k], true)
	}
	d.dirty[old.Name] = struct{}{}
}

// depend notes, or forgets, what doc stands on.
func (d *documents) depend(doc *registry.MeshService, on bool) {
	for i := range doc.Backends {
		b := &doc.Backends[i]
		if b.Type == registry.Kubernetes {
			link(d.onService, ServiceName{b.Namespace, b.Service}, doc.Name, on)
		}
		if key := b.BackendKey(); key != "" {
			link(d.onBackend, key, doc.Name, on)
			d.wantChanged = true
		}
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
	}
}

// touchBackend marks the names that a locator is behind.
func (d *documents) touchBackend(key string, t *touched) {
	for name := range d.onBackend[key] {
		t.mesh[name] = struct{}{}
	}
}

func (d *documents) markAll() {
	for name := range d.byName {
		d.dirty[name] = struct{}{}
	}
}

func (d *documents) takeDirty() map[names.Name]struct{} {
	dirty := d.dirty
	if len(dirty) > 0 {
		d.dirty = map[names.Name]struct{}{}
	}
	return dirty
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
	for name := range d.byName {
		doc := d.winner(name).Doc
		for i := range doc.Backends {
			key := doc.Backends[i].BackendKey()
			if doc.Backends[i].Type == registry.DNS && !seen[key] {
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
	return &Mesh{Doc: docs[0], Losers: docs[1:]}
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
