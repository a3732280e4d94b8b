package zones

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
)

// place is where a name stands: its zone, and what the snapshot has there.
type place struct {
	zone    *Zone
	service resolver.ServiceName
	group   *resolver.Group
	member  *resolver.Named // in a cluster zone
	mesh    *resolver.Mesh
	rest    string // labels in front of the service or registered name, wire form
}

// locate takes a name apart as lookup does, for explaining and listing.
func (v *View) locate(name names.Name) place {
	var q Query
	q.SetName([]byte(name.Wire()))
	z := v.zones.find(&q)
	n := 0
	if z != nil {
		n = len(q.Labels) - z.labels
	}
	switch {
	case z == nil || n == 0 || z.Kind == Reverse:
		return place{zone: z}
	case z.Kind == Mesh:
		return v.locateMesh(&q, z, n)
	case n < 3 || string(q.below(n-1, n)) != labelSvc:
		return place{zone: z}
	}
	p := place{zone: z, rest: string(q.below(0, n-3))}
	p.service = resolver.ServiceName{
		Namespace: string(q.below(n-2, n-1)[1:]), Name: string(q.below(n-3, n-2)[1:]),
	}
	p.group = v.snapshot.Group(p.service)
	if z.Kind == Cluster && p.group != nil {
		p.member = p.group.Member(z.cluster)
	}
	return p
}

func (v *View) locateMesh(q *Query, z *Zone, n int) place {
	for i := 0; i < n && i <= v.zones.reach; i++ {
		name, err := z.Name.Join(string(q.below(i, n)))
		if err != nil {
			break
		}
		if m := v.snapshot.Mesh(name); m != nil {
			return place{zone: z, mesh: m, rest: string(q.below(0, i))}
		}
	}
	return place{zone: z}
}

// Explain says how a question is answered and why, from the same view, selection and
// lookup that answer it.
func (v *View) Explain(name names.Name, typ uint16) api.Explanation {
	e := explainer{view: v, typ: typ, place: v.locate(name)}
	e.out = api.Explanation{
		Name: name.Text(), Type: dns.Type(typ).String(), Steps: []string{}, Endpoints: []api.Endpoint{},
	}
	e.query.SetName([]byte(name.Wire()))
	e.query.Type, e.query.NoWait = typ, true
	e.zone()
	if typ == dns.TypeAXFR || typ == dns.TypeIXFR {
		e.step("zone transfers are refused")
		e.out.Rcode = dns.RcodeToString[dns.RcodeRefused]
		return e.out
	}
	v.Lookup(&e.query, &e.answer)
	e.contributors()
	e.result()
	return e.out
}

type explainer struct {
	view *View
	typ  uint16
	place
	query  Query
	answer Answer
	out    api.Explanation
}

func (e *explainer) step(format string, args ...any) {
	e.out.Steps = append(e.out.Steps, fmt.Sprintf(format, args...))
}

func (e *explainer) zone() {
	z := e.place.zone
	if z == nil {
		e.step("the name is in no zone of this server")
		return
	}
	e.out.Zone = z.Name.Text()
	switch z.Kind {
	case Mesh:
		e.step("zone %s holds registered names", z.Name)
	case Aggregate:
		e.step("zone %s aggregates equivalent services of all clusters of the set", z.Name)
	case Cluster:
		e.step("zone %s holds the services of cluster %s", z.Name, e.view.snapshot.Clusters[z.cluster].Name)
	case Reverse:
		e.step("zone %s holds PTR records of the site's cluster", z.Name)
	}
}

// contributors explains what the name is made of.
func (e *explainer) contributors() {
	s := e.view.snapshot
	var sel resolver.Selection
	switch {
	case e.mesh != nil:
		s.Registered(e.mesh, &sel)
		e.registered()
		e.steps(e.mesh.Conflicts())
		e.steps(s.Troubles(e.mesh))
		e.rows(e.rowsOf(&sel, e.mesh.Doc))
	case e.place.zone == nil:
	case e.place.zone.Kind == Aggregate && e.group != nil:
		s.Aggregate(e.group, &sel)
		e.equivalent()
		e.rows(e.rowsOf(&sel, nil))
	case e.member != nil:
		s.InCluster(e.member, &sel)
		e.inCluster(&sel)
		e.rows(e.rowsOf(&sel, nil))
		e.follow(&sel)
	case e.service != (resolver.ServiceName{}):
		e.step("no cluster that counts here has service %s", e.service)
	}
	if sel.Unknown {
		e.step("a backend that could hold more has no usable data")
	}
	e.states()
}

// registered says by which document the name is registered.
func (e *explainer) registered() {
	doc := e.mesh.Doc
	if len(doc.Faults) > 0 {
		e.step("%s is registered by %s, which cannot be used: what it stands for is unknown", doc.Name.Text(), origin(doc.Origin))
		return
	}
	e.step("%s is registered by %s with %s", doc.Name.Text(), origin(doc.Origin), strings.Join(e.mesh.Backends(), ", "))
}

// rowsOf are the selection's rows: at a host's name an address may be another host's too.
func (e *explainer) rowsOf(sel *resolver.Selection, doc *registry.MeshService) []resolver.Row {
	if e.rest != "" && e.rest[1] != '_' {
		return e.view.snapshot.HostRows(sel, doc)
	}
	return e.view.snapshot.Rows(sel, doc)
}

// follow shows what is behind an alias, as deep as a question follows it.
func (e *explainer) follow(sel *resolver.Selection) {
	s := e.view.snapshot
	for depth := 0; !sel.Alias.IsZero() && e.rest == "" && depth < maxAliases; depth++ {
		target := e.view.aliasTarget(e.member.Cluster, sel.Alias)
		p := e.view.locate(target)
		switch {
		case p.zone == nil:
			s.Target(target.Text(), sel)
			e.rows(s.TargetRows(sel, target.Text()))
			return
		case p.mesh != nil:
			s.Registered(p.mesh, sel)
			e.rows(s.Rows(sel, p.mesh.Doc))
			return
		case p.zone.Kind == Aggregate && p.group != nil:
			s.Aggregate(p.group, sel)
			e.rows(s.Rows(sel, nil))
			return
		case p.member == nil:
			return
		}
		e.member = p.member
		s.InCluster(p.member, sel)
		e.rows(s.Rows(sel, nil))
	}
}

func (e *explainer) steps(texts []string) {
	for _, t := range texts {
		e.step("%s", t)
	}
}

func origin(o registry.Origin) string {
	if o.File == "" {
		return "a cluster's document"
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

func (e *explainer) equivalent() {
	s := e.view.snapshot
	members := s.Equivalent(e.group, nil)
	if len(members) == 0 {
		e.step("no service is equivalent to %s (equivalence.match: %s)", e.service, s.Settings.Equivalence.Match)
		return
	}
	if set := s.OfSet(e.group); len(set) == 0 {
		e.step("no service of the set is equivalent to %s (equivalence.match: %s)", e.service, s.Settings.Equivalence.Match)
	} else {
		e.step("equivalent by %s: %s", s.Settings.Equivalence.Match, strings.Join(s.Backends(set), ", "))
	}
	for i := range members {
		c := &s.Clusters[members[i].Cluster]
		step := fmt.Sprintf("cluster %s: role %s, reach %s", c.Name, c.Role, c.Reach)
		if c.Role == resolver.Federated {
			step += "; no part of the aggregate"
		}
		e.step("%s", step)
	}
	e.steps(s.Conflicts(e.group))
}

func (e *explainer) inCluster(sel *resolver.Selection) {
	c := &e.view.snapshot.Clusters[e.member.Cluster]
	switch {
	case !sel.Alias.IsZero():
		e.step("service %s is an alias (ExternalName) for %s", e.service, sel.Alias.Text())
	case len(sel.Parts) > 0 && sel.Parts[0].Virtual:
		e.step("service %s is answered with its cluster IPs", e.service)
	default:
		e.step("service %s is answered with its endpoints (reach %s)", e.service, c.Reach)
	}
}

// states tells which sources keep the answer from being whole and fresh.
func (e *explainer) states() {
	s := e.view.snapshot
	for i := range s.Clusters {
		c := &s.Clusters[i]
		switch {
		case !c.Synced && c.Error != "":
			e.step("cluster %s has never been listed whole: %s", c.Name, c.Error)
		case !c.Synced:
			e.step("cluster %s has never been listed whole", c.Name)
		case c.Error != "":
			e.step("cluster %s fails since %s: %s", c.Name, c.Since.UTC().Format("15:04:05Z"), c.Error)
		}
	}
}

// rows shows each address, and whether this question gets it.
func (e *explainer) rows(rows []resolver.Row) {
	for i := range rows {
		r := &rows[i]
		if !e.concerns(r) {
			continue
		}
		row := api.Endpoint{
			Address: r.Address.String(), Hostname: r.Host, Cluster: r.Cluster, Backend: r.Backend,
			Via: r.Via, State: r.Endpoint.String(), Weight: r.Weight, Included: r.Reason.In(), Reason: r.Reason.String(),
		}
		row.Port = e.port(r)
		e.narrow(r, &row)
		e.out.Endpoints = append(e.out.Endpoints, row)
	}
}

// concerns says whether a row belongs to the name: all do at the service itself and at
// its ports, those of a host at the host.
func (e *explainer) concerns(r *resolver.Row) bool {
	if e.rest == "" || e.rest[1] == '_' {
		return true
	}
	host := string(rune(len(r.Host))) + r.Host
	if e.place.zone.Kind == Cluster {
		return e.rest == host
	}
	site, err := names.Parse(r.Site)
	return err == nil && e.rest == host+strings.TrimSuffix(site.Wire(), "\x00")
}

// asksPort takes a _port._proto name's port.
func (e *explainer) asksPort() (name, protocol string, ok bool) {
	if len(e.rest) < 2 || e.rest[1] != '_' || len(e.rest) <= 1+int(e.rest[0]) {
		return "", "", false
	}
	n, p := splitPort([]byte(e.rest))
	return string(n), string(p), true
}

// port is the row's port that the question is about, else its first.
func (e *explainer) port(r *resolver.Row) int {
	name, protocol, asks := e.asksPort()
	for _, p := range r.Ports {
		if !asks || p.Name == name && p.Protocol.Label() == "_"+protocol {
			return int(p.Number)
		}
	}
	return 0
}

// narrow leaves out what the asked type or port leaves out.
func (e *explainer) narrow(r *resolver.Row, row *api.Endpoint) {
	if !row.Included {
		return
	}
	family := r.Address.Is4()
	switch _, _, asks := e.asksPort(); {
	case asks && row.Port == 0:
		row.Included, row.Reason = false, "has no such port"
	case e.typ == typeSRV && row.Port == 0:
		row.Included, row.Reason = false, "has no port"
	case e.typ == typeA && !family:
		row.Included, row.Reason = false, "is an IPv6 address, A was asked"
	case e.typ == typeAAAA && family:
		row.Included, row.Reason = false, "is an IPv4 address, AAAA was asked"
	}
}

// result is what the lookup found.
func (e *explainer) result() {
	a := &e.answer
	for _, alias := range a.chain {
		if name, err := names.FromWire(alias.target); err == nil {
			e.step("alias to %s is followed", name.Text())
		}
	}
	rcode := dns.RcodeServerFailure
	switch a.Status {
	case Found:
		rcode = dns.RcodeSuccess
		e.step("the name exists and has records of this type")
	case NoData:
		rcode = dns.RcodeSuccess
		e.step("the name exists, without records of this type (NODATA)")
	case NoName:
		rcode = dns.RcodeNameError
		e.step("nothing exists at or below the name")
	case NotReady:
		e.step("a source that could hold the name has never been listed whole: unknown, not absent")
	case Outside:
		rcode = dns.RcodeRefused
	default:
		e.step("what could answer has no usable data")
	}
	if a.Stale {
		e.step("part of the answer is from a failing source's last good data (EDE 3)")
	}
	e.out.Rcode = dns.RcodeToString[rcode]
	if a.Status != Found {
		for i := range e.out.Endpoints {
			e.out.Endpoints[i].Included = false
		}
	}
}
