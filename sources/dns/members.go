package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// staleTTL bounds the TTL of members that outlived a failed refresh (DNS_RULES 40;
// RFC 8767 section 5 recommends the same 30 s).
const staleTTL = 30 * time.Second

// memory is what is kept of a locator between attempts.
type memory struct {
	parts    map[part]known // last good answer of each host and family
	slices   []sources.Slice
	chain    []sources.Alias
	answered bool
	last     sources.Outcome // sources.Members.Last
	since    time.Time       // when slices were last confirmed
	expires  time.Time       // when the last good members expire, or expired
	ttl      time.Duration   // what they had to live when they came, at least a second
}

// part is one host's addresses of one family.
type part struct {
	host names.Name
	v6   bool
}

// known are the addresses of a part, none where it is known to be empty, and when an
// upstream last confirmed them.
type known struct {
	addrs     []netip.Addr
	confirmed time.Time
}

// verdict is what an attempt leads to.
type verdict struct {
	members *sources.Members
	result  string    // for Metrics: one of Results
	refresh time.Time // when the first answer that was used expires; zero when all failed
}

// merge puts an attempt over what was known and gives what to push. keep is how long a
// failed part keeps its addresses while others answer. It changes m only.
func (m *memory) merge(loc locator, a attempt, now time.Time, keep time.Duration) verdict {
	if a.srv != nil {
		switch {
		case a.srv.err != nil:
			return m.failed(a.srv.err, now)
		case a.srv.kind == noName:
			return m.noName(*a.srv)
		}
	}
	for i := range a.targets {
		a.targets[i].settle(m)
	}
	if a.srv == nil && a.targets[0].absent() {
		return m.noName(a.targets[0].firstGood())
	}
	good, err := tally(a)
	if err != nil && !a.hasAddresses() {
		m.forgetAbsent(loc, a)
		return m.failed(err, now)
	}
	return m.found(loc, a, good, err, now, keep)
}

// hasAddresses says whether any part was answered with addresses.
func (a attempt) hasAddresses() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.v4.is(hasRecords) || t.v6.is(hasRecords) })
}

// settle decides the two cases where one family's answer speaks for the other: NXDOMAIN
// is said of a name, not of a type; and an empty answer without an SOA is believed of a
// host that has addresses of the other family and never had any of this one.
func (t *target) settle(m *memory) {
	pair := []*result{&t.v4, &t.v6}
	for i, r := range pair {
		other := pair[1-i]
		switch {
		case r.err == nil:
		case other.err == nil && other.kind == noName:
			*r = *other
		case other.err == nil && other.kind == hasRecords && errors.Is(r.err, errUnproven) &&
			len(m.parts[part{t.name, i == 1}].addrs) == 0:
			*r = result{kind: noData, fetched: other.fetched, expires: other.expires}
		}
	}
}

// absent says that the name is known not to exist: NXDOMAIN for both families, or for
// one after NODATA for the other. Where the two contradict each other at the same time, or
// one has addresses (servers that say NXDOMAIN for lack of a type: RFC 4074 section 4.2),
// it is not known.
func (t *target) absent() bool {
	return t.v4.is(noName) && t.v6.absentSince(t.v4.fetched) ||
		t.v6.is(noName) && t.v4.absentSince(t.v6.fetched)
}

// absentSince says that r is NXDOMAIN, or NODATA from an earlier attempt than at, since
// when NXDOMAIN is said of the other family.
func (r *result) absentSince(at time.Time) bool {
	return r.is(noName) || r.is(noData) && r.fetched.Add(minRefresh).Before(at)
}

// is says that r went well and is of that kind.
func (r *result) is(kind answerKind) bool { return r.err == nil && r.kind == kind }

// firstGood is the family that says more: addresses, else an answer.
func (t *target) firstGood() result {
	switch {
	case t.v4.is(hasRecords), !t.v6.is(hasRecords) && t.v4.err == nil:
		return t.v4
	}
	return t.v6
}

// tally gives the results that went well, and the first error of the others.
func tally(a attempt) (good []result, err error) {
	for i := range a.targets {
		t := &a.targets[i]
		for _, r := range []result{t.v4, t.v6} {
			if r.err == nil {
				good = append(good, r)
			} else if err == nil {
				err = r.err
			}
		}
	}
	if a.srv != nil {
		good = append(good, *a.srv)
	}
	return good, err
}

// forgetAbsent takes those parts out of the last good members that were answered as empty
// or gone, and leaves those that failed, whatever their age (CASES C155): a name never
// becomes empty by a failure. What it was before the failure stays known: that it did not
// exist until a part of it answers, that it is empty where each part is known to be.
func (m *memory) forgetAbsent(loc locator, a attempt) {
	absent := m.last == sources.NoName
	if !m.answered || absent && !a.answersAny() {
		return
	}
	m.parts, _ = m.partsOf(a, m.since, maxDuration)
	m.share(slicesOf(loc, a, m.parts))
	m.last = sources.Failed
	if len(m.slices) > 0 || m.knowsAll(a) || absent && a.srv == nil {
		m.last = sources.Found
	}
}

// answersAny says whether the SRV records or any part were answered, be it as empty.
func (a attempt) answersAny() bool {
	return a.srv != nil || slices.ContainsFunc(a.targets, func(t target) bool { return t.v4.err == nil || t.v6.err == nil })
}

// knowsAll says whether each part of a is known, be it to be empty.
func (m *memory) knowsAll(a attempt) bool {
	return !slices.ContainsFunc(a.targets, func(t target) bool {
		_, v4 := m.parts[part{t.name, false}]
		_, v6 := m.parts[part{t.name, true}]
		return !v4 || !v6
	})
}

// share takes built as the slices. Where nothing changed the former ones stay, so that
// who compares sees at once.
func (m *memory) share(built []sources.Slice) {
	if !slices.Equal(built, m.slices) {
		m.slices = built
	}
}

// failed keeps what is known: an error is not an absence.
func (m *memory) failed(err error, now time.Time) verdict {
	out := &sources.Members{Outcome: sources.Failed, Slices: m.slices, Last: m.last, EverAnswered: m.answered,
		Stale: m.last != sources.Failed, Since: m.since, Error: err.Error(), Chain: m.chain}
	if now.Before(m.expires) {
		out.Expires = m.expires
	} else if m.answered {
		out.TTL = min(m.ttl, staleTTL)
	}
	return verdict{members: out, result: ResultFailed}
}

// noName forgets everything but that the name does not exist.
func (m *memory) noName(r result) verdict {
	*m = memory{answered: true, last: sources.NoName, chain: r.chain, since: r.fetched, expires: r.expires, ttl: minRefresh}
	return verdict{
		members: &sources.Members{Outcome: sources.NoName, Last: sources.NoName, EverAnswered: true,
			Expires: r.expires, Since: r.fetched, Chain: r.chain},
		result: ResultNoName, refresh: r.expires,
	}
}

// found takes what went well, and keeps for a while what did not (CASES C155, C166).
func (m *memory) found(loc locator, a attempt, good []result, err error, now time.Time, keep time.Duration) verdict {
	parts, stale := m.partsOf(a, now, keep)
	times := lifeOf(good, now)
	if stale {
		times.expires = earlier(times.expires, now.Add(staleTTL))
	}
	m.share(slicesOf(loc, a, parts))
	*m = memory{parts: parts, slices: m.slices, chain: chainOf(a), answered: true, last: sources.Found, since: times.since,
		expires: times.expires, ttl: max(times.expires.Sub(now), minRefresh)}
	out := verdict{
		members: &sources.Members{Outcome: sources.Found, Slices: m.slices, Last: sources.Found, EverAnswered: true,
			Expires: times.expires, Stale: stale, Since: times.since, Chain: m.chain},
		result: ResultFound, refresh: times.refresh,
	}
	if err != nil {
		out.members.Error, out.result = err.Error(), ResultPartial
	}
	return out
}

// partsOf are the addresses of each part: fresh ones, or those kept of a part that
// failed for less than keep; stale says that some were kept. That a part is empty is kept
// without an end: it adds nothing.
func (m *memory) partsOf(a attempt, now time.Time, keep time.Duration) (parts map[part]known, stale bool) {
	parts = make(map[part]known)
	for i := range a.targets {
		t := &a.targets[i]
		for _, v6 := range []bool{false, true} {
			id, r := part{t.name, v6}, t.family(v6)
			before, had := m.parts[id]
			switch {
			case r.is(hasRecords):
				parts[id] = known{addrs: r.piece.addrs, confirmed: r.fetched}
			case r.err == nil:
				parts[id] = known{confirmed: r.fetched}
			case had && len(before.addrs) == 0:
				parts[id] = before
			case had && now.Sub(before.confirmed) < keep:
				parts[id] = before
				stale = true
			}
		}
	}
	return parts, stale
}

func (t *target) family(v6 bool) *result {
	if v6 {
		return &t.v6
	}
	return &t.v4
}

// life is when the records of an attempt were confirmed, expire, and when the first
// answer, empty ones included, is due again.
type life struct {
	since, expires, refresh time.Time
}

// lifeOf takes the times of the answers with records; of the empty ones if there are no
// others. Records live a second at least, and none when an upstream gave them TTL 0:
// expires is then equal to since.
func lifeOf(good []result, now time.Time) life {
	var l life
	positive := slices.DeleteFunc(slices.Clone(good), func(r result) bool { return r.kind != hasRecords })
	if len(positive) == 0 {
		positive = good
	}
	zero := false
	for _, r := range positive {
		l.since = earlier(l.since, r.fetched)
		l.expires = earlier(l.expires, r.expires)
		zero = zero || r.zero
	}
	for _, r := range good {
		l.refresh = earlier(l.refresh, r.expires)
	}
	switch soonest := now.Add(minRefresh); {
	case zero:
		l.expires = l.since
	case l.expires.Before(soonest):
		l.expires = soonest
	}
	return l
}

// earlier is the earlier one of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// chainOf are the aliases of the locator's own name: of the SRV question, else of the
// family that has addresses, A before AAAA.
func chainOf(a attempt) []sources.Alias {
	if a.srv != nil {
		return a.srv.chain
	}
	return a.targets[0].firstGood().chain
}

// slicesOf makes one slice for each port, or the single one of a plain host, with each
// address once; none where there is no address.
func slicesOf(loc locator, a attempt, parts map[part]known) []sources.Slice {
	byPort := make(map[uint16][]netip.Addr)
	for _, t := range a.targets {
		addrs := slices.Concat(parts[part{t.name, false}].addrs, parts[part{t.name, true}].addrs)
		ports := t.ports
		if a.srv == nil {
			ports = []uint16{0}
		}
		for _, port := range ports {
			byPort[port] = append(byPort[port], addrs...)
		}
	}
	var out []sources.Slice
	for port, addrs := range byPort {
		if len(addrs) > 0 {
			out = append(out, newSlice(loc, port, addrs))
		}
	}
	slices.SortFunc(out, func(x, y sources.Slice) int { return int(portOf(x)) - int(portOf(y)) })
	return out
}

// newSlice is a slice whose port has the SRV record's number and its service's name; port
// 0 says that none is known.
func newSlice(loc locator, port uint16, addrs []netip.Addr) sources.Slice {
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	s := sources.SliceFields{Endpoints: make([]sources.Endpoint, len(addrs))}
	for i, addr := range addrs {
		s.Endpoints[i].Address = addr
	}
	if port != 0 {
		s.Name = fmt.Sprintf("%s-%s", loc.service, strconv.Itoa(int(port)))
		s.Ports = []sources.Port{{Name: loc.service, Protocol: loc.protocol, Number: port}}
	}
	return s.Pack()
}

// portOf is the number of a slice's port, 0 when it has none.
func portOf(s sources.Slice) uint16 {
	list := s.Ports().All()
	list.Next()
	return list.Number
}
