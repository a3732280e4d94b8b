package resolver

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// NoCluster is the Part.Cluster of endpoints that are in no cluster.
const NoCluster = -1

// localSite is the site label of endpoints when the settings have no site: no cluster
// may be called so.
const localSite = "local"

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
	// Stale: members of a failing backend are among the usable ones (EDE 3). Clusters
	// that fail are found by their Age instead.
	Stale bool
}

// Declared is a port that a service or document declares itself.
type Declared struct {
	Cluster int // index into Snapshot.Clusters, or NoCluster
	sources.Port
}

func (sel *Selection) declare(cluster int, ports []sources.Port) {
	for _, p := range ports {
		sel.Declared = append(sel.Declared, Declared{cluster, p})
	}
}

func (sel *Selection) reset(ttl time.Duration) {
	parts, declared := sel.Parts[:0], sel.Declared[:0]
	*sel = Selection{Parts: parts, Declared: declared, TTL: ttl}
}

// Part is one slice's endpoints under one verdict.
type Part struct {
	Cluster int    // index into Snapshot.Clusters, or NoCluster
	Site    string // label(s) that hosts of this part stand under
	Backend int    // index into the document's backends; -1 outside the registry
	Member  ServiceName
	Slice   *sources.Slice
	Ports   []sources.Port // ports of the slice's endpoints, as this name has them
	// Virtual: the addresses are a service's own (ClusterIPs), no hosts of it.
	Virtual bool
	// Refused keeps the whole part out, unless it is Included.
	Refused Reason

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
	for i := range p.Slice.Endpoints {
		e := &p.Slice.Endpoints[i]
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
	var oldest *Member
	members, excluded := s.Equivalent(g), s.Settings.Excluded(g.ServiceName)
	for i := range members {
		m := &members[i]
		refused := s.refusal(m.Cluster, g.ServiceName, true)
		if excluded {
			refused = ExcludedName
		}
		if m.Service.Type == sources.ExternalName {
			continue // DNS_RULES 18: an alias is no part of the aggregate
		}
		s.addService(sel, m, -1, refused)
		if refused == StaleExpired && s.Clusters[m.Cluster].Staleness.Then != ThenDrop {
			sel.Exists, sel.Unknown = true, true
		}
		if refused.In() && (oldest == nil || m.Service.Created.Before(oldest.Service.Created)) {
			oldest = m
		}
	}
	if oldest != nil && oldest.Service.Type == sources.ClusterIP {
		sel.Exists = true
	}
	s.declare(sel, members, g.ServiceName)
	sel.settle(s)
}

// declare lists the ports of ClusterIP services: their names exist as the service's own.
func (s *Snapshot) declare(sel *Selection, members []Member, name ServiceName) {
	if !sel.Exists {
		return
	}
	for i := range members {
		m := &members[i]
		if m.Service.Type == sources.ClusterIP && s.refusal(m.Cluster, name, true).In() {
			sel.declare(m.Cluster, m.Service.Ports)
		}
	}
}

// InCluster fills sel with what answers for one cluster's service in that cluster's own
// zone (DNS_RULES 15): by the Kubernetes DNS specification in the site's cluster, by
// reach elsewhere.
func (s *Snapshot) InCluster(m *Member, sel *Selection) {
	sel.reset(s.Settings.TTL)
	c := &s.Clusters[m.Cluster]
	service := m.Service
	switch {
	case c.Age == Expired:
		s.addSlices(sel, m, -1, StaleExpired)
	case service.Type == sources.ExternalName:
		sel.Exists = true
		sel.Alias, _ = names.Parse(strings.TrimSpace(service.ExternalName))
		return
	case service.Type == sources.ClusterIP && (c.Name == s.Settings.Site || c.Reach == ReachClusterIP):
		sel.Exists = true
		sel.declare(m.Cluster, service.Ports)
		own := s.virtualPart(m, -1, Included)
		own.cidrs = nil // they bound endpoints; the cluster's own zone has its cluster IPs
		sel.Parts = append(sel.Parts, own)
	default:
		sel.Exists = service.Type == sources.ClusterIP
		if sel.Exists {
			sel.declare(m.Cluster, service.Ports)
		}
		s.addSlices(sel, m, -1, Included)
	}
	sel.settle(s)
}

// Registered fills sel with what answers for a registered name.
func (s *Snapshot) Registered(mesh *Mesh, sel *Selection) {
	doc := mesh.Doc
	ttl := s.Settings.TTL
	if doc.HasTTL {
		ttl = doc.TTL
	}
	sel.reset(ttl)
	sel.Exists = true
	for i := range doc.Backends {
		switch b := &doc.Backends[i]; b.Type {
		case registry.Kubernetes:
			s.addKubernetes(sel, doc, i)
		case registry.Static:
			s.addStatic(sel, doc, i)
		case registry.DNS:
			s.addMembers(sel, doc, i, s.Members(b.BackendKey()))
		default: // a backend that is not built in: what it holds is unknown
			sel.Unknown = true
		}
	}
	sel.declare(NoCluster, doc.Ports)
	sel.settle(s)
}

func (s *Snapshot) addKubernetes(sel *Selection, doc *registry.MeshService, backend int) {
	b := &doc.Backends[backend]
	g := s.Group(ServiceName{b.Namespace, b.Service})
	found := false
	for i := range s.Clusters {
		if !s.asked(b.Cluster, i) {
			continue
		}
		found = true
		s.addFromCluster(sel, g, i, backend, doc)
	}
	if !found && b.Cluster != registry.AllClusters {
		sel.Unknown = true // a cluster that is not configured: an error, not an absence
	}
}

// asked says whether a backend's cluster field (second seed) means cluster i.
func (s *Snapshot) asked(field string, i int) bool {
	c := &s.Clusters[i]
	switch field {
	case registry.AllClusters:
		return c.Role != Federated
	case registry.LocalCluster:
		return c.Name == s.Settings.Site
	}
	return c.Name == field
}

func (s *Snapshot) addFromCluster(sel *Selection, g *Group, cluster, backend int, doc *registry.MeshService) {
	c := &s.Clusters[cluster]
	b := &doc.Backends[backend]
	refused := s.refusal(cluster, ServiceName{b.Namespace, b.Service}, b.Cluster == registry.AllClusters)
	switch {
	case refused.In() && !c.Synced:
		sel.Unknown, sel.NotReady = true, true
	case refused == StaleExpired && c.Staleness.Then != ThenDrop:
		sel.Unknown = true
	}
	if g == nil {
		return
	}
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.Cluster == cluster })
	if i < 0 {
		return
	}
	m := &g.Members[i]
	if m.Service.Type == sources.ExternalName {
		return
	}
	first := len(sel.Parts)
	s.addService(sel, m, backend, refused)
	for j := first; j < len(sel.Parts); j++ {
		p := &sel.Parts[j]
		p.Ports = registeredPorts(doc, b, m.Service, p.Ports)
	}
}

func (s *Snapshot) addStatic(sel *Selection, doc *registry.MeshService, backend int) {
	b := &doc.Backends[backend]
	slice := &sources.Slice{Endpoints: make([]sources.Endpoint, len(b.Addresses))}
	for i, a := range b.Addresses {
		slice.Endpoints[i].Address = a
	}
	sel.Parts = append(sel.Parts, s.backendPart(doc, backend, slice))
}

// addMembers adds what a locator stands for; m is nil while it was never asked.
func (s *Snapshot) addMembers(sel *Selection, doc *registry.MeshService, backend int, m *sources.Members) {
	if m == nil {
		sel.Wait, sel.Unknown, sel.NotReady = true, true, true
		return
	}
	if nothingKnown(m) {
		sel.Unknown = true
		return
	}
	expired := s.tooOld(m)
	if expired && s.Settings.Staleness.Then != ThenDrop {
		sel.Unknown = true
	}
	for _, slice := range m.Slices {
		p := s.backendPart(doc, backend, slice)
		if expired {
			p.Refused = StaleExpired
		}
		sel.Parts = append(sel.Parts, p)
	}
	sel.Stale = sel.Stale || m.Stale && !expired
	sel.limitTTL(m)
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

// backendPart is a part of endpoints that are in no cluster: they stand under the
// backend's cluster field, else the site.
func (s *Snapshot) backendPart(doc *registry.MeshService, backend int, slice *sources.Slice) Part {
	b := &doc.Backends[backend]
	site := b.Cluster
	if site == registry.LocalCluster || site == registry.AllClusters {
		site = s.siteLabel()
	}
	return Part{
		Cluster: NoCluster, Site: site, Backend: backend, Slice: slice,
		Ports: registeredPorts(doc, b, nil, slice.Ports),
	}
}

func (s *Snapshot) siteLabel() string {
	if s.Settings.Site == "" {
		return localSite
	}
	return s.Settings.Site
}

// registeredPorts are the ports of one slice under a registered name. The document's
// ports and the slice's meet by name and protocol, where the slice's number wins; a
// backend's own port stands for the only declared one, or picks the slice's port of that
// number or of the service port of that number.
func registeredPorts(doc *registry.MeshService, b *registry.Backend, service *sources.Service, slicePorts []sources.Port) []sources.Port {
	if b.Port != 0 {
		return backendPort(doc, b, service, slicePorts)
	}
	if len(doc.Ports) == 0 {
		return slicePorts
	}
	out := slices.Clone(doc.Ports)
	for i := range out {
		for _, p := range slicePorts {
			if p.Name == out[i].Name && p.Protocol == out[i].Protocol && p.Number != 0 {
				out[i].Number = p.Number
			}
		}
	}
	return out
}

func backendPort(doc *registry.MeshService, b *registry.Backend, service *sources.Service, slicePorts []sources.Port) []sources.Port {
	if len(doc.Ports) == 1 {
		only := doc.Ports[0]
		only.Number = b.Port
		return []sources.Port{only}
	}
	name, known := servicePortName(service, b.Port)
	for _, p := range slicePorts {
		if p.Number == b.Port || known && p.Name == name {
			return []sources.Port{p}
		}
	}
	return append(slices.Clone(doc.Ports), sources.Port{Number: b.Port})
}

func servicePortName(service *sources.Service, number uint16) (string, bool) {
	if service == nil {
		return "", false
	}
	for _, p := range service.Ports {
		if p.Number == number {
			return p.Name, true
		}
	}
	return "", false
}

// addService adds a cluster's service by the cluster's reach.
func (s *Snapshot) addService(sel *Selection, m *Member, backend int, refused Reason) {
	if m.Service.Type == sources.ClusterIP && s.Clusters[m.Cluster].Reach == ReachClusterIP {
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

func (s *Snapshot) addSlices(sel *Selection, m *Member, backend int, refused Reason) {
	c := &s.Clusters[m.Cluster]
	for _, slice := range m.Service.Slices {
		sel.Parts = append(sel.Parts, Part{
			Cluster: m.Cluster, Site: c.Name, Backend: backend, Member: m.ServiceName,
			Slice: slice, Ports: slice.Ports, Refused: refused, cidrs: c.CIDRs,
		})
	}
}

// virtualPart is a service's cluster IPs as a part.
func (s *Snapshot) virtualPart(m *Member, backend int, refused Reason) Part {
	c := &s.Clusters[m.Cluster]
	slice := &sources.Slice{Endpoints: make([]sources.Endpoint, len(m.Service.ClusterIPs))}
	for i, a := range m.Service.ClusterIPs {
		slice.Endpoints[i].Address = a
	}
	return Part{
		Cluster: m.Cluster, Site: c.Name, Backend: backend, Member: m.ServiceName, Slice: slice,
		Ports: m.Service.Ports, Virtual: true, Refused: refused, cidrs: c.CIDRs,
	}
}

func servedBehind(service *sources.Service) bool {
	return slices.ContainsFunc(service.Slices, func(s *sources.Slice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return e.State != sources.NotReady })
	})
}

// Target fills sel with what upstreams said of an alias target; false when nothing is
// known of it.
func (s *Snapshot) Target(backendKey string, sel *Selection) bool {
	m := s.Members(backendKey)
	if m == nil {
		return false
	}
	sel.reset(maxTargetTTL)
	sel.limitTTL(m)
	sel.Exists, sel.Stale = true, m.Stale
	// Of an alias target that had no addresses it is not kept whether the name exists.
	sel.Unknown = m.Outcome == sources.Failed && len(m.Slices) == 0 || s.tooOld(m)
	sel.NoName = m.Outcome == sources.NoName
	for _, alias := range m.Chain {
		sel.Chain = append(sel.Chain, alias.Target)
	}
	for _, slice := range m.Slices {
		sel.Parts = append(sel.Parts, Part{Cluster: NoCluster, Backend: -1, Slice: slice})
	}
	sel.settle(s)
	return true
}

// nothingKnown says whether a locator's backend fails and never said anything.
func nothingKnown(m *sources.Members) bool {
	return m.Outcome == sources.Failed && !m.EverAnswered
}

// maxTargetTTL bounds what an upstream's record may claim of an alias target: a day, as
// RFC 8767 section 4 suggests a cap.
const maxTargetTTL = 24 * time.Hour

// tooOld says whether members that outlived their backend's answers are past keepOnly.
func (s *Snapshot) tooOld(m *sources.Members) bool {
	return m.Stale && s.Taken.Sub(m.Since) >= s.Settings.Staleness.KeepOnly
}
