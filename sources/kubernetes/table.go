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
	kinds      [numKinds]kindState
	dirty      []*service // touched since the last flush
	live       bool       // both kinds were listed: changes are pushed
	bad        int        // notes of objects that are left out
	closed     bool
}

// kindState is what the table knows of a kind as a whole.
type kindState struct {
	count  int    // objects held
	round  uint32 // number of lists taken
	listed bool
	notes  map[key]note
	doubt  doubt
}

// note is what is wrong with an object.
type note struct {
	text  string
	bad   bool
	round uint32
}

// namespace indexes what is held of a namespace.
type namespace struct {
	name     string
	services map[string]*service // known ones, and those that only slices name
	slices   map[string]held     // by slice name
}

// held says which service has a slice. The slice itself is found there by its name.
type held struct {
	owner *service
	round uint32 // of the last list or event that had it
}

// service is a service with its slices.
type service struct {
	namespace *namespace
	name      string
	// value is never nil. Once pushed, it and its Slices are shared with the resolver and
	// never changed again: ownValue and ownSlices say what is still ours to change.
	value     *sources.Service
	round     uint32
	known     bool // a Service object exists; else value has slices only
	ownValue  bool
	ownSlices bool
	pushed    bool // the Sink has a value of it
	dirty     bool
}

func newTable(source string, guard time.Duration, sink sources.Sink, st *status, logger *slog.Logger) *table {
	t := &table{source: source, sink: sink, status: st, logger: logger, guard: guard, namespaces: map[string]*namespace{}}
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

// replaceAll takes the whole lists of both kinds as one step, and doubts nothing.
func (t *table) replaceAll(lists [numKinds][]*object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, list := range lists {
		t.takeListLocked(kind(k), list, 0)
	}
	t.goLiveLocked()
	t.flushLocked()
}

func (t *table) takeListLocked(k kind, list []*object, guard time.Duration) {
	state := &t.kinds[k]
	held := state.count
	state.round++
	for _, o := range list {
		t.applyLocked(o)
	}
	for id, n := range state.notes {
		if n.round != state.round {
			t.forgetNoteLocked(k, id)
		}
	}
	lost := t.unlistedLocked(k)
	if !implausible(len(lost), held, len(list)) {
		guard = 0
	}
	t.loseLocked(k, lost, held, guard)
	state.listed = true
}

// unlistedLocked are the held objects that the list of this round did not have.
func (t *table) unlistedLocked(k kind) (lost []key) {
	round := t.kinds[k].round
	for _, ns := range t.namespaces {
		if k == kindService {
			for name, s := range ns.services {
				if s.known && s.round != round {
					lost = append(lost, key{ns.name, name})
				}
			}
			continue
		}
		for name, h := range ns.slices {
			if h.round != round {
				lost = append(lost, key{ns.name, name})
			}
		}
	}
	return lost
}

// goLiveLocked makes all of the table due for pushing once both kinds have been listed.
func (t *table) goLiveLocked() {
	if t.live || !t.kinds[kindService].listed || !t.kinds[kindSlice].listed {
		return
	}
	t.live = true
	for _, ns := range t.namespaces {
		for _, s := range ns.services {
			t.touchLocked(s)
		}
	}
}

func (t *table) applyLocked(o *object) {
	t.noteLocked(o)
	switch {
	case o.bad:
		t.confirmLocked(o.kind, o.key) // what is held of it stays
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

// confirmLocked keeps an object that is listed, whatever it says now.
func (t *table) confirmLocked(k kind, id key) {
	ns := t.namespaces[id.namespace]
	if ns == nil {
		return
	}
	if s := ns.services[id.name]; k == kindService && s != nil {
		s.round = t.kinds[k].round
	}
	if h, ok := ns.slices[id.name]; k == kindSlice && ok {
		h.round = t.kinds[k].round
		ns.slices[id.name] = h
	}
}

func (t *table) setServiceLocked(o *object) {
	s := t.serviceLocked(o.key)
	s.round = t.kinds[kindService].round
	if s.known && sameService(s.value, o.service) {
		return
	}
	if !s.known {
		t.kinds[kindService].count++
	}
	value := *o.service
	value.Slices = s.value.Slices
	s.value, s.known, s.ownValue = &value, true, true
	t.touchLocked(s)
}

func (t *table) removeServiceLocked(id key) {
	ns := t.namespaces[id.namespace]
	if ns == nil || ns.services[id.name] == nil || !ns.services[id.name].known {
		return
	}
	s := ns.services[id.name]
	s.value, s.known, s.ownValue = &sources.Service{Slices: s.value.Slices}, false, true
	t.kinds[kindService].count--
	t.touchLocked(s)
}

func (t *table) setSliceLocked(o *object) {
	if o.slice == nil {
		t.removeSliceLocked(o.key)
		return
	}
	round := t.kinds[kindSlice].round
	s := t.serviceLocked(key{o.key.namespace, o.owner})
	if h, ok := s.namespace.slices[o.key.name]; ok && h.owner != s {
		t.takeOutLocked(h.owner, o.key.name) // its label names another service now
	} else if !ok {
		t.kinds[kindSlice].count++
	}
	at, found := findSlice(s.value.Slices, o.key.name)
	if found && sameSlice(s.value.Slices[at], o.slice) {
		// The index keeps the old slice's name as its key: the new slice is not kept.
		s.namespace.slices[s.value.Slices[at].Name] = held{s, round}
		return
	}
	s.namespace.slices[o.slice.Name] = held{s, round}
	s.makeOwn()
	if found {
		s.value.Slices[at] = o.slice
	} else {
		s.value.Slices = slices.Insert(s.value.Slices, at, o.slice)
	}
	t.touchLocked(s)
}

func (t *table) removeSliceLocked(id key) {
	ns := t.namespaces[id.namespace]
	if ns == nil {
		return
	}
	if h, ok := ns.slices[id.name]; ok {
		delete(ns.slices, id.name)
		t.kinds[kindSlice].count--
		t.takeOutLocked(h.owner, id.name)
	}
}

// takeOutLocked takes a slice out of a service, not out of the index.
func (t *table) takeOutLocked(s *service, name string) {
	if at, found := findSlice(s.value.Slices, name); found {
		s.makeOwn()
		if s.value.Slices = slices.Delete(s.value.Slices, at, at+1); len(s.value.Slices) == 0 {
			s.value.Slices = nil // as that of a service that never had one
		}
		t.touchLocked(s)
	}
}

// serviceLocked finds or makes an entry. A made one is touched, so that flush takes it
// away again if nothing comes into it.
func (t *table) serviceLocked(id key) *service {
	ns := t.namespaces[id.namespace]
	if ns == nil {
		ns = &namespace{
			name:     strings.Clone(id.namespace),
			services: map[string]*service{},
			slices:   map[string]held{},
		}
		t.namespaces[ns.name] = ns
	}
	s := ns.services[id.name]
	if s == nil {
		s = &service{
			namespace: ns,
			name:      strings.Clone(id.name),
			value:     &sources.Service{},
			ownValue:  true,
			ownSlices: true,
		}
		ns.services[s.name] = s
		t.touchLocked(s)
	}
	return s
}

// makeOwn makes value and its Slices ours to change.
func (s *service) makeOwn() {
	if !s.ownValue {
		value := *s.value
		s.value, s.ownValue = &value, true
	}
	if !s.ownSlices {
		s.value.Slices, s.ownSlices = slices.Clone(s.value.Slices), true
	}
}

func (t *table) touchLocked(s *service) {
	if !s.dirty {
		s.dirty = true
		t.dirty = append(t.dirty, s)
	}
}

// flushLocked pushes the touched services, once each.
func (t *table) flushLocked() {
	for i, s := range t.dirty {
		s.dirty = false
		t.dirty[i] = nil
		t.pushLocked(s)
		t.dropEmptyLocked(s)
	}
	t.dirty = t.dirty[:0]
}

func (t *table) pushLocked(s *service) {
	if t.closed || !t.live || !s.known && !s.pushed {
		return
	}
	update := sources.Update{Key: sources.Key{
		Source:    t.source,
		Kind:      sources.KindService,
		Namespace: s.namespace.name,
		Name:      s.name,
	}}
	if s.known {
		s.ownValue, s.ownSlices = false, false
		update.Value = s.value
	}
	s.pushed = s.known
	t.sink.Update(update)
}

func (t *table) dropEmptyLocked(s *service) {
	if s.known || len(s.value.Slices) > 0 {
		return
	}
	delete(s.namespace.services, s.name)
	if ns := s.namespace; len(ns.services) == 0 {
		delete(t.namespaces, ns.name)
	}
}

// noteLocked keeps and logs what is wrong with o, once for as long as it stays so.
func (t *table) noteLocked(o *object) {
	state := &t.kinds[o.kind]
	if o.complaint == "" {
		t.forgetNoteLocked(o.kind, o.key)
		return
	}
	old, had := state.notes[o.key]
	state.notes[o.key] = note{text: o.complaint, bad: o.bad, round: state.round}
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
	if o.kind != kindSlice || o.slice == nil {
		return o
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ns := t.namespaces[o.key.namespace]
	if ns == nil {
		return o
	}
	h, ok := ns.slices[o.key.name]
	if !ok || h.owner.name != o.owner {
		return o
	}
	if at, found := findSlice(h.owner.value.Slices, o.key.name); found && sameSlice(h.owner.value.Slices[at], o.slice) {
		old := h.owner.value.Slices[at]
		return &object{kind: kindSlice, key: key{ns.name, old.Name}, owner: h.owner.name, slice: old, complaint: o.complaint}
	}
	return o
}

func findSlice(list []*sources.Slice, name string) (at int, found bool) {
	return slices.BinarySearchFunc(list, name, func(s *sources.Slice, name string) int {
		return strings.Compare(s.Name, name)
	})
}

// sameService says whether two services differ in nothing but their slices.
func sameService(a, b *sources.Service) bool {
	return a.Type == b.Type && a.Created.Equal(b.Created) && a.ExternalName == b.ExternalName &&
		a.EquivalentTo == b.EquivalentTo && slices.Equal(a.Ports, b.Ports) &&
		slices.Equal(a.ClusterIPs, b.ClusterIPs)
}

func sameSlice(a, b *sources.Slice) bool {
	return a == b || a.Name == b.Name && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Endpoints, b.Endpoints)
}
