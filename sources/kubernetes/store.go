package kubernetes

import (
	"k8s.io/client-go/tools/cache"
)

// store is what a reflector of client-go writes to. It converts at once: no API object
// outlives the call that brought it.
//
// What the reflector (client-go v0.37, tools/cache/reflector.go) does with it: Replace gets
// each whole list, after an expired watch too; Add, Update and Delete get events; Bookmark
// gets signs of life; Resync is called only with a resync period, which is not set. With
// WatchList, the initial events are gathered in a store of the reflector's own, through
// Transformer, before Replace.
type store struct {
	kind    kind
	table   *table
	convert *converter
	// replaced is called after a whole list was taken.
	replaced func()
}

var (
	_ cache.ReflectorStore         = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
	_ cache.TransformingStore      = (*store)(nil)
)

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error {
	s.table.apply(s.convert.convert(obj))
	s.table.status.alive()
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore. obj may be a cache.DeletedFinalStateUnknown.
func (s *store) Delete(obj any) error {
	id, err := keyOf(obj)
	if err != nil {
		return err
	}
	s.table.remove(s.kind, id)
	s.table.status.alive()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, _ string) error {
	objects := make([]*object, len(list))
	for i, obj := range list {
		objects[i] = s.convert.convert(obj)
	}
	s.table.replace(s.kind, objects)
	s.replaced()
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(string) error {
	s.table.status.alive()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do: the table pushes
// everything that changes when it changes.
func (s *store) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.compact(obj), nil }
}

// compact is the object of a list that is not whole yet.
func (s *store) compact(obj any) *object { return s.table.share(s.convert.convert(obj)) }
