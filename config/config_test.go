package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

func texts(problems []document.Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

// good parses a configuration that must have no problem.
func good(t *testing.T, text string) *Config {
	t.Helper()
	cfg, problems := Parse("f.yaml", []byte(text))
	require.Empty(t, unexpected(problems))
	return cfg
}

// unexpected are the problems that are more than a word on what has no effect yet.
func unexpected(problems []document.Problem) []string {
	return slices.DeleteFunc(texts(problems), func(s string) bool { return strings.Contains(s, "warning: not yet effective") })
}

// DESIGN section 5's own example.
func TestLoadWhole(t *testing.T) {
	cfg, problems := Load("testdata/whole.yaml")
	require.Empty(t, unexpected(problems))
	require.Len(t, problems, 2, "the region, and a registered name in mayServe")
	want := Default()
	want.Site = "west"
	want.Zones.Reverse, want.Zones.Nameservers = []netip.Prefix{}, []names.Name{}
	want.RegistryDir = "testdata/registry"
	want.Clusters = []Cluster{{
		Name: "west", Kubeconfig: "testdata/west.kubeconfig", Context: "admin", Region: "westus2", Role: Core,
		Domain: names.MustParse("cluster.local."), MayServe: []string{"*/*"}, Reach: ReachEndpoints, Gateways: []string{},
		Staleness: Staleness{KeepShared: 5 * time.Minute, KeepOnly: 24 * time.Hour, Then: ThenServfail},
	}, {
		Name: "east.example", Manifests: "testdata/east", Role: Extension, Domain: names.MustParse("cluster.local."),
		MayServe: []string{"team-*/*", "*.team.mesh"}, Reach: ReachEndpoints,
		CIDRs:     []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")},
		Staleness: Staleness{KeepShared: 0, KeepOnly: 24 * time.Hour, Then: ThenServfail},
	}}
	assert.Equal(t, want, cfg)
	zone, err := cfg.Zones.Cluster("east.example")
	require.NoError(t, err)
	assert.Equal(t, names.MustParse("cluster.east.example."), zone)
}

func TestDefaultIsValid(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "listen:\n"} {
		cfg, problems := Parse("f.yaml", []byte(text))
		require.Len(t, problems, 1)
		assert.Equal(t, document.Warning, problems[0].Severity)
		assert.Contains(t, problems[0].String(), "warning: neither clusters nor registryDir: no service is served")
		assert.Equal(t, Default(), cfg)
	}
	assert.Equal(t, 5*time.Second, Default().Defaults.TTL.Duration())
}

func TestParseZeroIsNotAbsent(t *testing.T) {
	cfg := good(t, `{registryDir: r, listen: {admin: ""}, defaults: {ttl: 0, negativeTTL: 0s}, startup: {grace: 0s}, equivalence: {exclude: []},
staleness: {keepShared: 0s, keepOnly: 0s, then: drop}}`)
	assert.Equal(t, "", cfg.Listen.Admin)
	assert.Equal(t, []string{defaultListenDNS}, cfg.Listen.DNS)
	assert.Zero(t, cfg.Defaults.TTL)
	assert.Zero(t, cfg.Defaults.NegativeTTL)
	assert.Zero(t, cfg.Startup.Grace)
	assert.Empty(t, cfg.Equivalence.Exclude)
	assert.Equal(t, Staleness{Then: ThenDrop}, cfg.Staleness)
}

func TestParseWorkers(t *testing.T) {
	for text, want := range map[string]Listen{
		"":                                   {Workers: 0, Batch: 32},
		"listen: {workers: 3, batch: 1}":     {Workers: 3, Batch: 1},
		"listen: {workers: 0, batch: 0}":     {Workers: 0, Batch: 0},
		"listen: {workers: 256, batch: 256}": {Workers: 256, Batch: 256},
	} {
		want.DNS, want.Admin = []string{defaultListenDNS}, defaultListenAdmin
		assert.Equal(t, want, good(t, "registryDir: r\n"+text).Listen)
	}
}

func TestParsePaths(t *testing.T) {
	const text = "registryDir: registry\nstateDir: /var/lib/meshdns\nclusters: [{name: a, kubeconfig: ../a.kubeconfig}]"
	cfg, problems := Parse("/etc/meshdns/meshdns.yaml", []byte(text))
	assert.Equal(t, []string{"/etc/meshdns/meshdns.yaml:2:11: stateDir: warning: not yet effective: no state is kept over a restart"}, texts(problems))
	assert.Equal(t, "/etc/meshdns/registry", cfg.RegistryDir)
	assert.Equal(t, "/var/lib/meshdns", cfg.StateDir)
	assert.Equal(t, "/etc/a.kubeconfig", cfg.Clusters[0].Kubeconfig)
	assert.Equal(t, "", cfg.Clusters[0].Manifests)
}

func TestLoadUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	cfg, problems := Load(path)
	assert.Nil(t, cfg)
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].String(), path+": cannot be read: open ")
}

func TestParseBroken(t *testing.T) {
	for text, want := range map[string]string{
		"listen: [":                           "f.yaml:1:1: not valid YAML or JSON: ",
		"site: a\n---\nsite: b":               "f.yaml:3:1: a second document: a configuration is one",
		"[a]":                                 "f.yaml:1:1: want fields (a mapping), got a list",
		"registryDir: r\nclustres: []":        "f.yaml:2:1: clustres: unknown field; known here: clusters, defaults, equivalence, listen, registryDir, server, site, staleness, startup, stateDir, upstreams, zones",
		"registryDir: r\nsite: a\nsite: b":    "f.yaml:3:1: site: given twice, before in line 2",
		"registryDir: r\nclusters: {name: a}": "f.yaml:2:11: clusters: want a list, got fields (a mapping)",
	} {
		_, problems := Parse("f.yaml", []byte(text))
		require.Len(t, problems, 1, "%v", texts(problems))
		assert.Contains(t, problems[0].String(), want)
	}
}

func TestParseSite(t *testing.T) {
	const a, b = "{name: a, manifests: a}", "{name: b.c, manifests: b}"
	for text, want := range map[string]string{
		"clusters: [" + a + "]":                       "a",
		"clusters: [" + a + ", " + b + "]":            "",
		"site: b.c\nclusters: [" + a + ", " + b + "]": "b.c",
		"registryDir: r\nsite: cellar-1":              "cellar-1",
		"registryDir: r":                              "",
	} {
		assert.Equal(t, want, good(t, text).Site, text)
	}
}

// Every problem is found, none hides another.
func TestParseCollectsAllProblems(t *testing.T) {
	_, problems := Parse("f.yaml", []byte("listen: {dns: [x]}\nnope: 1\nclusters:\n- name: A\n- name: b\n  role: boss\nupstreams: []\nregistryDir: [r]\n"))
	assert.Equal(t, []string{
		`f.yaml:1:16: listen.dns[0]: "x": want an IP address and a port ("127.0.0.1:53", "[::1]:53") or a port alone (":53")`,
		"f.yaml:2:1: nope: unknown field; known here: clusters, defaults, equivalence, listen, registryDir, server, site, staleness, startup, stateDir, upstreams, zones",
		"f.yaml:4:3: clusters[0]: want exactly one of kubeconfig, inCluster and manifests, got 0",
		`f.yaml:4:9: clusters[0].name: "A": want lower-case letters only: DNS does not tell "a" from it`,
		"f.yaml:5:3: clusters[1]: want exactly one of kubeconfig, inCluster and manifests, got 0",
		`f.yaml:6:9: clusters[1].role: unknown value "boss": want core, extension, federated`,
		`f.yaml:7:1: upstreams: empty: want at least one; "system" stands for those of resolv.conf`,
		"f.yaml:8:14: registryDir: want a single value, got a list",
	}, texts(problems))
}

// A problem of each kind, and what it says; each text has exactly this one.
func TestParseProblems(t *testing.T) {
	const a, b = "{name: a, manifests: a}", "{name: b, manifests: b}"
	cluster := func(fields string) string { return "clusters: [{name: a, manifests: m, " + fields + "}]" }
	named := func(name string) string { return "clusters: [{name: " + name + ", manifests: m}]" }
	zones := func(fields string) string { return "registryDir: r\nzones: {" + fields + "}" }
	other := func(fields string) string { return "registryDir: r\n" + fields }
	for _, c := range []struct{ text, want string }{
		// listen
		{other("listen: {dns: []}"), "listen.dns: empty: want at least one address"},
		{other(`listen: {dns: ["localhost:53"]}`), `listen.dns[0]: "localhost:53": want an IP address and a port`},
		{other(`listen: {dns: ["127.0.0.1"]}`), "listen.dns[0]: "},
		{other(`listen: {dns: [":70000"]}`), `listen.dns[0]: ":70000": want a port from 0 to 65535`},
		{other(`listen: {dns: ["224.0.0.1:53"]}`), "is no address of this host"},
		{other(`listen: {dns: [":53", ":53"]}`), "listen.dns[1]: :53 is given twice, before in listen.dns[0]"},
		{other("listen: {workers: -1}"), "listen.workers: -1: want a number from 0 to 256"},
		{other("listen: {workers: 257}"), "listen.workers: 257: want a number from 0 to 256"},
		{other("listen: {batch: -1}"), "listen.batch: -1: want a number from 0 to 256"},
		{other("listen: {batch: 257}"), "listen.batch: 257: want a number from 0 to 256"},
		{other(`listen: {dns: [":53"], admin: ":53"}`), "listen.admin: :53 is taken by DNS over TCP (listen.dns[0])"},
		{other("listen: {admin: x}"), `listen.admin: "x": want`},
		// server
		{other("server: {rateLimit: {responsesPerSecond: -1}}"), "f.yaml:2:42: server.rateLimit.responsesPerSecond: -1: want a number from 0 to 1000000"},
		{other("server: {rateLimit: {responsesPerSecond: 9, slip: 11}}"), "server.rateLimit.slip: 11: want a number from 0 to 10"},
		{other("server: {rateLimit: {responsesPerSecond: 9, ipv4Prefix: 0}}"), "server.rateLimit.ipv4Prefix: 0: want a number from 1 to 32"},
		{other("server: {rateLimit: {responsesPerSecond: 9, ipv6Prefix: 129}}"), "server.rateLimit.ipv6Prefix: 129: want a number from 1 to 128"},
		{other("server: {rateLimit: {responsesPerSecond: 9, window: 0s}}"), "server.rateLimit.window: 0s: want more than 0s, 1m0s at most"},
		{other("server: {rateLimit: {responsesPerSecond: 9, window: 61s}}"), "server.rateLimit.window: 1m1s: want"},
		{other("server: {rateLimit: {responsesPerSecond: 9, exempt: [10.0.0.1/8]}}"), "server.rateLimit.exempt[0]: 10.0.0.1/8 has bits set beyond its length: want 10.0.0.0/8"},
		{other("server: {rateLimit: {responsesPerSecond: 9, exempt: [10.0.0.1]}}"), "server.rateLimit.exempt[0]: "},
		{other("server: {rateLimit: {responsesPerSecond: 9, exempts: []}}"), "server.rateLimit.exempts: unknown field"},
		{other("server: {tcp: {connections: -1}}"), "server.tcp.connections: -1: want a number from 0 to 1000000"},
		{other("server: {tcp: {connectionsPerPrefix: 1000001}}"), "server.tcp.connectionsPerPrefix: 1000001: want"},
		{other("server: {tcp: {exempt: [10.0.0.1/8]}}"), "server.tcp.exempt[0]: 10.0.0.1/8 has bits set"},
		// site
		{"site: c\nclusters: [" + a + ", " + b + "]", `f.yaml:1:7: site: "c" is no cluster's name: want one of a, b`},
		{other("site: We st"), `site: "We st": want lower-case labels`},
		{other("site: global"), `site: "global"`},
		// zones
		{zones("mesh: ''"), "zones.mesh: want a domain name, not the root and not nothing"},
		{zones("global: ."), "zones.global: want a domain name"},
		{zones("mesh: a..b"), "zones.mesh: domain name"},
		{zones("mesh: '*.mesh'"), `zones.mesh: label "*"`},
		{zones("mesh: cluster.global"), "zones.global: its zone cluster.global is also that of zones.mesh"},
		{zones("clusterset: svc.cluster.global"), "zones.clusterset: the zone svc.cluster.global would hide svc.cluster.global, which the zone cluster.global needs (zones.global)"},
		{zones("mesh: x.pod.cluster.global"), "zones.global: the zone x.pod.cluster.global would hide pod.cluster.global, which the zone cluster.global needs (zones.mesh)"},
		{zones("clusterset: dns.mesh"), "zones.clusterset: the zone dns.mesh would hide dns.mesh"},
		{zones("perCluster: cluster"), `zones.perCluster: "cluster": want {id} once, as a label of its own, for instance "cluster.{id}"`},
		{zones("perCluster: '{id}.{id}'"), "want {id} once"},
		{zones("perCluster: 'c-{id}.example'"), "as a label of its own"},
		{zones("perCluster: 'a..{id}'"), "zones.perCluster: domain name"},
		{zones("perCluster: '*.{id}'"), `zones.perCluster: label "*"`},
		{zones("nameservers: [ns1.example, NS1.example.]"), "zones.nameservers[1]: ns1.example is given twice"},
		{zones("nameservers: ['']"), "zones.nameservers[0]: want a domain name"},
		{zones("reverse: [10.0.0.1/8]"), "zones.reverse[0]: 10.0.0.1/8 has bits set beyond its length: want 10.0.0.0/8"},
		{zones("reverse: [10.0.0.0/8, 10.0.0.0/8]"), "zones.reverse[1]: 10.0.0.0/8 is given twice"},
		{zones("reverse: ['::ffff:10.0.0.0/104']"), "write IPv4 prefixes as such"},
		{zones("reverse: [10.0.0.0/33]"), "zones.reverse[0]: \"10.0.0.0/33\": prefix length"},
		{"zones: {reverse: [10.0.0.0/8]}\nclusters: [" + a + ", " + b + "]", `zones.reverse: addresses get the names that they have in the local cluster: set "site"`},
		{"zones: {perCluster: '{id}.local'}\n" + named("clusterset"), "clusters[0].name: its zone clusterset.local is also that of zones.clusterset"},
		{"zones: {perCluster: '{id}.x.example'}\nclusters: [" + a + ", {name: svc.a, manifests: m}]", "clusters[1].name: the zone svc.a.x.example would hide svc.a.x.example, which the zone a.x.example needs (clusters[0].name)"},
		{"zones: {perCluster: '{id}.mesh'}\n" + named("dns"), "clusters[0].name: the zone dns.mesh would hide dns.mesh, which the zone mesh needs (zones.mesh)"},
		// clusters
		{"clusters: [{manifests: m}]", "clusters[0].name: missing"},
		{named("Prod-EU"), `clusters[0].name: "Prod-EU": want lower-case letters only`}, // CASES C49
		{named("a_b"), `clusters[0].name: "a_b": want a DNS subdomain`},
		{named("a..b"), `want a DNS subdomain`},
		{named("global"), `clusters[0].name: "global" is taken`},
		{named("local"), `clusters[0].name: "local" is taken`},
		{"clusters: [" + a + ", " + a + "]", `clusters[1].name: "a" is the name of clusters[0] too`},
		{"clusters: [{name: a}]", "clusters[0]: want exactly one of kubeconfig, inCluster and manifests, got 0"},
		{cluster("kubeconfig: k"), "clusters[0]: want exactly one of kubeconfig, inCluster and manifests, got 2"},
		{cluster("context: c"), "clusters[0].context: a context is one of a kubeconfig"},
		{"clusters: [{name: a, inCluster: true}, {name: b, inCluster: true}]", "clusters[1].inCluster: clusters[0] is the cluster that this server runs in already"},
		{cluster("role: boss"), `clusters[0].role: unknown value "boss": want core, extension, federated`},
		{cluster("reach: vpn"), `clusters[0].reach: unknown value "vpn": want endpoints, clusterIP, loadBalancer, nodePort, gateway`},
		{cluster("domain: ''"), ""},
		{cluster("domain: k8s corp"), `clusters[0].domain: label "k8s corp"`},
		{cluster("mayServe: [shop]"), ""},
		{cluster("mayServe: [a/b/c]"), `clusters[0].mayServe[0]: "a/b/c": want namespace/name`},
		{cluster("mayServe: [Shop/*]"), `clusters[0].mayServe[0]: "Shop/*": want namespace/name`},
		{cluster("mayServe: ['*/*', 'a/[b]']"), `clusters[0].mayServe[1]: "a/[b]"`},
		{cluster("mayServe: [a..mesh]"), "or a lower-case name of the mesh zone such as *.team.mesh"},
		{cluster("cidrs: [10.0.0.1/8]"), "clusters[0].cidrs[0]: 10.0.0.1/8 has bits set"},
		{cluster("cidrs: [10.0.0.1]"), "clusters[0].cidrs[0]: \"10.0.0.1\": no"},
		{cluster("staleness: {keepOnly: -1s}"), "clusters[0].staleness.keepOnly: -1s is negative"},
		{cluster("staleness: {then: nxdomain}"), `clusters[0].staleness.then: unknown value "nxdomain": want servfail, drop`},
		{cluster("staleness: {keepFor: 1s}"), "clusters[0].staleness.keepFor: unknown field"},
		// the rest
		{other("equivalence: {match: exported}"), `equivalence.match: "exported" is not built in yet`},
		{other("equivalence: {match: port}"), `equivalence.match: unknown value "port": want name, label`},
		{other("equivalence: {label: a/b/c}"), `equivalence.label: "a/b/c" is no label key`},
		{other("equivalence: {exclude: [kube-system]}"), `equivalence.exclude[0]: "kube-system": want namespace/name, where "*" stands for any characters of its part`},
		{other("defaults: {ttl: -1}"), "defaults.ttl: a TTL of -1 is out of range"}, // CASES C164
		{other("defaults: {ttl: 4294967296}"), "defaults.ttl: a TTL of 4294967296 is out of range"},
		{other("defaults: {negativeTTL: 100ms}"), "defaults.negativeTTL: a TTL of 100ms has a part of a second"},
		{other("defaults: {order: fixed}"), `defaults.order: unknown value "fixed": want shuffle`},
		{other("defaults: {locality: near}"), `defaults.locality: unknown value "near": want none, prefer, strict`},
		{other("staleness: {keepShared: -5m}"), "staleness.keepShared: -5m0s is negative"},
		{other("staleness: {keepOnly: 5}"), "staleness.keepOnly: want a duration such as 5s, 10m or 24h, got the number 5"},
		{other("staleness: {then: explode}"), `staleness.then: unknown value "explode": want servfail, drop`},
		{other("startup: {grace: -1s}"), "startup.grace: -1s is negative"},
		{other("startup: {then: drop}"), `startup.then: unknown value "drop": want servfail, nxdomain`},
		{other("upstreams: []"), "upstreams: empty: want at least one"}, // CASES C133
		{other("upstreams: ['10.0.0.1:0']"), "upstreams[0]: \"10.0.0.1:0\": nobody listens on port 0"},
		{other("upstreams: [dns.example.com]"), `upstreams[0]: "dns.example.com": want "system", an IP address, or an IP address and a port`},
		{other("upstreams: ['dns.example.com:53']"), "upstreams[0]: "},
		{other("upstreams: ['[::1']"), "upstreams[0]: "},
		{other("upstreams: [0.0.0.0]"), "is no single host's address"},
		{other("upstreams: ['127.0.0.1:5354']"), "upstreams[0]: 127.0.0.1:5354 is this server itself (listen.dns[0])"},
	} {
		t.Run(c.text, func(t *testing.T) {
			cfg, problems := Parse("f.yaml", []byte(c.text))
			assert.NotNil(t, cfg)
			if c.want == "" {
				assert.Empty(t, unexpected(problems))
				return
			}
			require.Len(t, problems, 1, "%v", texts(problems))
			assert.Contains(t, problems[0].String(), c.want)
			assert.Equal(t, document.Error, problems[0].Severity)
			assert.Positive(t, problems[0].Column)
		})
	}
}

func TestParseWarnings(t *testing.T) {
	cluster := func(fields string) string { return "clusters: [{name: a, manifests: m, " + fields + "}]" }
	named := func(name string) string { return "clusters: [{name: " + name + ", manifests: m}]" }
	for _, c := range []struct{ text, want string }{
		{cluster("role: extension"), "clusters[0].mayServe: warning: serves nothing: an extension cluster serves only what mayServe lists"},
		{cluster("role: extension, mayServe: []"), "clusters[0].mayServe: warning: serves nothing"},
		{cluster("mayServe: []"), "clusters[0].mayServe: warning: an empty list is as none"},
		{cluster("registry: true"), "clusters[0].registry: warning: not yet effective: registry documents are read from registryDir only"},
		{cluster("reach: loadBalancer"), "clusters[0].reach: warning: not yet effective: endpoints are answered"},
		{cluster("reach: nodePort"), "clusters[0].reach: warning: not yet effective"},
		{cluster("reach: gateway"), "clusters[0].reach: warning: not yet effective"},
		{cluster("gateways: [10.0.0.1]"), "clusters[0].gateways: warning: not yet effective"},
		{"registryDir: r\nserver: {rateLimit: {slip: 1}}", "server.rateLimit: warning: responsesPerSecond is 0: nothing is limited"},
		{"registryDir: r\ndefaults: {locality: prefer}", "defaults.locality: warning: not yet effective"},
		{"registryDir: r\nzones: {mesh: dev}", "zones.mesh: warning: dev is a real top-level domain or public suffix"},
		// DNS_RULES 15
		{named("com"), `clusters[0].name: warning: "com" is a real top-level domain or public suffix: the zone cluster.com hides names of others`},
		{named("co.uk"), "the zone cluster.co.uk hides names of others"},
		{"zones: {perCluster: '{id}'}\n" + named("dev"), "the zone dev hides names of others"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, problems := Parse("f.yaml", []byte(c.text))
			require.Len(t, problems, 1, "%v", texts(problems))
			assert.Contains(t, problems[0].String(), c.want)
			assert.Equal(t, document.Warning, problems[0].Severity)
		})
	}
}

func TestParseAccepts(t *testing.T) {
	for _, text := range []string{
		"zones: {perCluster: '{id}.clusters.example.com'}\nclusters: [{name: com, manifests: m}]",
		"clusters: [{name: aks-4d61b17c.hcp.westus2.azmk8s.io, manifests: m}]",
		"zones: {mesh: example.internal, global: global.example.internal, perCluster: '{id}.clusters.example.internal.'}\nclusters: [{name: a, inCluster: true}]",
		"zones: {perCluster: '{id}.x.example'}\nclusters: [{name: a, manifests: m}, {name: b.a, manifests: n}]",
		"registryDir: r\nlisten: {dns: [':53', '127.0.0.1:0', '[::1]:53', '[fe80::1%eth0]:53'], admin: ':9253'}",
		"registryDir: r\nlisten: {dns: ['127.0.0.1:0'], admin: '127.0.0.1:0'}",
		"registryDir: r\nequivalence: {match: label, label: example.com/same-as}",
		"clusters: [{name: a, manifests: m, mayServe: ['*', '*.team.mesh', 'redis_x.mesh', 'shop-*/api*', 'default/kubernetes'], reach: clusterIP, role: federated}]",
		"zones: {reverse: [10.0.0.0/8, '2001:db8::/33']}\nclusters: [{name: a, manifests: m}]",
	} {
		good(t, text)
	}
}

func TestParseUpstreams(t *testing.T) {
	cfg := good(t, `{"registryDir": "r", "upstreams": ["system", "10.0.0.1", "10.0.0.1:5353", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:5353", "::ffff:10.0.0.2"]}`)
	var got []string
	for _, u := range cfg.Upstreams {
		got = append(got, u.String())
	}
	assert.Equal(t, []string{"system", "10.0.0.1:53", "10.0.0.1:5353", "[2001:db8::1]:53", "[2001:db8::1]:53", "[2001:db8::1]:5353", "10.0.0.2:53"}, got)
}

func TestFromContexts(t *testing.T) {
	contexts := []Context{
		{"Prod_West", "https://west.example:6443"}, {"east", "https://east.example:6443/"}, {"east-admin", "HTTPS://East.example:6443"},
		{"user@dev.EXAMPLE", "https://dev.example"}, {"arn:aws:eks:eu-west-1:1:cluster/x", "https://x.example"},
	}
	cfg, err := FromContexts(contexts, "east-admin", []string{"Prod_West", "east"})
	require.NoError(t, err)
	type row struct {
		name, context string
		role          Role
	}
	var rows []row
	for _, c := range cfg.Clusters {
		rows = append(rows, row{c.Name, c.Context, c.Role})
		assert.Equal(t, Default().Staleness, c.Staleness)
		assert.Equal(t, ReachEndpoints, c.Reach)
		assert.Equal(t, names.MustParse("cluster.local"), c.Domain)
	}
	assert.Equal(t, []row{
		{"arn-aws-eks-eu-west-1-1-cluster-x", "arn:aws:eks:eu-west-1:1:cluster/x", Federated},
		{"east-admin", "east-admin", Core},
		{"prod-west", "Prod_West", Core},
		{"user-dev.example", "user@dev.EXAMPLE", Federated},
	}, rows)
	assert.Equal(t, "east-admin", cfg.Site)
	assert.Equal(t, Default().Zones, cfg.Zones)
}

func TestFromContextsSite(t *testing.T) {
	cfg, err := FromContexts([]Context{{"b", "s"}, {"a", "s"}}, "", nil)
	require.NoError(t, err)
	require.Len(t, cfg.Clusters, 1)
	assert.Equal(t, "a", cfg.Site)
	cfg, err = FromContexts([]Context{{"b", "s"}, {"a", "t"}}, "gone", nil)
	require.NoError(t, err)
	assert.Equal(t, "", cfg.Site)
	cfg, err = FromContexts([]Context{{"b", "s"}, {"a", "s"}, {"c", "t"}}, "", []string{"b"})
	require.NoError(t, err)
	assert.Equal(t, "b", cfg.Clusters[0].Name)
	assert.Equal(t, Core, cfg.Clusters[0].Role)
}

func TestFromContextsErrors(t *testing.T) {
	for _, c := range []struct {
		contexts   []Context
		clusterset []string
		want       string
	}{
		{nil, nil, "the kubeconfig has no context"},
		{[]Context{{"a", "s"}}, []string{"b"}, `cluster set: no context "b" in the kubeconfig: it has a`},
		{[]Context{{"a_b", "s"}, {"A-B", "t"}}, nil, `contexts "A-B" and "a_b" would both be the cluster "a-b": rename one`},
		{[]Context{{"local", "s"}}, nil, `context "local" makes no cluster name ("local")`},
		{[]Context{{"...", "s"}}, nil, `context "..." makes no cluster name`},
		{[]Context{{"", "s"}}, nil, `context "" makes no cluster name`},
		{[]Context{{"a", ""}, {"A", ""}}, nil, "would both be the cluster"},
	} {
		cfg, err := FromContexts(c.contexts, "", c.clusterset)
		assert.Nil(t, cfg)
		require.Error(t, err)
		assert.Contains(t, err.Error(), c.want)
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/whole.yaml")
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems := Parse("f.yaml", data)
		for _, p := range problems {
			assert.NotEmpty(t, p.Message)
		}
		if document.HasErrors(problems) {
			return
		}
		require.NotNil(t, cfg)
		assert.NotEmpty(t, cfg.Listen.DNS)
		assert.NotEmpty(t, cfg.Upstreams)
		seen := map[names.Name]bool{cfg.Zones.Mesh: true, cfg.Zones.Global: true, cfg.Zones.ClusterSet: true}
		assert.Len(t, seen, 3)
		for _, c := range cfg.Clusters {
			zone, err := cfg.Zones.Cluster(c.Name)
			require.NoError(t, err)
			assert.False(t, seen[zone], zone.Text())
			seen[zone] = true
			assert.NotEmpty(t, c.Role)
			assert.NotEmpty(t, c.Staleness.Then)
		}
		again, _ := Parse("f.yaml", data)
		assert.Equal(t, cfg, again)
	})
}

// The cluster set may be given by the names that clusters get, too.
func TestFromContextsByClusterName(t *testing.T) {
	contexts := []Context{{"Prod_West", "https://west"}, {"east", "https://east"}, {"lab", "https://lab"}}
	cfg, err := FromContexts(contexts, "east", []string{"prod-west", "east"})
	require.NoError(t, err)
	roles := map[string]Role{}
	for _, c := range cfg.Clusters {
		roles[c.Name] = c.Role
	}
	assert.Equal(t, map[string]Role{"prod-west": Core, "east": Core, "lab": Federated}, roles)
}
