package resolver

import (
	"fmt"
	"slices"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
)

// footing is what a registered name stands on directly: a change of any of it is a change
// of the name.
type footing struct {
	services []ServiceName
	backends []string     // backend keys
	wanted   []string     // those of them that are DNS locators
	names    []names.Name // below the mesh zone, registered or not
	fault    string       // of the way by which the name leads to others, "" for none
	moving   bool         // a service among them may be an alias and lead elsewhere
}

// footing finds what a document stands on.
func (s *Snapshot) footing(doc *registry.MeshService) (f footing) {
	for i := range doc.Backends {
		b := &doc.Backends[i]
		switch key := b.BackendKey(); b.Type {
		case registry.Kubernetes:
			f.services = append(f.services, ServiceName{b.Namespace, b.Service})
		case registry.DNS:
			s.stand(&f, b, key)
		case registry.Static:
		default:
			f.backends = append(f.backends, key)
		}
	}
	return f
}

// stand adds what a DNS backend stands on: the locator, or a name of ours.
func (s *Snapshot) stand(f *footing, b *registry.Backend, key string) {
	target, _ := b.Target()
	at := s.locate(target)
	for depth := 0; depth <= maxInner; depth++ {
		switch at.kind {
		case outside:
			f.backends, f.wanted = append(f.backends, key), append(f.wanted, key)
			return
		case inMesh: // whichever of them is registered answers
			for name := target; name != s.Settings.Mesh; name = name.Parent() {
				f.names = append(f.names, name)
			}
			return
		case inAggregate:
			f.services = append(f.services, at.service)
			return
		case inCluster:
			f.services, f.moving = append(f.services, at.service), true
		}
		alias := s.aliasAt(at)
		if alias.IsZero() {
			return
		}
		target, key = alias, alias.Text()
		at = s.locate(target)
	}
}

// aliasAt is the target of the ExternalName service at a spot; the zero Name for none.
func (s *Snapshot) aliasAt(at spot) names.Name {
	m := (*Named)(nil)
	if at.kind == inCluster && at.rest == "" {
		m = s.Group(at.service).memberOf(at.cluster)
	}
	if m == nil {
		return names.Name{}
	}
	alias := m.alias()
	if alias.IsZero() {
		return alias
	}
	return s.AliasTarget(at.cluster, alias, s.Clusters[at.cluster].Zone)
}

// Unasked are the locators behind a registered name of which nothing is known yet.
func (s *Snapshot) Unasked(name names.Name) []string {
	var out []string
	s.eachBehind(s.Mesh(name), func(m *Mesh, _ int) {
		for _, key := range s.footing(m.Doc).wanted {
			if s.Members(key) == nil && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	})
	return out
}

// eachBehind calls f for a registered name, nil for none, and each one that it leads to,
// once, the nearest first; steps is how many inner names are in between, and one more than
// maxInner for those that are not followed.
func (s *Snapshot) eachBehind(m *Mesh, f func(m *Mesh, steps int)) {
	type found struct {
		*Mesh
		steps int
	}
	seen := map[names.Name]bool{}
	for queue := []found{{m, 0}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at.Mesh == nil || seen[at.Doc.Name] {
			continue
		}
		seen[at.Doc.Name] = true
		f(at.Mesh, at.steps)
		for i := range at.Doc.Backends {
			if b := &at.Doc.Backends[i]; b.Type == registry.DNS && at.steps <= maxInner {
				queue = append(queue, found{s.leadsTo(b), at.steps + 1})
			}
		}
	}
}

// leadsTo is the registered name that a DNS backend leads to, nil for none.
func (s *Snapshot) leadsTo(b *registry.Backend) *Mesh {
	target, _ := b.Target()
	for depth := 0; depth <= maxInner && !target.IsZero(); depth++ {
		at := s.locate(target)
		if at.kind == inMesh {
			m, _ := s.registeredAt(target)
			return m
		}
		target = s.aliasAt(at)
	}
	return nil
}

// circle is a way from a registered name back to it, without its end and of maxInner names
// at most; nil for none.
func (s *Snapshot) circle(m *Mesh) []names.Name {
	seen := map[names.Name]bool{}
	var path []names.Name
	var visit func(*Mesh) bool
	visit = func(at *Mesh) bool {
		if at == nil || seen[at.Doc.Name] || len(path) > maxInner {
			return at != nil && at.Doc.Name == m.Doc.Name && len(path) > 0
		}
		seen[at.Doc.Name] = true
		path = append(path, at.Doc.Name)
		for i := range at.Doc.Backends {
			if b := &at.Doc.Backends[i]; b.Type == registry.DNS && visit(s.leadsTo(b)) {
				return true
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if visit(m) {
		return path
	}
	return nil
}

// wayFault says what is wrong with the way that leads from a registered name to others; ""
// when nothing is.
func (s *Snapshot) wayFault(m *Mesh) (fault string) {
	if circle := s.circle(m); circle != nil {
		return "the name leads back to itself, and is not followed: " + circleText(circle)
	}
	s.eachBehind(m, func(behind *Mesh, steps int) {
		if steps > maxInner && fault == "" {
			fault = fmt.Sprintf("%s is not followed: more than %d names lead to it", behind.Doc.Name.Text(), maxInner)
		}
	})
	return fault
}

// circleText is a circle for people; "" for none.
func circleText(circle []names.Name) string {
	if len(circle) == 0 {
		return ""
	}
	text := ""
	for _, name := range circle {
		text += name.Text() + " > "
	}
	return text + circle[0].Text()
}

// innerTroubles says where a DNS backend leads inside of our zones, and what of it is not
// known; at is where its target stands.
func (s *Snapshot) innerTroubles(b *registry.Backend, at spot) []string {
	text := backendText(b)
	target, _ := b.Target()
	switch at.kind {
	case inAggregate, inCluster:
		if next := s.aliasAt(at); !next.IsZero() {
			return []string{fmt.Sprintf("%s is resolved here: service %s is an alias (ExternalName) for %s", text, at.service, next.Text())}
		}
		if s.Group(at.service) == nil {
			return []string{fmt.Sprintf("%s is a name of this server: no service %s is known", text, at.service)}
		}
		return []string{fmt.Sprintf("%s is resolved here: service %s", text, at.service)}
	case nowhere:
		return []string{text + " is a name of this server that never has addresses"}
	}
	m, _ := s.registeredAt(target)
	switch {
	case m != nil && len(m.Doc.Faults) > 0:
		return append([]string{fmt.Sprintf("%s is a name of this server, registered by %s, which cannot be used",
			text, place(m.Doc.Origin.File, m.Doc.Origin.Line))}, faults(m.Doc)...)
	case m != nil:
		return []string{fmt.Sprintf("%s is resolved here: %s is registered by %s", text, m.Doc.Name.Text(), place(m.Doc.Origin.File, m.Doc.Origin.Line))}
	case !s.RegistrySynced:
		return []string{text + " is a name of this server: not known until the registry has been read"}
	}
	return []string{text + " is a name of this server that is not registered: known not to exist"}
}
