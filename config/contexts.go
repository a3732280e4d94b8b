package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
)

// Context is a kubeconfig's context, as far as it matters here.
type Context struct {
	Name   string
	Server string // the URL of its cluster's API server
}

// FromContexts is the configuration of a server that was given none: each context of the
// kubeconfig in use is a federated cluster, since production and staging in one file must
// not merge by name; the contexts listed in clusterset are core clusters. current is the
// current context, "" when there is none; its cluster is the site.
//
// One server under several contexts is one cluster, called as the current context, else
// as the first of clusterset, else as the first by name. Names are lower-cased and what
// cannot be in a cluster's name becomes "-"; two servers that then have one name are an
// error, so is a name in clusterset that is no context.
func FromContexts(contexts []Context, current string, clusterset []string) (*Config, error) {
	if len(contexts) == 0 {
		return nil, errors.New("the kubeconfig has no context: there is no cluster to serve")
	}
	servers := map[string]string{} // by context
	for _, c := range contexts {
		servers[c.Name] = serverKey(c)
	}
	clusterset = asContexts(servers, clusterset)
	core, err := coreServers(servers, clusterset)
	if err != nil {
		return nil, err
	}
	cfg := Default()
	if cfg.Clusters, err = contextClusters(servers, core, preferred(servers, current, clusterset)); err != nil {
		return nil, err
	}
	if _, ok := servers[current]; ok {
		cfg.Site = contextID(current)
	} else if len(cfg.Clusters) == 1 {
		cfg.Site = cfg.Clusters[0].Name
	}
	return cfg, nil
}

// asContexts takes contexts that are called by the cluster's name which they give.
func asContexts(servers map[string]string, clusterset []string) []string {
	out := slices.Clone(clusterset)
	for i, name := range out {
		if _, ok := servers[name]; ok {
			continue
		}
		for _, context := range slices.Sorted(maps.Keys(servers)) {
			if contextID(context) == name {
				out[i] = context
			}
		}
	}
	return out
}

// coreServers are the servers of the contexts in clusterset.
func coreServers(servers map[string]string, clusterset []string) (map[string]bool, error) {
	core := map[string]bool{}
	for _, context := range clusterset {
		server, ok := servers[context]
		if !ok {
			return nil, fmt.Errorf("cluster set: no context %q in the kubeconfig: it has %s",
				context, strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
		}
		core[server] = true
	}
	return core, nil
}

// contextClusters makes one cluster of each server, called after the first of its contexts
// in order; the clusters are ordered by name.
func contextClusters(servers map[string]string, core map[string]bool, order []string) ([]Cluster, error) {
	var clusters []Cluster
	taken := map[string]string{} // cluster name → context
	done := map[string]bool{}    // servers
	for _, context := range order {
		server := servers[context]
		if done[server] {
			continue
		}
		done[server] = true
		cluster, err := contextCluster(context, core[server])
		if err != nil {
			return nil, err
		}
		if other, ok := taken[cluster.Name]; ok {
			return nil, fmt.Errorf("contexts %q and %q would both be the cluster %q: rename one", other, context, cluster.Name)
		}
		taken[cluster.Name] = context
		clusters = append(clusters, cluster)
	}
	slices.SortFunc(clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return clusters, nil
}

// serverKey is equal for contexts that lead to one API server.
func serverKey(c Context) string {
	if c.Server == "" {
		return "context " + c.Name
	}
	return strings.TrimRight(names.Lower(c.Server), "/")
}

// preferred are all contexts, those first that give a cluster its name.
func preferred(servers map[string]string, current string, clusterset []string) []string {
	order := slices.Clone(clusterset)
	if _, ok := servers[current]; ok {
		order = append([]string{current}, order...)
	}
	order = append(order, slices.Sorted(maps.Keys(servers))...)
	var unique []string
	for _, name := range order {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique
}

func contextCluster(context string, core bool) (Cluster, error) {
	id := contextID(context)
	if !isClusterName(id) {
		return Cluster{}, fmt.Errorf("context %q makes no cluster name (%q): rename it, or write a configuration", context, id)
	}
	c := Cluster{Name: id, Context: context, Role: Federated}
	if core {
		c.Role = Core
	}
	c.setDefaults(Default().Staleness, func(string) bool { return false })
	return c, nil
}

// contextID turns a context's name into a cluster's: user@prod.EXAMPLE → user-prod.example.
func contextID(context string) string {
	id := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, names.Lower(context))
	labels := strings.Split(id, ".")
	for i, label := range labels {
		labels[i] = strings.Trim(label, "-")
	}
	return strings.Join(labels, ".")
}
