package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// TestHarness proves the set-up without the product: what is written to one of two real
// API servers on one etcd is answered by a real CoreDNS that watches it, and not by one
// that watches the other.
func TestHarness(t *testing.T) {
	need(t, harness.CoreDNS)
	west, east := clusters(t)
	ns := namespace(t, "harness", west, east)
	inWest, inEast := startKubernetesCoreDNS(t, west), startKubernetesCoreDNS(t, east)

	put(t, west,
		harness.Service{Namespace: ns, Name: "web", Headless: true, Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "web-1", Service: "web", Ports: []string{"http:8080"},
			Endpoints: []harness.Endpoint{{Address: "192.0.2.1", Hostname: "web-0"}, {Address: "192.0.2.2", NotReady: true}}},
		harness.Service{Namespace: ns, Name: "vip", Ports: []string{"http:80"}, DualStack: true})
	ips, err := west.ClusterIPs(t.Context(), ns, "vip")
	require.NoError(t, err)
	require.Len(t, ips, 2)

	inWest.all(t,
		"web.harness.svc.cluster.local A = 192.0.2.1",
		"_http._tcp.web.harness.svc.cluster.local SRV = 8080 web-0.web.harness.svc.cluster.local",
		"vip.harness.svc.cluster.local A = "+ips[0],
		"vip.harness.svc.cluster.local AAAA = "+ips[1],
	)
	inEast.eventually(t, "web.harness.svc.cluster.local A", "NXDOMAIN")

	require.NoError(t, west.DropNamespace(t.Context(), ns))
	inWest.eventually(t, "web.harness.svc.cluster.local A", "NXDOMAIN")
}

// startKubernetesCoreDNS starts a CoreDNS that serves cluster.local from a cluster.
func startKubernetesCoreDNS(t *testing.T, cluster *harness.APIServer) server {
	t.Helper()
	coredns := startCoreDNS(t, func(p harness.CoreDNSPorts) string {
		return fmt.Sprintf(`.:%d {
    bind 127.0.0.1
    errors
    ready 127.0.0.1:%d
    kubernetes cluster.local {
        kubeconfig %s
    }
}
`, p.DNS, p.Ready, cluster.Kubeconfig)
	})
	return server{addr: coredns.DNS, process: coredns.Process}
}
