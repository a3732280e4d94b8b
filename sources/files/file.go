package files

import (
	"maps"
	"slices"

	"github.com/meshdns/meshdns/dirwatch"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// file is what is known of one path. It is not changed once made.
type file struct {
	content  *dirwatch.File // that it was made of; nil: to be decoded again
	services map[sources.Key]*registry.MeshService
	refused  map[sources.Key]*registry.MeshService // with Faults, and nothing good in their place
	problems []document.Problem
	leftOut  int  // documents that are bad, or 1 for a file that cannot be read
	unnamed  bool // a bad document's name cannot be read
}

func keyOf(doc *registry.MeshService) sources.Key {
	return sources.Key{Source: Name, Kind: sources.KindDocument, Namespace: doc.Origin.File, Name: doc.Name.Text()}
}

// next is the file after a look at it; before is nil for a new one. pushed is what is
// served now: a document that did not change stays the same pointer.
func (before *file) next(content *dirwatch.File, opts registry.Options, pushed map[sources.Key]*registry.MeshService) *file {
	if before == nil {
		before = &file{}
	}
	switch {
	case before.content == content:
		return before
	case content.Folder: // the source's error, not a file's
		return &file{content: content, services: before.services, refused: before.refused}
	case content.Err != nil:
		return before.unread(content, "cannot be read: "+content.Err.Error())
	case len(content.Content) == 0 && len(before.services) > 0:
		// Nobody empties a file to say that its names are gone, but each program that
		// writes over one does it first.
		return before.unread(content, "empty: its documents stay as they were until it has content or is deleted")
	}
	result := registry.DecodeAll(content.Path, content.Content, opts)
	f := &file{
		content: content, problems: result.Problems, leftOut: result.LeftOut, unnamed: result.Unnamed,
		services: map[sources.Key]*registry.MeshService{}, refused: map[sources.Key]*registry.MeshService{},
	}
	for _, doc := range slices.SortedFunc(slices.Values(result.Services), registry.OlderFirst) {
		f.add(doc, pushed)
	}
	f.keepOf(before, result)
	f.addRefused(result.Refused, pushed)
	return f
}

// unread is a file whose content is not known: its documents stay.
func (before *file) unread(content *dirwatch.File, why string) *file {
	problem := document.Problem{File: content.Path, Message: why}
	return &file{content: content, services: before.services, refused: before.refused, problems: []document.Problem{problem}, leftOut: 1, unnamed: true}
}

// add adds a document. Of two with one name the older stays: they would have one key.
func (f *file) add(doc *registry.MeshService, pushed map[sources.Key]*registry.MeshService) {
	key := keyOf(doc)
	if first, twice := f.services[key]; twice {
		twins := registry.CheckSet([]*registry.MeshService{first, doc}, registry.Options{})
		f.problems = append(f.problems, twins...)
		f.leftOut++
		return
	}
	f.services[key] = unlessSame(doc, pushed[key])
}

// unlessSame is old if it says the same as doc, else doc.
func unlessSame(doc, old *registry.MeshService) *registry.MeshService {
	if old != nil && same(old, doc) {
		return old
	}
	return doc
}

// addRefused notes the names of bad documents that nothing good stands for.
func (f *file) addRefused(refused []*registry.MeshService, pushed map[sources.Key]*registry.MeshService) {
	for _, doc := range refused {
		key := keyOf(doc)
		_, served := f.services[key]
		_, twice := f.refused[key]
		if !served && !twice {
			f.refused[key] = unlessSame(doc, pushed[key])
		}
	}
}

// keepOf keeps what was known of documents that have become bad: their last good content,
// or that they are registered. Where the name of a bad one cannot be read, any that is
// missing may be meant.
func (f *file) keepOf(before *file, result registry.Result) {
	isRefused := func(name names.Name) bool {
		return slices.ContainsFunc(result.Refused, func(r *registry.MeshService) bool { return r.Name == name })
	}
	for key, doc := range before.services {
		if _, again := f.services[key]; !again && (result.Unnamed || isRefused(doc.Name)) {
			f.services[key] = doc
		}
	}
	for key, doc := range before.refused {
		if _, again := f.services[key]; !again && result.Unnamed && !isRefused(doc.Name) {
			f.refused[key] = doc
		}
	}
}

// outdated is the file with its content to be decoded again in new surroundings. What was
// good in the old ones stays only where it still has a place.
func (before *file) outdated(opts registry.Options) *file {
	outside := func(_ sources.Key, doc *registry.MeshService) bool { return !doc.Name.IsAtOrBelow(opts.Mesh) }
	services, refused := maps.Clone(before.services), maps.Clone(before.refused)
	maps.DeleteFunc(services, outside)
	maps.DeleteFunc(refused, outside)
	return &file{services: services, refused: refused, problems: before.problems, leftOut: before.leftOut}
}
