package resolver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// Conflict reasons. The first two are the Multi-Cluster Services API's (KEP-1645); an
// aggregate of endpoints serves all of them, each with its own cluster's port, so that a
// conflict is news for the owner and not an outage.
const (
	TypeConflict  = "TypeConflict"
	PortConflict  = "PortConflict"
	AliasConflict = "AliasConflict" // ExternalName in one cluster, endpoints in others
	NameConflict  = "NameConflict"  // two documents register one name
	// InvalidDocument: a document that registers the name cannot be used.
	InvalidDocument = "InvalidDocument"
)

// Conflicts lists in which ways the services of an aggregate differ, with the clusters
// concerned. The order and the result don't depend on the order of events.
func (s *Snapshot) Conflicts(g *Group) []string {
	members := s.contributing(g)
	return append(s.typeConflicts(members), s.portConflicts(members)...)
}

// contributing are the members that may be in the aggregate.
func (s *Snapshot) contributing(g *Group) []Named {
	if s.Settings.Excluded(g.ServiceName) {
		return nil
	}
	return slices.DeleteFunc(s.Equivalent(g, nil), func(m Named) bool {
		r := s.refusal(m.Cluster, g.ServiceName, true)
		return r == FederatedCluster || r == NotInMayServe
	})
}

func (s *Snapshot) typeConflicts(members []Named) (out []string) {
	by := map[sources.ServiceType][]string{}
	for _, m := range members {
		name := s.Clusters[m.Cluster].Name
		if list := by[m.Service.Type()]; len(list) == 0 || list[len(list)-1] != name {
			by[m.Service.Type()] = append(list, name)
		}
	}
	aliases, virtual, headless := by[sources.ExternalName], by[sources.ClusterIP], by[sources.Headless]
	if len(aliases) > 0 && len(by) > 1 {
		out = append(out, fmt.Sprintf("%s: ExternalName in %s is left out", AliasConflict, strings.Join(aliases, ", ")))
	}
	if len(virtual) > 0 && len(headless) > 0 {
		out = append(out, fmt.Sprintf("%s: ClusterIP in %s, headless in %s", TypeConflict,
			strings.Join(virtual, ", "), strings.Join(headless, ", ")))
	}
	return out
}

// portConflicts compares service ports by name and protocol.
func (s *Snapshot) portConflicts(members []Named) []string {
	type port struct {
		name     string
		protocol sources.Protocol
	}
	numbers := map[port]map[uint16][]string{}
	var order []port
	n := 0
	for _, m := range members {
		if m.Service.Type() == sources.ExternalName {
			continue
		}
		n++
		for p := m.Service.Ports().All(); p.Next(); {
			key := port{p.Name, p.Protocol}
			if numbers[key] == nil {
				numbers[key] = map[uint16][]string{}
				order = append(order, key)
			}
			numbers[key][p.Number] = append(numbers[key][p.Number], s.Clusters[m.Cluster].Name)
		}
	}
	slices.SortFunc(order, func(a, b port) int { return strings.Compare(a.name+a.protocol.String(), b.name+b.protocol.String()) })
	var out []string
	for _, key := range order {
		if text := portDifference(numbers[key], n); text != "" {
			out = append(out, fmt.Sprintf("%s: port %q/%s is %s", PortConflict, key.name, key.protocol, text))
		}
	}
	return out
}

// portDifference says how clusters differ in one port; "" when all n agree.
func portDifference(numbers map[uint16][]string, n int) string {
	have := 0
	var parts []string
	for number, clusters := range numbers {
		have += len(clusters)
		parts = append(parts, fmt.Sprintf("%d in %s", number, strings.Join(clusters, ", ")))
	}
	slices.Sort(parts)
	switch {
	case len(numbers) > 1:
		return strings.Join(parts, "; ")
	case have < n:
		return parts[0] + " only"
	}
	return ""
}

// Conflicts lists what is wrong with the documents of a registered name: those that lose
// it to an older one, and those that cannot be used.
func (m *Mesh) Conflicts() []string {
	out := faults(m.Doc)
	for _, loser := range m.Losers {
		if len(loser.Faults) > 0 {
			out = append(out, faults(loser)...)
			continue
		}
		out = append(out, fmt.Sprintf("%s: also registered by %s", NameConflict, place(loser.Origin.File, loser.Origin.Line)))
	}
	return out
}

func faults(doc *registry.MeshService) (out []string) {
	for _, fault := range doc.Faults {
		out = append(out, fmt.Sprintf("%s: %s", InvalidDocument, fault))
	}
	return out
}

func place(file string, line int) string {
	if file == "" {
		return "a cluster"
	}
	return fmt.Sprintf("%s:%d", file, line)
}
