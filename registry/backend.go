package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/names"
)

// backends checks the long or the short form of a spec; owner is the document's name.
func (c *checker) backends(owner names.Name, spec *rawSpec) []Backend {
	short := shortFormField(spec)
	hasList := c.doc.Has("spec.backends")
	switch {
	case short != "" && hasList:
		c.errorf("spec."+short, "stands beside spec.backends: want either one backend directly in spec or the list")
		return nil
	case hasList && len(spec.Backends) == 0:
		c.errorf("spec.backends", "empty: want at least one backend")
		return nil
	case !hasList && short == "":
		c.errorf("spec", "no backend: want type and locator, or a list of backends")
		return nil
	case !hasList:
		return []Backend{c.backend("spec", owner, &spec.rawBackend)}
	}
	backends := make([]Backend, len(spec.Backends))
	for i := range spec.Backends {
		backends[i] = c.backend(fmt.Sprintf("spec.backends[%d]", i), owner, &spec.Backends[i])
	}
	return backends
}

// shortFormField is the first field of the short form that is set, "" for none.
func shortFormField(spec *rawSpec) string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"type", spec.Type != ""}, {"locator", spec.Locator != ""}, {"cluster", spec.Cluster != ""}, {"port", spec.Port != 0},
		{"weight", spec.Weight != nil}, {"priority", spec.Priority != 0}, {"health", spec.Health != nil}, {"staleness", spec.Staleness != nil},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// backend checks one backend; at is its path.
func (c *checker) backend(at string, owner names.Name, raw *rawBackend) Backend {
	cluster, clusterFine := c.cluster(at+".cluster", raw.Cluster)
	b := Backend{
		Type: raw.Type, Locator: raw.Locator, Port: raw.Port, Priority: int(raw.Priority), Cluster: cluster,
		field: at, locatorAt: c.doc.At(at + ".locator"),
	}
	if raw.Weight != nil {
		b.Weight, b.HasWeight = int(*raw.Weight), true
	}
	if raw.Priority != 0 {
		c.notYet(at+".priority", "backends of all priorities are answered")
	}
	c.health(at+".health", raw.Health)
	c.staleness(at+".staleness", raw.Staleness)
	c.locator(at, owner, &b)
	if b.Type == Kubernetes && clusterFine {
		c.knownCluster(at, b.Cluster)
	} else if b.Cluster == AllClusters {
		c.warnf(at+".cluster", `"*" says nothing of a backend of type %s: its endpoints are filed under the local site`, b.Type)
		b.Cluster = LocalCluster
	}
	return b
}

// cluster reads a cluster field (second seed); ok is false when it is refused.
func (c *checker) cluster(at, text string) (name string, ok bool) {
	name = names.Lower(strings.TrimSpace(text))
	switch {
	case name == "" || name == "local":
		return LocalCluster, true
	case name == AllClusters:
		return AllClusters, true
	case strings.Contains(name, "*"):
		c.errorf(at, `%q: "*" alone is all clusters; as a part of a name it is not supported, since who joins later would be meant unseen`, text)
	case name == "global":
		c.errorf(at, `"global" is no cluster: want "*" for all clusters`)
	case !isSubdomain(name):
		c.errorf(at, "%q is no cluster's name: want a DNS subdomain", text)
	default:
		return name, true
	}
	return name, false
}

func isSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !names.IsHostLabel(label) {
			return false
		}
	}
	return len(s) <= names.MaxName-2 // in wire form a length byte and the root are added
}

// knownCluster compares what a backend says of clusters with the configuration.
func (c *checker) knownCluster(at, cluster string) {
	if c.opts.Clusters == nil || cluster == AllClusters {
		return
	}
	field := at + ".cluster"
	if !c.doc.Has(field) {
		field = at + ".locator"
	}
	if cluster == LocalCluster {
		if cluster = c.opts.Site; cluster == "" {
			c.errorf(field, `means the local cluster, but the configuration does not say which that is: set "site", or name a cluster here`)
			return
		}
	}
	if !slices.Contains(c.opts.Clusters, cluster) {
		c.warnf(field, "no cluster %q is configured here: what it holds stays unknown and the name answers SERVFAIL", cluster)
	}
}

func (c *checker) health(at string, h *rawHealth) {
	if h == nil {
		return
	}
	if h.TCP == 0 {
		c.errorf(at+".tcp", "missing: want the port to probe")
	}
	for _, d := range []struct {
		field string
		value *time.Duration
	}{{"interval", h.Interval}, {"timeout", h.Timeout}} {
		if d.value != nil && *d.value <= 0 {
			c.errorf(at+"."+d.field, "%s is out of range: want more than 0s", *d.value)
		}
	}
	for _, n := range []struct {
		field string
		value *uint16
	}{{"unhealthyAfter", h.UnhealthyAfter}, {"healthyAfter", h.HealthyAfter}} {
		if n.value != nil && *n.value == 0 {
			c.errorf(at+"."+n.field, "0 is out of range: want at least 1 probe")
		}
	}
	c.notYet(at, "nothing is probed")
}

func (c *checker) staleness(at string, s *rawStaleness) {
	if s == nil {
		return
	}
	if s.KeepShared < 0 {
		c.errorf(at+".keepShared", "%s is negative", s.KeepShared)
	}
	if s.KeepOnly < 0 {
		c.errorf(at+".keepOnly", "%s is negative", s.KeepOnly)
	}
	c.closedSet(at+".then", s.Then, "servfail", "drop")
	c.notYet(at, "the configuration's staleness holds for all backends")
}
