package zones

import (
	"net/netip"
	"strings"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
)

// ListQuery chooses a page of the names that are served.
type ListQuery struct {
	After    string // the last name of the page before, "" from the start
	Limit    int    // at most so many
	Zone     string // only of this zone, lower-case, without final dot; "" all
	Contains string // only names that hold this text; "" all
}

// Services is one page of names, ordered by zone (as Zones lists them) and, inside of a
// zone, by namespace and name. Next is the last name of the page when more may follow.
func (v *View) Services(q ListQuery) api.Services {
	l := &lister{view: v, ListQuery: q, out: api.Services{Items: []api.Service{}}}
	from, key := v.position(q.After)
	for _, z := range v.zones.list[from:] {
		if q.Zone == "" || z.Name.Text() == q.Zone {
			l.zone(z, key)
		}
		key = ""
		if l.full {
			l.out.Next = l.out.Items[len(l.out.Items)-1].Name
			break
		}
	}
	return l.out
}

// Service is one name that is served, without its final dot.
func (v *View) Service(text string) (api.Service, bool) {
	name, err := names.Parse(text)
	if err != nil {
		return api.Service{}, false
	}
	s := v.locate(name)
	switch {
	case s.mesh != nil && name == s.mesh.Doc.Name:
		return v.meshService(s.mesh), true
	case s.group != nil && s.zone.Kind == Aggregate && s.rest == "":
		return v.aggregateService(s.zone, s.group)
	case s.member != nil && s.rest == "":
		return v.clusterService(s.zone, s.member), true
	}
	return api.Service{}, false
}

// position is where a page begins: the zone's number and the key after which, inside of
// it.
func (v *View) position(after string) (zone int, key string) {
	name, err := names.Parse(after)
	if after == "" || err != nil {
		return 0, ""
	}
	s := v.locate(name)
	switch {
	case s.zone == nil:
		return 0, ""
	case s.zone.Kind == Mesh:
		return s.zone.number, name.Wire()
	}
	return s.zone.number, s.service.String()
}

type lister struct {
	ListQuery
	view *View
	out  api.Services
	full bool
}

// add takes a name into the page; false when the page is full.
func (l *lister) add(s api.Service, ok bool) bool {
	if !ok || l.Contains != "" && !strings.Contains(s.Name, l.Contains) {
		return true
	}
	if len(l.out.Items) >= l.Limit {
		l.full = true
		return false
	}
	l.out.Items = append(l.out.Items, s)
	return true
}

func (l *lister) zone(z *Zone, after string) {
	switch z.Kind {
	case Mesh:
		l.view.snapshot.EachMesh(after, func(m *resolver.Mesh) bool {
			return l.add(l.view.meshService(m), true)
		})
	case Aggregate:
		l.view.snapshot.EachGroupAfter(after, func(g *resolver.Group) bool {
			return l.add(l.view.aggregateService(z, g))
		})
	case Cluster:
		l.view.snapshot.EachGroupAfter(after, func(g *resolver.Group) bool {
			m := g.Member(z.cluster)
			return m == nil || l.add(l.view.clusterService(z, m), true)
		})
	}
}

func (v *View) meshService(m *resolver.Mesh) api.Service {
	var sel resolver.Selection
	v.snapshot.Registered(m, &sel)
	s := api.Service{
		Name: m.Doc.Name.Text(), Zone: v.zones.mesh.Name.Text(),
		Backends: m.Backends(), Conflicts: orEmpty(m.Conflicts()),
	}
	s.Ready, s.Total = tally(v.snapshot.Rows(&sel, m.Doc))
	return s
}

func (v *View) aggregateService(z *Zone, g *resolver.Group) (api.Service, bool) {
	var sel resolver.Selection
	v.snapshot.Aggregate(g, &sel)
	members := v.snapshot.OfSet(g)
	if len(members) == 0 || !sel.Exists && !sel.Usable() {
		return api.Service{}, false
	}
	s := api.Service{
		Name: serviceText(z, g.ServiceName), Zone: z.Name.Text(),
		Backends:  v.snapshot.Backends(members),
		Conflicts: orEmpty(v.snapshot.Conflicts(g)),
	}
	s.Ready, s.Total = tally(v.snapshot.Rows(&sel, nil))
	return s, true
}

func (v *View) clusterService(z *Zone, m *resolver.Named) api.Service {
	var sel resolver.Selection
	v.snapshot.InCluster(m, &sel)
	s := api.Service{
		Name: serviceText(z, m.ServiceName), Zone: z.Name.Text(),
		Backends: v.snapshot.Backends([]resolver.Named{*m}), Conflicts: []string{},
	}
	s.Ready, s.Total = tally(v.snapshot.Rows(&sel, nil))
	return s
}

func serviceText(z *Zone, name resolver.ServiceName) string {
	return name.Name + "." + name.Namespace + ".svc." + z.Name.Text()
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// tally counts addresses: one that several sites have is one, and those of federated clusters
// are none of the name's.
func tally(rows []resolver.Row) (ready, total int) {
	in := map[netip.Addr]bool{}
	for i := range rows {
		if rows[i].Reason == resolver.FederatedCluster {
			continue
		}
		in[rows[i].Address] = in[rows[i].Address] || rows[i].Reason.In()
	}
	for _, answered := range in {
		if answered {
			ready++
		}
	}
	return ready, len(in)
}
