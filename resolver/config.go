package resolver

import (
	"log/slog"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/names"
)

// Role is what a cluster may contribute to names that are not its own.
type Role string

const (
	// Core clusters are trusted for every name that mayServe allows (by default all).
	Core Role = "core"
	// Extension clusters contribute only what mayServe lists; nothing without a list.
	Extension Role = "extension"
	// Federated clusters are never in "*" or in an aggregate.
	Federated Role = "federated"
)

// Reach is how a cluster's services are reached from where this server's clients are.
type Reach string

const (
	ReachEndpoints Reach = "endpoints"
	ReachClusterIP Reach = "clusterIP"
)

// Match is what makes services of several clusters equivalent.
type Match string

const (
	// MatchName: the same namespace and name.
	MatchName Match = "name"
	// MatchLabel: the service named by the equivalence label's value, <service>.<namespace>.
	MatchLabel Match = "label"
)

// Settings are what the configuration says of merging. A Settings value is never
// changed once it has been handed over.
type Settings struct {
	// Site is the name of the cluster or site that "local" means, "" for none.
	Site        string
	Clusters    []Cluster // any order; names are unique
	Equivalence Equivalence
	Staleness   Staleness
	Startup     Startup
	TTL         time.Duration // of names that set none; whole seconds
	// RegistrySources are the Status.Source of the sources that hold registry documents:
	// while one has never synced, an absent registered name is unknown.
	RegistrySources []string
	// Mesh and Global are the zones of registered names and of the aggregate, the zero Name
	// for one that is off: names there, and in Cluster.Zone, are not asked of the upstreams.
	Mesh, Global names.Name
	// UpstreamSource is the source that resolves DNS locators ("dns"), "" for none.
	UpstreamSource string
}

// Cluster is one cluster of the configuration.
type Cluster struct {
	Name      string
	Role      Role
	Reach     Reach
	Zone      names.Name // of its own services here, the zero Name for none
	Domain    names.Name // its own cluster domain, the zero Name for cluster.local
	MayServe  []string   // patterns; nil: all for core, nothing for extension
	CIDRs     []netip.Prefix
	Staleness *Staleness // nil: the global one
}

// Equivalence says which services are the same.
type Equivalence struct {
	Match   Match
	Exclude []string // namespace/name patterns
}

// Then is what becomes of data whose time is over.
type Then string

const (
	ThenServfail Then = "servfail"
	ThenDrop     Then = "drop"
	ThenNXDomain Then = "nxdomain"
)

// Staleness says how long a failed source's data are kept.
type Staleness struct {
	KeepShared time.Duration // names that others serve too
	KeepOnly   time.Duration // names that only the failed source has
	Then       Then          // ThenServfail or ThenDrop
}

// Startup says how long readiness waits for a first list, and what absent names get
// after that.
type Startup struct {
	Grace time.Duration
	Then  Then // ThenServfail or ThenNXDomain
}

// Config is what a Resolver is made of.
type Config struct {
	Settings  *Settings
	Publisher Publisher        // must not be nil
	Upstreams Upstreams        // nil: DNS locators are never resolved
	Logger    *slog.Logger     // nil: none
	Now       func() time.Time // nil: time.Now; readings must be monotonic
}

// matchPattern says whether pattern, such as "shop/*" or "*.team.mesh", matches s. A
// "*" stands for any run of bytes other than "/".
func matchPattern(pattern, s string) bool {
	fixed := strings.IndexAny(pattern, `*?[\\`)
	switch {
	case fixed < 0:
		return pattern == s
	case !strings.HasPrefix(s, pattern[:fixed]): // most patterns end here
		return false
	}
	ok, err := path.Match(pattern[fixed:], s[fixed:])
	return ok && err == nil
}

func matchAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchPattern(p, s) })
}

// sortedClusters orders by name: the order of clusters in a configuration never
// changes an answer.
func sortedClusters(clusters []Cluster) []Cluster {
	out := slices.Clone(clusters)
	slices.SortFunc(out, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return out
}
