package resolver

import (
	"net/netip"
	"slices"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// NoCluster is the Part.Cluster of endpoints that are in no cluster.
const NoCluster = -1

// Selection is what may answer for one name. Its memory is reused: it is valid until
// the next call that fills it.
type Selection struct {
	Parts []Part
	// Exists: the name exists even if no endpoint is usable (NODATA, not NXDOMAIN).
	Exists bool
	// Unknown: nothing is usable and something that could be has no usable data: the
	// answer is SERVFAIL.
	Unknown bool
	// Partial: something that could add to what is usable has no usable data, so that
	// what is not there is unknown, not absent.
	Partial bool
	// NotReady: that something is a source that has never synced.
	NotReady bool
	// Wait: a locator was never asked yet: a question may wait for it.
	Wait bool
	// Declared are ports whose names exist without a usable endpoint.
	Declared []Declared
	// Alias is the ExternalName target; the zero Name for none.
	Alias names.Name
	// Chain are the aliases followed to an alias target's addresses, NoName that they end
	// at a name which does not exist. Only Target fills them.
	Chain  []names.Name
	NoName bool
	// TTL of the records; when Expires is set they count down to it.
	TTL     time.Duration
	Expires time.Time
	// Stale: members of a failing backend are among the usable ones, or none is usable and
	// a failing backend said that it has none (EDE 3). Clusters that fail are found by their
	// Age instead.
	Stale bool

	staleAbsence bool    // a failing backend's last word, be it that it has nothing, is used
	equivalent   []Named // of Aggregate
}

// Declared is a port that a service or document declares itself.
type Declared struct {
	Cluster int // index into Snapshot.Clusters, or NoCluster
	sources.Port
}

func (sel *Selection) declare(cluster int, ports sources.Ports) {
	for list := ports.All(); list.Next(); {
		sel.Declared = append(sel.Declared, Declared{cluster, list.Port})
	}
}

func (sel *Selection) reset(ttl time.Duration) {
	*sel = Selection{
		Parts: sel.Parts[:0], Declared: sel.Declared[:0], equivalent: sel.equivalent[:0], TTL: ttl,
	}
}

// Part is one slice's endpoints under one verdict.
type Part struct {
	Cluster int    // index into Snapshot.Clusters, or NoCluster
	Site    string // label(s) that hosts of this part stand under
	Backend int    // index into the document's backends; -1 outside the registry
	Member  ServiceName
	Slice   sources.Slice
	Ports   sources.Ports // ports of the slice's endpoints, as this name has them
	// Virtual: the addresses are a service's own (ClusterIPs), no hosts of it.
	Virtual bool
	// Refused keeps the whole part out, unless it is Included.
	Refused Reason
	// Inner is the way by which a DNS backend that is a name of ours leads here; else nil.
	Inner *Inner

	serving bool           // terminating endpoints that still serve are answered
	cidrs   []netip.Prefix // where addresses must be, nil: anywhere
}

// Reason says why an endpoint is answered or not.
type Reason uint8

const (
	Included Reason = iota
	IncludedServing
	NotReady
	Terminating
	OutsideCIDRs
	NotInMayServe
	FederatedCluster
	ExcludedName
	StaleOthersServe
	StaleExpired
	NothingBehind
)

var reasonTexts = [...]string{
	Included:         "ready",
	IncludedServing:  "terminating but serving, and no endpoint is ready",
	NotReady:         "not ready",
	Terminating:      "terminating, and others are ready",
	OutsideCIDRs:     "address is outside the cluster's cidrs",
	NotInMayServe:    "the cluster's mayServe does not list this name",
	FederatedCluster: "the cluster is federated: only under its own names or where a registered name asks for it",
	ExcludedName:     "equivalence.exclude keeps this name out of the aggregate",
	StaleOthersServe: "the source fails for longer than staleness.keepShared, and others serve this name",
	StaleExpired:     "the source fails for longer than staleness.keepOnly",
	NothingBehind:    "no usable endpoint is behind this cluster IP",
}

// String is the reason in words.
func (r Reason) String() string { return reasonTexts[r] }

// In says whether the reason is one to answer with the endpoint.
func (r Reason) In() bool { return r <= IncludedServing }

// Reason is the verdict on one endpoint of the part's slice.
func (p *Part) Reason(e *sources.Endpoint) Reason {
	if !p.Refused.In() {
		return p.Refused
	}
	if len(p.cidrs) > 0 && !within(p.cidrs, e.Address) {
		return OutsideCIDRs
	}
	switch {
	case e.State == sources.Ready:
		return Included
	case e.State == sources.NotReady:
		return NotReady
	case p.serving:
		return IncludedServing
	}
	return Terminating
}

// SameAs says whether two parts have the same endpoints under the same verdict.
func (p *Part) SameAs(q *Part) bool {
	return p.Slice == q.Slice && p.Virtual == q.Virtual && p.serving == q.serving && p.Refused == q.Refused
}

// Serving says whether terminating endpoints that still serve are answered.
func (p *Part) Serving() bool { return p.serving }

// usable says whether the part has an endpoint of that state which is not refused.
func (p *Part) usable(state sources.EndpointState) bool {
	if !p.Refused.In() {
		return false
	}
	for e := p.Slice.Endpoints(); e.Next(); {
		if e.State == state && (len(p.cidrs) == 0 || within(p.cidrs, e.Address)) {
			return true
		}
	}
	return false
}

// Usable says whether any endpoint of the selection is answered.
func (sel *Selection) Usable() bool {
	return slices.ContainsFunc(sel.Parts, func(p Part) bool {
		return p.usable(sources.Ready) || p.serving && p.usable(sources.Serving)
	})
}

// settle decides what needs a look at the whole: whether those that only serve are let in
// (DNS_RULES 16, from all clusters alike), and whether data past keepShared stay.
func (sel *Selection) settle(s *Snapshot) {
	othersServe := slices.ContainsFunc(sel.Parts, func(p Part) bool {
		return s.age(p.Cluster) < KeptOnly && (p.usable(sources.Ready) || p.usable(sources.Serving))
	})
	if othersServe {
		for i := range sel.Parts {
			if p := &sel.Parts[i]; p.Refused.In() && s.age(p.Cluster) == KeptOnly {
				p.Refused = StaleOthersServe
			}
		}
	}
	ready := slices.ContainsFunc(sel.Parts, func(p Part) bool { return p.usable(sources.Ready) })
	for i := range sel.Parts {
		sel.Parts[i].serving = !ready
	}
	sel.Partial = sel.Unknown
	if sel.Unknown {
		sel.Unknown = !sel.Usable()
	}
}

func (s *Snapshot) age(cluster int) Age {
	if cluster == NoCluster {
		return Current
	}
	return s.Clusters[cluster].Age
}

// Aggregate fills sel with what answers for g's name in the aggregate zone.
func (s *Snapshot) Aggregate(g *Group, sel *Selection) {
	sel.reset(s.Settings.TTL)
	var oldest *Named
	sel.equivalent = s.Equivalent(g, sel.equivalent)
	members, excluded := sel.equivalent, s.Settings.Excluded(g.ServiceName)
	for i := range members {
		m := &members[i]
		refused := s.refusal(m.Cluster, g.ServiceName, true)
		if excluded {
			refused = ExcludedName
		}
		if m.Service.Type() == sources.ExternalName {
			continue // DNS_RULES 18: an alias is no part of the aggregate
		}
		s.addService(sel, m, -1, refused)
		if refused == StaleExpired && s.Clusters[m.Cluster].Staleness.Then != ThenDrop {
			sel.Exists, sel.Unknown = true, true
		}
		if refused.In() && (oldest == nil || m.Service.Created().Before(oldest.Service.Created())) {
			oldest = m
		}
	}
	if oldest != nil && oldest.Service.Type() == sources.ClusterIP {
		sel.Exists = true
	}
	s.declare(sel, members, g.ServiceName)
	sel.settle(s)
}

// declare lists the ports of ClusterIP services: their names exist as the service's own.
func (s *Snapshot) declare(sel *Selection, members []Named, name ServiceName) {
	if !sel.Exists {
		return
	}
	for i := range members {
		m := &members[i]
		if m.Service.Type() == sources.ClusterIP && s.refusal(m.Cluster, name, true).In() {
			sel.declare(m.Cluster, m.Service.Ports())
		}
	}
}

// InCluster fills sel with what answers for one cluster's service in that cluster's own
// zone (DNS_RULES 15): by the Kubernetes DNS specification in the site's cluster, by
// reach elsewhere.
func (s *Snapshot) InCluster(m *Named, sel *Selection) {
	sel.reset(s.Settings.TTL)
	c := &s.Clusters[m.Cluster]
	service := m.Service
	switch {
	case c.Age == Expired:
		s.addSlices(sel, m, -1, StaleExpired)
	case service.Type() == sources.ExternalName:
		sel.Exists = true
		sel.Alias = m.alias()
		return
	case service.Type() == sources.ClusterIP && (c.Name == s.Settings.Site || c.Reach == ReachClusterIP):
		sel.Exists = true
		sel.declare(m.Cluster, service.Ports())
		own := s.virtualPart(m, -1, Included)
		own.cidrs = nil // they bound endpoints; the cluster's own zone has its cluster IPs
		sel.Parts = append(sel.Parts, own)
	default:
		sel.Exists = service.Type() == sources.ClusterIP
		if sel.Exists {
			sel.declare(m.Cluster, service.Ports())
		}
		s.addSlices(sel, m, -1, Included)
	}
	sel.settle(s)
}

// limitTTL bounds the TTL by that of a locator's members. Expires that is not after
// Since says that the backend gave TTL 0.
func (sel *Selection) limitTTL(m *sources.Members) {
	switch {
	case m.Expires.IsZero() && m.TTL > 0:
		sel.TTL = min(sel.TTL, m.TTL)
	case m.Expires.IsZero():
	case !m.Expires.After(m.Since):
		sel.TTL = 0
	case sel.Expires.IsZero() || m.Expires.Before(sel.Expires):
		sel.Expires = m.Expires
	}
}

// addService adds a cluster's service by the cluster's reach.
func (s *Snapshot) addService(sel *Selection, m *Named, backend int, refused Reason) {
	if m.Service.Type() == sources.ClusterIP && s.Clusters[m.Cluster].Reach == ReachClusterIP {
		p := s.virtualPart(m, backend, refused)
		p.Virtual = false // in a name of several services each cluster IP is a host
		if refused.In() && !servedBehind(m.Service) {
			p.Refused = NothingBehind
		}
		sel.Parts = append(sel.Parts, p)
		return
	}
	s.addSlices(sel, m, backend, refused)
}

func (s *Snapshot) addSlices(sel *Selection, m *Named, backend int, refused Reason) {
	c := &s.Clusters[m.Cluster]
	for list := m.Service.Slices(); list.Next(); {
		sel.Parts = append(sel.Parts, Part{
			Cluster: m.Cluster, Site: c.Name, Backend: backend, Member: m.ServiceName,
			Slice: list.Slice, Ports: list.Ports(), Refused: refused, cidrs: c.CIDRs,
		})
	}
}

// virtualPart is a service's cluster IPs as a part.
func (s *Snapshot) virtualPart(m *Named, backend int, refused Reason) Part {
	c := &s.Clusters[m.Cluster]
	own := m.Service.Own()
	return Part{
		Cluster: m.Cluster, Site: c.Name, Backend: backend, Member: m.ServiceName, Slice: own,
		Ports: own.Ports(), Virtual: true, Refused: refused, cidrs: c.CIDRs,
	}
}

func servedBehind(service sources.Service) bool {
	for list := service.Slices(); list.Next(); {
		for e := list.Endpoints(); e.Next(); {
			if e.State != sources.NotReady {
				return true
			}
		}
	}
	return false
}
