package zones

import (
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
)

// View is everything that is answered at one moment. It is immutable: a query loads one
// and uses it to its end.
type View struct {
	index    *index
	zones    *zoneSet
	serials  []uint32 // by zone number
	snapshot *resolver.Snapshot
	start    time.Time // zero of the clock that entries count down by
	asked    *askedTargets

	// What the sources' states mean for answers.
	anyStale    bool
	stale       []bool // by cluster: its source fails
	unready     []bool // by cluster: never synced, and absent names of it are unknown
	unreadySet  []int  // those of them that are in the set
	anyExpired  bool
	expired     []bool // by cluster: data past their time, and that is SERVFAIL
	meshUnready bool
}

// Snapshot is what the view was made from.
func (v *View) Snapshot() *resolver.Snapshot { return v.snapshot }

// Clock is the time by which the view's TTLs count down, in milliseconds.
func (v *View) Clock() int64 { return time.Since(v.start).Milliseconds() }

// ZoneInfo is a zone and its serial.
type ZoneInfo struct {
	*Zone
	Serial uint32
}

// Zones lists the zones in their fixed order: mesh, aggregate, clusters by name, reverse.
func (v *View) Zones() []ZoneInfo {
	out := make([]ZoneInfo, len(v.zones.list))
	for i, z := range v.zones.list {
		out[i] = ZoneInfo{z, v.serials[i]}
	}
	return out
}

// ZoneList is the zones by number. It is shared and must not be changed.
func (v *View) ZoneList() []*Zone { return v.zones.list }

// Entries is the number of entries in the index.
func (v *View) Entries() int { return v.index.len }

// takeStates reads what the sources' states mean (DNS_RULES 5, FAULTS 1–3).
func (v *View) takeStates(s *resolver.Snapshot) {
	n := len(s.Clusters)
	v.anyStale, v.anyExpired = false, false
	v.stale, v.unready, v.expired = make([]bool, n), make([]bool, n), make([]bool, n)
	v.unreadySet = nil
	forgiven := s.GraceOver && s.Settings.Startup.Then == resolver.ThenNXDomain
	for i := range s.Clusters {
		c := &s.Clusters[i]
		v.stale[i] = c.State == api.Stale
		v.anyStale = v.anyStale || v.stale[i]
		v.expired[i] = c.Age == resolver.Expired && c.Staleness.Then != resolver.ThenDrop
		v.anyExpired = v.anyExpired || v.expired[i]
		v.unready[i] = !c.Synced && !forgiven
		if v.unready[i] && c.Role != resolver.Federated {
			v.unreadySet = append(v.unreadySet, i)
		}
	}
	v.meshUnready = !s.RegistrySynced && !forgiven
}

// askedTargets remembers which alias targets were asked for, by a hash: queries set marks
// without a lock, and two targets that share one are both taken as asked.
type askedTargets [1 << 14]atomic.Bool // somewhat more than the targets that are kept fresh

func (t *askedTargets) mark(hash uint32) {
	if m := &t[hash%uint32(len(t))]; !m.Load() { // written rarely, so that it stays shared
		m.Store(true)
	}
}

// TakeAsked lists the alias targets (backend keys) that were asked for since the last
// call.
func (p *Publisher) TakeAsked() []string {
	v := p.View()
	var out []string
	v.snapshot.EachMembers(func(key string) {
		if name, err := names.Parse(key); err == nil {
			wire := []byte(name.Wire())
			if v.asked[v.index.hash(classAlias, wire[:len(wire)-1])%uint32(len(v.asked))].Load() {
				out = append(out, key)
			}
		}
	})
	for i := range v.asked {
		v.asked[i].Store(false)
	}
	return out
}
