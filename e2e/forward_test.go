package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// registry is documents of all backends that the product has a source for; %s is the
// namespace of the Kubernetes ones.
const registry = `
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: vm.mesh}
spec:
  type: Static
  locator: "203.0.113.1,203.0.113.2"
  port: 7654
  ports: [{name: http, port: 7654, protocol: TCP}]
---
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: api.mesh}
spec:
  backends:
  - {type: Kubernetes, locator: %[1]s/api, cluster: "*"}
  ports: [{name: http, port: 8080, protocol: TCP}]
---
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: local.mesh}
spec: {type: Kubernetes, locator: %[1]s/api}
---
apiVersion: specs.smi-spec.io/v1alpha1
kind: Service
metadata: {name: bar.mesh}
spec: {type: Kubernetes, locator: api.%[1]s.svc.cluster.east}
---
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: outside.mesh}
spec: {type: DNS, locator: alias.example.test}
---
apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: mixed.mesh}
spec:
  backends:
  - {type: Kubernetes, locator: %[1]s/api, cluster: "*"}
  - {type: Static, locator: 203.0.113.1}
  - {type: DNS, locator: alias.example.test}
`

// forwarded is the product and a CoreDNS in front of it.
type forwarded struct {
	west, east *harness.APIServer
	product    harness.Product
	mesh       *harness.MeshdnsServer
	coredns    *harness.CoreDNSServer
	through    server // asks by way of CoreDNS
}

// TestForwardedByCoreDNS asks through a real CoreDNS whose forward stanza sends our zones
// to the product, as each cluster of a mesh has one.
func TestForwardedByCoreDNS(t *testing.T) {
	need(t, harness.CoreDNS, harness.Meshdns)
	west, east := clusters(t)
	ns := namespace(t, "forward", west, east)
	put(t, west, api(ns, "http:8080", harness.Ready("192.0.2.1", "192.0.2.2")...)...)
	put(t, east, api(ns, "http:9090", harness.Ready("198.51.100.1")...)...)
	upstream := startUpstream(t,
		"alias.example.test. 60 IN CNAME db.example.test.",
		"db.example.test. 60 IN A 203.0.113.9")
	f := &forwarded{west: west, east: east}
	f.product = harness.Product{Config: config(f.rest(t, ns, upstream), west, east)}
	f.mesh = startReady(t, f.product)
	f.coredns = startCoreDNS(t, func(p harness.CoreDNSPorts) string { return forwarding(p, f.mesh.DNS, "") })
	f.through = server{addr: f.coredns.DNS, explain: f.mesh.Explain}

	t.Run("aggregate and clusters", f.names)
	t.Run("registry", f.registry)
	t.Run("spelling", f.spelling)
	t.Run("255 addresses", f.many)
	t.Run("negative cache", f.negativeCache)
	t.Run("probes", f.probes)
	t.Run("restart", f.restart) // the last: it counts as a failed health check
}

// rest writes the registry and gives the configuration beside the clusters.
func (f *forwarded) rest(t *testing.T, ns string, upstream *harness.Upstream) string {
	dir, err := shared.env.Folder("registry")
	require.NoError(t, err)
	_, err = harness.WriteFile(dir, "team/services.yaml", fmt.Sprintf(registry, ns))
	require.NoError(t, err)
	return fmt.Sprintf("registryDir: %q\nupstreams: [%q]\n", dir, upstream.Addr)
}

// forwarding is a Corefile that sends our zones to the product, with the given lines
// before the forward stanza.
func forwarding(p harness.CoreDNSPorts, to, before string) string {
	return fmt.Sprintf(`mesh:%[1]d cluster.global:%[1]d cluster.west:%[1]d cluster.east:%[1]d {
    bind 127.0.0.1
    errors
    prometheus 127.0.0.1:%[2]d
    %[3]s
    forward . %[4]s
}
.:%[1]d {
    bind 127.0.0.1
    ready 127.0.0.1:%[5]d
}
`, p.DNS, p.Metrics, before, to, p.Ready)
}

func (f *forwarded) names(t *testing.T) {
	const name = "api.forward.svc.cluster.global"
	f.through.all(t,
		name+" A = 192.0.2.1, 192.0.2.2, 198.51.100.1",
		name+" AAAA = NODATA",
		name+" HTTPS = NODATA",
		"none.forward.svc.cluster.global A = NXDOMAIN",
		"none.forward.svc.cluster.global AAAA = NXDOMAIN",
		"forward.svc.cluster.global A = NODATA",
		"api.forward.svc.cluster.east A = 198.51.100.1",
		"_http._tcp.api.forward.svc.cluster.east SRV = 9090 198-51-100-1.api.forward.svc.cluster.east",
		"none.forward.svc.cluster.west A = NXDOMAIN")
	f.through.exactly(t, "_http._tcp."+name+" SRV", map[string]string{
		"8080 192-0-2-1.west." + name:    "192.0.2.1",
		"8080 192-0-2-2.west." + name:    "192.0.2.2",
		"9090 198-51-100-1.east." + name: "198.51.100.1",
	})
	ips, err := f.west.ClusterIPs(t.Context(), "forward", "api")
	require.NoError(t, err)
	f.through.eventually(t, "api.forward.svc.cluster.west A", ips[0])
}

func (f *forwarded) registry(t *testing.T) {
	f.through.all(t,
		"vm.mesh A = 203.0.113.1, 203.0.113.2",
		"vm.mesh AAAA = NODATA",
		"api.mesh A = 192.0.2.1, 192.0.2.2, 198.51.100.1",
		"local.mesh A = 192.0.2.1, 192.0.2.2",
		"bar.mesh A = 198.51.100.1",
		"outside.mesh A = 203.0.113.9", // flattened
		"outside.mesh AAAA = NODATA",
		"mixed.mesh A = 192.0.2.1, 192.0.2.2, 198.51.100.1, 203.0.113.1, 203.0.113.9",
		"absent.mesh A = NXDOMAIN",
		"absent.mesh AAAA = NXDOMAIN")
	f.through.exactly(t, "_http._tcp.api.mesh SRV", map[string]string{ // the slice's number wins
		"8080 192-0-2-1.west.api.mesh":    "192.0.2.1",
		"8080 192-0-2-2.west.api.mesh":    "192.0.2.2",
		"9090 198-51-100-1.east.api.mesh": "198.51.100.1",
	})
	f.through.exactly(t, "_http._tcp.vm.mesh SRV", map[string]string{ // no cluster: the site's label
		"7654 203-0-113-1.west.vm.mesh": "203.0.113.1",
		"7654 203-0-113-2.west.vm.mesh": "203.0.113.2",
	})
}

// spelling of the question is kept, also after another spelling was asked (C46, C47).
func (f *forwarded) spelling(t *testing.T) {
	f.through.all(t,
		"API.Forward.SVC.Cluster.GLOBAL A = 192.0.2.1, 192.0.2.2, 198.51.100.1",
		"aPi.fOrward.sVc.cLuster.gLobal A = 192.0.2.1, 192.0.2.2, 198.51.100.1",
		"VM.mEsH A = 203.0.113.1, 203.0.113.2",
		"vM.MeSh AAAA = NODATA",
		"ABSENT.Mesh A = NXDOMAIN")
}

// many is C191: an answer that is cut over UDP reaches a client behind CoreDNS whole.
func (f *forwarded) many(t *testing.T) {
	ns := namespace(t, "many", f.west)
	slice := harness.Slice{Namespace: ns, Name: "api-1", Service: "api", Ports: []string{"http:8080"}}
	for i := range 255 {
		slice.Endpoints = append(slice.Endpoints, harness.Endpoint{Address: fmt.Sprintf("10.1.0.%d", i)})
	}
	put(t, f.west, harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}}, slice)
	f.through.eventually(t, "api.many.svc.cluster.global A", strings.Join(addresses255(), ", "))

	for _, size := range []uint16{0, 512, 1232, 2048, 4096} {
		q := harness.Question{Name: "api.many.svc.cluster.global", Type: "A", Size: size}
		cut, err := harness.Ask(f.coredns.DNS, q)
		require.NoError(t, err, "size %d: the cut reply has to arrive and unpack", size)
		if !cut.Truncated {
			require.Len(t, cut.Answer, 255, "size %d", size)
		}
		whole, err := harness.Resolve(f.coredns.DNS, q)
		require.NoError(t, err)
		require.Len(t, whole.Answer, 255, "size %d: what the client ends with", size)
		require.False(t, whole.Truncated, "size %d", size)
	}
}

// addresses255 are the addresses of many.
func addresses255() []string {
	var all []string
	for i := range 255 {
		all = append(all, fmt.Sprintf("10.1.0.%d", i))
	}
	return all
}

// negativeCache is C160: a name that was asked for before it existed shows through
// CoreDNS's cache within the negative TTL and a second.
func (f *forwarded) negativeCache(t *testing.T) {
	ns := namespace(t, "early", f.west)
	caching := startCoreDNS(t, func(p harness.CoreDNSPorts) string { return forwarding(p, f.mesh.DNS, "cache 30") })
	through := server{addr: caching.DNS, explain: f.mesh.Explain, caches: true}
	through.eventually(t, "api.early.svc.cluster.global A", "NXDOMAIN")

	put(t, f.west, api(ns, "http:8080", harness.Ready("192.0.2.1")...)...)
	start := time.Now()
	through.eventually(t, "api.early.svc.cluster.global A", "192.0.2.1")
	took := time.Since(start)
	t.Logf("visible through the cache after %s", took.Round(time.Millisecond))
	require.LessOrEqual(t, took, 6*time.Second)
}

// probes of a forwarder are refused at once, and count as alive (C170).
func (f *forwarded) probes(t *testing.T) {
	for _, question := range []string{". NS", "example.com A", "com SOA"} {
		start := time.Now()
		reply := asked(f.mesh).ask(t, question)
		require.Equal(t, dns.RcodeRefused, reply.Rcode, question)
		require.Empty(t, append(append(reply.Answer, reply.Ns...), withoutOPT(reply.Extra)...), question)
		require.Less(t, time.Since(start), time.Second, question)
	}
	require.Empty(t, f.failedProbes(t))
}

// failedProbes are the lines of CoreDNS's metrics that count failed health checks.
func (f *forwarded) failedProbes(t *testing.T) []string {
	response, err := http.Get(f.coredns.Metrics)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "coredns_proxy_request_duration_seconds", "the metrics are those of a forwarder")
	return regexp.MustCompile(`(?m)^coredns_proxy_healthcheck_failures_total.* [1-9].*$`).FindAllString(string(body), -1)
}

// restart has CoreDNS find the product again by its probes.
func (f *forwarded) restart(t *testing.T) {
	require.NoError(t, f.mesh.Stop())
	q := parse(t, "vm.mesh A")
	reply, err := harness.Ask(f.coredns.DNS, q)
	require.NoError(t, err)
	require.Equal(t, dns.RcodeServerFailure, reply.Rcode)

	_, port, found := strings.Cut(f.mesh.DNS, ":")
	require.True(t, found)
	_, err = fmt.Sscan(port, &f.product.DNS)
	require.NoError(t, err)
	f.mesh = startReady(t, f.product)
	start := time.Now()
	f.through.eventually(t, "vm.mesh A", "203.0.113.1, 203.0.113.2")
	t.Logf("answered through CoreDNS %s after the product was ready again", time.Since(start).Round(time.Millisecond))
}

func withoutOPT(records []dns.RR) []dns.RR {
	var rest []dns.RR
	for _, rr := range records {
		if rr.Header().Rrtype != dns.TypeOPT {
			rest = append(rest, rr)
		}
	}
	return rest
}
