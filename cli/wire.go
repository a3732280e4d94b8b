package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/sources/dns"
	"github.com/meshdns/meshdns/sources/files"
	"github.com/meshdns/meshdns/sources/kubernetes"
	"github.com/meshdns/meshdns/zones"
)

// mesh is one server without its sockets: sources → resolver → zones → answers.
type mesh struct {
	log       *slog.Logger
	zones     *zones.Publisher
	resolver  *resolver.Resolver
	upstreams *dns.Source
	documents *files.Source
	answers   *server.Answers
	fleet     *fleet
	ready     chan struct{} // closed when all sources of the first configuration are synced
	registry  atomic.Bool   // a registryDir is configured
}

// newMesh makes a mesh that has no data yet. Nothing runs before run and apply.
func newMesh(cfg *config.Config, metrics dns.Metrics, log *slog.Logger) (*mesh, error) {
	upstreams, err := dns.New(dns.Config{
		Upstreams: upstreamsOf(cfg), KeepPart: cfg.Staleness.KeepShared, Logger: log, Metrics: metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("upstreams: %w", err)
	}
	m := &mesh{
		log: log, upstreams: upstreams, ready: make(chan struct{}),
		zones:     zones.New(zones.Config{Naming: namingOf(cfg)}),
		documents: files.New(files.Config{Dir: cfg.RegistryDir, Options: registryOptions(cfg), Logger: log}),
	}
	m.resolver = resolver.New(resolver.Config{
		Settings:  settingsOf(cfg),
		Publisher: &announcer{Publisher: m.zones, ready: m.ready, log: log},
		Upstreams: upstreams,
		Logger:    log,
	})
	m.answers = server.NewAnswers(server.AnswersConfig{Views: m.zones, Fetcher: m.resolver, Logger: log})
	if err := m.answers.SetRateLimit(rateLimitOf(cfg)); err != nil {
		return nil, err
	}
	m.fleet = newFleet(m.resolver, log)
	m.fleet.takeOver = m.takeOver
	return m, nil
}

// announcer closes ready once the first Snapshot without a missing source is published.
type announcer struct {
	resolver.Publisher
	ready chan struct{}
	done  bool // used by the resolver's owner goroutine only
	log   *slog.Logger
}

// Publish implements resolver.Publisher.
func (a *announcer) Publish(s *resolver.Snapshot, c resolver.Changes) {
	a.Publisher.Publish(s, c)
	if !a.done && len(s.Waiting()) == 0 {
		a.done = true
		a.log.Info("ready: all sources are synced")
		close(a.ready)
	}
}

// run merges and publishes until ctx ends.
func (m *mesh) run(ctx context.Context) error {
	var touching sync.WaitGroup
	touching.Go(func() { m.touchTargets(ctx) })
	defer touching.Wait()
	return m.resolver.Run(ctx)
}

// touchEvery is how often the upstreams hear which alias targets are in use: often enough
// before they drop those that are not (dns.DefaultIdleAfter).
const touchEvery = dns.DefaultIdleAfter / 10

// touchTargets keeps the targets of ExternalName services fresh that are asked for.
func (m *mesh) touchTargets(ctx context.Context) {
	ticker := time.NewTicker(touchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.touchAsked()
		}
	}
}

func (m *mesh) touchAsked() {
	for _, name := range m.zones.TakeAsked() {
		m.upstreams.Touch(sources.Key{Source: dns.SourceName, Kind: sources.KindBackend, Name: name})
	}
}

// apply takes up a configuration as one step; kubeconfig is that of clusters which name
// none. Sources that stay are not disturbed.
func (m *mesh) apply(ctx context.Context, cfg *config.Config, kubeconfig string) error {
	if err := m.upstreams.SetUpstreams(upstreamsOf(cfg)); err != nil {
		return fmt.Errorf("upstreams: %w", err)
	}
	if err := m.answers.SetRateLimit(rateLimitOf(cfg)); err != nil {
		return err
	}
	plans := m.plans(cfg, kubeconfig)
	m.fleet.stopOthers(plans)
	m.documents.Reconfigure(cfg.RegistryDir, registryOptions(cfg))
	m.registry.Store(cfg.RegistryDir != "")
	m.zones.SetNaming(namingOf(cfg))
	m.resolver.SetSettings(settingsOf(cfg))
	if err := m.resolver.Flush(ctx); err != nil { // a new cluster is known before it speaks
		return err
	}
	m.fleet.withdraw()
	m.fleet.start(ctx, plans)
	return nil
}

// plans are the sources that a configuration asks for.
func (m *mesh) plans(cfg *config.Config, kubeconfig string) []plan {
	plans := []plan{
		{name: dns.SourceName, kind: "dns", make: func() (sources.Source, error) { return m.upstreams, nil }},
		{name: files.Name, kind: "files", make: func() (sources.Source, error) { return m.documents, nil }},
	}
	for _, c := range cfg.Clusters {
		plans = append(plans, clusterPlan(sourceConfig(cfg, c, kubeconfig), m.log))
	}
	return plans
}

func sourceConfig(cfg *config.Config, c config.Cluster, kubeconfig string) kubernetes.Config {
	k := kubernetes.Config{
		Name: c.Name, Kubeconfig: c.Kubeconfig, Context: c.Context, InCluster: c.InCluster, Manifests: c.Manifests,
	}
	if k.Kubeconfig == "" && !k.InCluster && k.Manifests == "" {
		k.Kubeconfig = kubeconfig
	}
	if cfg.Equivalence.Match == config.MatchLabel {
		k.EquivalenceLabel = cfg.Equivalence.Label
	}
	return k
}

func clusterPlan(c kubernetes.Config, log *slog.Logger) plan {
	kind := "kubernetes"
	if c.Manifests != "" {
		kind = "manifests"
	}
	identity := fmt.Sprintf("%+v", c) // before it has a logger: all that decides what is read
	c.Logger = log
	return plan{
		name: c.Name, kind: kind, identity: identity,
		make: func() (sources.Source, error) { return kubernetes.New(c) },
	}
}

// takeOver withdraws what a source said before it was started anew and does not say any
// more. seen is all that it said since.
func (m *mesh) takeOver(source string, seen map[sources.Key]struct{}) {
	s := m.resolver.Snapshot()
	number := s.Cluster(source)
	if number < 0 {
		return
	}
	s.EachGroup(func(g *resolver.Group) bool {
		if g.Member(number) == nil {
			return true
		}
		key := sources.Key{Source: source, Kind: sources.KindService, Namespace: g.Namespace, Name: g.Name}
		if _, ok := seen[key]; !ok {
			m.resolver.Update(sources.Update{Key: key})
		}
		return true
	})
}

// upstreamsOf are the upstreams as the source of DNS backends reads them.
func upstreamsOf(cfg *config.Config) []string {
	list := make([]string, len(cfg.Upstreams))
	for i, u := range cfg.Upstreams {
		list[i] = u.String()
	}
	return list
}

// registryOptions are the surroundings of registry documents.
func registryOptions(cfg *config.Config) registry.Options {
	o := registry.Options{
		Mesh: cfg.Zones.Mesh, Zones: []names.Name{cfg.Zones.Global, cfg.Zones.ClusterSet},
		Unserved: []names.Name{cfg.Zones.ClusterSet},
		Clusters: []string{}, Site: cfg.Site,
	}
	for _, c := range cfg.Clusters {
		o.Clusters = append(o.Clusters, c.Name)
		if zone, err := cfg.Zones.Cluster(c.Name); err == nil { // validation has reported the others
			o.Zones = append(o.Zones, zone)
		}
	}
	return o
}

func namingOf(cfg *config.Config) *zones.Naming {
	return &zones.Naming{
		Mesh:        cfg.Zones.Mesh,
		Global:      cfg.Zones.Global,
		PerCluster:  cfg.Zones.PerCluster,
		Reverse:     cfg.Zones.Reverse,
		Nameservers: cfg.Zones.Nameservers,
		Glue:        glueOf(cfg.Listen.DNS),
		NegativeTTL: cfg.Defaults.NegativeTTL.Duration(),
		TTL:         cfg.Defaults.TTL.Duration(),
	}
}

func settingsOf(cfg *config.Config) *resolver.Settings {
	s := &resolver.Settings{
		Site:           cfg.Site,
		Equivalence:    resolver.Equivalence{Match: resolver.Match(cfg.Equivalence.Match), Exclude: cfg.Equivalence.Exclude},
		Staleness:      stalenessOf(cfg.Staleness),
		Startup:        resolver.Startup{Grace: cfg.Startup.Grace, Then: resolver.Then(cfg.Startup.Then)},
		TTL:            cfg.Defaults.TTL.Duration(),
		Mesh:           cfg.Zones.Mesh,
		Global:         cfg.Zones.Global,
		UpstreamSource: dns.SourceName,
	}
	if cfg.RegistryDir != "" {
		s.RegistrySources = []string{files.Name}
	}
	for _, c := range cfg.Clusters {
		cluster := clusterOf(c)
		cluster.Zone, _ = cfg.Zones.Cluster(c.Name) // validation has reported what is no name
		s.Clusters = append(s.Clusters, cluster)
	}
	return s
}

func clusterOf(c config.Cluster) resolver.Cluster {
	staleness := stalenessOf(c.Staleness)
	out := resolver.Cluster{
		Name: c.Name, Role: resolver.Role(c.Role), Reach: resolver.ReachEndpoints, Domain: c.Domain,
		MayServe: c.MayServe, CIDRs: c.CIDRs, Staleness: &staleness,
	}
	if c.Reach == config.ReachClusterIP { // the others are not yet effective; validation warns
		out.Reach = resolver.ReachClusterIP
	}
	return out
}

func rateLimitOf(cfg *config.Config) server.RateLimit {
	r := cfg.Server.RateLimit
	return server.RateLimit{
		PerSecond: r.ResponsesPerSecond, Slip: r.Slip, Window: r.Window,
		IPv4Prefix: r.IPv4Prefix, IPv6Prefix: r.IPv6Prefix, Exempt: r.Exempt,
	}
}

// limitsOf are what the sockets bound; the rest has its default.
func limitsOf(cfg *config.Config) server.Limits {
	tcp := cfg.Server.TCP
	return server.Limits{Connections: tcp.Connections, ConnectionsPerPrefix: tcp.ConnectionsPerPrefix, Exempt: tcp.Exempt}
}

func stalenessOf(s config.Staleness) resolver.Staleness {
	return resolver.Staleness{KeepShared: s.KeepShared, KeepOnly: s.KeepOnly, Then: resolver.Then(s.Then)}
}

// awaitReady waits until the first configuration's sources are synced, or for d.
func (m *mesh) awaitReady(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-m.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// parseListen reads an address to listen on: an IP address and a port, or a port alone
// (":53"), which gives an invalid address with that port: all of the host's.
func parseListen(text string) (netip.AddrPort, error) {
	if text != "" && text[0] == ':' {
		at, err := netip.ParseAddrPort("0.0.0.0" + text)
		return netip.AddrPortFrom(netip.Addr{}, at.Port()), err
	}
	return netip.ParseAddrPort(text)
}
