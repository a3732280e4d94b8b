package resolver

import (
	"fmt"
	"net/netip"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// Row is one address of a selection and why it is answered or not: what explain shows.
type Row struct {
	Address  netip.Addr
	Host     string
	Site     string // label(s) that the host stands under
	Cluster  string // "" for endpoints in no cluster
	Backend  string
	Via      []string // inner names that lead to the address, the outermost first
	Ports    []sources.Port
	Endpoint sources.EndpointState
	Weight   int
	Reason   Reason
}

// rowKey is what makes two endpoints one row.
type rowKey struct {
	address netip.Addr
	site    string
	host    string
}

// Rows lists every address of the selection once for each site, in the selection's order.
// doc is the registered name's document, nil outside the registry. An address of several
// slices is in if any of them says so (C92).
func (s *Snapshot) Rows(sel *Selection, doc *registry.MeshService) []Row {
	return s.rows(sel, doc, false)
}

// HostRows is Rows with an address once for each of its hosts.
func (s *Snapshot) HostRows(sel *Selection, doc *registry.MeshService) []Row {
	return s.rows(sel, doc, true)
}

func (s *Snapshot) rows(sel *Selection, doc *registry.MeshService, byHost bool) []Row {
	var rows []Row
	at := map[rowKey]int{}
	for i := range sel.Parts {
		p := &sel.Parts[i]
		for list := p.Slice.Endpoints(); list.Next(); {
			e := &list.Endpoint
			row := s.row(p, e, doc)
			key := rowKey{address: e.Address, site: p.Site}
			if byHost {
				key.host = row.Host
			}
			k, known := at[key]
			if !known {
				at[key] = len(rows)
				rows = append(rows, row)
				continue
			}
			row.Ports = append(row.Ports[:len(row.Ports):len(row.Ports)], rows[k].Ports...)
			if row.Reason.In() && !rows[k].Reason.In() {
				rows[k] = row
			} else if row.Reason.In() {
				rows[k].Ports = row.Ports
			}
		}
	}
	return rows
}

// TargetRows is Rows for a selection that Target filled.
func (s *Snapshot) TargetRows(sel *Selection, target string) []Row {
	rows := s.Rows(sel, nil)
	for i := range rows {
		rows[i].Backend = "DNS " + target
	}
	return rows
}

// Troubles says what of a registered name's backends is not known, and why, and where they
// lead inside of our own zones; first of the name itself, then of those that it leads to.
func (s *Snapshot) Troubles(m *Mesh) (out []string) {
	if fault := s.wayFault(m); fault != "" {
		out = append(out, fault)
	}
	s.eachBehind(m, func(behind *Mesh, steps int) {
		if steps > maxInner {
			return // not followed
		}
		for _, trouble := range s.ownTroubles(behind) {
			if behind != m {
				trouble = behind.Doc.Name.Text() + ": " + trouble
			}
			out = append(out, trouble)
		}
	})
	return out
}

func (s *Snapshot) ownTroubles(m *Mesh) (out []string) {
	for i := range m.Doc.Backends {
		b := &m.Doc.Backends[i]
		switch b.Type {
		case registry.Static:
		case registry.Kubernetes:
			out = append(out, s.aliasTroubles(b)...)
		case registry.DNS:
			target, _ := b.Target()
			if at := s.locate(target); at.kind != outside {
				out = append(out, s.innerTroubles(b, at)...)
				continue
			}
			switch members := s.Members(b.BackendKey()); {
			case members == nil:
				out = append(out, backendText(b)+": not resolved yet")
			case members.Error != "":
				out = append(out, backendText(b)+" fails: "+members.Error)
			}
		default:
			out = append(out, backendText(b)+": this kind of backend is not built in yet")
		}
	}
	return out
}

// aliasTroubles lists the clusters in which a backend's service is an alias, which has no
// endpoints to register.
func (s *Snapshot) aliasTroubles(b *registry.Backend) (out []string) {
	g := s.Group(ServiceName{b.Namespace, b.Service})
	if g == nil {
		return nil
	}
	for i := range g.Members {
		m := &g.Members[i]
		if m.Service.Type() == sources.ExternalName && s.asked(b.Cluster, m.Cluster) {
			out = append(out, fmt.Sprintf("%s is an alias (ExternalName) in cluster %s: it is not followed",
				backendText(b), s.Clusters[m.Cluster].Name))
		}
	}
	return out
}

func (s *Snapshot) row(p *Part, e *sources.Endpoint, doc *registry.MeshService) Row {
	r := Row{
		Address: e.Address, Host: e.Hostname, Site: p.Site, Ports: p.Ports.List(),
		Endpoint: e.State, Reason: p.Reason(e), Backend: "Kubernetes " + p.Member.String(), Via: p.Inner.Path(),
	}
	if r.Host == "" {
		r.Host = names.Dashed(e.Address)
	}
	if p.Cluster != NoCluster {
		r.Cluster = s.Clusters[p.Cluster].Name
	}
	if doc != nil {
		b := &doc.Backends[p.Backend]
		r.Backend, r.Weight = backendText(b), WeightOf(b)
		if r.Cluster == "" {
			r.Cluster = b.Cluster
		}
	}
	return r
}

func backendText(b *registry.Backend) string { return string(b.Type) + " " + b.Locator }

// WeightOf is a backend's weight; 1 where none is written.
func WeightOf(b *registry.Backend) int {
	if b.HasWeight {
		return b.Weight
	}
	return 1
}

// Backends lists what a group's aggregate is made of, as the services API shows it.
func (s *Snapshot) Backends(members []Named) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = "Kubernetes " + m.ServiceName.String() + " (" + s.Clusters[m.Cluster].Name + ")"
	}
	return out
}

// Backends lists what a registered name stands on.
func (m *Mesh) Backends() []string {
	out := make([]string, len(m.Doc.Backends))
	for i := range m.Doc.Backends {
		b := &m.Doc.Backends[i]
		out[i] = backendText(b)
		if b.Cluster != registry.LocalCluster {
			out[i] += " (" + b.Cluster + ")"
		}
	}
	return out
}

// Sources lists every source as the admin API shows it.
func (s *Snapshot) Sources() []api.Source {
	out := make([]api.Source, 0, len(s.Clusters)+len(s.others))
	for i := range s.Clusters {
		c := &s.Clusters[i]
		row := c.SourceState.row()
		if row.Kind == "" { // not heard of yet
			row.Kind = "kubernetes"
		}
		out = append(out, row)
	}
	for i := range s.others {
		out = append(out, s.others[i].row())
	}
	return out
}

func (st *SourceState) row() api.Source {
	row := api.Source{
		Name: st.Source, Kind: st.Kind, State: st.State, Since: st.Since, LastError: st.Error,
		Services: int(st.Live.Services.Load()), Skipped: st.Skipped, LastSkip: st.LastSkip,
		Refused: int(st.Live.Refused.Load()),
	}
	for i := range st.Live.Endpoints {
		row.Endpoints += int(st.Live.Endpoints[i].Load())
	}
	if at := st.Live.LastSuccess(); !at.IsZero() {
		row.LastSuccess = &at
	}
	return row
}

// EndpointCounts calls f with the number of endpoints of each cluster and state.
func (s *Snapshot) EndpointCounts(f func(cluster, state string, n int)) {
	for i := range s.Clusters {
		c := &s.Clusters[i]
		for state := range c.Live.Endpoints {
			f(c.Name, sources.EndpointState(state).String(), int(c.Live.Endpoints[state].Load()))
		}
	}
}

// Waiting lists the sources whose first whole list has not come, by name: those that
// readiness waits for.
func (s *Snapshot) Waiting() []string {
	var out []string
	for i := range s.Clusters {
		if !s.Clusters[i].Synced {
			out = append(out, s.Clusters[i].Name)
		}
	}
	for _, name := range s.Settings.RegistrySources {
		if !s.synced(name) {
			out = append(out, name)
		}
	}
	return out
}

func (s *Snapshot) synced(source string) bool {
	for i := range s.others {
		if s.others[i].Source == source {
			return s.others[i].Synced
		}
	}
	return false
}
