package resolver

import (
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// A DNS backend whose host is a name of this server's own zones is resolved here: what
// answers for that inner name answers for the registered one too. No upstream is asked, so
// that a change of the inner name is there with the same step, and what is unknown of it is
// unknown, not absent.

// maxInner bounds how many inner names lead from one to the next; a chain that is longer
// has no usable data (DNS_RULES 22, CASES C20).
const maxInner = 8

// Inner is an inner name on the way from a registered name to an endpoint.
type Inner struct {
	Name names.Name
	Next *Inner // the inner name of that one, nil at the end
}

// Path lists the inner names from the registered name on; empty for none.
func (in *Inner) Path() (path []string) {
	for ; in != nil; in = in.Next {
		path = append(path, in.Name.Text())
	}
	return path
}

// spotKind is what a name stands in.
type spotKind uint8

const (
	outside     spotKind = iota // no zone of ours, or one of the server's own names
	inMesh                      // at or below the mesh zone
	inAggregate                 // a service of all clusters, or a host of it
	inCluster                   // a cluster's own service, or a host of it
	nowhere                     // a place in our zones that never has addresses
)

// spot is where a name stands in our zones.
type spot struct {
	kind    spotKind
	cluster int // of inCluster: index into Snapshot.Clusters
	service ServiceName
	rest    string // labels in front of the service, wire form without a root byte
}

// locate says where a name stands: in the longest of our zones that it is in.
func (s *Snapshot) locate(name names.Name) spot {
	zone, at := s.Settings.Mesh, spot{kind: inMesh}
	if !name.IsAtOrBelow(zone) {
		zone, at.kind = names.Name{}, outside
	}
	longer := func(z names.Name) bool {
		return len(z.Wire()) > len(zone.Wire()) && name.IsAtOrBelow(z)
	}
	if longer(s.Settings.Global) {
		zone, at.kind = s.Settings.Global, inAggregate
	}
	for i := range s.Clusters {
		if longer(s.Clusters[i].Zone) {
			zone, at.kind, at.cluster = s.Clusters[i].Zone, inCluster, i
		}
	}
	if at.kind == outside {
		return at
	}
	labels := name.Labels()
	labels = labels[:len(labels)-zone.NumLabels()]
	return at.in(labels)
}

// in takes apart the labels of a name below its zone.
func (at spot) in(labels []string) spot {
	n := len(labels)
	switch {
	case n == 0:
		at.kind = nowhere
	case labels[n-1] == "dns" || labels[n-1] == "dns-version":
		at.kind = outside // the server's own names are no services
	case at.kind == inMesh:
	case n < 3 || labels[n-1] != "svc":
		at.kind = nowhere
	default:
		at.service = ServiceName{Namespace: labels[n-2], Name: labels[n-3]}
		at.rest = wireOf(labels[:n-3])
	}
	return at
}

func wireOf(labels []string) string {
	var b strings.Builder
	for _, label := range labels {
		b.WriteByte(byte(len(label)))
		b.WriteString(label)
	}
	return b.String()
}

// registeredAt is the longest registered name that name is at or below, and name's labels
// in front of it; nil when there is none.
func (s *Snapshot) registeredAt(name names.Name) (m *Mesh, rest string) {
	for at := name; at != s.Settings.Mesh && !at.IsZero(); at = at.Parent() {
		if m := s.Mesh(at); m != nil {
			rest, _ := name.Relative(at)
			return m, rest
		}
	}
	return nil, ""
}

// AliasTarget is what an ExternalName service of a cluster stands for: a target inside of
// the cluster's own domain is the same name in the cluster's zone here (CASES C62).
func (s *Snapshot) AliasTarget(cluster int, target, zone names.Name) names.Name {
	domain := s.Clusters[cluster].Domain
	if domain.IsZero() {
		domain = clusterLocal
	}
	relative, ok := target.Relative(domain)
	if !ok || zone.IsZero() {
		return target
	}
	if own, err := zone.Join(relative); err == nil {
		return own
	}
	return target
}

var clusterLocal = names.MustParse("cluster.local")

// inner puts together what answers for inner names, each once for a registered name.
type inner struct {
	*Snapshot
	path []names.Name // that lead here, the registered name first
	done map[names.Name]*Selection
}

// resolve is what answers for a name of our zones: settled, and not to be changed.
func (in *inner) resolve(target names.Name, at spot) *Selection {
	if sel, ok := in.done[target]; ok {
		return sel
	}
	sel := &Selection{}
	sel.reset(maxTargetTTL)
	if len(in.path) > maxInner {
		sel.Unknown = true
		return sel
	}
	switch at.kind {
	case inMesh:
		in.registered(target, sel)
	case inAggregate:
		in.aggregate(at, sel)
	case inCluster:
		in.cluster(target, at, sel)
	}
	if in.done == nil {
		in.done = map[names.Name]*Selection{}
	}
	in.done[target] = sel
	return sel
}

// registered takes the registered name that target is at, or the host of it that target
// names. In a circle what is on the way already adds nothing, and is unknown.
func (in *inner) registered(target names.Name, sel *Selection) {
	m, rest := in.registeredAt(target)
	switch {
	case m == nil:
		sel.Unknown, sel.NotReady = !in.RegistrySynced, !in.RegistrySynced
	case slices.Contains(in.path, m.Doc.Name):
		sel.Unknown = true
	default:
		in.fill(m, sel, in)
		sel.onlyHost(rest)
	}
}

func (in *inner) aggregate(at spot, sel *Selection) {
	if g := in.Group(at.service); g != nil {
		in.Aggregate(g, sel)
	}
	for i := range in.Clusters {
		if !in.Clusters[i].Synced && in.CouldHold(i, at.service.String()) {
			sel.Unknown, sel.NotReady = true, true
		}
	}
	sel.onlyHost(at.rest)
}

// cluster takes a service as it stands in its cluster's own zone. What that gives to a
// registered name is bounded by mayServe and cidrs like all else there (FAULTS 22).
func (in *inner) cluster(target names.Name, at spot, sel *Selection) {
	c := &in.Clusters[at.cluster]
	refused := in.refusal(at.cluster, at.service, false)
	if m := in.Group(at.service).memberOf(at.cluster); m != nil {
		in.InCluster(m, sel)
		if !sel.Alias.IsZero() && at.rest == "" {
			in.alias(target, at.cluster, sel)
			sel.refuse(refused)
			return
		}
	}
	switch {
	case !c.Synced:
		sel.Unknown, sel.NotReady = true, true
	case c.Age == Expired && c.Staleness.Then != ThenDrop:
		sel.Unknown = true
	}
	for i := range sel.Parts {
		sel.Parts[i].cidrs = c.CIDRs
	}
	sel.refuse(refused)
	sel.onlyHost(hostIn(at.rest, c.Name))
}

// refuse keeps all parts out for a reason, unless that is Included.
func (sel *Selection) refuse(why Reason) {
	if why.In() {
		return
	}
	sel.Parts = slices.Clone(sel.Parts)
	for i := range sel.Parts {
		if p := &sel.Parts[i]; p.Refused.In() {
			p.Refused = why
		}
	}
}

// hostIn is a host's label with its cluster's name behind it, as parts have them; "" stays.
func hostIn(rest, cluster string) string {
	if rest == "" {
		return ""
	}
	return rest + wireOf(strings.Split(cluster, "."))
}

// alias follows an ExternalName service: to another name of ours, or to what the upstreams
// said of a name outside.
func (in *inner) alias(target names.Name, cluster int, sel *Selection) {
	next, ttl := in.AliasTarget(cluster, sel.Alias, in.Clusters[cluster].Zone), sel.TTL
	if slices.Contains(in.path, target) {
		sel.Unknown = true
		return
	}
	in.path = append(in.path, target)
	defer func() { in.path = in.path[:len(in.path)-1] }()
	if at := in.locate(next); at.kind != outside {
		*sel = *in.resolve(next, at)
	} else {
		sel.reset(maxTargetTTL)
		in.take(sel, in.Members(next.Text()), func(slice sources.Slice) Part {
			return Part{Cluster: NoCluster, Site: in.siteLabel(), Slice: slice, Ports: slice.Ports()}
		})
		sel.settle(in.Snapshot)
	}
	sel.TTL = min(sel.TTL, ttl)
}

// onlyHost leaves of sel what is at one host, given as the label and the site's labels in
// wire form; all of it for "".
func (sel *Selection) onlyHost(rest string) {
	if rest == "" {
		return
	}
	parts := sel.Parts[:0:0]
	for _, p := range sel.Parts {
		if rest[1+rest[0]:] != wireOf(strings.Split(p.Site, ".")) || p.Virtual {
			continue
		}
		p.Slice = hostOf(p.Slice, rest[1:1+rest[0]])
		if p.Slice.Len() > 0 {
			parts = append(parts, p)
		}
	}
	sel.Parts = parts
}

// hostOf is a slice with the endpoints of one host alone.
func hostOf(slice sources.Slice, host string) sources.Slice {
	out := sources.SliceFields{Name: slice.Name(), Ports: slice.Ports().List()}
	for list := slice.Endpoints(); list.Next(); {
		if e := list.Endpoint; e.Hostname == host || e.Hostname == "" && names.Dashed(e.Address) == host {
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	return out.Pack()
}

// addInner adds what answers for the inner name of a DNS backend. Hosts keep the labels
// that they have under the inner name, but that a backend's cluster field names the site
// of those in no cluster. A locator with a service takes the ports of that name alone.
func (s *Snapshot) addInner(sel *Selection, doc *registry.MeshService, backend int, at spot, in *inner) {
	b := &doc.Backends[backend]
	target, port := b.Target()
	if b.SRV && at.kind == inMesh {
		_, at.rest = s.registeredAt(target)
	}
	from := in.resolve(target, at)
	sel.include(from)
	var last, step *Inner
	added := map[sources.Slice][]Part{} // several ways may lead to one part: names of a level that lead to all of the next
	for _, p := range from.Parts {
		if b.SRV {
			p.Ports = portsNamed(p.Ports, port)
			if p.Ports == "" || at.rest != "" {
				continue
			}
		}
		if step == nil || p.Inner != last {
			last, step = p.Inner, &Inner{target, p.Inner}
		}
		p.Backend, p.Virtual, p.Inner = backend, false, step
		p.Ports = registeredPorts(doc, b, "", p.Ports)
		if p.Cluster == NoCluster && b.Cluster != registry.LocalCluster && b.Cluster != registry.AllClusters {
			p.Site = b.Cluster
		}
		if !slices.ContainsFunc(added[p.Slice], p.answersAs) {
			added[p.Slice] = append(added[p.Slice], p)
			sel.Parts = append(sel.Parts, p)
		}
	}
}

// answersAs says whether another part of the same slice answers with just the same.
func (p *Part) answersAs(q Part) bool {
	return p.Cluster == q.Cluster && p.Site == q.Site && p.Refused == q.Refused && p.Ports == q.Ports
}

func portsNamed(ports sources.Ports, want sources.Port) sources.Ports {
	var out []sources.Port
	for list := ports.All(); list.Next(); {
		if p := list.Port; names.Lower(p.Name) == want.Name && p.Protocol == want.Protocol && p.Number != 0 {
			out = append(out, p)
		}
	}
	return sources.PackPorts(out)
}

// include takes over what is known of an inner name as a whole.
func (sel *Selection) include(from *Selection) {
	if from.Unknown || from.Partial {
		sel.Unknown = true
		sel.NotReady = sel.NotReady || from.NotReady
	}
	sel.Wait = sel.Wait || from.Wait
	sel.staleAbsence = sel.staleAbsence || from.staleAbsence || from.Stale
	sel.Stale = sel.Stale || from.Stale && from.Usable()
	if from.Exists || len(from.Parts) > 0 {
		sel.TTL = min(sel.TTL, from.TTL)
	}
	if !from.Expires.IsZero() && (sel.Expires.IsZero() || from.Expires.Before(sel.Expires)) {
		sel.Expires = from.Expires
	}
}
