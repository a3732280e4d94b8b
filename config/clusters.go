package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
)

func (v *validator) clusters() {
	for i := range v.cfg.Clusters {
		c := &v.cfg.Clusters[i]
		at := fmt.Sprintf("clusters[%d]", i)
		c.setDefaults(v.cfg.Staleness, func(field string) bool { return v.doc.Has(at + "." + field) })
		v.clusterName(at+".name", i)
		v.clusterOrigin(at, i)
		v.clusterGuards(at, c)
		v.clusterReach(at, c)
		v.zoneName(at+".domain", c.Domain)
		if v.doc.Has(at + ".staleness") {
			v.staleness(at+".staleness", c.Staleness)
		}
		if c.Registry {
			v.notYet(at+".registry", "registry documents are read from registryDir only")
		}
	}
}

func (v *validator) clusterName(path string, i int) {
	name := v.cfg.Clusters[i].Name
	switch {
	case name == "":
		v.errorf(path, "missing")
		return
	case name != names.Lower(name):
		v.errorf(path, "%q: want lower-case letters only: DNS does not tell %q from it", name, names.Lower(name))
	case !isSubdomain(name):
		v.errorf(path, "%q: want a DNS subdomain: labels of letters, digits and inner hyphens", name)
	case !isClusterName(name):
		v.errorf(path, "%q is taken: it is how all clusters, or the own one, are called", name)
	}
	for j := range i {
		if names.Lower(v.cfg.Clusters[j].Name) == names.Lower(name) {
			v.errorf(path, "%q is the name of clusters[%d] too", name, j)
			return
		}
	}
}

// isClusterName says whether a cluster may be called s: "global" and "local" have a
// meaning of their own.
func isClusterName(s string) bool { return isSubdomain(s) && s != "global" && s != "local" }

// clusterOrigin checks where a cluster's objects come from.
func (v *validator) clusterOrigin(at string, i int) {
	c := &v.cfg.Clusters[i]
	origins := 0
	for _, given := range []bool{c.Kubeconfig != "", c.InCluster, c.Manifests != ""} {
		if given {
			origins++
		}
	}
	if origins != 1 {
		v.errorf(at, "want exactly one of kubeconfig, inCluster and manifests, got %d", origins)
	}
	if c.Context != "" && c.Kubeconfig == "" {
		v.errorf(at+".context", "a context is one of a kubeconfig, and there is none here")
	}
	for j := range i {
		if c.InCluster && v.cfg.Clusters[j].InCluster {
			v.errorf(at+".inCluster", "clusters[%d] is the cluster that this server runs in already", j)
		}
	}
}

// clusterGuards checks what limits a cluster's contribution.
func (v *validator) clusterGuards(at string, c *Cluster) {
	closedSet(v, at+".role", c.Role, Core, Extension, Federated)
	for i, pattern := range c.MayServe {
		field := fmt.Sprintf("%s.mayServe[%d]", at, i)
		if err := checkServePattern(pattern); err != nil {
			v.errorf(field, "%v", err)
		} else if !strings.Contains(pattern, "/") {
			v.notYet(field, "clusters hold no registered names yet, so that nothing is to be allowed")
		}
	}
	if len(c.MayServe) == 0 {
		c.MayServe = nil
		switch {
		case c.Role == Extension:
			v.warnf(at+".mayServe", "serves nothing: an extension cluster serves only what mayServe lists")
		case v.doc.Has(at + ".mayServe"):
			v.warnf(at+".mayServe", "an empty list is as none: the cluster may serve everything")
		}
	}
	for i, prefix := range c.CIDRs {
		v.prefix(fmt.Sprintf("%s.cidrs[%d]", at, i), prefix)
	}
	if len(c.CIDRs) == 0 && v.doc.Has(at+".cidrs") {
		c.CIDRs = nil
	}
}

func (v *validator) clusterReach(at string, c *Cluster) {
	if c.Region != "" {
		v.notYet(at+".region", "endpoints of all regions are answered alike")
	}
	closedSet(v, at+".reach", c.Reach, ReachEndpoints, ReachClusterIP, ReachLoadBalancer, ReachNodePort, ReachGateway)
	switch c.Reach {
	case ReachLoadBalancer, ReachNodePort, ReachGateway:
		v.notYet(at+".reach", "endpoints are answered")
	}
	if len(c.Gateways) > 0 {
		v.notYet(at+".gateways", "endpoints are answered")
	}
}

// prefix checks a CIDR that decoding has taken.
func (v *validator) prefix(path string, p netip.Prefix) {
	switch {
	case !p.IsValid(): // decoding has said why
	case p.Addr().Is4In6():
		v.errorf(path, "%s: write IPv4 prefixes as such", p)
	case p != p.Masked():
		v.errorf(path, "%s has bits set beyond its length: want %s", p, p.Masked())
	}
}

// site settles what "local" means: the only cluster where nothing is said.
func (v *validator) site() {
	c := v.cfg
	switch named := func(cl Cluster) bool { return cl.Name == c.Site }; {
	case c.Site == "" && len(c.Clusters) == 1:
		c.Site = c.Clusters[0].Name
	case c.Site == "":
	case len(c.Clusters) > 0 && !slices.ContainsFunc(c.Clusters, named):
		v.errorf("site", "%q is no cluster's name: want one of %s", c.Site, v.clusterNames())
	case !isSubdomain(c.Site) || c.Site == "global":
		v.errorf("site", "%q: want lower-case labels of letters, digits and inner hyphens", c.Site)
	}
}

func (v *validator) clusterNames() string {
	list := make([]string, len(v.cfg.Clusters))
	for i, c := range v.cfg.Clusters {
		list[i] = c.Name
	}
	return strings.Join(list, ", ")
}

var errServicePattern = errors.New(`want namespace/name, where "*" stands for any characters of its part`)

// checkServicePattern checks a pattern of Kubernetes services: namespace/name, in which
// "*" stands for any run of characters but the slash (shop/*, */*, team-*/api).
func checkServicePattern(pattern string) error {
	namespace, name, ok := strings.Cut(pattern, "/")
	if !ok || !isGlobLabel(namespace) || !isGlobLabel(name) {
		return fmt.Errorf("%q: %w", pattern, errServicePattern)
	}
	return nil
}

// checkServePattern checks a pattern of mayServe: that of services, or one of mesh names,
// which has no slash and in which "*" stands for any run of characters, dots too
// (*.team.mesh: all names below team.mesh).
func checkServePattern(pattern string) error {
	if strings.Contains(pattern, "/") {
		return checkServicePattern(pattern)
	}
	for label := range strings.SplitSeq(pattern, ".") {
		if !isGlobLabel(strings.ReplaceAll(label, "_", "x")) {
			return fmt.Errorf(`%q: want namespace/name, or a lower-case name of the mesh zone such as *.team.mesh`, pattern)
		}
	}
	return nil
}

func isGlobLabel(s string) bool { return names.IsHostLabel(strings.ReplaceAll(s, "*", "x")) }
