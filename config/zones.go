package config

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/meshdns/meshdns/names"
)

// idMark is where a cluster's id goes in Zones.PerCluster.
const idMark = "{id}"

// Cluster is the zone of the cluster with this id. It fails where the name would be too
// long.
func (z Zones) Cluster(id string) (names.Name, error) {
	return names.Parse(strings.ReplaceAll(z.PerCluster, idMark, id))
}

// namedZone is a zone and the field that it comes from.
type namedZone struct {
	name   names.Name
	field  string
	isMesh bool
}

// zones checks all zones' names, those of the clusters too.
func (v *validator) zones() {
	all := v.fixedZones()
	if v.perCluster() {
		all = append(all, v.clusterZones()...)
	}
	for i, zone := range all {
		for _, other := range all[:i] {
			v.zonePair(zone, other)
		}
	}
	v.reverse()
	for i, server := range v.cfg.Zones.Nameservers {
		path := fmt.Sprintf("zones.nameservers[%d]", i)
		v.zoneName(path, server)
		if slices.Contains(v.cfg.Zones.Nameservers[:i], server) {
			v.errorf(path, "%s is given twice", server.Text())
		}
	}
}

// fixedZones checks the zones that have a field of their own. One without a good name
// gets its default back, so that what follows has something to work with.
func (v *validator) fixedZones() []namedZone {
	z := &v.cfg.Zones
	var all []namedZone
	for _, f := range []struct {
		field    string
		name     *names.Name
		fallback string
	}{{"mesh", &z.Mesh, defaultMesh}, {"global", &z.Global, defaultGlobal}, {"clusterset", &z.ClusterSet, defaultClusterSet}} {
		path := "zones." + f.field
		if !v.zoneName(path, *f.name) {
			*f.name = names.MustParse(f.fallback)
			continue
		}
		if isPublic(f.name.Text()) {
			v.warnf(path, "%s is a real top-level domain or public suffix: names of others below it become unreachable for this server's clients", f.name.Text())
		}
		all = append(all, namedZone{*f.name, path, f.field == "mesh"})
	}
	return all
}

// zoneName says whether a name can be that of a zone or a host.
func (v *validator) zoneName(path string, name names.Name) bool {
	if name.NumLabels() == 0 {
		v.errorf(path, "want a domain name, not the root and not nothing")
		return false
	}
	for _, label := range name.Labels() {
		if !names.IsHostLabel(strings.ReplaceAll(label, "_", "x")) {
			v.errorf(path, "label %q: want letters, digits, hyphens and underscores, no hyphen at an end", label)
			return false
		}
	}
	return true
}

// perCluster checks the template of the clusters' zones.
func (v *validator) perCluster() bool {
	const path = "zones.perCluster"
	template := v.cfg.Zones.PerCluster
	name, err := v.cfg.Zones.Cluster("x")
	switch parts := strings.Split(strings.TrimSuffix(template, "."), "."); {
	case strings.Count(template, idMark) != 1 || !slices.Contains(parts, idMark):
		v.errorf(path, "%q: want %s once, as a label of its own, for instance %q", template, idMark, defaultPerCluster)
	case err != nil:
		v.errorf(path, "%v", err)
	default:
		return v.zoneName(path, name)
	}
	return false
}

// clusterZones are the zones of all clusters with a good name.
func (v *validator) clusterZones() []namedZone {
	atEnd := strings.HasSuffix(strings.TrimSuffix(v.cfg.Zones.PerCluster, "."), idMark)
	var all []namedZone
	for i, c := range v.cfg.Clusters {
		path := fmt.Sprintf("clusters[%d].name", i)
		if !isClusterName(c.Name) {
			continue // said already
		}
		zone, err := v.cfg.Zones.Cluster(c.Name)
		if err != nil {
			v.errorf(path, "its zone: %v", err)
			continue
		}
		if isPublic(zone.Text()) || atEnd && isPublic(c.Name) {
			v.warnf(path, "%q is a real top-level domain or public suffix: the zone %s hides names of others from this server's clients", c.Name, zone.Text())
		}
		all = append(all, namedZone{zone, path, false})
	}
	return all
}

// isPublic says whether others register names directly below this one on the internet.
func isPublic(name string) bool {
	suffix, icann := publicsuffix.PublicSuffix(name)
	return icann && suffix == name
}

// zonePair checks two zones against each other. The longer name answers for what is
// below it, so it may only stand where the other zone has nothing of its own.
func (v *validator) zonePair(a, b namedZone) {
	if a.name == b.name {
		if strings.HasPrefix(a.field, "clusters[") && strings.HasPrefix(b.field, "clusters[") {
			return // two clusters of one name: said already
		}
		v.errorf(a.field, "its zone %s is also that of %s", a.name.Text(), b.field)
		return
	}
	for _, p := range [][2]namedZone{{a, b}, {b, a}} {
		if label := shadowed(p[0], p[1]); label != "" {
			v.errorf(a.field, "the zone %s would hide %s.%s, which the zone %s needs (%s)",
				p[0].name.Text(), label, p[1].name.Text(), p[1].name.Text(), b.field)
		}
	}
}

// shadowed is the label directly below parent that zone lies at or below and that parent
// has names at itself; "" for none. In the mesh zone, registered names keep out of the
// way (registry.Options.Zones).
func shadowed(zone, parent namedZone) string {
	if zone.name == parent.name || !zone.name.IsAtOrBelow(parent.name) {
		return ""
	}
	labels := zone.name.Labels()
	label := labels[len(labels)-parent.name.NumLabels()-1]
	own := []string{"dns", "dns-version"}
	if !parent.isMesh {
		own = append(own, "svc", "pod") // Kubernetes DNS specification 1.1.0
	}
	if slices.Contains(own, label) {
		return label
	}
	return ""
}

func (v *validator) reverse() {
	for i, prefix := range v.cfg.Zones.Reverse {
		path := fmt.Sprintf("zones.reverse[%d]", i)
		v.prefix(path, prefix)
		if slices.Contains(v.cfg.Zones.Reverse[:i], prefix) {
			v.errorf(path, "%s is given twice", prefix)
		}
	}
	if len(v.cfg.Zones.Reverse) > 0 && len(v.cfg.Clusters) > 0 && v.cfg.Site == "" {
		v.errorf("zones.reverse", `addresses get the names that they have in the local cluster: set "site"`)
	}
}
