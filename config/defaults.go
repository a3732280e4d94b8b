package config

import (
	"time"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

// What holds where the configuration says nothing.
const (
	// Loopback: nothing is open to others before someone says so. 5354 needs no
	// privileges and is not multicast DNS's 5353.
	defaultListenDNS   = "127.0.0.1:5354"
	defaultListenAdmin = "127.0.0.1:9253"

	// A hundred microseconds' work: what is read together is sent together, so that more would
	// only have the first queries of a batch wait for the last (docs/design.md, section 10).
	defaultBatch = 32

	defaultMesh       = "mesh."
	defaultGlobal     = "cluster.global."
	defaultClusterSet = "clusterset.local." // KEP-1645 fixes it
	defaultPerCluster = "cluster.{id}"
	defaultDomain     = "cluster.local." // what Kubernetes installers choose

	// 5 s: what CoreDNS and Lighthouse use, so that caches in front behave the same, and
	// a pod that has just started is found soon (CASES C160).
	defaultTTL         = 5 * time.Second
	defaultNegativeTTL = 5 * time.Second

	// Others serve the name: five minutes are a restarted API server, not a lost cluster.
	defaultKeepShared = 5 * time.Minute
	// Nobody else does: an old address is worth more than none, for a day at most.
	defaultKeepOnly = 24 * time.Hour
	// Long enough for a first list of a large cluster, short enough for a rollout.
	defaultGrace = 60 * time.Second

	// What BIND, NSD and Knot DNS take: every second reply above the rate, and what one
	// customer of a network provider is often given (RFC 6177 for IPv6).
	defaultSlip       = 2
	defaultIPv4Prefix = 24
	defaultIPv6Prefix = 56
	// One second's replies at once: clients that start together are no flood.
	defaultRateWindow = time.Second

	defaultLabel = "meshdns.io/equivalent-to"
)

// defaultExclude are services that every cluster has and that are never one service.
func defaultExclude() []string { return []string{"default/kubernetes", "kube-system/*"} }

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		Listen: Listen{DNS: []string{defaultListenDNS}, Admin: defaultListenAdmin, Batch: defaultBatch},
		Server: Server{RateLimit: RateLimit{
			Slip: defaultSlip, IPv4Prefix: defaultIPv4Prefix, IPv6Prefix: defaultIPv6Prefix, Window: defaultRateWindow,
		}},
		Zones: Zones{
			Mesh: names.MustParse(defaultMesh), Global: names.MustParse(defaultGlobal),
			ClusterSet: names.MustParse(defaultClusterSet), PerCluster: defaultPerCluster,
		},
		Equivalence: Equivalence{Match: MatchName, Label: defaultLabel, Exclude: defaultExclude()},
		Defaults: Defaults{
			TTL: document.TTL(defaultTTL), NegativeTTL: document.TTL(defaultNegativeTTL),
			Order: "shuffle", Locality: "none",
		},
		Staleness: Staleness{KeepShared: defaultKeepShared, KeepOnly: defaultKeepOnly, Then: ThenServfail},
		Startup:   Startup{Grace: defaultGrace, Then: ThenServfail},
		Upstreams: []Upstream{{System: true}},
	}
}

// setDefaults fills in what a cluster leaves out; has says which fields it gives.
func (c *Cluster) setDefaults(global Staleness, has func(field string) bool) {
	if c.Role == "" {
		c.Role = Core
	}
	if c.Reach == "" {
		c.Reach = ReachEndpoints
	}
	if c.Domain.IsZero() {
		c.Domain = names.MustParse(defaultDomain)
	}
	if !has("staleness.keepShared") {
		c.Staleness.KeepShared = global.KeepShared
	}
	if !has("staleness.keepOnly") {
		c.Staleness.KeepOnly = global.KeepOnly
	}
	if !has("staleness.then") {
		c.Staleness.Then = global.Then
	}
}
