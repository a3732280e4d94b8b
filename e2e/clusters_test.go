package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// two is the product serving west, which is the site, and east.
type two struct {
	server
	west, east *harness.APIServer
}

// TestTwoClusters changes Services and EndpointSlices through two real API servers and
// sees each change in the answers.
func TestTwoClusters(t *testing.T) {
	west, east := clusters(t)
	upstream := startUpstream(t,
		"db.example.test. 60 IN A 203.0.113.9",
		"alias.example.test. 60 IN CNAME db.example.test.")
	mesh := startReady(t, harness.Product{Config: config(fmt.Sprintf("upstreams: [%q]\n", upstream.Addr), west, east)})
	c := two{server: asked(mesh), west: west, east: east}

	t.Run("life of a service", c.life)
	t.Run("zones of the clusters", c.zones)
	t.Run("headless with hostnames", c.hostnames)
	t.Run("host labels", c.labels)
	t.Run("namespaces come and go", c.namespaces)
	t.Run("external names", c.external)
	t.Run("dual stack", c.dualStack)
	t.Run("several slices", c.slices)
	t.Run("moved between slices", c.moved)
	t.Run("readiness", c.readiness)
	t.Run("terminating", c.terminating)
	t.Run("ports", c.ports)
	t.Run("large service", c.large)
	t.Run("what is not served", c.outside)
}

// api is a service of ClusterIP kind with one slice of the given endpoints.
func api(ns, port string, endpoints ...harness.Endpoint) []any {
	return []any{
		harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "api-1", Service: "api", Ports: []string{port}, Endpoints: endpoints},
	}
}

// life follows one service of both clusters from before its birth until after its end.
func (c two) life(t *testing.T) {
	ns := namespace(t, "life", c.west, c.east)
	const name = "api.life.svc.cluster.global"
	c.all(t, name+" A = NXDOMAIN", "life.svc.cluster.global A = NXDOMAIN")

	put(t, c.west, harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}})
	c.all(t, name+" A = NODATA", name+" AAAA = NODATA", "life.svc.cluster.global A = NODATA")

	put(t, c.west, api(ns, "http:8080", harness.Ready("192.0.2.1", "192.0.2.2")...)...)
	c.all(t, name+" A = 192.0.2.1, 192.0.2.2", name+" AAAA = NODATA")

	put(t, c.east, api(ns, "http:8080", harness.Ready("198.51.100.1", "198.51.100.2")...)...)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.2, 198.51.100.1, 198.51.100.2")
	c.exactly(t, "_http._tcp."+name+" SRV", map[string]string{
		"8080 192-0-2-1.west." + name:    "192.0.2.1",
		"8080 192-0-2-2.west." + name:    "192.0.2.2",
		"8080 198-51-100-1.east." + name: "198.51.100.1",
		"8080 198-51-100-2.east." + name: "198.51.100.2",
	})
	c.changes(t, ns, name)
	c.end(t, ns, name)
}

// changes are an address, readiness and a port.
func (c two) changes(t *testing.T, ns, name string) {
	put(t, c.west, api(ns, "http:8080", harness.Ready("192.0.2.1", "192.0.2.3")...)...)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.3, 198.51.100.1, 198.51.100.2")

	put(t, c.west, api(ns, "http:8080", harness.Endpoint{Address: "192.0.2.1"}, harness.Endpoint{Address: "192.0.2.3", NotReady: true})...)
	c.eventually(t, name+" A", "192.0.2.1, 198.51.100.1, 198.51.100.2")

	put(t, c.west, api(ns, "http:9090", harness.Ready("192.0.2.1")...)...)
	c.exactly(t, "_http._tcp."+name+" SRV", map[string]string{ // C67, C71: each cluster's own number
		"9090 192-0-2-1.west." + name:    "192.0.2.1",
		"8080 198-51-100-1.east." + name: "198.51.100.1",
		"8080 198-51-100-2.east." + name: "198.51.100.2",
	})
}

// end takes everything away, and leaves a slice without its service behind (C106).
func (c two) end(t *testing.T, ns, name string) {
	require.NoError(t, c.west.DeleteSlice(t.Context(), ns, "api-1"))
	c.eventually(t, name+" A", "198.51.100.1, 198.51.100.2")

	require.NoError(t, c.east.DeleteService(t.Context(), ns, "api")) // its slice lingers
	c.all(t, name+" A = NODATA", "api.life.svc.cluster.east A = NXDOMAIN")

	require.NoError(t, c.west.DeleteService(t.Context(), ns, "api"))
	c.all(t,
		name+" A = NXDOMAIN",
		"_http._tcp."+name+" SRV = NXDOMAIN",
		"198-51-100-1.east."+name+" A = NXDOMAIN",
		"life.svc.cluster.global A = NXDOMAIN")

	put(t, c.east, harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}})
	c.eventually(t, name+" A", "198.51.100.1, 198.51.100.2") // the slice had waited for it
}

// zones are the zones of the single clusters: the site's by the Kubernetes specification,
// the other's like a headless service, since its ClusterIPs mean nothing here (rule 15).
func (c two) zones(t *testing.T) {
	ns := namespace(t, "zones", c.west, c.east)
	put(t, c.west, api(ns, "http:8080", harness.Ready("192.0.2.1", "192.0.2.2")...)...)
	put(t, c.east, api(ns, "http:8080", harness.Ready("198.51.100.1")...)...)
	ips, err := c.west.ClusterIPs(t.Context(), ns, "api")
	require.NoError(t, err)
	const west, east = "api.zones.svc.cluster.west", "api.zones.svc.cluster.east"
	c.all(t,
		west+" A = "+ips[0],
		west+" AAAA = NODATA",
		"_http._tcp."+west+" SRV = 80 "+west,
		east+" A = 198.51.100.1",
		"_http._tcp."+east+" SRV = 8080 198-51-100-1."+east,
		"198-51-100-1."+east+" A = 198.51.100.1",
		"zones.svc.cluster.west A = NODATA",
		"svc.cluster.west A = NODATA",
		"none.zones.svc.cluster.west A = NXDOMAIN",
		`dns-version.cluster.west TXT = "1.1.0"`,
		`dns-version.cluster.global TXT = "1.0.0"`)

	require.NoError(t, c.west.DeleteSlice(t.Context(), ns, "api-1"))
	c.all(t, "api.zones.svc.cluster.global A = 198.51.100.1", west+" A = "+ips[0])
}

// hostnames is the same StatefulSet in both clusters: web-0 of one is never the other's.
func (c two) hostnames(t *testing.T) {
	ns := namespace(t, "hostnames", c.west, c.east)
	const name = "web.hostnames.svc.cluster.global"
	service := harness.Service{Namespace: ns, Name: "web", Headless: true, Ports: []string{"http:80"}}
	slice := harness.Slice{Namespace: ns, Name: "web-1", Service: "web", Ports: []string{"http:8080"}}
	slice.Endpoints = []harness.Endpoint{{Address: "192.0.2.1", Hostname: "web-0"}, {Address: "192.0.2.2", Hostname: "web-1"}}
	put(t, c.west, service, slice)
	slice.Endpoints = []harness.Endpoint{{Address: "198.51.100.1", Hostname: "web-0"}}
	put(t, c.east, service, slice)

	targets := map[string]string{
		"8080 web-0.west." + name: "192.0.2.1",
		"8080 web-1.west." + name: "192.0.2.2",
		"8080 web-0.east." + name: "198.51.100.1",
	}
	c.exactly(t, "_http._tcp."+name+" SRV", targets)
	c.exactly(t, name+" SRV", targets) // rule 14
	c.exactly(t, "_http._tcp.web.hostnames.svc.cluster.west SRV", map[string]string{
		"8080 web-0.web.hostnames.svc.cluster.west": "192.0.2.1",
		"8080 web-1.web.hostnames.svc.cluster.west": "192.0.2.2",
	})
	c.all(t,
		"web-0."+name+" A = NXDOMAIN", // rule 12: no cluster, no host
		"west."+name+" A = NODATA",    // a name above hosts
		"web-1.east."+name+" A = NXDOMAIN",
		"web-0.north."+name+" A = NXDOMAIN",
		"web-1.west."+name+" AAAA = NODATA",
		"x.web-1.west."+name+" A = NXDOMAIN",
		"_http."+name+" A = NXDOMAIN",
		"_tcp."+name+" A = NODATA")

	slice.Endpoints = []harness.Endpoint{{Address: "198.51.100.1", Hostname: "web-0", NotReady: true}}
	put(t, c.east, slice)
	c.all(t,
		"web-0.east."+name+" A = NXDOMAIN",
		"web.hostnames.svc.cluster.east A = NXDOMAIN", // rule 17: headless, none usable
		name+" A = 192.0.2.1, 192.0.2.2")
}

// labels are where an endpoint's host label comes from.
func (c two) labels(t *testing.T) {
	ns := namespace(t, "labels", c.west)
	const name = "h.labels.svc.cluster.global"
	put(t, c.west,
		harness.Service{Namespace: ns, Name: "h", Headless: true, Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "h-1", Service: "h", Ports: []string{"http:8080"}, Endpoints: []harness.Endpoint{
			{Address: "192.0.2.1", Hostname: "twin"},
			{Address: "192.0.2.2", Hostname: "twin"}, // C59: both stay
			{Address: "192.0.2.3", Pod: "h-5d9f7"},
			{Address: "192.0.2.4", Pod: "dotted.pod"}, // no label
			{Address: "192.0.2.5", Pod: strings.Repeat("p", 64)},
			{Address: "192.0.2.6", Pod: "h-6", Hostname: "first"},
		}})
	c.exactly(t, "_http._tcp."+name+" SRV", map[string]string{
		"8080 twin.west." + name:      "192.0.2.1, 192.0.2.2",
		"8080 h-5d9f7.west." + name:   "192.0.2.3",
		"8080 192-0-2-4.west." + name: "192.0.2.4",
		"8080 192-0-2-5.west." + name: "192.0.2.5",
		"8080 first.west." + name:     "192.0.2.6",
	})
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5, 192.0.2.6")
}

// namespaces exist as names while they hold a service, in any cluster.
func (c two) namespaces(t *testing.T) {
	namespace(t, "comes", c.west, c.east)
	absent := []string{"comes.svc.cluster.global SRV = NXDOMAIN", "x.comes.svc.cluster.global A = NXDOMAIN"}
	c.all(t, absent...)
	put(t, c.west, api("comes", "http:8080", harness.Ready("192.0.2.1")...)...)
	put(t, c.east, api("comes", "http:8080", harness.Ready("198.51.100.1")...)...)
	c.eventually(t, "api.comes.svc.cluster.global A", "192.0.2.1, 198.51.100.1")
	c.all(t,
		"comes.svc.cluster.global SRV = NODATA",
		"comes.svc.cluster.east A = NODATA",
		"x.comes.svc.cluster.global A = NXDOMAIN")

	require.NoError(t, c.west.DropNamespace(t.Context(), "comes"))
	c.all(t,
		"api.comes.svc.cluster.global A = 198.51.100.1",
		"comes.svc.cluster.global A = NODATA",
		"comes.svc.cluster.west A = NXDOMAIN")
	require.NoError(t, c.east.DropNamespace(t.Context(), "comes"))
	c.all(t, absent...)
	c.eventually(t, "svc.cluster.global A", "NODATA")
}

// external is an alias in its own cluster and nothing in the aggregate (rule 18).
func (c two) external(t *testing.T) {
	ns := namespace(t, "external", c.west, c.east)
	put(t, c.west,
		harness.Service{Namespace: ns, Name: "db", External: "alias.example.test"},
		harness.Service{Namespace: ns, Name: "lost", External: "gone.example.test"})
	c.all(t,
		"db.external.svc.cluster.west A = CNAME alias.example.test, CNAME db.example.test, 203.0.113.9",
		"db.external.svc.cluster.west CNAME = CNAME alias.example.test",
		"lost.external.svc.cluster.west A = CNAME gone.example.test, NXDOMAIN", // RFC 6604
		"db.external.svc.cluster.global A = NXDOMAIN",
		"db.external.svc.cluster.east A = NXDOMAIN")

	put(t, c.east,
		harness.Service{Namespace: ns, Name: "db", Ports: []string{"sql:5432"}},
		harness.Slice{Namespace: ns, Name: "db-1", Service: "db", Ports: []string{"sql:5432"}, Endpoints: harness.Ready("198.51.100.1")})
	c.all(t, // C157: endpoints of others stand
		"db.external.svc.cluster.global A = 198.51.100.1",
		"db.external.svc.cluster.east A = 198.51.100.1")
	c.eventually(t, "db.external.svc.cluster.west CNAME", "CNAME alias.example.test")
}

// dualStack joins the slices of two families by hostname (C85).
func (c two) dualStack(t *testing.T) {
	ns := namespace(t, "dual", c.west)
	const name = "web.dual.svc.cluster.global"
	four := harness.Slice{Namespace: ns, Name: "web-4", Service: "web", Ports: []string{"http:8080"},
		Endpoints: []harness.Endpoint{{Address: "192.0.2.1", Hostname: "web-0"}}}
	six := harness.Slice{Namespace: ns, Name: "web-6", Service: "web", Ports: []string{"http:8080"},
		Endpoints: []harness.Endpoint{{Address: "2001:db8::1", Hostname: "web-0"}}}
	put(t, c.west, harness.Service{Namespace: ns, Name: "web", Headless: true, DualStack: true, Ports: []string{"http:80"}}, four, six)
	c.all(t,
		name+" A = 192.0.2.1",
		name+" AAAA = 2001:db8::1",
		"web-0.west."+name+" A = 192.0.2.1",
		"web-0.west."+name+" AAAA = 2001:db8::1",
		"_http._tcp."+name+" SRV = 8080 web-0.west."+name)

	six.Endpoints[0].NotReady = true
	put(t, c.west, six)
	c.all(t,
		"web-0.west."+name+" AAAA = NODATA",
		"web-0.west."+name+" A = 192.0.2.1",
		"_http._tcp."+name+" SRV = 8080 web-0.west."+name)

	require.NoError(t, c.west.DeleteSlice(t.Context(), ns, "web-6"))
	c.all(t, name+" AAAA = NODATA", name+" A = 192.0.2.1")
}

// slices of one service are one set: an address in two of them is one address, and is in
// while any slice says that it is ready (C92).
func (c two) slices(t *testing.T) {
	ns := namespace(t, "slices", c.west)
	const name = "api.slices.svc.cluster.global"
	first := harness.Slice{Namespace: ns, Name: "api-1", Service: "api", Ports: []string{"http:8080"}, Endpoints: harness.Ready("192.0.2.1", "192.0.2.5")}
	second := harness.Slice{Namespace: ns, Name: "api-2", Service: "api", Ports: []string{"http:8080"},
		Endpoints: []harness.Endpoint{{Address: "192.0.2.5", NotReady: true}, {Address: "192.0.2.6"}}}
	put(t, c.west, harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}}, second, first)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.5, 192.0.2.6")

	first.Endpoints = harness.Ready("192.0.2.1")
	put(t, c.west, first)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.6")

	second.Endpoints = harness.Ready("192.0.2.5", "192.0.2.6")
	put(t, c.west, second)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.5, 192.0.2.6")

	require.NoError(t, c.west.DeleteSlice(t.Context(), ns, "api-2"))
	c.eventually(t, name+" A", "192.0.2.1")
}

// moved endpoints, from one slice to another and back, are never absent and never twice
// (FAULTS 13).
func (c two) moved(t *testing.T) {
	ns := namespace(t, "moved", c.west)
	const name = "api.moved.svc.cluster.global"
	slice := func(name string, addresses ...string) harness.Slice {
		return harness.Slice{Namespace: ns, Name: name, Service: "api", Ports: []string{"http:8080"}, Endpoints: harness.Ready(addresses...)}
	}
	put(t, c.west, harness.Service{Namespace: ns, Name: "api", Ports: []string{"http:80"}}, slice("a", "192.0.2.1", "192.0.2.7"), slice("b", "192.0.2.2"))
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.2, 192.0.2.7")

	watch := watchAnswers(t, c.addr, name+" A", "192.0.2.1, 192.0.2.2, 192.0.2.7")
	for range 50 {
		put(t, c.west, slice("b", "192.0.2.2", "192.0.2.7"), slice("a", "192.0.2.1"))
		put(t, c.west, slice("a", "192.0.2.1", "192.0.2.7"), slice("b", "192.0.2.2"))
	}
	seen := watch.stop(t)
	t.Logf("100 moves, %d queries, all with the same three addresses", seen)
}

// readiness is what the slice's ready condition says, and nothing else.
func (c two) readiness(t *testing.T) {
	ns := namespace(t, "readiness", c.west)
	no := false
	put(t, c.west,
		harness.Service{Namespace: ns, Name: "boot", Headless: true, PublishNotReady: true, Ports: []string{"http:80"}},
		// With publishNotReadyAddresses the slice controller writes ready=true, serving=false (C89).
		harness.Slice{Namespace: ns, Name: "boot-1", Service: "boot", Ports: []string{"http:80"},
			Endpoints: []harness.Endpoint{{Address: "192.0.2.1", Serving: &no}}},
		harness.Service{Namespace: ns, Name: "bare", Headless: true, Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "bare-1", Service: "bare", Ports: []string{"http:80"},
			Endpoints: []harness.Endpoint{{Address: "192.0.2.2", NoCondition: true}}}, // C88
		harness.Service{Namespace: ns, Name: "down", Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "down-1", Service: "down", Ports: []string{"http:80"},
			Endpoints: []harness.Endpoint{{Address: "192.0.2.3", NotReady: true}}})
	c.all(t,
		"boot.readiness.svc.cluster.global A = 192.0.2.1",
		"bare.readiness.svc.cluster.global A = 192.0.2.2",
		"down.readiness.svc.cluster.global A = NODATA", // C91
		"down.readiness.svc.cluster.global AAAA = NODATA")
}

// terminating endpoints that still serve are answered while no ready one is left, in any
// cluster (rule 16).
func (c two) terminating(t *testing.T) {
	ns := namespace(t, "ending", c.west, c.east)
	const name = "api.ending.svc.cluster.global"
	put(t, c.west, api(ns, "http:8080", harness.Endpoint{Address: "192.0.2.1"}, harness.Endpoint{Address: "192.0.2.2", Terminating: true})...)
	put(t, c.east, api(ns, "http:8080", harness.Endpoint{Address: "198.51.100.1", Terminating: true}, harness.Endpoint{Address: "198.51.100.2", NotReady: true})...)
	c.eventually(t, name+" A", "192.0.2.1")

	put(t, c.west, api(ns, "http:8080", harness.Endpoint{Address: "192.0.2.1", Terminating: true}, harness.Endpoint{Address: "192.0.2.2", Terminating: true})...)
	c.eventually(t, name+" A", "192.0.2.1, 192.0.2.2, 198.51.100.1")

	put(t, c.east, api(ns, "http:8080", harness.Endpoint{Address: "198.51.100.2"})...)
	c.eventually(t, name+" A", "198.51.100.2")
}

// ports are joined with addresses inside a slice only, and names of ports are looked up
// with their protocol.
func (c two) ports(t *testing.T) {
	ns := namespace(t, "ports", c.west, c.east)
	const name = "dns.ports.svc.cluster.global"
	put(t, c.west,
		harness.Service{Namespace: ns, Name: "dns", Headless: true, Ports: []string{"dns:53/UDP", "dns-tcp:53/TCP"}},
		harness.Slice{Namespace: ns, Name: "dns-1", Service: "dns", Ports: []string{"dns:5353/UDP"}, Endpoints: []harness.Endpoint{{Address: "192.0.2.1", Hostname: "a"}}},
		harness.Slice{Namespace: ns, Name: "dns-2", Service: "dns", Ports: []string{"dns:5454/UDP", "metrics:9153"}, Endpoints: []harness.Endpoint{{Address: "192.0.2.2", Hostname: "b"}}})
	put(t, c.east,
		harness.Service{Namespace: ns, Name: "dns", Headless: true, Ports: []string{"dns:53/TCP"}},
		harness.Slice{Namespace: ns, Name: "dns-1", Service: "dns", Ports: []string{"dns:53/TCP"}, Endpoints: []harness.Endpoint{{Address: "198.51.100.1", Hostname: "a"}}})
	c.all(t,
		"_dns._udp."+name+" SRV = 5353 a.west."+name+", 5454 b.west."+name,
		"_dns._tcp."+name+" SRV = 53 a.east."+name,
		"_dns._sctp."+name+" SRV = NXDOMAIN",
		"_metrics._tcp."+name+" SRV = 9153 b.west."+name,
		"_udp."+name+" A = NODATA",
		"_dns._udp."+name+" A = NODATA",
		name+" A = 192.0.2.1, 192.0.2.2, 198.51.100.1")

	put(t, c.west,
		harness.Service{Namespace: ns, Name: "plain", Headless: true, Ports: []string{":80"}},
		harness.Slice{Namespace: ns, Name: "plain-1", Service: "plain", Ports: []string{":8080"}, Endpoints: []harness.Endpoint{{Address: "192.0.2.9", Hostname: "p"}}},
		harness.Service{Namespace: ns, Name: "portless", Headless: true},
		harness.Slice{Namespace: ns, Name: "portless-1", Service: "portless", Endpoints: []harness.Endpoint{{Address: "192.0.2.8", Hostname: "p"}}})
	c.all(t,
		"plain.ports.svc.cluster.global SRV = 8080 p.west.plain.ports.svc.cluster.global",
		"_tcp.plain.ports.svc.cluster.global SRV = NXDOMAIN", // rule 13: unnamed, no such name
		"portless.ports.svc.cluster.global SRV = NODATA",     // C64: never port 0
		"portless.ports.svc.cluster.global A = 192.0.2.8")
}

// large is more endpoints than an Endpoints object could hold (C117).
func (c two) large(t *testing.T) {
	ns := namespace(t, "large", c.west)
	put(t, c.west, harness.Service{Namespace: ns, Name: "api", Headless: true, Ports: []string{"http:80"}})
	for i := range 25 {
		slice := harness.Slice{Namespace: ns, Name: fmt.Sprintf("api-%d", i), Service: "api", Ports: []string{"http:8080"}}
		for j := range 100 {
			slice.Endpoints = append(slice.Endpoints, harness.Endpoint{Address: fmt.Sprintf("10.0.%d.%d", i, j)})
		}
		put(t, c.west, slice)
	}
	q := parse(t, "api.large.svc.cluster.global A")
	require.NoError(t, harness.Poll(t.Context(), settles, func() error {
		reply, err := harness.Resolve(c.addr, q)
		if err == nil && len(reply.Answer) != 2500 {
			err = fmt.Errorf("%d answers", len(reply.Answer))
		}
		return err
	}))
	reply, err := harness.Ask(c.addr, q)
	require.NoError(t, err)
	require.True(t, reply.Truncated, "over UDP it cannot be whole")
	require.NotEmpty(t, reply.Answer, "a cut answer has what fits")
}

// outside are names that are not there for good.
func (c two) outside(t *testing.T) {
	c.all(t,
		"kubernetes.default.svc.cluster.global A = NXDOMAIN", // excluded unless configured
		"kubernetes.default.svc.cluster.west A = 10.96.0.1",
		"a.b.c.d.e.svc.cluster.global A = NXDOMAIN",
		"*.default.svc.cluster.west A = NXDOMAIN")
	for _, question := range []string{". NS", "example.com A", "api.x.svc.cluster.north A", "version.bind TXT"} {
		reply := c.ask(t, question)
		require.Equal(t, dns.RcodeRefused, reply.Rcode, question)
		require.Empty(t, append(reply.Answer, reply.Ns...), question)
	}
}
