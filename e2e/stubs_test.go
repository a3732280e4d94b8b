package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// The recipes of the project's README for resolvers in front of the product are run as
// they stand there. systemd-resolved is not among them: it takes a systemd that runs as
// the first process and a message bus, which tests do not have; its options and files were
// compared by hand with resolved.conf(5) and dnssec-trust-anchors.d(5) of systemd 252.

// recipeServer is the product's address in README.md, recipePort its port.
const (
	recipeServer = "10.0.0.53"
	recipePort   = "5354"
)

// recipe is the block of README.md behind a resolver's name, with the address of a
// server in place of the one written there; between stands between address and port.
func recipe(t *testing.T, resolver, between, addr string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	pattern := `(?ms)^\*\*` + resolver + `\*\*.*?^` + "```[a-z]*\n(.*?)^```$"
	block := regexp.MustCompile(pattern).FindSubmatch(readme)
	require.NotNil(t, block, "README.md has no block behind **%s**", resolver)
	written := recipeServer + between + recipePort
	require.Contains(t, string(block[1]), written, "the recipe for %s", resolver)
	ready := strings.ReplaceAll(string(block[1]), written, strings.Replace(addr, ":", between, 1))
	require.NotContains(t, ready, recipeServer, "the recipe for %s", resolver)
	return ready
}

// without is a recipe less the lines that begin with a word; there has to be one.
func without(t *testing.T, recipe, word string) string {
	t.Helper()
	less := regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(word)+`.*\n`).ReplaceAllString(recipe, "")
	require.NotEqual(t, recipe, less, "the recipe has no line %s", word)
	return less
}

// needInstalled skips the test where a program of the operating system is missing, or
// fails it where CI=true.
func needInstalled(t *testing.T, tool harness.Tool) (path string) {
	t.Helper()
	path, err := harness.Installed(tool)
	if harness.IsMissing(err) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, since %v", err)
	}
	require.NoError(t, err)
	return path
}

// fronted is the product with the manifests of two clusters, all addresses private.
type fronted struct {
	mesh *harness.MeshdnsServer
	west string // the folder of west's manifests
}

// frontedConfig takes the folders of west, east and the registry, and an upstream that
// nothing here is to ask.
const frontedConfig = `
site: west
clusters:
- {name: west, manifests: %q}
- {name: east, manifests: %q}
registryDir: %q
upstreams: [%q]
defaults: {negativeTTL: 1s}
`

// frontedRegistry is a registered name of all that frontedConfig has.
const frontedRegistry = `
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: checkout.mesh}
spec:
  backends:
  - {type: Kubernetes, locator: shop/api, cluster: "*"}
  - {type: Static, locator: 10.3.0.1}
  ports: [{name: http, port: 8080}]
`

func startFronted(t *testing.T) *fronted {
	t.Helper()
	folders := map[string]string{}
	for _, name := range []string{"west", "east", "registry"} {
		dir, err := shared.env.Folder("fronted-" + name)
		require.NoError(t, err)
		folders[name] = dir
	}
	writeWest(t, folders["west"])
	manifests(t, folders["east"], headless("api", "http:9090", harness.Endpoint{Address: "10.2.0.1", Hostname: "api-0"})...)
	_, err := harness.WriteFile(folders["registry"], "checkout.yaml", frontedRegistry)
	require.NoError(t, err)
	mesh := startReady(t, harness.Product{Config: fmt.Sprintf(frontedConfig,
		folders["west"], folders["east"], folders["registry"], startUpstream(t).Addr)})
	return &fronted{mesh: mesh, west: folders["west"]}
}

func writeWest(t *testing.T, dir string) {
	t.Helper()
	manifests(t, dir, headless("api", "http:8080",
		harness.Endpoint{Address: "10.1.0.1", Hostname: "api-0"}, harness.Endpoint{Address: "10.1.0.2", Hostname: "api-1"})...)
	manifests(t, dir, headless("dual", "http:8080", harness.Endpoint{Address: "10.1.1.1", Hostname: "dual-0"})...)
	manifests(t, dir,
		harness.Slice{Namespace: "shop", Name: "dual-v6", Service: "dual", Ports: []string{"http:8080"},
			Endpoints: []harness.Endpoint{{Address: "fd00:1::1", Hostname: "dual-0"}}},
		harness.Service{Namespace: "shop", Name: "vip", Ports: []string{"http:80"}, ClusterIP: "10.96.0.10"},
		harness.Service{Namespace: "shop", Name: "alias", External: "api.shop.svc.cluster.west"})
	manifests(t, dir, headless("sixty", "http:8080", harness.Ready(numbered(60)...)...)...)
	manifests(t, dir, headless("many", "http:8080", harness.Ready(numbered(255)...)...)...)
}

// headless is a headless service of the namespace shop and its slice.
func headless(name, port string, endpoints ...harness.Endpoint) []any {
	return []any{
		harness.Service{Namespace: "shop", Name: name, Headless: true, Ports: []string{port}},
		harness.Slice{Namespace: "shop", Name: name + "-v4", Service: name, Ports: []string{port}, Endpoints: endpoints},
	}
}

// numbered are n private addresses, in order of text.
func numbered(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("10.9.0.%d", i))
	}
	slices.Sort(all)
	return all
}

// manifests writes each object into a file of its own in dir.
func manifests(t *testing.T, dir string, objects ...any) {
	t.Helper()
	for _, object := range objects {
		var name string
		var full any
		switch object := object.(type) {
		case harness.Service:
			made, err := object.Object()
			require.NoError(t, err)
			made.APIVersion, made.Kind = "v1", "Service"
			name, full = object.Name, made
		case harness.Slice:
			made, err := object.Object()
			require.NoError(t, err)
			made.APIVersion, made.Kind = "discovery.k8s.io/v1", "EndpointSlice"
			name, full = object.Name, made
		default:
			t.Fatalf("%T is neither a Service nor a Slice", object)
		}
		text, err := json.Marshal(full)
		require.NoError(t, err)
		_, err = harness.WriteFile(dir, name+".json", string(text))
		require.NoError(t, err)
	}
}

// front is a resolver in front of the product.
type front struct {
	*fronted
	stub    *harness.Stub
	through server // asks by way of it
}

// behind gives a resolver that has just been started, or ends the test.
func (f *fronted) behind(t *testing.T, stub *harness.Stub, err error) *front {
	t.Helper()
	require.NoError(t, err)
	logOnFailure(t, stub.Process)
	t.Cleanup(func() {
		if err := stub.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &front{fronted: f, stub: stub, through: server{addr: stub.DNS, explain: f.mesh.Explain, caches: true}}
}

func (f *fronted) unbound(t *testing.T, config string) *front {
	t.Helper()
	needInstalled(t, harness.Unbound)
	stub, err := shared.env.StartUnbound(t.Context(), config)
	return f.behind(t, stub, err)
}

func (f *fronted) dnsmasq(t *testing.T, config string) *front {
	t.Helper()
	needInstalled(t, harness.Dnsmasq)
	stub, err := shared.env.StartDnsmasq(t.Context(), config)
	return f.behind(t, stub, err)
}

// careful is what a cautious administrator has in unbound: private addresses are for
// private names only, and everything is validated from the root down (the key of 2017).
const careful = `server:
    private-address: 10.0.0.0/8
    private-address: fd00::/8
    trust-anchor: ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"
`

// strict sends names label by label and in random spelling, and takes no for an answer.
const strict = `server:
    qname-minimisation: yes
    qname-minimisation-strict: yes
    use-caps-for-id: yes
`

// TestStubUnbound runs the README's recipe for unbound.
func TestStubUnbound(t *testing.T) {
	needInstalled(t, harness.Unbound)
	f := startFronted(t)
	written := recipe(t, "unbound", "@", f.mesh.DNS)
	t.Run("careful", func(t *testing.T) {
		unbound := f.unbound(t, careful+written)
		unbound.works(t)
		require.NotContains(t, unbound.log(t), "prim", "neither root servers nor the root's keys were needed")
	})
	t.Run("strict", func(t *testing.T) {
		unbound := f.unbound(t, careful+strict+written)
		unbound.minimised(t)
		unbound.works(t)
		require.NotRegexp(t, otherSpelling, unbound.log(t), "C47: no spelling but the one sent came back")
	})
	t.Run("lower case is noticed", func(t *testing.T) { // or strict would show nothing
		unbound := f.unbound(t, careful+strict+recipe(t, "unbound", "@", lowering(t, f.mesh.DNS)))
		unbound.through.all(t, "api.shop.svc.cluster.global A = 10.1.0.1, 10.1.0.2, 10.2.0.1")
		require.Regexp(t, otherSpelling, unbound.log(t))
	})
	t.Run("without private-domain", func(t *testing.T) {
		f.unbound(t, careful+without(t, written, "private-domain:")).dropped(t)
	})
}

// otherSpelling is what unbound logs of a reply whose question is spelled in another way.
const otherSpelling = `(?i)capsforid|0x20`

// TestStubDnsmasq runs the README's recipe for dnsmasq, where protection against
// rebinding is on (C173).
func TestStubDnsmasq(t *testing.T) {
	needInstalled(t, harness.Dnsmasq)
	f := startFronted(t)
	const attack = "possible DNS-rebind attack"
	written := "stop-dns-rebind\n" + recipe(t, "dnsmasq", "#", f.mesh.DNS)
	t.Run("protected", func(t *testing.T) {
		dnsmasq := f.dnsmasq(t, written)
		dnsmasq.works(t)
		require.NotContains(t, dnsmasq.log(t), attack)
	})
	t.Run("without rebind-domain-ok", func(t *testing.T) {
		dnsmasq := f.dnsmasq(t, without(t, written, "rebind-domain-ok="))
		dnsmasq.dropped(t)
		require.Contains(t, dnsmasq.log(t), attack)
	})
}

// log is all that the resolver has said.
func (f *front) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(f.stub.LogPath)
	require.NoError(t, err)
	return string(text)
}

// works is everything that a client sees through a resolver.
func (f *front) works(t *testing.T) {
	t.Run("names", f.names)
	t.Run("alias", f.alias)
	t.Run("spelling", f.spelling)
	t.Run("255 addresses", f.many)
	t.Run("negative", f.negative)
}

func (f *front) names(t *testing.T) {
	f.through.all(t,
		"api.shop.svc.cluster.global A = 10.1.0.1, 10.1.0.2, 10.2.0.1",
		"api.shop.svc.cluster.global AAAA = NODATA",
		"_http._tcp.api.shop.svc.cluster.global SRV = 8080 api-0.west.api.shop.svc.cluster.global, "+
			"8080 api-1.west.api.shop.svc.cluster.global, 9090 api-0.east.api.shop.svc.cluster.global",
		"api-0.west.api.shop.svc.cluster.global A = 10.1.0.1",
		"api-0.east.api.shop.svc.cluster.global A = 10.2.0.1",
		"absent.shop.svc.cluster.global A = NXDOMAIN",
		"absent.shop.svc.cluster.global AAAA = NXDOMAIN",
		"shop.svc.cluster.global A = NODATA",

		"api.shop.svc.cluster.west A = 10.1.0.1, 10.1.0.2",
		"api.shop.svc.cluster.east A = 10.2.0.1",
		"_http._tcp.api.shop.svc.cluster.east SRV = 9090 api-0.api.shop.svc.cluster.east",
		"api-0.api.shop.svc.cluster.east A = 10.2.0.1",
		"dual.shop.svc.cluster.west A = 10.1.1.1",
		"dual.shop.svc.cluster.west AAAA = fd00:1::1",
		"dual.shop.svc.cluster.global AAAA = fd00:1::1",
		"vip.shop.svc.cluster.west A = 10.96.0.10",
		"absent.shop.svc.cluster.west SRV = NXDOMAIN",

		"checkout.mesh A = 10.1.0.1, 10.1.0.2, 10.2.0.1, 10.3.0.1",
		"checkout.mesh AAAA = NODATA",
		"_http._tcp.checkout.mesh SRV = 8080 api-0.west.checkout.mesh, 8080 api-1.west.checkout.mesh, "+
			"9090 api-0.east.checkout.mesh, 8080 10-3-0-1.west.checkout.mesh",
		"10-3-0-1.west.checkout.mesh A = 10.3.0.1",
		"absent.mesh A = NXDOMAIN")
}

// alias is C19: what an alias inside our own zones leads to stands behind it in ANSWER,
// where resolvers look for it.
func (f *front) alias(t *testing.T) {
	const name = "alias.shop.svc.cluster.west"
	f.through.all(t, name+" A = CNAME api.shop.svc.cluster.west, 10.1.0.1, 10.1.0.2",
		name+" AAAA = CNAME api.shop.svc.cluster.west")
	for _, addr := range []string{f.mesh.DNS, f.through.addr} {
		reply, err := harness.Resolve(addr, parse(t, name+" A"))
		require.NoError(t, err)
		require.IsType(t, &dns.CNAME{}, reply.Answer[0], "%s", reply)
		require.Empty(t, withoutOPT(reply.Extra), "%s", reply)
	}
	found, err := newGoResolver(f.through.addr).LookupHost(t.Context(), name+".")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"10.1.0.1", "10.1.0.2"}, found)
}

// spelling of a question comes back as it was sent, also from the resolver's cache (C47).
func (f *front) spelling(t *testing.T) {
	for _, name := range []string{"Api.Shop.SVC.Cluster.GLOBAL.", "aPI.sHOP.svc.cLUSTER.global.", "CHECKOUT.mesh.", "cHECKOUT.Mesh."} {
		reply, err := harness.Resolve(f.through.addr, parse(t, name+" A"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(reply.Answer), 3, "%s", reply)
		require.Equal(t, name, reply.Question[0].Name)
		require.Equal(t, name, reply.Answer[0].Header().Name)
	}
	f.through.all(t, "ABSENT.Mesh A = NXDOMAIN", "Api.shop.Svc.cluster.Global AAAA = NODATA")
}

// many addresses do not fit into a datagram; all of them reach the client, over TCP.
func (f *front) many(t *testing.T) {
	const question = "many.shop.svc.cluster.global A"
	f.through.all(t, question+" = "+strings.Join(numbered(255), ", "))
	for _, size := range []uint16{0, 512, 1232} {
		q := parse(t, question)
		q.Size = size
		cut, err := harness.Ask(f.through.addr, q)
		require.NoError(t, err, "size %d: the cut reply has to arrive and unpack", size)
		require.True(t, cut.Truncated, "size %d: %s", size, cut)
		whole, err := harness.Resolve(f.through.addr, q)
		require.NoError(t, err)
		require.Equal(t, numbered(255), harness.Addresses(whole), "size %d", size)
	}
}

// negative is C160: a name that was asked for before it existed shows within the negative
// TTL, 1 s here, and a second; one more is for a busy machine, and would not be enough for
// the 5 s that come without configuration.
func (f *front) negative(t *testing.T) {
	name := "late-" + strings.ToLower(rand.Text())
	question := name + ".shop.svc.cluster.west A"
	f.through.all(t, question+" = NXDOMAIN")
	manifests(t, f.west, headless(name, "http:8080", harness.Ready("10.4.0.1")...)...)
	asked(f.mesh).all(t, question+" = 10.4.0.1")
	start := time.Now()
	f.through.all(t, question+" = 10.4.0.1")
	took := time.Since(start)
	t.Logf("visible through the resolver %s later than without it", took.Round(time.Millisecond))
	require.Less(t, took, 3*time.Second)
}

// minimised is C05: names between a zone and a service exist, so that a resolver which
// asks for them label by label, and stops where there is none, comes to the end. It has to
// come first: what has been asked for in whole is in the cache.
func (f *front) minimised(t *testing.T) {
	f.through.all(t,
		"_http._tcp.api.shop.svc.cluster.global SRV = 8080 api-0.west.api.shop.svc.cluster.global, "+
			"8080 api-1.west.api.shop.svc.cluster.global, 9090 api-0.east.api.shop.svc.cluster.global",
		"api-1.west.api.shop.svc.cluster.global A = 10.1.0.2",
		"api-0.api.shop.svc.cluster.west A = 10.1.0.1",
		"10-3-0-1.west.checkout.mesh A = 10.3.0.1",
		"shop.svc.cluster.global A = NODATA",
		"shop.svc.cluster.global SRV = NODATA",
		"svc.cluster.global NS = NODATA",
		"_tcp.api.shop.svc.cluster.global A = NODATA",
		"absent-ns.svc.cluster.global A = NXDOMAIN",
		"api.absent-ns.svc.cluster.global A = NXDOMAIN")
}

// dropped is what a client sees where private addresses are taken for an attack: the
// product's reply is right, and no address arrives.
func (f *front) dropped(t *testing.T) {
	for _, name := range []string{"api.shop.svc.cluster.global", "api.shop.svc.cluster.west", "checkout.mesh"} {
		require.NotEmpty(t, asked(f.mesh).ask(t, name+" A").Answer, name)
		reply, err := harness.Resolve(f.through.addr, parse(t, name+" A"))
		require.NoError(t, err)
		require.Empty(t, reply.Answer, "%s", reply)
	}
}

// lowering is a server that passes questions on in lower case and so answers.
func lowering(t *testing.T, to string) (addr string) {
	t.Helper()
	port, err := harness.FreePort()
	require.NoError(t, err)
	conn, err := net.ListenPacket("udp", harness.Loopback(port))
	require.NoError(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		query.Question[0].Name = strings.ToLower(query.Question[0].Name)
		if reply, err := dns.Exchange(query, to); err == nil {
			_ = w.WriteMsg(reply) // the asker sees a timeout
		}
	})}
	go server.ActivateAndServe()
	t.Cleanup(func() { _ = conn.Close() })
	return harness.Loopback(port)
}

// TestDig asks with dig and host, as people do.
func TestDig(t *testing.T) {
	path := needInstalled(t, harness.Dig)
	f := startFronted(t)
	const many = "many.shop.svc.cluster.global"
	for _, test := range []struct{ args, has, hasNot string }{
		{"+norec checkout.mesh A", "status: NOERROR|flags: qr aa;|ANSWER: 4,|udp: 1232|10.3.0.1", "COOKIE:"},
		{"+nocookie +norec checkout.mesh A", "status: NOERROR|flags: qr aa;|ANSWER: 4,", "COOKIE:"},
		{"+noedns +norec checkout.mesh A", "status: NOERROR|ANSWER: 4,|ADDITIONAL: 0", "OPT PSEUDOSECTION"},
		{"+tcp +norec " + many, "ANSWER: 255,", "Truncated"},
		{"+bufsize=512 " + many, "Truncated, retrying in TCP mode|ANSWER: 255,", " tc"},
		{"+bufsize=512 +ignore " + many, "flags: qr aa tc rd;", "ANSWER: 255"},
		{"+noedns " + many, "Truncated, retrying in TCP mode|ANSWER: 255,", "OPT PSEUDOSECTION"},
		{"+noedns +ignore " + many, "flags: qr aa tc rd;", "OPT PSEUDOSECTION|ANSWER: 255"},
		// C38: an EDNS version that there is not, alone and with the retry that dig makes.
		{"+edns=100 +noednsneg +norec SOA mesh.", "status: BADVERS|EDNS: version: 0,|;mesh.|IN\tSOA|" +
			"QUERY: 1, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 1", "ns.dns.mesh"},
		{"+edns=100 +norec SOA mesh.", "BADVERS, retrying with EDNS version 0|status: NOERROR|ns.dns.mesh. hostmaster.mesh.", ""},
		{"+norec . NS", "status: REFUSED|QUERY: 1, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 1", " aa"}, // C170
		{"+norec +noedns . NS", "status: REFUSED|QUERY: 1, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 0", ""},
		{". NS", "status: REFUSED|flags: qr rd;", ""},
		{"+norec absent.mesh", "status: NXDOMAIN|flags: qr aa;|AUTHORITY: 1|mesh.\t\t\t1\tIN\tSOA", ""},
		{"+norec checkout.mesh AAAA", "status: NOERROR|flags: qr aa;|ANSWER: 0, AUTHORITY: 1", ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			out, err := f.run(t, path, "-r +tries=1 +time=5 -p PORT @SERVER "+test.args)
			require.NoError(t, err, out)
			for _, has := range strings.Split(test.has, "|") {
				require.Contains(t, out, has)
			}
			for _, hasNot := range append(strings.Split(test.hasNot, "|"), "malformed", "mismatch", "extra bytes", "timed out") {
				require.False(t, hasNot != "" && strings.Contains(out, hasNot), "%q in %s", hasNot, out)
			}
		})
	}
}

// TestDigHost asks with host, which takes a reply without AA and RA for a lame one (C169).
func TestDigHost(t *testing.T) {
	path := needInstalled(t, harness.Host)
	f := startFronted(t)
	out, err := f.run(t, path, "-p PORT checkout.mesh SERVER")
	require.NoError(t, err, out)
	for _, address := range []string{"10.1.0.1", "10.1.0.2", "10.2.0.1", "10.3.0.1"} {
		require.Contains(t, out, "checkout.mesh has address "+address)
	}
	require.NotContains(t, out, "not found")
	out, err = f.run(t, path, "-p PORT absent.mesh SERVER")
	require.Error(t, err, out)
	require.Contains(t, out, "Host absent.mesh not found: 3(NXDOMAIN)")
}

// run runs a program with the product's address in the place of PORT and SERVER and gives
// what it writes. The error is its exit status.
func (f *fronted) run(t *testing.T, path, args string) (string, error) {
	t.Helper()
	server, port, err := net.SplitHostPort(f.mesh.DNS)
	require.NoError(t, err)
	line := strings.NewReplacer("PORT", port, "SERVER", server).Replace(args)
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, strings.Fields(line)...).CombinedOutput()
	return string(out), err
}

// goResolver is Go's own resolver with one server, in place of those of resolv.conf.
type goResolver struct {
	*net.Resolver

	mu     sync.Mutex
	dialed []string // networks, in order
}

func newGoResolver(addr string) *goResolver {
	r := &goResolver{}
	r.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		r.mu.Lock()
		r.dialed = append(r.dialed, network)
		r.mu.Unlock()
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, addr)
	}}
	return r
}

// TestGoResolver asks with Go's own resolver, as programs that are built without a C
// library do.
func TestGoResolver(t *testing.T) {
	f := startFronted(t)
	t.Run("sixty addresses without EDNS", f.sixty)
	t.Run("absent names", f.absent)
	t.Run("SRV", func(t *testing.T) {
		_, records, err := newGoResolver(f.mesh.DNS).LookupSRV(t.Context(), "http", "tcp", "api.shop.svc.cluster.global.")
		require.NoError(t, err)
		var targets []string
		for _, record := range records {
			targets = append(targets, fmt.Sprintf("%d %s", record.Port, record.Target))
		}
		require.ElementsMatch(t, []string{"8080 api-0.west.api.shop.svc.cluster.global.",
			"8080 api-1.west.api.shop.svc.cluster.global.", "9090 api-0.east.api.shop.svc.cluster.global."}, targets)
	})
}

// sixty is C25: without EDNS a datagram has 512 bytes, the reply is cut on a record's
// border and says so, and TCP has the rest.
func (f *fronted) sixty(t *testing.T) {
	t.Setenv("GODEBUG", "netedns0=0")
	const name = "sixty.shop.svc.cluster.global"
	resolver := newGoResolver(f.mesh.DNS)
	found, err := resolver.LookupNetIP(t.Context(), "ip4", name+".")
	require.NoError(t, err)
	var addresses []string
	for _, address := range found {
		addresses = append(addresses, address.Unmap().String())
	}
	require.ElementsMatch(t, numbered(60), addresses)
	require.Equal(t, []string{"udp", "tcp"}, resolver.dialed, "all 60 fit into no datagram without EDNS")

	cut, err := harness.Ask(f.mesh.DNS, harness.Question{Name: name, Type: "A"})
	require.NoError(t, err)
	require.True(t, cut.Truncated)
	require.NotEmpty(t, cut.Answer)
	cut.Compress = true
	require.LessOrEqual(t, cut.Len(), dns.MinMsgSize)
}

// absent is C169: an absent name is "no such host", as is one without addresses of the
// kind that is asked for; a server that seems to be lame would be "server misbehaving".
func (f *fronted) absent(t *testing.T) {
	resolver := newGoResolver(f.mesh.DNS)
	for name, network := range map[string]string{
		"absent.mesh.":                    "ip",
		"absent.shop.svc.cluster.global.": "ip",
		"absent.shop.svc.cluster.west.":   "ip",
		"shop.svc.cluster.global.":        "ip",
		"checkout.mesh.":                  "ip6",
	} {
		_, err := resolver.LookupNetIP(t.Context(), network, name)
		var failed *net.DNSError
		require.ErrorAs(t, err, &failed, name)
		require.True(t, failed.IsNotFound, "%s: %v", name, err)
		require.Equal(t, "no such host", failed.Err, name)
	}
}
