package files

import (
	"maps"
	"reflect"
	"slices"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// settled is what can be served together.
type settled struct {
	services map[sources.Key]*registry.MeshService
	refused  map[sources.Key]*registry.MeshService // left out, with nothing good in their place
	problems []document.Problem
	leftOut  int
}

// settle leaves out of wanted what cannot be served together with the rest: documents
// that changed make way for those that did not, and fall back to what was served before,
// if that is still possible. Names given twice are passed on: the resolver, which sees
// all sources, decides (resolver/mesh.go).
func settle(wanted, served map[sources.Key]*registry.MeshService, opts registry.Options) settled {
	out := settled{services: maps.Clone(wanted), refused: map[sources.Key]*registry.MeshService{}}
	for {
		duplicates, losers := out.conflicts(served, opts)
		if len(losers) == 0 {
			out.problems = append(out.problems, duplicates...)
			document.Sort(out.problems)
			return out
		}
		for _, loser := range losers {
			out.fallBack(loser, served)
		}
	}
}

// conflicts returns the problems of names given twice, and the documents to leave out for
// other reasons, each once; the problems of the latter are noted.
func (out *settled) conflicts(served map[sources.Key]*registry.MeshService, opts registry.Options) (duplicates []document.Problem, losers []loser) {
	changed := func(doc *registry.MeshService) bool { return served[keyOf(doc)] != doc }
	for _, c := range registry.Conflicts(slices.Collect(maps.Values(out.services)), opts) {
		if c.Kind == registry.Duplicate {
			duplicates = append(duplicates, c.Problems...)
			continue
		}
		for _, doc := range losersOf(c, changed) {
			if !slices.ContainsFunc(losers, func(l loser) bool { return l.MeshService == doc }) {
				losers = append(losers, loser{doc, c.ProblemsOf(doc)})
				out.problems = append(out.problems, c.ProblemsOf(doc)...)
			}
		}
	}
	return duplicates, losers
}

// loser is a document that cannot be served together with others, and why.
type loser struct {
	*registry.MeshService
	why []document.Problem
}

// losersOf are those who changed, or all where none did; of a collision of two, one loses,
// then the younger.
func losersOf(c registry.Conflict, changed func(*registry.MeshService) bool) []*registry.MeshService {
	losers := slices.DeleteFunc(slices.Clone(c.Documents), func(doc *registry.MeshService) bool { return !changed(doc) })
	if len(losers) == 0 {
		losers = c.Documents
	}
	if c.Kind == registry.SiteCollision {
		return losers[len(losers)-1:]
	}
	return losers
}

// fallBack replaces a document by what is served in its place, or leaves it out.
func (out *settled) fallBack(l loser, served map[sources.Key]*registry.MeshService) {
	key := keyOf(l.MeshService)
	out.leftOut++
	if before := served[key]; before != nil && before != l.MeshService && len(before.Faults) == 0 {
		out.services[key] = before
		return
	}
	delete(out.services, key)
	out.refused[key] = l.Refuse(l.why)
}

// addHarmless adds the names of refused documents to what is served: what they stand for
// is unknown, not absent. A name that would take others away from a good document is left
// out: one team's mistake is no other's outage.
func (out *settled) addHarmless(served map[sources.Key]*registry.MeshService, opts registry.Options) {
	if len(out.refused) == 0 {
		return
	}
	good := slices.Collect(maps.Values(out.services))
	for _, doc := range registry.Harmless(slices.Collect(maps.Values(out.refused)), good, opts) {
		key := keyOf(doc)
		if out.services[key] == nil {
			out.services[key] = unlessSame(doc, served[key])
		}
	}
}

func same(a, b *registry.MeshService) bool { return a == b || reflect.DeepEqual(a, b) }
