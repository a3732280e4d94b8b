package registry

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

// ConflictKind is what is wrong between documents.
type ConflictKind uint8

const (
	// Duplicate: documents have one name. The first of Conflict.Documents is served.
	Duplicate ConflictKind = iota
	// SiteCollision: a dotted name stands where another name's endpoints of a site do.
	SiteCollision
	// Loop: the DNS locators of documents lead from one to the next in a circle.
	Loop
)

// Conflict is a fault that no document has alone.
type Conflict struct {
	Kind      ConflictKind
	Documents []*MeshService     // those involved, the oldest first (OlderFirst)
	Problems  []document.Problem // errors, each naming all that are involved

	about []*MeshService // the document of each problem
}

// ProblemsOf are the problems to report when doc is left out: those about it, or all
// where none is.
func (c *Conflict) ProblemsOf(doc *MeshService) []document.Problem {
	var own []document.Problem
	for i, p := range c.Problems {
		if c.about[i] == doc {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return c.Problems
	}
	return own
}

func (c *Conflict) add(doc *MeshService, at document.Place, field, format string, args ...any) {
	c.about = append(c.about, doc)
	c.Problems = append(c.Problems, document.Problem{
		File: doc.Origin.File, Line: at.Line, Column: at.Column, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// OlderFirst orders documents by age, ties by source and place, so that every server
// settles a conflict alike (DESIGN section 5, Registry). Documents without a time, such
// as those from files, come first.
func OlderFirst(a, b *MeshService) int {
	return cmp.Or(a.Created.Compare(b.Created),
		strings.Compare(a.Origin.Source, b.Origin.Source),
		strings.Compare(a.Origin.File, b.Origin.File),
		cmp.Compare(a.Origin.Line, b.Origin.Line),
		cmp.Compare(a.nameAt.Column, b.nameAt.Column)) // two on one line
}

// CheckSet returns what is wrong between documents that are served together, ordered by
// place. All problems are errors.
func CheckSet(docs []*MeshService, opts Options) []document.Problem {
	var problems []document.Problem
	for _, c := range Conflicts(docs, opts) {
		problems = append(problems, c.Problems...)
	}
	document.Sort(problems)
	return problems
}

// Conflicts returns all conflicts between docs, in an order that does not depend on
// theirs.
func Conflicts(docs []*MeshService, opts Options) []Conflict {
	docs = slices.SortedFunc(slices.Values(docs), OlderFirst)
	byName := map[names.Name][]*MeshService{}
	for _, d := range docs {
		byName[d.Name] = append(byName[d.Name], d)
	}
	var conflicts []Conflict
	for _, d := range docs {
		if same := byName[d.Name]; same[0] == d && len(same) > 1 {
			conflicts = append(conflicts, duplicate(same))
		}
	}
	conflicts = append(conflicts, siteCollisions(docs, byName, opts)...)
	return append(conflicts, loops(docs, byName, opts.Mesh)...)
}

func duplicate(docs []*MeshService) Conflict {
	c := Conflict{Kind: Duplicate, Documents: docs}
	for _, d := range docs[1:] {
		c.add(d, d.nameAt, "metadata.name", "%s is registered twice: the one in %s is served, this one is not", d.Name.Text(), docs[0].place())
	}
	return c
}

func (s *MeshService) place() string {
	return fmt.Sprintf("%s:%d:%d", s.Origin.File, s.nameAt.Line, s.nameAt.Column)
}

// siteCollisions finds names such as west.foo.mesh beside foo.mesh, whose endpoints in
// west are <host>.west.foo.mesh (DNS_RULES 21).
func siteCollisions(docs []*MeshService, byName map[names.Name][]*MeshService, opts Options) []Conflict {
	var conflicts []Conflict
	for _, below := range docs {
		for name := range below.above(opts.Mesh) {
			if len(byName[name]) == 0 {
				continue
			}
			above := byName[name][0]
			if site := above.siteMetBy(below.Name, opts); site != "" {
				c := Conflict{Kind: SiteCollision, Documents: slices.SortedFunc(slices.Values([]*MeshService{above, below}), OlderFirst)}
				c.add(below, below.nameAt, "metadata.name", "%s collides with the endpoints that %s (%s) has in the site %q",
					below.Name.Text(), above.Name.Text(), above.place(), site)
				conflicts = append(conflicts, c)
			}
		}
	}
	return conflicts
}

// above yields the names between s and the mesh zone, the longest first.
func (s *MeshService) above(mesh names.Name) iter.Seq[names.Name] {
	return func(yield func(names.Name) bool) {
		for name := s.Name.Parent(); name != mesh && !name.IsZero(); name = name.Parent() {
			if !yield(name) {
				return
			}
		}
	}
}

// Harmless are those of refused documents (with Faults) whose names take none away from
// the endpoints of docs, as west.foo.mesh would from those that foo.mesh has in west.
func Harmless(refused, docs []*MeshService, opts Options) []*MeshService {
	byName := map[names.Name][]*MeshService{}
	for _, d := range docs {
		byName[d.Name] = append(byName[d.Name], d)
	}
	return slices.DeleteFunc(slices.Clone(refused), func(r *MeshService) bool {
		for name := range r.above(opts.Mesh) {
			if slices.ContainsFunc(byName[name], func(d *MeshService) bool { return d.siteMetBy(r.Name, opts) != "" }) {
				return true
			}
		}
		return false
	})
}

// siteMetBy is the site of s whose names (<host>.<site>.<s>) overlap with name and what
// is below it; "" when there is none. name is below s.
func (s *MeshService) siteMetBy(name names.Name, opts Options) string {
	labels := name.Labels()
	labels = labels[:len(labels)-s.Name.NumLabels()]
	for _, site := range s.sites(opts) {
		parts := strings.Split(site, ".")
		common := min(len(parts), len(labels))
		if slices.Equal(parts[len(parts)-common:], labels[len(labels)-common:]) {
			return site
		}
	}
	return ""
}

// sites are the site labels that endpoints of s may have.
func (s *MeshService) sites(opts Options) []string {
	sites := slices.Clone(opts.Clusters)
	if opts.Site != "" {
		sites = append(sites, opts.Site)
	} else {
		sites = append(sites, "local") // how the resolver calls a site that has no name
	}
	for i := range s.Backends {
		if cluster := s.Backends[i].Cluster; cluster != LocalCluster && cluster != AllClusters {
			sites = append(sites, cluster)
		}
	}
	return sites
}

// loops finds circles of DNS locators (CASES C20): the strongly connected parts of the
// graph "document → documents that its DNS backends lead to" (Tarjan). Documents that are
// not served, since an older one has their name, are not in it.
func loops(docs []*MeshService, byName map[names.Name][]*MeshService, mesh names.Name) []Conflict {
	g := graph{byName: byName, mesh: mesh, index: map[*MeshService]int{}, low: map[*MeshService]int{}, onStack: map[*MeshService]bool{}}
	for _, d := range docs {
		if g.index[d] == 0 && byName[d.Name][0] == d {
			g.visit(d)
		}
	}
	slices.SortFunc(g.loops, func(a, b Conflict) int { return OlderFirst(a.Documents[0], b.Documents[0]) })
	return g.loops
}

type graph struct {
	byName  map[names.Name][]*MeshService
	mesh    names.Name
	count   int
	index   map[*MeshService]int // order of the first visit, from 1
	low     map[*MeshService]int // the lowest index that is reached from here
	stack   []*MeshService
	onStack map[*MeshService]bool
	loops   []Conflict
}

func (g *graph) visit(d *MeshService) {
	g.count++
	g.index[d], g.low[d] = g.count, g.count
	g.stack = append(g.stack, d)
	g.onStack[d] = true
	for i := range d.Backends {
		switch next := g.next(&d.Backends[i]); {
		case next == nil:
		case g.index[next] == 0:
			g.visit(next)
			g.low[d] = min(g.low[d], g.low[next])
		case g.onStack[next]:
			g.low[d] = min(g.low[d], g.index[next])
		}
	}
	if g.low[d] == g.index[d] {
		g.closePart(d)
	}
}

// closePart takes a whole strongly connected part, of which first was visited first, off the
// stack.
func (g *graph) closePart(first *MeshService) {
	from := slices.Index(g.stack, first)
	part := slices.Clone(g.stack[from:])
	g.stack = g.stack[:from]
	for _, d := range part {
		delete(g.onStack, d)
	}
	slices.SortFunc(part, OlderFirst)
	c := Conflict{Kind: Loop, Documents: part}
	for _, d := range part {
		g.addLoop(&c, d)
	}
	if len(c.Problems) > 0 {
		g.loops = append(g.loops, c)
	}
}

// addLoop notes those backends of d that lead back into the part that d is of.
func (g *graph) addLoop(c *Conflict, d *MeshService) {
	for i := range d.Backends {
		b := &d.Backends[i]
		if next := g.next(b); next != nil && slices.Contains(c.Documents, next) {
			c.add(d, b.locatorAt, b.field+".locator", "%s is resolved by resolving itself, through %s", d.Name.Text(), listed(c.Documents))
		}
	}
}

// listed names the first few of docs: a message is for people.
func listed(docs []*MeshService) string {
	const most = 8
	var texts []string
	for _, d := range docs[:min(most, len(docs))] {
		texts = append(texts, fmt.Sprintf("%s (%s)", d.Name.Text(), d.place()))
	}
	if more := len(docs) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// next is the document that answers for the host of a DNS backend: that of the longest
// registered name at or above it; nil for hosts elsewhere.
func (g *graph) next(b *Backend) *MeshService {
	if b.Type != DNS || !b.Host.IsAtOrBelow(g.mesh) {
		return nil
	}
	for name := b.Host; name != g.mesh; name = name.Parent() {
		if docs := g.byName[name]; len(docs) > 0 {
			return docs[0]
		}
	}
	return nil
}
