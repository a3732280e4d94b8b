package zones

import (
	"unsafe"

	"github.com/meshdns/meshdns/names"
)

// unknown is the status of what an entry cannot say.
func (e entry) unknown() Status {
	if e.flag(fNotReady) {
		return NotReady
	}
	return Unavailable
}

// absent is the status of a name in the aggregate or a cluster zone that is not there:
// NotReady while a source that could hold it has never synced (DNS_RULES 5).
func (v *View) absent(q *Query, a *Answer, n int) Status {
	if a.Zone.Kind == Cluster {
		if v.unready[a.Zone.cluster] && couldBeInCluster(q, n) {
			return NotReady
		}
		return NoName
	}
	for _, c := range v.unreadySet {
		if couldBeInAggregate(q, n, v.zones.sites[c]) && v.couldHold(q, n, c) {
			return NotReady
		}
	}
	if v.ofExpired(q, n) {
		return Unavailable
	}
	return NoName
}

// ofExpired says whether a name is a host's of a cluster whose data are past their time:
// nobody else could have it.
func (v *View) ofExpired(q *Query, n int) bool {
	if !v.anyExpired || n < 5 {
		return false
	}
	rest := q.below(0, n-3)
	for c, expired := range v.expired {
		if expired && string(rest[1+int(rest[0]):]) == v.zones.sites[c] {
			return true
		}
	}
	return false
}

// couldHold asks the snapshot, which has the patterns of mayServe.
func (v *View) couldHold(q *Query, n, cluster int) bool {
	namespace := q.below(n-2, n-1)[1:]
	if n < 3 {
		return v.snapshot.CouldHoldNamespace(cluster, borrowed(namespace))
	}
	var buf [2 * names.MaxLabel]byte
	text := append(append(buf[:0], namespace...), '/')
	text = append(text, q.below(n-3, n-2)[1:]...)
	return v.snapshot.CouldHold(cluster, borrowed(text))
}

// borrowed is b as a string without a copy, for calls that keep nothing of it.
func borrowed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func couldBeInCluster(q *Query, n int) bool {
	switch n {
	case 2, 3, 4:
		return true
	case 5:
		return isPort(q.below(0, 2))
	}
	return false
}

func couldBeInAggregate(q *Query, n int, site string) bool {
	if n <= 3 {
		return true
	}
	rest := q.below(0, n-3)
	if isPort(rest) || rest[1] == '_' && n == 4 {
		return true
	}
	first := 1 + int(rest[0])
	return string(rest[first:]) == site || hasLabelSuffix([]byte(site), rest)
}

func isPort(rest []byte) bool {
	_, protocol := splitPort(rest)
	return rest[1] == '_' && (string(protocol) == "tcp" || string(protocol) == "udp" || string(protocol) == "sctp")
}

func (v *View) unreadySite() bool {
	i := v.snapshot.Cluster(v.snapshot.Settings.Site)
	return i >= 0 && v.unready[i]
}

// markStale notes that an answer stands on a failing source (EDE 3).
func (v *View) markStale(a *Answer, cluster int) {
	if v.anyStale && cluster < len(v.stale) && v.stale[cluster] {
		a.Stale = true
	}
}

func (v *View) markStaleParts(a *Answer, e entry) {
	if e.flag(fStale) {
		a.Stale = true
	}
	if !v.anyStale {
		return
	}
	for i := range e.parts() {
		if p := e.part(i); p.flag(pfAggregate) {
			v.markStale(a, p.cluster())
		}
	}
}
