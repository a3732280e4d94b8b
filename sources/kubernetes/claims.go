package kubernetes

import (
	"cmp"
	"slices"
	"strings"
)

// claims decides which file has the say about an object, and puts what that one says into
// the table: the file whose path comes last. What a single file says is in the table and
// nowhere else; objects that several files have are held here as each of them has them. So
// are the few that the table would not show: Endpoints, and slices that say nothing.
//
// It belongs to one goroutine. All but newClaims and repeats is called with the table
// locked.
type claims struct {
	table *table
	files map[string]*manifest // as they are in the table by now
	tell  func(what, message string)

	held map[itemID][]claim // ordered by file
	// index is where all objects are; made when two files turn out to have the same one, and
	// let go of at the end of a step.
	index map[itemID]place
	// crowded are objects that came to be in several files in this step.
	crowded []itemID

	mirrors   map[key]key      // slices that a cluster mirrored itself → service
	mirrored  map[key]int      // services that have such slices
	mirroring map[key][]string // Endpoints → slices that the table has for them
	unsettled map[key]struct{} // Endpoints to be looked at again
}

// claim is what a file says of an object: one of object and endpoints.
type claim struct {
	place
	object    *object
	endpoints *mirrored
}

// shows says whether the table can tell that the object is there.
func (c *claim) shows() bool {
	return c.object != nil && (c.object.kind == kindService || c.object.slice != "")
}

func newClaims(t *table, files map[string]*manifest, tell func(what, message string)) *claims {
	return &claims{
		table: t, files: files, tell: tell,
		held:    map[itemID][]claim{},
		mirrors: map[key]key{}, mirrored: map[key]int{}, mirroring: map[key][]string{}, unsettled: map[key]struct{}{},
	}
}

// replace takes what a file holds now in place of what it held: items, and those objects
// of before that are in kept.
func (c *claims) replace(file string, before roll, items []item, kept map[itemID]struct{}) {
	had := map[itemID]struct{}{}
	before.each(func(id itemID, _ int) { had[id] = struct{}{} })
	for i := range items {
		id := items[i].id()
		_, hadIt := had[id]
		delete(had, id)
		c.set(id, claim{place{file, items[i].line}, items[i].object, items[i].endpoints}, hadIt)
	}
	for id := range had {
		if _, keep := kept[id]; !keep {
			c.drop(id, file)
		}
	}
}

// finish ends a step of any number of files.
func (c *claims) finish() {
	c.settleEndpoints()
	for _, r := range repeatsOf(c.held, c.crowded) {
		c.tell(r.String(), "object is in the manifests twice, the later one counts")
	}
	c.index, c.crowded = nil, nil
}

// set takes what a file says of an object; had says that it said something before.
func (c *claims) set(id itemID, mine claim, had bool) {
	list, isHeld := c.held[id]
	if !isHeld && !had {
		if other, found := c.other(id, mine.file); found {
			list, isHeld = []claim{other}, true
		}
	}
	if c.index != nil {
		c.index[id] = mine.place
	}
	if !isHeld && mine.shows() {
		c.apply(&mine)
		return
	}
	at, found := findClaim(list, mine.file)
	if found {
		list[at] = mine
	} else {
		list = slices.Insert(list, at, mine)
	}
	if len(list) > 1 {
		c.crowded = append(c.crowded, id)
	}
	c.hold(id, list)
}

// drop takes the news that a file has an object no more.
func (c *claims) drop(id itemID, file string) {
	if c.index[id].file == file {
		delete(c.index, id)
	}
	list := c.held[id]
	if at, found := findClaim(list, file); found {
		list = slices.Delete(list, at, at+1)
	}
	if len(list) > 0 {
		c.hold(id, list)
		return
	}
	delete(c.held, id)
	c.remove(id)
}

// hold keeps the claims to an object, unless the table says it all, and applies the last.
func (c *claims) hold(id itemID, list []claim) {
	last := &list[len(list)-1]
	if len(list) == 1 && last.shows() {
		delete(c.held, id)
		if c.index != nil {
			c.index[id] = last.place
		}
	} else if _, had := c.held[id]; had {
		c.held[id] = list
	} else {
		c.held[id.clone()] = list
	}
	c.apply(last)
}

func findClaim(list []claim, file string) (at int, found bool) {
	return slices.BinarySearchFunc(list, file, func(c claim, file string) int { return strings.Compare(c.file, file) })
}

// other is the claim of another file than this one to an object that is not held here.
func (c *claims) other(id itemID, file string) (other claim, found bool) {
	kind := kindService
	switch id.kind {
	case endpointsName:
		return other, false
	case sliceName:
		kind = kindSlice
	}
	if other.object = c.table.objectLocked(kind, id.key); other.object == nil {
		return other, false
	}
	_, other.object.fromEndpoints = c.mirrors[id.key]
	other.object.fromEndpoints = other.object.fromEndpoints && kind == kindSlice
	if c.index == nil {
		c.index = c.indexed(file)
	}
	other.place, found = c.index[id]
	return other, found
}

// indexed is where all objects of the other files are.
func (c *claims) indexed(except string) map[itemID]place {
	index := map[itemID]place{}
	for file, m := range c.files {
		if file != except {
			m.roll.each(func(id itemID, line int) { index[id] = place{file, line} })
		}
	}
	return index
}

// apply puts an object into the table.
func (c *claims) apply(winner *claim) {
	switch o := winner.object; {
	case o == nil:
		c.unsettled[winner.endpoints.key] = struct{}{}
	case o.kind == kindService:
		c.table.applyLocked(o)
		c.touchEndpoints(o.key)
	default:
		c.table.applyLocked(o)
		c.noteMirror(o)
	}
}

// remove takes an object out of the table.
func (c *claims) remove(id itemID) {
	switch id.kind {
	case endpointsName:
		c.unsettled[id.clone().key] = struct{}{}
	case serviceName:
		c.table.removeLocked(kindService, id.key)
		c.table.forgetNoteLocked(kindService, id.key)
		c.touchEndpoints(id.key)
	default:
		c.table.removeLocked(kindSlice, id.key)
		c.table.forgetNoteLocked(kindSlice, id.key)
		c.noteMirror(&object{key: id.key})
	}
}

// touchEndpoints has the Endpoints of a service looked at again.
func (c *claims) touchEndpoints(service key) {
	if list := c.held[itemID{endpointsName, service}]; len(list) > 0 {
		c.unsettled[list[0].endpoints.key] = struct{}{}
	}
}

// noteMirror notes whether a slice is one that a cluster mirrored.
func (c *claims) noteMirror(o *object) {
	service, was := c.mirrors[o.key]
	if was {
		delete(c.mirrors, o.key)
		if c.mirrored[service]--; c.mirrored[service] == 0 {
			delete(c.mirrored, service)
		}
		c.touchEndpoints(service)
	}
	if o.fromEndpoints && o.owner != "" {
		service = key{o.key.namespace, o.owner}
		c.mirrors[o.key] = service
		c.mirrored[service]++
		c.touchEndpoints(service)
	}
}

// settleEndpoints puts slices into the table for those Endpoints that Kubernetes would
// mirror.
func (c *claims) settleEndpoints() {
	for _, id := range c.unsettledKeys() {
		wanted := c.wantedMirrors(id)
		var names []string
		for _, o := range wanted {
			names = append(names, o.key.name)
			c.table.applyLocked(o)
		}
		for _, name := range c.mirroring[id] {
			if !slices.Contains(names, name) {
				c.table.removeLocked(kindSlice, key{id.namespace, name})
				c.table.forgetNoteLocked(kindSlice, key{id.namespace, name})
			}
		}
		if c.mirroring[id] = names; names == nil {
			delete(c.mirroring, id)
		}
	}
	clear(c.unsettled)
}

func (c *claims) unsettledKeys() []key {
	ids := make([]key, 0, len(c.unsettled))
	for id := range c.unsettled {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b key) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return ids
}

// wantedMirrors are the slices that Kubernetes would make of the Endpoints of a service
// now.
func (c *claims) wantedMirrors(service key) []*object {
	list := c.held[itemID{endpointsName, service}]
	if len(list) == 0 || c.mirrored[service] > 0 {
		return nil
	}
	last := list[len(list)-1]
	o := c.table.objectLocked(kindService, service)
	switch {
	case o == nil:
		return nil
	case o.selects && last.endpoints.filled:
		c.tell(itemID{endpointsName, service}.String()+": "+last.place.String(),
			"Endpoints of a service with a selector are not read, only its EndpointSlices")
		return nil
	case o.selects:
		return nil
	}
	return last.endpoints.slices
}

// repeats are the objects that are in several files.
func (c *claims) repeats() []repeat {
	ids := make([]itemID, 0, len(c.held))
	for id := range c.held {
		ids = append(ids, id)
	}
	return repeatsOf(c.held, ids)
}

func repeatsOf(held map[itemID][]claim, ids []itemID) (repeats []repeat) {
	for _, id := range ids {
		list := held[id]
		for i := 1; i < len(list); i++ {
			repeats = append(repeats, repeat{id, list[i-1].place, list[i].place})
		}
	}
	return repeats
}
