// Package config reads the configuration: the first step of a start and of each reload.
//
//	config.go    Config: what can be said; Load and Parse
//	defaults.go  what holds where nothing is said, and why
//	validate.go  what is wrong, all of it, each with file, line, column and field
//	zones.go     zones: names, the template of the clusters' zones, what shadows what
//	clusters.go  clusters, patterns, sites
//	server.go    how questions are answered: rate limits
//	address.go   addresses to listen on and upstreams to ask
//	contexts.go  the configuration of those who have none: a kubeconfig's contexts
//
// The way on: cli makes the sources, the resolver, the zones and the server of it.
package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

// Config is the whole configuration. Paths in it are as good from the working directory
// as they were from the file's folder. It is not changed once it has been returned.
type Config struct {
	Listen Listen `yaml:"listen"`
	Server Server `yaml:"server"`
	// Site is the cluster or place that this server is in: what "local" means; "" when
	// nothing says. With clusters it is the name of one of them.
	Site        string      `yaml:"site"`
	Zones       Zones       `yaml:"zones"`
	Clusters    []Cluster   `yaml:"clusters"`
	RegistryDir string      `yaml:"registryDir"` // "" when there is none
	Equivalence Equivalence `yaml:"equivalence"`
	Defaults    Defaults    `yaml:"defaults"`
	Staleness   Staleness   `yaml:"staleness"`
	Startup     Startup     `yaml:"startup"`
	Upstreams   []Upstream  `yaml:"upstreams"` // at least one
	StateDir    string      `yaml:"stateDir"`  // "": off
}

// Listen says where to listen: an IP address or nothing for all of them, and a port.
type Listen struct {
	DNS   []string `yaml:"dns"`   // UDP and TCP; at least one
	Admin string   `yaml:"admin"` // "": off
	// Workers is the number of UDP sockets, each with a worker of its own, for each address;
	// 0: one for each processor that the process may use, 16 at most.
	Workers int `yaml:"workers"`
	Batch   int `yaml:"batch"` // datagrams that a worker reads and sends at once, at most; 0: 32
}

// Zones are the names of the zones. No two of them are equal.
type Zones struct {
	Mesh        names.Name     `yaml:"mesh"`
	Global      names.Name     `yaml:"global"`
	ClusterSet  names.Name     `yaml:"clusterset"`
	PerCluster  string         `yaml:"perCluster"`  // holds {id} once, as whole labels
	Reverse     []netip.Prefix `yaml:"reverse"`     // without host bits
	Nameservers []names.Name   `yaml:"nameservers"` // empty: ns.dns.<zone>
}

// Role is what a cluster may contribute.
type Role string

const (
	// Core clusters serve what mayServe allows, everything without it.
	Core Role = "core"
	// Extension clusters serve what mayServe allows, nothing without it.
	Extension Role = "extension"
	// Federated clusters are never in "*" or in an aggregate.
	Federated Role = "federated"
)

// Reach is how a cluster's services are reached from where the clients are.
type Reach string

const (
	ReachEndpoints    Reach = "endpoints"
	ReachClusterIP    Reach = "clusterIP"
	ReachLoadBalancer Reach = "loadBalancer" // not yet effective
	ReachNodePort     Reach = "nodePort"     // not yet effective
	ReachGateway      Reach = "gateway"      // not yet effective
)

// Cluster is one Kubernetes cluster. Exactly one of Kubeconfig, InCluster and Manifests
// is set, but in what FromContexts makes: there all are empty and Context is a context of
// the kubeconfig in use.
type Cluster struct {
	Name       string         `yaml:"name"` // a lower-case DNS subdomain, unique
	Kubeconfig string         `yaml:"kubeconfig"`
	Context    string         `yaml:"context"` // "": the kubeconfig's current one
	InCluster  bool           `yaml:"inCluster"`
	Manifests  string         `yaml:"manifests"` // a folder or a file of plain objects
	Region     string         `yaml:"region"`
	Role       Role           `yaml:"role"`
	Registry   bool           `yaml:"registry"` // not yet effective
	Domain     names.Name     `yaml:"domain"`
	MayServe   []string       `yaml:"mayServe"` // patterns (see checkServePattern); nil when absent or empty
	CIDRs      []netip.Prefix `yaml:"cidrs"`    // nil: any address
	Reach      Reach          `yaml:"reach"`
	Gateways   []string       `yaml:"gateways"`  // not yet effective
	Staleness  Staleness      `yaml:"staleness"` // whole: what the cluster leaves out is the global one's
}

// Match is what makes services of several clusters equivalent.
type Match string

const (
	MatchName  Match = "name"  // the same namespace and name
	MatchLabel Match = "label" // the label's value, <service>.<namespace>
)

// Equivalence says which services of several clusters are one.
type Equivalence struct {
	Match   Match    `yaml:"match"`
	Label   string   `yaml:"label"`
	Exclude []string `yaml:"exclude"` // namespace/name patterns
}

// Defaults hold for names that say nothing themselves.
type Defaults struct {
	TTL         document.TTL `yaml:"ttl"`
	NegativeTTL document.TTL `yaml:"negativeTTL"`
	Order       string       `yaml:"order"`    // shuffle
	Locality    string       `yaml:"locality"` // none, prefer, strict; not yet effective
}

// Then is what becomes of names whose data are too old or never came.
type Then string

const (
	ThenServfail Then = "servfail"
	ThenDrop     Then = "drop"     // of Staleness: the data are forgotten
	ThenNXDomain Then = "nxdomain" // of Startup: absent names do not exist
)

// Staleness says how long the data of a failed source are served.
type Staleness struct {
	KeepShared time.Duration `yaml:"keepShared"` // names that others serve too
	KeepOnly   time.Duration `yaml:"keepOnly"`   // names that only the failed source has
	Then       Then          `yaml:"then"`       // ThenServfail or ThenDrop
}

// Startup says how long readiness waits for first lists, and what absent names get then.
type Startup struct {
	Grace time.Duration `yaml:"grace"`
	Then  Then          `yaml:"then"` // ThenServfail or ThenNXDomain
}

// Load reads the configuration file at path. See Parse.
func Load(path string) (*Config, []document.Problem) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, []document.Problem{{File: path, Message: "cannot be read: " + err.Error()}}
	}
	return Parse(path, data)
}

// Parse reads a configuration, YAML or JSON; path is where it came from: paths in the
// configuration are relative to its folder, and problems name it. All problems are
// returned, ordered by place. With an error among them, the Config is good for nothing
// but looking for more problems; it is nil when there was nothing to look at.
func Parse(path string, data []byte) (*Config, []document.Problem) {
	docs, problems := document.Read(path, data)
	switch {
	case len(problems) > 0:
		return nil, problems
	case len(docs) == 0:
		cfg := Default()
		return cfg, []document.Problem{{File: path, Message: servesNothing, Severity: document.Warning}}
	case len(docs) > 1:
		return nil, []document.Problem{docs[1].Errorf("", "a second document: a configuration is one")}
	}
	cfg := Default()
	problems = docs[0].Decode(cfg)
	v := validator{doc: docs[0], cfg: cfg}
	v.validate()
	problems = document.Merge(problems, v.problems)
	document.Sort(problems)
	cfg.locate(filepath.Dir(path))
	return cfg, problems
}

// locate makes relative paths good from the working directory.
func (c *Config) locate(folder string) {
	paths := []*string{&c.RegistryDir, &c.StateDir}
	for i := range c.Clusters {
		paths = append(paths, &c.Clusters[i].Kubeconfig, &c.Clusters[i].Manifests)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(folder, *p)
		}
	}
}
