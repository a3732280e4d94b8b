package kubernetes

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshdns/meshdns/sources"
)

// table holds what is known of one cluster and pushes what changes: one Update a service,
// with all its slices. Nothing is pushed before the first whole lists of both kinds are
// there. It is safe for concurrent use: both reflectors write to it.
//
// Slices of services that are not known are held until the service shows up.
type table struct {
	source string
	sink   sources.Sink
	status *status
	logger *slog.Logger
	guard  time.Duration // how long a relist's losses are doubted; 0: never

	mu         sync.Mutex
	namespaces map[string]*namespace
	entries    slab
	byName     index    // of services
	bySlice    index    // of slices: the entry that has it
	open       []opened // values that are being changed
	kinds      [numKinds]kindState
	dirty      []uint32 // touched since the last flush
	live       bool     // both kinds were listed: changes are pushed
	bad        int      // notes of objects that are left out
	closed     bool
}

// kindState is what the table knows of a kind as a whole.
type kindState struct {
	count  int // objects held
	listed bool
	notes  map[key]note
	doubt  doubt
}

// note is what is wrong with an object.
type note struct {
	text string
	bad  bool
}

func newTable(source string, guard time.Duration, sink sources.Sink, st *status, logger *slog.Logger) *table {
	t := &table{
		source: source, sink: sink, status: st, logger: logger, guard: guard,
		namespaces: map[string]*namespace{}, byName: newIndex(), bySlice: newIndex(),
	}
	for k := range t.kinds {
		t.kinds[k].notes = map[key]note{}
	}
	return t
}

// apply takes one object that is new or changed.
func (t *table) apply(o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.applyLocked(o)
	t.flushLocked()
}

// remove takes the news that one object is gone, which is believed at once.
func (t *table) remove(k kind, id key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(k, id)
	t.forgetNoteLocked(k, id)
	t.believeLocked(k, id)
	t.flushLocked()
}

// replace takes the whole list of a kind: what is not in it is gone, unless so much is
// gone that it is doubted. Nothing of it is pushed before all of it is taken.
func (t *table) replace(k kind, list []*object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeListLocked(k, list, t.guard)
	t.goLiveLocked()
	t.flushLocked()
	t.status.listed(int(k))
}

// change calls f, which may call what is Locked, and pushes what came of it as one step.
// All that the cluster has is known from the first change on that is whole.
func (t *table) change(whole bool, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	if whole {
		for k := range t.kinds {
			t.kinds[k].listed = true
		}
		t.goLiveLocked()
	}
	t.flushLocked()
}

// objectLocked is what is held of an object, nil for nothing. Its complaint is not kept.
func (t *table) objectLocked(k kind, id key) *object {
	if k == kindService {
		number, found := t.findEntry(id)
		if !found || !t.entries.at(number).known {
			return nil
		}
		e := t.entries.at(number)
		return &object{kind: k, key: e.key(), service: t.bareOf(e), selects: e.selects}
	}
	number, found := t.findOwner(id)
	if !found {
		return nil
	}
	e := t.entries.at(number)
	slice, _ := t.sliceOf(e, id.name)
	return &object{kind: k, key: key{e.namespace.name, slice.Name()}, owner: e.name, slice: slice}
}

func (t *table) takeListLocked(k kind, list []*object, guard time.Duration) {
	state := &t.kinds[k]
	held := state.count
	first := held+len(state.notes) == 0
	for _, o := range list {
		t.applyLocked(o)
	}
	var lost []key
	if !first {
		lost = t.unlistedLocked(k, list)
	}
	if !implausible(len(lost), held, len(list)) {
		guard = 0
	}
	t.loseLocked(k, lost, held, guard)
	state.listed = true
}

// unlistedLocked are the held objects that are not in list. Notes of such are forgotten.
func (t *table) unlistedLocked(k kind, list []*object) (lost []key) {
	listed := make(map[key]struct{}, len(list))
	for _, o := range list {
		listed[o.key] = struct{}{}
	}
	for id := range t.kinds[k].notes {
		if _, is := listed[id]; !is {
			t.forgetNoteLocked(k, id)
		}
	}
	check := func(id key) {
		if _, is := listed[id]; !is {
			lost = append(lost, id)
		}
	}
	t.packLocked()
	t.entries.each(func(_ uint32, e *entry) {
		switch {
		case k == kindSlice:
			for list := e.value.Slices(); list.Next(); {
				check(key{e.namespace.name, list.Name()})
			}
		case e.known:
			check(e.key())
		}
	})
	return lost
}

// goLiveLocked pushes all of the table once both kinds have been listed.
func (t *table) goLiveLocked() {
	if t.live || !t.kinds[kindService].listed || !t.kinds[kindSlice].listed {
		return
	}
	t.flushLocked() // which pushes nothing yet
	t.live = true
	t.entries.each(func(_ uint32, e *entry) { t.pushLocked(e) })
}

func (t *table) applyLocked(o *object) {
	t.noteLocked(o)
	switch {
	case o.bad: // what is held of it stays
	case o.kind == kindService:
		t.setServiceLocked(o)
	default:
		t.setSliceLocked(o)
	}
	t.believeLocked(o.kind, o.key)
}

func (t *table) removeLocked(k kind, id key) {
	if k == kindService {
		t.removeServiceLocked(id)
	} else {
		t.removeSliceLocked(id)
	}
}

func (t *table) setServiceLocked(o *object) {
	number := t.entryLocked(o.key)
	e := t.entries.at(number)
	e.selects = o.selects
	if e.known && t.bareOf(e) == o.service {
		return
	}
	if !e.known {
		t.kinds[kindService].count++
	}
	t.openLocked(number).bare, e.known = o.service, true
	t.touchLocked(number)
}

func (t *table) removeServiceLocked(id key) {
	number, found := t.findEntry(id)
	if !found || !t.entries.at(number).known {
		return
	}
	t.openLocked(number).bare = unknownService()
	t.entries.at(number).known, t.entries.at(number).selects = false, false
	t.kinds[kindService].count--
	t.touchLocked(number)
}

// unknownService is what stands before the slices of a service that is not known.
func unknownService() sources.Service { return new(sources.ServiceFields).Pack() }

func (t *table) setSliceLocked(o *object) {
	if o.slice == "" {
		t.removeSliceLocked(o.key)
		return
	}
	number := t.entryLocked(key{o.key.namespace, o.owner})
	owner, found := t.findOwner(o.key)
	switch {
	case !found:
		t.kinds[kindSlice].count++
		t.bySlice.add(o.key, number)
	case owner != number: // its label names another service now
		t.bySlice.remove(o.key)
		t.takeOutLocked(owner, o.key.name)
		t.bySlice.add(o.key, number)
	default:
		if held, _ := t.sliceOf(t.entries.at(number), o.key.name); held == o.slice {
			return
		}
	}
	t.putInLocked(number, o.slice)
}

func (t *table) removeSliceLocked(id key) {
	if owner, found := t.findOwner(id); found {
		t.bySlice.remove(id)
		t.kinds[kindSlice].count--
		t.takeOutLocked(owner, id.name)
	}
}

// putInLocked puts a slice into an entry, in place of the one of its name.
func (t *table) putInLocked(number uint32, slice sources.Slice) {
	o := t.openLocked(number)
	if at, found := findSlice(o.slices, slice.Name()); found {
		o.slices[at] = slice
	} else {
		o.slices = slices.Insert(o.slices, at, slice)
	}
	t.touchLocked(number)
}

// takeOutLocked takes a slice out of an entry.
func (t *table) takeOutLocked(number uint32, name string) {
	o := t.openLocked(number)
	if at, found := findSlice(o.slices, name); found {
		o.slices = slices.Delete(o.slices, at, at+1)
	}
	t.touchLocked(number)
}

// entryLocked finds or makes an entry. A made one is touched, so that flush takes it away
// again if nothing comes into it.
func (t *table) entryLocked(id key) (number uint32) {
	number, found := t.findEntry(id)
	if found {
		return number
	}
	ns := t.namespaces[id.namespace]
	if ns == nil {
		ns = &namespace{name: strings.Clone(id.namespace)}
		t.namespaces[ns.name] = ns
	}
	ns.entries++
	number = t.entries.take()
	*t.entries.at(number) = entry{namespace: ns, name: strings.Clone(id.name), value: unknownService()}
	t.byName.add(id, number)
	t.touchLocked(number)
	return number
}

func (t *table) touchLocked(number uint32) {
	if e := t.entries.at(number); !e.dirty {
		e.dirty = true
		t.dirty = append(t.dirty, number)
	}
}

// flushLocked pushes the touched services, once each.
func (t *table) flushLocked() {
	t.packLocked()
	for _, number := range t.dirty {
		e := t.entries.at(number)
		e.dirty = false
		t.pushLocked(e)
		t.dropEmptyLocked(number)
	}
	if t.dirty = t.dirty[:0]; cap(t.dirty) > maxOpen {
		t.dirty = nil
	}
}

func (t *table) pushLocked(e *entry) {
	if t.closed || !t.live || !e.known && !e.pushed {
		return
	}
	update := sources.Update{Key: sources.Key{
		Source:    t.source,
		Kind:      sources.KindService,
		Namespace: e.namespace.name,
		Name:      e.name,
	}}
	if e.known {
		update.Value = e.value
	}
	e.pushed = e.known
	t.sink.Update(update)
}

func (t *table) dropEmptyLocked(number uint32) {
	e := t.entries.at(number)
	if e.known || e.value.Bare() != e.value {
		return
	}
	t.byName.remove(e.key())
	if e.namespace.entries--; e.namespace.entries == 0 {
		delete(t.namespaces, e.namespace.name)
	}
	t.entries.release(number)
}

// noteLocked keeps and logs what is wrong with o, once for as long as it stays so.
func (t *table) noteLocked(o *object) {
	state := &t.kinds[o.kind]
	if o.complaint == "" {
		t.forgetNoteLocked(o.kind, o.key)
		return
	}
	old, had := state.notes[o.key]
	state.notes[o.key] = note{text: o.complaint, bad: o.bad}
	if had && old.text == o.complaint && old.bad == o.bad {
		return
	}
	t.logger.Warn("object of the cluster is not usable as it is", "cluster", t.source,
		"kind", o.kind.String(), "object", o.key.String(), "problem", o.complaint, "skipped", o.bad)
	t.countBadLocked(had && old.bad, o.bad, o.kind.String()+" "+o.key.String()+": "+o.complaint)
}

func (t *table) forgetNoteLocked(k kind, id key) {
	if old, had := t.kinds[k].notes[id]; had {
		delete(t.kinds[k].notes, id)
		t.countBadLocked(old.bad, false, "")
	}
}

func (t *table) countBadLocked(before, now bool, latest string) {
	switch {
	case now && !before:
		t.bad++
	case before && !now:
		t.bad--
		latest = ""
	case !now:
		return
	}
	t.status.skipped(t.bad, latest)
}

// close ends the timers. Nothing is pushed any more.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for k := range t.kinds {
		t.kinds[k].doubt.stop()
	}
}

// share replaces a slice of o that says nothing new by the held one, so that the list that
// o is part of needs no memory for it.
func (t *table) share(o *object) *object {
	if o.kind != kindSlice || o.slice == "" {
		return o
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	number, found := t.findOwner(o.key)
	if !found {
		return o
	}
	e := t.entries.at(number)
	held, _ := t.sliceOf(e, o.key.name)
	if e.name != o.owner || held != o.slice {
		return o
	}
	return &object{
		kind: kindSlice, key: key{e.namespace.name, held.Name()}, owner: e.name, slice: held, complaint: o.complaint,
	}
}
