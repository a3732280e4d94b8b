package resolver

import (
	"slices"
	"time"

	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// localSite is the site label of endpoints when the settings have no site: no cluster
// may be called so.
const localSite = "local"

// Registered fills sel with what answers for a registered name.
func (s *Snapshot) Registered(mesh *Mesh, sel *Selection) {
	s.fill(mesh, sel, nil)
}

// fill is Registered for a name that in leads to; nil for the first one.
func (s *Snapshot) fill(mesh *Mesh, sel *Selection, in *inner) {
	doc := mesh.Doc
	ttl := s.Settings.TTL
	if doc.HasTTL {
		ttl = doc.TTL
	}
	sel.reset(ttl)
	sel.Exists = true
	sel.Unknown = len(doc.Faults) > 0 // registered, and that is all that is known
	for i := range doc.Backends {
		switch b := &doc.Backends[i]; b.Type {
		case registry.Kubernetes:
			s.addKubernetes(sel, doc, i)
		case registry.Static:
			s.addStatic(sel, doc, i)
		case registry.DNS:
			in = s.addDNS(sel, doc, i, in)
		default: // a backend that is not built in: what it holds is unknown
			sel.Unknown = true
		}
	}
	sel.declare(NoCluster, sources.PackPorts(doc.Ports))
	sel.settle(s)
	if sel.staleAbsence && !sel.Usable() {
		sel.Stale = true
	}
}

// addDNS adds what a locator stands for: a name of ours, else what the upstreams said. It
// returns in, made if it is needed.
func (s *Snapshot) addDNS(sel *Selection, doc *registry.MeshService, backend int, in *inner) *inner {
	b := &doc.Backends[backend]
	target, _ := b.Target()
	at := s.locate(target)
	if at.kind == outside {
		s.addMembers(sel, doc, backend, s.Members(b.BackendKey()))
		return in
	}
	if in == nil {
		in = &inner{Snapshot: s}
	}
	in.path = append(in.path, doc.Name)
	s.addInner(sel, doc, backend, at, in)
	in.path = in.path[:len(in.path)-1]
	return in
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
	m := g.Member(cluster)
	if m == nil || m.Service.Type() == sources.ExternalName {
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
	slice := sources.SliceFields{Endpoints: make([]sources.Endpoint, len(b.Addresses))}
	for i, a := range b.Addresses {
		slice.Endpoints[i].Address = a
	}
	sel.Parts = append(sel.Parts, s.backendPart(doc, backend, slice.Pack()))
}

// addMembers adds what the upstreams said of a locator; m is nil while it was never asked.
func (s *Snapshot) addMembers(sel *Selection, doc *registry.MeshService, backend int, m *sources.Members) {
	s.take(sel, m, func(slice sources.Slice) Part { return s.backendPart(doc, backend, slice) })
}

// take adds members by part, which makes one of a slice.
func (s *Snapshot) take(sel *Selection, m *sources.Members, part func(sources.Slice) Part) {
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
		p := part(slice)
		if expired {
			p.Refused = StaleExpired
		}
		sel.Parts = append(sel.Parts, p)
	}
	if m.Stale && !expired {
		sel.Stale = sel.Stale || len(m.Slices) > 0
		sel.staleAbsence = true
	}
	sel.limitTTL(m)
}

// backendPart is a part of endpoints that are in no cluster: they stand under the
// backend's cluster field, else the site.
func (s *Snapshot) backendPart(doc *registry.MeshService, backend int, slice sources.Slice) Part {
	b := &doc.Backends[backend]
	site := b.Cluster
	if site == registry.LocalCluster || site == registry.AllClusters {
		site = s.siteLabel()
	}
	return Part{
		Cluster: NoCluster, Site: site, Backend: backend, Slice: slice,
		Ports: registeredPorts(doc, b, "", slice.Ports()),
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
func registeredPorts(doc *registry.MeshService, b *registry.Backend, service sources.Service, slicePorts sources.Ports) sources.Ports {
	if b.Port != 0 {
		return backendPort(doc, b, service, slicePorts)
	}
	if len(doc.Ports) == 0 {
		return slicePorts
	}
	out := slices.Clone(doc.Ports)
	for i := range out {
		for p := slicePorts.All(); p.Next(); {
			if p.Name == out[i].Name && p.Protocol == out[i].Protocol && p.Number != 0 {
				out[i].Number = p.Number
			}
		}
	}
	return sources.PackPorts(out)
}

func backendPort(doc *registry.MeshService, b *registry.Backend, service sources.Service, slicePorts sources.Ports) sources.Ports {
	if len(doc.Ports) == 1 {
		only := doc.Ports[0]
		only.Number = b.Port
		return sources.PackPorts([]sources.Port{only})
	}
	name, known := servicePortName(service, b.Port)
	for p := slicePorts.All(); p.Next(); {
		if p.Number == b.Port || known && p.Name == name {
			return sources.PackPorts([]sources.Port{p.Port})
		}
	}
	return sources.PackPorts(append(slices.Clone(doc.Ports), sources.Port{Number: b.Port}))
}

func servicePortName(service sources.Service, number uint16) (string, bool) {
	if service == "" {
		return "", false
	}
	for p := service.Ports().All(); p.Next(); {
		if p.Number == number {
			return p.Name, true
		}
	}
	return "", false
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
	sel.Unknown = nothingKnown(m) || s.tooOld(m)
	sel.NoName = m.Last == sources.NoName
	for _, alias := range m.Chain {
		sel.Chain = append(sel.Chain, alias.Target)
	}
	for _, slice := range m.Slices {
		sel.Parts = append(sel.Parts, Part{Cluster: NoCluster, Backend: -1, Slice: slice})
	}
	sel.settle(s)
	return true
}

// nothingKnown says whether a locator's backend fails and has said nothing that holds: not
// even that the locator is empty, or does not exist.
func nothingKnown(m *sources.Members) bool {
	return m.Last == sources.Failed && len(m.Slices) == 0
}

// maxTargetTTL bounds what an upstream's record may claim of an alias target: a day, as
// RFC 8767 section 4 suggests a cap.
const maxTargetTTL = 24 * time.Hour

// tooOld says whether members that outlived their backend's answers are past keepOnly.
func (s *Snapshot) tooOld(m *sources.Members) bool {
	return m.Stale && s.Taken.Sub(m.Since) >= s.Settings.Staleness.KeepOnly
}
