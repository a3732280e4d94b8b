package dns

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// gives is a good result with addresses, fetched at "at".
func gives(at time.Time, ttl time.Duration, texts ...string) result {
	return result{piece: piece{answer: &answer{addrs: addrs(texts...)}}, fetched: at, expires: at.Add(ttl), zero: ttl == 0}
}

// empty is a good result without records.
func empty(kind answerKind, at time.Time, ttl time.Duration) result {
	return result{kind: kind, piece: piece{answer: &answer{kind: kind}}, fetched: at, expires: at.Add(ttl)}
}

func broken(err error) result { return result{err: err} }

var errTest = errors.New("upstream said SERVFAIL")

func hostAttempt(v4, v6 result) attempt {
	return attempt{targets: []target{{name: webA.Name, v4: v4, v6: v6}}}
}

func mustLocator(text string) locator {
	loc, err := parseLocator(text)
	if err != nil {
		panic(err)
	}
	return loc
}

var host, srvHost = mustLocator("web.example"), mustLocator("_http._tcp.web.example")

func TestMergeHost(t *testing.T) {
	const keep = time.Minute
	v4, v6 := gives(t0, 10*time.Second, "192.0.2.1"), gives(t0, 20*time.Second, "2001:db8::1")
	later := t0.Add(9 * time.Second)
	late := t0.Add(keep + time.Second)
	none := func(at time.Time) result { return empty(noData, at, 5*time.Second) }
	gone := func(at time.Time) result { return empty(noName, at, 5*time.Second) }
	unproven := broken(errUnproven)
	cases := []struct {
		name    string
		before  *attempt // at t0
		now     time.Time
		a       attempt
		outcome sources.Outcome
		last    sources.Outcome // of failures without addresses; else Found, or the outcome
		addrs   []netip.Addr
		stale   bool
		failed  bool // Members.Error is set
		result  string
		expires time.Duration // after now; negative: Expires is zero
		ttl     time.Duration
	}{
		{name: "both families", now: t0, a: hostAttempt(v4, v6), outcome: sources.Found, result: ResultFound,
			addrs: addrs("192.0.2.1", "2001:db8::1"), expires: 10 * time.Second},
		{name: "NODATA in one does not shorten the other", now: t0, a: hostAttempt(v4, none(t0)), outcome: sources.Found, result: ResultFound,
			addrs: addrs("192.0.2.1"), expires: 10 * time.Second},
		{name: "NODATA in both", now: t0, a: hostAttempt(none(t0), none(t0)), outcome: sources.Found, result: ResultFound, expires: 5 * time.Second},
		{name: "NXDOMAIN", now: t0, a: hostAttempt(gone(t0), gone(t0)), outcome: sources.NoName, result: ResultNoName, expires: 5 * time.Second},
		{name: "NXDOMAIN is said of the name, not of a type", now: t0, a: hostAttempt(gone(t0), broken(errTest)), outcome: sources.NoName,
			result: ResultNoName, expires: 5 * time.Second},
		{name: "NXDOMAIN and addresses", now: t0, a: hostAttempt(gone(t0), v6), outcome: sources.Found, result: ResultFound,
			addrs: addrs("2001:db8::1"), expires: 20 * time.Second},
		{name: "NXDOMAIN and NODATA contradict each other", now: t0, a: hostAttempt(gone(t0), none(t0)), outcome: sources.Found,
			result: ResultFound, expires: 5 * time.Second},
		{name: "C166: one family fails from the start", now: t0, a: hostAttempt(v4, broken(errTest)), outcome: sources.Found, failed: true,
			result: ResultPartial, addrs: addrs("192.0.2.1"), expires: 10 * time.Second},
		{name: "unproven, beside addresses", now: t0, a: hostAttempt(v4, unproven), outcome: sources.Found, result: ResultFound,
			addrs: addrs("192.0.2.1"), expires: 10 * time.Second},
		{name: "unproven in both", now: t0, a: hostAttempt(unproven, unproven), outcome: sources.Failed, failed: true, result: ResultFailed, expires: -1},
		{name: "unproven beside NODATA: not known", now: t0, a: hostAttempt(unproven, none(t0)), outcome: sources.Failed, failed: true,
			result: ResultFailed, expires: -1},
		{name: "failed beside NODATA: not known", now: t0, a: hostAttempt(broken(errTest), none(t0)), outcome: sources.Failed, failed: true,
			result: ResultFailed, expires: -1},
		{name: "nothing known, both fail", now: t0, a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, failed: true,
			result: ResultFailed, expires: -1},

		{name: "C166: the family that fails keeps its last", before: ptr(hostAttempt(v4, v6)), now: later,
			a: hostAttempt(gives(later, 10*time.Second, "192.0.2.2"), broken(errTest)), outcome: sources.Found, failed: true, stale: true,
			result: ResultPartial, addrs: addrs("192.0.2.2", "2001:db8::1"), expires: 10 * time.Second},
		{name: "C166: a kept family's TTL is 30 s at most", before: ptr(hostAttempt(v4, v6)), now: later,
			a: hostAttempt(gives(later, time.Hour, "192.0.2.2"), broken(errTest)), outcome: sources.Found, failed: true, stale: true,
			result: ResultPartial, addrs: addrs("192.0.2.2", "2001:db8::1"), expires: 30 * time.Second},
		{name: "unproven is a failure for a family that had addresses", before: ptr(hostAttempt(v4, v6)), now: later,
			a: hostAttempt(gives(later, 10*time.Second, "192.0.2.2"), unproven), outcome: sources.Found, failed: true, stale: true,
			result: ResultPartial, addrs: addrs("192.0.2.2", "2001:db8::1"), expires: 10 * time.Second},
		{name: "but only for so long", before: ptr(hostAttempt(v4, v6)), now: late,
			a: hostAttempt(gives(late, 10*time.Second, "192.0.2.2"), broken(errTest)), outcome: sources.Found, failed: true,
			result: ResultPartial, addrs: addrs("192.0.2.2"), expires: 10 * time.Second},
		{name: "C155: never empty by a failure, however long the other family has been empty", before: ptr(hostAttempt(v4, none(t0))), now: late,
			a: hostAttempt(broken(errTest), none(late)), outcome: sources.Failed, failed: true, stale: true,
			result: ResultFailed, addrs: addrs("192.0.2.1"), expires: -1, ttl: 10 * time.Second},
		{name: "C155: the family that is empty now goes", before: ptr(hostAttempt(v4, v6)), now: late,
			a: hostAttempt(broken(errTest), none(late)), outcome: sources.Failed, failed: true, stale: true,
			result: ResultFailed, addrs: addrs("192.0.2.1"), expires: -1, ttl: 10 * time.Second},
		{name: "NXDOMAIN after NODATA of the other family", before: ptr(hostAttempt(v4, none(t0))), now: later, a: hostAttempt(gone(later), none(t0)),
			outcome: sources.NoName, result: ResultNoName, expires: 5 * time.Second},
		{name: "C149: NODATA replaces at once", before: ptr(hostAttempt(v4, v6)), now: later,
			a: hostAttempt(gives(later, 10*time.Second, "192.0.2.1"), none(later)), outcome: sources.Found, result: ResultFound,
			addrs: addrs("192.0.2.1"), expires: 10 * time.Second},
		{name: "C155: NXDOMAIN replaces at once", before: ptr(hostAttempt(v4, v6)), now: later, a: hostAttempt(gone(later), gone(later)),
			outcome: sources.NoName, result: ResultNoName, expires: 5 * time.Second},
		{name: "C149: failed before the TTL is over: it counts down", before: ptr(hostAttempt(v4, v6)), now: later,
			a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, failed: true, stale: true, result: ResultFailed,
			addrs: addrs("192.0.2.1", "2001:db8::1"), expires: time.Second},
		{name: "C149: failed after it: what it was", before: ptr(hostAttempt(v4, v6)), now: late,
			a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, failed: true, stale: true, result: ResultFailed,
			addrs: addrs("192.0.2.1", "2001:db8::1"), expires: -1, ttl: 10 * time.Second},
		{name: "C149: 30 s at most", before: ptr(hostAttempt(gives(t0, time.Minute, "192.0.2.1"), none(t0))), now: late,
			a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, failed: true, stale: true, result: ResultFailed,
			addrs: addrs("192.0.2.1"), expires: -1, ttl: 30 * time.Second},
		{name: "C149: failed after NXDOMAIN: it still does not exist", before: ptr(hostAttempt(gone(t0), gone(t0))), now: late,
			a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, last: sources.NoName, failed: true, stale: true,
			result: ResultFailed, expires: -1, ttl: time.Second},
		{name: "C149: failed after NODATA: it still is empty", before: ptr(hostAttempt(none(t0), none(t0))), now: late,
			a: hostAttempt(broken(errTest), broken(errTest)), outcome: sources.Failed, last: sources.Found, failed: true, stale: true,
			result: ResultFailed, expires: -1, ttl: 5 * time.Second},
		{name: "failed beside NODATA, after NXDOMAIN: it exists by now, and is empty", before: ptr(hostAttempt(gone(t0), gone(t0))), now: late,
			a: hostAttempt(broken(errTest), none(late)), outcome: sources.Failed, last: sources.Found, failed: true, stale: true,
			result: ResultFailed, expires: -1, ttl: time.Second},
		{name: "failed beside NODATA, after addresses and NODATA: empty", before: ptr(hostAttempt(v4, none(t0))), now: late,
			a: hostAttempt(none(late), broken(errTest)), outcome: sources.Failed, last: sources.Found, failed: true, stale: true,
			result: ResultFailed, expires: -1, ttl: 10 * time.Second},
		{name: "failed beside NODATA, never having answered: not known to be empty", before: ptr(hostAttempt(v4, broken(errTest))), now: late,
			a: hostAttempt(none(late), broken(errTest)), outcome: sources.Failed, failed: true,
			result: ResultFailed, expires: -1, ttl: 10 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var m memory
			if c.before != nil {
				m.merge(host, *c.before, t0, keep)
			}
			v := m.merge(host, c.a, c.now, keep)
			got := v.members
			assert.Equal(t, c.outcome, got.Outcome)
			assert.Equal(t, c.addrs, addresses(got))
			last := max(c.last, c.outcome)
			if len(c.addrs) > 0 {
				last = sources.Found
			}
			assert.Equal(t, last, got.Last)
			assert.Equal(t, c.stale, got.Stale)
			assert.Equal(t, c.failed, got.Error != "")
			assert.Equal(t, c.result, v.result)
			assert.Equal(t, c.ttl, got.TTL)
			if c.expires < 0 {
				assert.Zero(t, got.Expires)
			} else {
				assert.Equal(t, c.expires, got.Expires.Sub(c.now))
			}
			assert.Equal(t, c.before != nil || c.outcome != sources.Failed, got.EverAnswered)
		})
	}
}

func ptr[T any](v T) *T { return &v }

// Rule 40: at least a second, unless the upstream's TTL was 0: then Expires equals Since.
func TestMergeShortTTLs(t *testing.T) {
	var m memory
	old := gives(t0, time.Second, "192.0.2.1")
	now := t0.Add(1200 * time.Millisecond)
	v := m.merge(host, hostAttempt(old, empty(noData, now, time.Minute)), now, time.Minute)
	assert.Equal(t, time.Second, v.members.Expires.Sub(now))
	assert.Equal(t, t0, v.members.Since)

	v = m.merge(host, hostAttempt(gives(t0, 0, "192.0.2.1"), gives(now, time.Minute, "2001:db8::1")), now, time.Minute)
	assert.Equal(t, v.members.Since, v.members.Expires)

	v = m.merge(host, hostAttempt(broken(errTest), broken(errTest)), now.Add(time.Second), time.Minute)
	assert.Equal(t, time.Second, v.members.TTL, "stale, it is not 0 for ever")
}

func srvAttempt(ports map[string][]uint16, results map[string][2]result) attempt {
	srv := gives(t0, 10*time.Second)
	a := attempt{srv: &srv}
	for name, p := range ports {
		r := results[name]
		a.targets = append(a.targets, target{name: names.MustParse(name), ports: p, v4: r[0], v6: r[1]})
	}
	return a
}

func TestMergeSRV(t *testing.T) {
	none := empty(noData, t0, 5*time.Second)
	ports := map[string][]uint16{"a.example": {80, 8080}, "b.example": {80}, "c.example": {0}}
	good := map[string][2]result{
		"a.example": {gives(t0, 9*time.Second, "192.0.2.1"), gives(t0, 9*time.Second, "2001:db8::1")},
		"b.example": {gives(t0, 8*time.Second, "192.0.2.2", "192.0.2.1"), none},
		"c.example": {gives(t0, 7*time.Second, "192.0.2.3"), none},
	}
	slice := func(name string, port uint16, texts ...string) sources.Slice {
		s := sources.SliceFields{Name: name}
		if port != 0 {
			s.Ports = []sources.Port{{Name: "http", Protocol: sources.TCP, Number: port}}
		}
		for _, addr := range addrs(texts...) {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Address: addr})
		}
		return s.Pack()
	}
	var m memory
	v := m.merge(srvHost, srvAttempt(ports, good), t0, time.Minute)
	assert.Equal(t, []sources.Slice{
		slice("", 0, "192.0.2.3"),
		slice("http-80", 80, "192.0.2.1", "192.0.2.2", "2001:db8::1"),
		slice("http-8080", 8080, "192.0.2.1", "2001:db8::1"),
	}, v.members.Slices)
	assert.Equal(t, t0.Add(7*time.Second), v.members.Expires)
	assert.Equal(t, t0.Add(5*time.Second), v.refresh, "empty answers are due again too")

	t.Run("C155: one target times out, one is gone", func(t *testing.T) {
		m, now := m, t0.Add(4*time.Second)
		v := m.merge(srvHost, srvAttempt(ports, map[string][2]result{
			"a.example": {broken(errTest), broken(errTest)},
			"b.example": {empty(noName, now, 5*time.Second), empty(noName, now, 5*time.Second)},
			"c.example": good["c.example"],
		}), now, time.Minute)
		assert.Equal(t, sources.Found, v.members.Outcome)
		assert.Equal(t, ResultPartial, v.result)
		assert.True(t, v.members.Stale)
		assert.Equal(t, []sources.Slice{
			slice("", 0, "192.0.2.3"),
			slice("http-80", 80, "192.0.2.1", "2001:db8::1"),
			slice("http-8080", 8080, "192.0.2.1", "2001:db8::1"),
		}, v.members.Slices)
	})
	t.Run("C155: all that is not gone times out", func(t *testing.T) {
		m, now := m, t0.Add(time.Hour)
		v := m.merge(srvHost, srvAttempt(ports, map[string][2]result{
			"a.example": {broken(errTest), empty(noData, now, 5*time.Second)},
			"b.example": {empty(noName, now, 5*time.Second), empty(noName, now, 5*time.Second)},
			"c.example": {empty(noName, now, 5*time.Second), empty(noName, now, 5*time.Second)},
		}), now, time.Minute)
		assert.Equal(t, sources.Failed, v.members.Outcome)
		assert.True(t, v.members.Stale)
		assert.Equal(t, t0, v.members.Since)
		assert.Equal(t, []sources.Slice{slice("http-80", 80, "192.0.2.1"), slice("http-8080", 8080, "192.0.2.1")}, v.members.Slices)
	})
	t.Run("all targets fail, SRV answers", func(t *testing.T) {
		m := m
		v := m.merge(srvHost, srvAttempt(ports, map[string][2]result{
			"a.example": {broken(errTest), broken(errTest)}, "b.example": {broken(errTest), broken(errTest)}, "c.example": {broken(errTest), broken(errTest)},
		}), t0, time.Minute)
		assert.Equal(t, sources.Failed, v.members.Outcome)
		assert.Len(t, v.members.Slices, 3)
	})
	t.Run("SRV fails", func(t *testing.T) {
		m := m
		v := m.merge(srvHost, attempt{srv: ptr(broken(errTest))}, t0, time.Minute)
		assert.Equal(t, sources.Failed, v.members.Outcome)
		assert.Len(t, v.members.Slices, 3)
	})
	t.Run("SRV does not exist", func(t *testing.T) {
		m := m
		v := m.merge(srvHost, attempt{srv: ptr(empty(noName, t0, time.Second))}, t0, time.Minute)
		assert.Equal(t, sources.NoName, v.members.Outcome)
		assert.Empty(t, v.members.Slices)
	})
	t.Run("SRV is empty, or says that the service is not there", func(t *testing.T) {
		for _, srv := range []result{empty(noData, t0, time.Second), gives(t0, time.Second)} {
			m := m
			v := m.merge(srvHost, attempt{srv: &srv}, t0, time.Minute)
			assert.Equal(t, sources.Found, v.members.Outcome)
			assert.Empty(t, v.members.Slices)
			assert.Empty(t, v.members.Error)
		}
	})
}

// staleness.keepShared: 0s keeps no part that fails beside others, and 0 is not "absent".
func TestMergeKeepsNothingForZero(t *testing.T) {
	now := t0.Add(time.Nanosecond)
	for keep, want := range map[time.Duration][]netip.Addr{0: addrs("192.0.2.2"), time.Minute: addrs("192.0.2.2", "2001:db8::1")} {
		var m memory
		m.merge(host, hostAttempt(gives(t0, time.Minute, "192.0.2.1"), gives(t0, time.Minute, "2001:db8::1")), t0, keep)
		v := m.merge(host, hostAttempt(gives(now, time.Minute, "192.0.2.2"), broken(errTest)), now, keep)
		assert.Equal(t, want, addresses(v.members), keep)
	}
}

// An SRV record that appears, of whose targets nothing is known, is no absence any more.
func TestMergeSRVAppearsWhileTargetsFail(t *testing.T) {
	var m memory
	m.merge(srvHost, attempt{srv: ptr(empty(noName, t0, time.Second))}, t0, time.Minute)
	v := m.merge(srvHost, srvAttempt(map[string][]uint16{"a.example": {80}}, map[string][2]result{
		"a.example": {broken(errTest), broken(errTest)}}), t0.Add(time.Minute), time.Minute)
	assert.Equal(t, sources.Failed, v.members.Outcome)
	assert.Equal(t, sources.Failed, v.members.Last)
	v = m.merge(srvHost, attempt{srv: ptr(broken(errTest))}, t0.Add(time.Hour), time.Minute)
	assert.Equal(t, sources.Failed, v.members.Last)
}

// What did not change is shared, so that nothing is packed again for it.
func TestMergeSharesUnchangedSlices(t *testing.T) {
	var m memory
	first := m.merge(host, hostAttempt(gives(t0, time.Second, "192.0.2.1"), empty(noData, t0, time.Second)), t0, time.Minute)
	again := m.merge(host, hostAttempt(gives(t0, time.Second, "192.0.2.1"), empty(noData, t0, time.Second)), t0, time.Minute)
	require.Len(t, again.members.Slices, 1)
	assert.Same(t, &first.members.Slices[0], &again.members.Slices[0])
	other := m.merge(host, hostAttempt(gives(t0, time.Second, "192.0.2.2"), empty(noData, t0, time.Second)), t0, time.Minute)
	assert.NotSame(t, &first.members.Slices[0], &other.members.Slices[0])
	assert.Equal(t, addrs("192.0.2.1"), addresses(first.members), "what was pushed is not changed")
}

// Over any sequence of attempts: a failure never takes an address away in less than keep,
// what is answered is never older than the answer, and pushed members never change.
func TestMergeProperties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var m memory
		now := t0
		var before, beforeCopy *sources.Members
		for step := range 12 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
			v4, v6 := randomResult(rng, now, "192.0.2."), randomResult(rng, now, "2001:db8::")
			a := hostAttempt(v4, v6)
			got := m.merge(host, a, now, time.Hour).members
			checkMembers(t, seed, step, a, got, now)
			if before != nil {
				require.Equal(t, beforeCopy, before)
				if v4.err != nil && v6.err != nil {
					require.Equal(t, before.Slices, got.Slices, "seed %d step %d", seed, step)
				}
			}
			before, beforeCopy = got, deepCopy(got)
		}
	}
}

func randomResult(rng *rand.Rand, now time.Time, prefix string) result {
	switch rng.IntN(6) {
	case 0:
		return broken(errTest)
	case 1:
		return broken(errUnproven)
	case 2:
		return empty(noData, now, time.Duration(rng.IntN(5))*time.Second)
	case 3:
		return empty(noName, now, time.Duration(rng.IntN(5))*time.Second)
	}
	var texts []string
	for i := range 1 + rng.IntN(3) {
		texts = append(texts, prefix+string(rune('1'+i)))
	}
	return gives(now, time.Duration(rng.IntN(5))*time.Second, texts...)
}

func checkMembers(t *testing.T, seed uint64, step int, a attempt, got *sources.Members, now time.Time) {
	t.Helper()
	have := addresses(got)
	require.True(t, slices.IsSortedFunc(have, netip.Addr.Compare))
	for _, r := range []result{a.targets[0].v4, a.targets[0].v6} {
		if r.is(hasRecords) {
			require.Equal(t, sources.Found, got.Outcome, "seed %d step %d", seed, step)
			require.Subset(t, have, r.piece.addrs)
		}
	}
	unknown := (a.targets[0].v4.err != nil || a.targets[0].v6.err != nil) && !a.hasAddresses()
	require.Equal(t, got.Outcome == sources.Failed, unknown)
	require.False(t, got.Since.After(now))
	require.False(t, got.Outcome == sources.NoName && len(have) > 0)
	require.False(t, got.Stale && got.Error == "")
}

func deepCopy(m *sources.Members) *sources.Members {
	out := *m
	out.Slices = slices.Clone(m.Slices)
	return &out
}
