package zones

import (
	"slices"

	"github.com/meshdns/meshdns/names"
)

// Answer is what a lookup found, as references into a View's bytes. It is reused from
// query to query, holds no memory of its own but small slices, and is valid while the
// View is.
type Answer struct {
	Status Status
	Zone   *Zone  // the zone that the last name looked up is in; nil outside
	Asked  *Zone  // the zone of the question itself; nil outside
	Serial uint32 // of Zone
	Stale  bool   // stands on a failing source
	Type   uint16 // of the records

	view      *View
	ttl       uint32
	expires   int64 // 0: ttl does not count down
	list      []byte
	weights   []byte // alias table of list, empty where all are alike
	text      []byte
	targets   []targetList
	count     int    // of all targets
	base      []byte // labels of the service or registered name, below "svc" or the zone
	svc       bool   // base stands below svc.<zone>
	root4     []byte // addresses at the name itself, glue of targets that are it
	root6     []byte
	alias     []byte // the CNAME target that was found last, not yet followed
	chain     []link // aliases followed, in order
	query     Query  // of the alias being followed
	waitFor   []byte
	waitAlias bool
}

// link is a CNAME of a chain: its target and its own TTL.
type link struct {
	target  []byte
	ttl     uint32
	expires int64
}

// targetList is the SRV targets of one part. sited: hosts stand under the part's site.
type targetList struct {
	part    part
	targets []byte
	sited   bool
}

// reset prepares for another lookup. What a Status makes readable it also sets, so that
// most of what an earlier one left may stay.
func (a *Answer) reset(v *View) {
	a.Zone, a.Asked, a.Serial, a.Stale, a.Type = nil, nil, 0, false, 0
	a.view, a.ttl, a.expires = v, 0, 0
	a.weights, a.alias, a.waitFor, a.waitAlias = nil, nil, nil, false
	a.targets, a.chain, a.count = a.targets[:0], a.chain[:0], 0
	a.Status = Outside
}

// Release lets go of the View, which a Handler that waits for queries would keep from being
// forgotten.
func (a *Answer) Release() {
	a.view, a.list, a.weights, a.text, a.alias, a.root4, a.root6 = nil, nil, nil, nil, nil, nil, nil
	clear(a.targets)
	clear(a.chain)
	a.targets, a.chain = a.targets[:0], a.chain[:0]
}

// fail turns what was found into an answer without records.
func (a *Answer) fail(s Status) {
	a.Status, a.alias = s, nil
	a.chain, a.targets, a.count = a.chain[:0], a.targets[:0], 0
}

// wait says that the answer waits for the locators behind a name: a registered one by
// its labels below the mesh zone, or an alias target.
func (a *Answer) wait(labels []byte) {
	a.waitFor = labels
	a.fail(Wait)
}

// Awaited are the backend keys (resolver.Snapshot.Members) that a Wait waits for.
func (a *Answer) Awaited() []string {
	name, err := names.FromWire(append(slices.Clone(a.waitFor), 0))
	if err != nil {
		return nil
	}
	if a.waitAlias {
		return []string{name.Text()}
	}
	if name, err = a.Zone.Name.Join(string(a.waitFor)); err != nil {
		return nil
	}
	return a.view.snapshot.Unasked(name)
}

func (a *Answer) found(typ uint16, ttl uint32) {
	a.Status, a.Type, a.ttl = Found, typ, ttl
}

func (a *Answer) foundAddresses(typ uint16, list []byte, ttl uint32) {
	a.found(typ, ttl)
	a.list = list
}

func (a *Answer) foundText(s []byte, ttl uint32) {
	a.found(typeTXT, ttl)
	a.text = s
}

func (a *Answer) foundAlias(target []byte) {
	a.found(typeCNAME, a.ttl)
	a.alias = target
}

func (a *Answer) noDataIf(exists bool) {
	a.Status = NoName
	if exists {
		a.Status = NoData
	}
}

func (a *Answer) addressesOrNoData(typ uint16, list []byte) {
	a.Status = NoData
	if len(list) > 0 {
		a.foundAddresses(typ, list, a.ttl)
	}
}

// any is the answer to ANY: one RRset that exists (RFC 8482).
func (a *Answer) any(v4, v6 []byte) {
	a.addressesOrNoData(typeA, v4)
	if a.Status == NoData {
		a.addressesOrNoData(typeAAAA, v6)
	}
}

// host answers for a host, nil when there is none.
func (a *Answer) host(typ uint16, h host) {
	switch {
	case h == nil:
		a.Status = NoName
	case typ == typeA || typ == typeAAAA:
		a.addressesOrNoData(typ, h.addresses(typ))
	case typ == typeANY:
		a.any(h.addresses(typeA), h.addresses(typeAAAA))
	default:
		a.Status = NoData
	}
}

// addTargets adds a part's SRV targets.
func (a *Answer) addTargets(p part, targets []byte, sited bool) {
	if len(targets) == 0 {
		return
	}
	a.targets = append(a.targets, targetList{p, targets, sited})
	a.count += len(targets) / targetSize
	a.found(typeSRV, a.ttl)
}
