package resolver

import (
	"net/netip"
	"slices"
	"strings"
)

// Provenance: which cluster may serve which names, from which addresses.

// refusal says why a cluster may not contribute to a name; Included when it may. ofSet
// says that the name is one of the whole set (the aggregate, a backend of cluster "*"),
// where federated clusters have no part.
func (s *Snapshot) refusal(cluster int, name ServiceName, ofSet bool) Reason {
	c := &s.Clusters[cluster]
	switch {
	case ofSet && c.Role == Federated:
		return FederatedCluster
	case !c.allows(name):
		return NotInMayServe
	case c.Age == Expired:
		return StaleExpired
	}
	return Included
}

// allows says whether mayServe lists a service name. Without a list core and federated
// clusters may serve all, extensions nothing.
func (c *Cluster) allows(name ServiceName) bool {
	if c.MayServe == nil {
		return c.Role != Extension
	}
	return slices.Contains(c.MayServe, "*/*") || matchAny(c.MayServe, name.String())
}

func (c *Cluster) allowsText(name string) bool {
	if c.MayServe == nil {
		return c.Role != Extension
	}
	return matchAny(c.MayServe, name)
}

func within(cidrs []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return p.Contains(a) })
}

// CouldHold says whether a cluster that has never synced could hold a service name
// (namespace/name) of the aggregate (DNS_RULES 5). It keeps nothing of name.
func (s *Snapshot) CouldHold(cluster int, name string) bool {
	c := &s.Clusters[cluster]
	return c.Role != Federated && c.allowsText(name) && !matchAny(s.Settings.Equivalence.Exclude, name)
}

// CouldHoldNamespace says the same of any service in a namespace.
func (s *Snapshot) CouldHoldNamespace(cluster int, namespace string) bool {
	c := &s.Clusters[cluster]
	if c.Role == Federated || c.MayServe == nil {
		return c.Role == Core
	}
	return slices.ContainsFunc(c.MayServe, func(p string) bool {
		before, _, isService := strings.Cut(p, "/")
		return isService && matchPattern(before, namespace)
	})
}

// Unknown lists the clusters of the set that have never synced.
func (s *Snapshot) Unknown() []int {
	var out []int
	for i := range s.Clusters {
		if !s.Clusters[i].Synced {
			out = append(out, i)
		}
	}
	return out
}
