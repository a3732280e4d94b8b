package cli

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/demo"
)

// What the first issue's "Done when" says of the demo, asked over real sockets.
func TestDemo(t *testing.T) {
	s := startServe(t, "--demo")
	ready, _ := s.stdout.await(0, "dig @127.0.0.1")
	require.NotEmpty(t, ready)

	t.Run("aggregate", func(t *testing.T) {
		assert.Equal(t, []string{"192.0.2.11", "192.0.2.12", "198.51.100.11", "198.51.100.12"},
			s.data("my-svc.my-ns.svc.cluster.global", "A"))
	})
	t.Run("SRV targets resolve", func(t *testing.T) { demoSRV(t, s) })
	t.Run("clusters", func(t *testing.T) { demoClusters(t, s) })
	t.Run("registered names", func(t *testing.T) { demoRegistered(t, s) })
	t.Run("explain", func(t *testing.T) { demoExplain(t, s) })
	t.Run("printed lines", func(t *testing.T) { demoPrinted(t, s) })
	t.Run("admin", func(t *testing.T) { demoAdmin(t, s) })

	assert.Equal(t, 0, s.stop(syscall.SIGTERM))
}

func demoSRV(t *testing.T, s *serving) {
	targets := map[string]string{
		"my-svc-0.clusterx": "192.0.2.11", "my-svc-1.clusterx": "192.0.2.12",
		"my-svc-0.clustery": "198.51.100.11", "my-svc-1.clustery": "198.51.100.12",
	}
	const name = "my-svc.my-ns.svc.cluster.global."
	records := s.data("_http._tcp."+name, "SRV")
	assert.Len(t, records, len(targets))
	for host, address := range targets {
		target := host + "." + name
		assert.Contains(t, strings.Join(records, "\n"), " 8080 "+target)
		assert.Equal(t, []string{address}, s.data(target, "A"), target)
	}
}

func demoClusters(t *testing.T, s *serving) {
	for name, prefix := range map[string]string{
		"website-v1.my-ns.svc.cluster.clusterx": "192.0.2.",
		"website-v2.my-ns.svc.cluster.clustery": "198.51.100.",
		"my-svc.my-ns.svc.cluster.clusterx":     "192.0.2.",
		"my-svc.my-ns.svc.cluster.clustery":     "198.51.100.",
	} {
		addresses := s.data(name, "A")
		assert.NotEmpty(t, addresses, name)
		for _, address := range addresses {
			assert.True(t, strings.HasPrefix(address, prefix), "%s: %s", name, address)
		}
	}
	for _, name := range []string{"website-v1.my-ns.svc.cluster.clustery", "website-v2.my-ns.svc.cluster.clusterx"} {
		assert.Equal(t, "NXDOMAIN", s.ask(name, "A").Rcode(), name)
	}
}

func demoRegistered(t *testing.T, s *serving) {
	for name, want := range map[string][]string{
		"foo.mesh":   {"203.0.113.21", "203.0.113.22"},
		"bar.mesh":   {"192.0.2.31", "192.0.2.32"},
		"baz.mesh":   {"203.0.113.11", "203.0.113.12"},
		"mixed.mesh": {"192.0.2.11", "192.0.2.12", "198.51.100.11", "198.51.100.12", "203.0.113.13", "203.0.113.14"},
	} {
		assert.Equal(t, want, s.data(name, "A"), name)
	}
	for name, port := range map[string]string{"foo.mesh": "8080", "bar.mesh": "8080", "baz.mesh": "7654", "mixed.mesh": "8080"} {
		for _, record := range s.data(name, "SRV") {
			assert.Equal(t, port, strings.Fields(record)[2], "%s: %s", name, record)
		}
	}
}

func demoExplain(t *testing.T, s *serving) {
	e := s.explained("my-svc.my-ns.svc.cluster.global", "A")
	assert.Equal(t, "NOERROR", e.Rcode)
	assert.Equal(t, "cluster.global", e.Zone)
	assert.NotEmpty(t, e.Steps)
	want := map[string]bool{
		"192.0.2.11": true, "192.0.2.12": true, "192.0.2.13": false,
		"198.51.100.11": true, "198.51.100.12": true, "198.51.100.13": false,
	}
	got := map[string]bool{}
	for _, endpoint := range e.Endpoints {
		got[endpoint.Address] = endpoint.Included
		assert.NotEmpty(t, endpoint.Reason, endpoint.Address)
		assert.Equal(t, endpoint.Included, endpoint.State == "ready", endpoint.Address)
	}
	assert.Equal(t, want, got)
	for _, name := range []string{"foo.mesh", "bar.mesh", "baz.mesh", "mixed.mesh"} {
		assert.NotEmpty(t, s.explained(name, "A").Endpoints, name)
	}
	assert.Equal(t, "NXDOMAIN", s.explained("website-v1.my-ns.svc.cluster.clustery", "A").Rcode)
}

// Every printed line is one that can be tried, for every question of the demo.
func demoPrinted(t *testing.T, s *serving) {
	printed := s.stdout.String()
	assert.Contains(t, printed, s.admin)
	for _, q := range demo.Questions() {
		line := fmt.Sprintf("dig @127.0.0.1 -p %d %s %s", s.dns.Port(), q.Name, q.Type)
		assert.Contains(t, printed, line)
		want := "NOERROR"
		if strings.Contains(q.About, "NXDOMAIN") {
			want = "NXDOMAIN"
		}
		reply := s.ask(q.Name, q.Type)
		assert.Equal(t, want, reply.Rcode(), q.Name)
		assert.Equal(t, want == "NOERROR", len(reply.Answer()) > 0, q.Name)
	}
}

func demoAdmin(t *testing.T, s *serving) {
	assert.Equal(t, 200, s.get("/readyz", nil, nil))
	var list []api.Source
	assert.Equal(t, 200, s.get("/api/v1/sources", nil, &list))
	var found []string
	for _, source := range list {
		assert.Equal(t, api.Fresh, source.State, source.Name)
		found = append(found, source.Name)
	}
	for _, name := range []string{"clusterx", "clustery", "registryDir"} {
		assert.Contains(t, found, name)
	}
	var page api.Services
	assert.Equal(t, 200, s.get("/api/v1/services", url.Values{"zone": {"mesh"}}, &page))
	var services []string
	for _, service := range page.Items {
		services = append(services, service.Name)
	}
	assert.Equal(t, []string{"bar.mesh", "baz.mesh", "foo.mesh", "mixed.mesh"}, services)
	assert.Empty(t, page.Next)
	metrics := s.metrics()
	for _, want := range []string{
		`meshdns_source_up{source="clusterx"} 1`, "meshdns_config_valid 1", "meshdns_panics_total 0",
		`meshdns_endpoints{cluster="clusterx",state="notReady"} 1`,
		`meshdns_requests_total{proto="udp",rcode="NXDOMAIN",type="A",zone="cluster.clustery"}`,
		"meshdns_request_duration_seconds_count",
	} {
		assert.Contains(t, metrics, want)
	}
}

// The demo's documents are gone when it ends.
func TestDemoLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := startServe(t, "--demo")
	entries, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	assert.Equal(t, 0, s.stop(syscall.SIGINT))
	entries, err = os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	assert.Empty(t, entries)
}
