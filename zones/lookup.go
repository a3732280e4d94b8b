package zones

import "bytes"

// Query is a question in class IN. Name is in wire form, lower-cased, root byte
// included; Labels are the offsets in it at which labels begin, leftmost first.
type Query struct {
	Name   []byte
	Labels []uint8
	Type   uint16
	NoWait bool // answer with what is known instead of Wait

	spot spot
}

// tail is the name's last n labels with the root byte.
func (q *Query) tail(n int) []byte {
	if n == 0 {
		return q.Name[len(q.Name)-1:]
	}
	return q.Name[q.Labels[len(q.Labels)-n]:]
}

// SetName makes the query ask for a name in wire form.
func (q *Query) SetName(wire []byte) {
	q.Name = append(q.Name[:0], wire...)
	q.Labels = q.Labels[:0]
	for i := 0; i < len(q.Name) && q.Name[i] != 0; i += 1 + int(q.Name[i]) {
		q.Labels = append(q.Labels, uint8(i))
	}
}

// Status is what a lookup found.
type Status uint8

const (
	Outside     Status = iota // in no zone of ours: REFUSED
	Found                     // records of the asked type
	NoData                    // the name exists, not with that type
	NoName                    // nothing exists at or below the name: NXDOMAIN
	NotReady                  // a source that could hold the name never synced: SERVFAIL
	Unavailable               // the name's data are unknown or past their time: SERVFAIL
	Wait                      // a locator was never asked: ask it, then look again
)

// maxAliases bounds the CNAMEs of one answer; a chain that is longer is SERVFAIL.
const maxAliases = 8

// Lookup answers q from the view, without allocation once a has been used before.
func (v *View) Lookup(q *Query, a *Answer) {
	a.reset(v)
	v.lookup(q, a)
	a.Asked = a.Zone
	for a.alias != nil && a.Status == Found {
		if q.Type == typeCNAME || q.Type == typeANY || len(a.chain) == maxAliases {
			break
		}
		a.query.NoWait = q.NoWait
		v.follow(q.Type, a)
	}
	if len(a.chain) == maxAliases && a.alias != nil {
		a.fail(Unavailable)
	}
}

func (v *View) lookup(q *Query, a *Answer) {
	z := v.zones.find(q)
	if z == nil {
		a.Status, a.Zone = Outside, nil
		return
	}
	a.Zone, a.Serial = z, v.serials[z.number]
	a.svc, a.base, a.root4, a.root6 = false, nil, nil, nil
	n := len(q.Labels) - z.labels
	if n == 0 {
		v.apex(q, a)
		return
	}
	switch z.Kind {
	case Mesh:
		v.lookupMesh(q, a, n)
	case Reverse:
		v.lookupReverse(q, a)
	default:
		v.lookupKubernetes(q, a, n)
	}
}

// apex answers at the zone's own name (DNS_RULES 8).
func (v *View) apex(q *Query, a *Answer) {
	switch q.Type {
	case typeSOA, typeNS:
		a.found(q.Type, a.Zone.ttl)
	case typeANY: // RFC 8482: one small RRset
		a.found(typeNS, a.Zone.ttl)
	default:
		a.Status = NoData
	}
}

// below are the labels of the name from label i up to the zone, wire form.
func (q *Query) below(i, n int) []byte {
	end := len(q.Name) - 1
	if n < len(q.Labels) {
		end = int(q.Labels[n])
	}
	if i >= n {
		return nil
	}
	return q.Name[q.Labels[i]:end]
}

// lookupFixed answers from the zone's own names, else says that there is none.
func (v *View) lookupFixed(q *Query, a *Answer, n int, absent Status) {
	f := a.Zone.fixed[string(q.below(0, n))]
	if f == nil {
		a.Status = absent
		return
	}
	switch {
	case q.Type == typeA && len(f.a) > 0, q.Type == typeAAAA && len(f.aaaa) > 0:
		a.foundAddresses(q.Type, f.addresses(q.Type), a.Zone.ttl)
	case len(f.txt) > 0 && (q.Type == typeTXT || q.Type == typeANY):
		a.foundText(f.txt, f.txtTTL)
	case q.Type == typeANY && len(f.a) > 0:
		a.foundAddresses(typeA, f.a, a.Zone.ttl)
	default:
		a.Status = NoData
	}
}

const labelSvc = "\x03svc"

// lookupKubernetes answers in the aggregate and in cluster zones: names are read by
// position from the right, [[host.]cid.]service.namespace.svc.
func (v *View) lookupKubernetes(q *Query, a *Answer, n int) {
	if string(q.below(n-1, n)) != labelSvc {
		v.lookupFixed(q, a, n, NoName)
		return
	}
	if a.Zone.Kind == Cluster && v.expired[a.Zone.cluster] {
		a.fail(Unavailable)
		return
	}
	switch n {
	case 1: // svc always exists, as in Kubernetes
		a.Status = NoData
	case 2:
		v.lookupNamespace(q, a, n)
	default:
		v.lookupService(q, a, n)
	}
}

func (v *View) lookupNamespace(q *Query, a *Answer, n int) {
	e := v.index.get(classNamespace, q.below(0, n-1))
	if e != nil && e.hasScope(a.Zone) {
		a.Status = NoData
		return
	}
	a.Status = v.absent(q, a, n)
}

// hasScope says whether a namespace has a service in the zone.
func (e entry) hasScope(z *Zone) bool {
	if z.Kind == Aggregate {
		return e.flag(fExists)
	}
	ids := e.text()
	for ; len(ids) >= 2; ids = ids[2:] {
		if int(ids[0])|int(ids[1])<<8 == z.cluster {
			return true
		}
	}
	return false
}

func (v *View) lookupService(q *Query, a *Answer, n int) {
	e := v.index.get(classService, q.below(n-3, n-1))
	a.base, a.svc = q.below(n-3, n-1), true
	rest := q.below(0, n-3)
	if a.Zone.Kind == Cluster {
		if p := e.ownPart(a.Zone.cluster); p != nil {
			v.inOwnPart(q, a, e, p, rest, n-3)
			v.markStale(a, a.Zone.cluster)
		} else {
			a.Status = NoName
		}
	} else {
		v.inAggregate(q, a, e, rest, n-3)
	}
	if a.Status == NoName {
		a.Status = v.absent(q, a, n)
	}
}

// ownPart is the service as it stands in its cluster's own zone.
func (e entry) ownPart(cluster int) part {
	if e == nil {
		return nil
	}
	for i := range e.parts() {
		if p := e.part(i); p.flag(pfOwn) && p.cluster() == cluster {
			return p
		}
	}
	return nil
}

// inOwnPart answers inside of one cluster's service.
func (v *View) inOwnPart(q *Query, a *Answer, e entry, p part, rest []byte, labels int) {
	a.ttl = e.u32(hTTL)
	a.root4, a.root6 = p.addresses(typeA), p.addresses(typeAAAA)
	switch {
	case labels == 0:
		v.ownRoot(q, a, p)
	case len(p.alias()) > 0:
		a.Status = NoName
	case labels == 1 && rest[1] == '_':
		a.noDataIf(p.hasProtocol(rest[2:]))
	case labels == 1:
		h := p.hostNamed(v.index.seed, rest)
		a.host(q.Type, h)
	case labels == 2 && rest[1] == '_':
		name, protocol := splitPort(rest)
		targets, ok := p.portNamed(name, protocol)
		a.noDataIf(ok)
		if wantsTargets(q.Type) {
			a.addTargets(p, targets, false)
		}
	default:
		a.Status = NoName
	}
}

func (v *View) ownRoot(q *Query, a *Answer, p part) {
	switch {
	case len(p.alias()) > 0:
		a.foundAlias(p.alias())
	case q.Type == typeA || q.Type == typeAAAA:
		a.addressesOrNoData(q.Type, p.addresses(q.Type))
	case q.Type == typeSRV:
		a.Status = NoData
		a.addTargets(p, list(p, pBare, targetSize), false)
	case q.Type == typeANY:
		a.any(p.addresses(typeA), p.addresses(typeAAAA))
	default:
		a.Status = NoData
	}
}

// inAggregate answers inside of a service of all clusters or a registered name: hosts
// stand under their site.
func (v *View) inAggregate(q *Query, a *Answer, e entry, rest []byte, labels int) {
	if e == nil || !e.flag(fExists|fUnknown) {
		a.Status = NoName
		return
	}
	a.setTTL(e)
	a.root4, a.root6 = e.addresses(typeA), e.addresses(typeAAAA)
	switch {
	case labels == 0:
		v.aggregateRoot(q, a, e)
	case labels == 1 && rest[1] == '_':
		v.underscored(q, a, e, rest)
	case labels == 2 && rest[1] == '_':
		v.aggregatePort(q, a, e, rest)
	default:
		v.aggregateHost(q, a, e, rest)
	}
	if a.Status == NoName && e.flag(fPartial) {
		a.fail(e.unknown())
	}
	v.markStaleParts(a, e)
	if e.flag(fWait) && !q.NoWait { // whatever is known may not be all
		a.wait(a.base)
	}
}

func (v *View) aggregateRoot(q *Query, a *Answer, e entry) {
	switch {
	case e.flag(fUnknown):
		a.fail(e.unknown())
	case q.Type == typeA || q.Type == typeAAAA:
		a.addressesOrNoData(q.Type, e.addresses(q.Type))
		a.weights = e.weights(q.Type)
	case q.Type == typeSRV:
		a.Status = NoData
		for i := range e.parts() {
			if p := e.part(i); p.flag(pfAggregate) {
				a.addTargets(p, list(p, pBare, targetSize), true)
			}
		}
	case q.Type == typeANY:
		a.any(e.addresses(typeA), e.addresses(typeAAAA))
	default:
		a.Status = NoData
	}
}

const labelIdentity = "\x09_identity"

// underscored answers at one label that begins with an underscore: a protocol's empty
// non-terminal, or a registered name's identity.
func (v *View) underscored(q *Query, a *Answer, e entry, rest []byte) {
	if string(rest) == labelIdentity && len(e.text()) > 0 {
		a.Status = NoData
		if q.Type == typeTXT || q.Type == typeANY {
			a.foundText(e.text(), a.ttl)
		}
		return
	}
	a.Status = NoName
	for i := range e.parts() {
		if p := e.part(i); p.flag(pfAggregate) && p.hasProtocol(rest[2:]) {
			a.Status = NoData
			return
		}
	}
}

func (v *View) aggregatePort(q *Query, a *Answer, e entry, rest []byte) {
	name, protocol := splitPort(rest)
	a.Status = NoName
	for i := range e.parts() {
		p := e.part(i)
		if !p.flag(pfAggregate) {
			continue
		}
		targets, ok := p.portNamed(name, protocol)
		if ok && a.Status == NoName {
			a.Status = NoData
		}
		if ok && wantsTargets(q.Type) {
			a.addTargets(p, targets, true)
		}
	}
}

func wantsTargets(typ uint16) bool { return typ == typeSRV || typ == typeANY }

// aggregateHost answers for host.cid, and for cid and the labels inside of it.
func (v *View) aggregateHost(q *Query, a *Answer, e entry, rest []byte) {
	a.Status = NoName
	first := 1 + int(rest[0])
	for i := range e.parts() {
		p := e.part(i)
		if !p.flag(pfAggregate|pfLingering) || !p.hasHosts() {
			continue
		}
		site := p.site()
		switch {
		case bytes.Equal(rest[first:], site):
			if h := p.hostNamed(v.index.seed, rest[:first]); h != nil {
				a.host(q.Type, h)
				return
			}
		case hasLabelSuffix(site, rest):
			a.Status = NoData
		}
	}
}

// hasLabelSuffix says whether name ends with the whole labels of suffix.
func hasLabelSuffix(name, suffix []byte) bool {
	for len(name) > len(suffix) {
		name = name[1+int(name[0]):]
	}
	return bytes.Equal(name, suffix)
}

// splitPort takes _port._proto apart, without the underscores; protocol is empty when
// the second label has none.
func splitPort(rest []byte) (name, protocol []byte) {
	end := 1 + int(rest[0])
	name = rest[2:end]
	if len(rest) > end+1 && rest[end+1] == '_' {
		protocol = rest[end+2:]
	}
	return name, protocol
}

// lookupMesh finds the longest registered name that the query's name is at or below.
func (v *View) lookupMesh(q *Query, a *Answer, n int) {
	for i := 0; i < n && i <= v.zones.reach; i++ {
		key := q.below(i, n)
		e := v.index.get(classMesh, key)
		if e == nil || e.flag(fEmpty) && i > 0 {
			continue
		}
		if e.flag(fEmpty) {
			a.Status = NoData
			return
		}
		a.base = key
		v.inAggregate(q, a, e, q.below(0, i), i)
		return
	}
	absent := NoName
	if v.meshUnready {
		absent = NotReady
	}
	v.lookupFixed(q, a, n, absent)
}

func (v *View) lookupReverse(q *Query, a *Answer) {
	e := v.index.get(classReverse, q.Name[:len(q.Name)-1])
	switch {
	case e == nil && v.unreadySite():
		a.Status = NotReady
	case e == nil:
		v.lookupFixed(q, a, len(q.Labels)-a.Zone.labels, NoName)
	case !e.flag(fEmpty) && (q.Type == typePTR || q.Type == typeANY):
		a.found(typePTR, e.u32(hTTL))
		a.text = e.text()
	default:
		a.Status = NoData
	}
}

// follow looks up the target of the alias that a found last (RFC 1034 section 3.6.2).
func (v *View) follow(typ uint16, a *Answer) {
	target := a.alias
	a.chain = append(a.chain, link{target, a.ttl, a.expires})
	a.alias = nil
	a.query.Type = typ
	a.query.SetName(target)
	if v.zones.find(&a.query) != nil {
		v.lookup(&a.query, a)
		return
	}
	v.lookupTarget(typ, a, target)
}

// lookupTarget answers for an alias target outside of our zones from what upstreams said.
func (v *View) lookupTarget(typ uint16, a *Answer, target []byte) {
	a.Zone = nil // no SOA of ours at the chain's end (RFC 6604, RFC 2308 section 2.1)
	v.asked.mark(v.index.hash(classAlias, target[:len(target)-1]))
	e := v.index.get(classAlias, target[:len(target)-1])
	switch {
	case e == nil && a.query.NoWait:
		a.fail(Unavailable)
		return
	case e == nil:
		a.wait(target[:len(target)-1])
		a.waitAlias = true
		return
	case e.flag(fUnknown):
		a.fail(Unavailable)
		return
	}
	a.setTTL(e)
	for t := e.text(); len(t) > 0; {
		n := wireLen(t)
		a.chain = append(a.chain, link{t[:n], a.ttl, a.expires})
		t = t[n:]
	}
	a.Stale = a.Stale || e.flag(fStale)
	switch {
	case e.flag(fNoName):
		a.Status = NoName
	case typ == typeA || typ == typeAAAA:
		a.addressesOrNoData(typ, e.addresses(typ))
	default: // only addresses are looked up of targets
		a.Status = NoData
	}
}

// wireLen is the length of the name in wire form at the start of b.
func wireLen(b []byte) int {
	i := 0
	for b[i] != 0 {
		i += 1 + int(b[i])
	}
	return i + 1
}
