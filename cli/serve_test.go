package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources/dns"
)

// folder is a configuration with its documents and manifests.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T, files map[string]string) folder {
	f := folder{t: t, dir: t.TempDir()}
	for name, content := range files {
		f.write(name, content)
	}
	return f
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// write replaces a file in one step, as editors and ConfigMaps do.
func (f folder) write(name, content string) {
	f.t.Helper()
	path := f.path(name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(f.t, os.WriteFile(path+".new~", []byte(content), 0o644))
	require.NoError(f.t, os.Rename(path+".new~", path))
}

// headless are a headless service of one endpoint and its slice.
func headless(name, address string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: shop, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
`, name, address)
}

const (
	westOnly = "site: west\nclusters: [{name: west, manifests: west}]\n"
	westEast = "site: west\nclusters: [{name: west, manifests: west}, {name: east, manifests: east}]\n"
)

func twoClusters(t *testing.T, config string) folder {
	return newFolder(t, map[string]string{
		"meshdns.yaml":  config,
		"west/api.yaml": headless("api", "192.0.2.1"),
		"east/api.yaml": headless("api", "198.51.100.1"),
		"new/api.yaml":  headless("cart", "203.0.113.1"),
	})
}

// eventually waits until a state is there; whatever ends the wait early is the state.
func eventually(t *testing.T, what string, there func() bool) {
	t.Helper()
	require.Eventually(t, there, 20*time.Second, 2*time.Millisecond, what)
}

func (s *serving) answers(name string, want ...string) func() bool {
	return func() bool {
		reply := s.ask(name, "A")
		var got []string
		for _, record := range reply.Answer() {
			got = append(got, record.Data)
		}
		return reply.Rcode() == "NOERROR" && assert.ObjectsAreEqual(len(want), len(got)) && contains(got, want)
	}
}

func contains(got, want []string) bool {
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			return false
		}
	}
	return true
}

const global = "api.shop.svc.cluster.global"

// Clusters come and go with the configuration, as one step, without a restart (CASES
// C116, C136); a cluster that moves elsewhere hands over.
func TestConfigurationIsTakenUpLive(t *testing.T) {
	f := twoClusters(t, westOnly)
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	eventually(t, "the first cluster", s.answers(global, "192.0.2.1"))

	f.write("meshdns.yaml", westEast)
	eventually(t, "a cluster added", s.answers(global, "192.0.2.1", "198.51.100.1"))
	assert.Equal(t, []string{"198.51.100.1"}, s.data("api.shop.svc.cluster.east", "A"))

	f.write("meshdns.yaml", strings.Replace(westEast, "manifests: east", "manifests: new", 1))
	eventually(t, "a cluster read from elsewhere", s.answers("cart.shop.svc.cluster.east", "203.0.113.1"))
	eventually(t, "what only the old place had", s.answers(global, "192.0.2.1"))
	assert.Equal(t, "NXDOMAIN", s.ask("api.shop.svc.cluster.east", "A").Rcode())

	f.write("meshdns.yaml", westOnly)
	eventually(t, "a cluster removed", func() bool { return s.ask("api.shop.svc.cluster.east", "A").Rcode() == "REFUSED" })
	assert.Equal(t, "NXDOMAIN", s.ask("cart.shop.svc.cluster.global", "A").Rcode())
	var list []api.Source
	s.get("/api/v1/sources", nil, &list)
	require.Len(t, list, 1)
	assert.Equal(t, "west", list[0].Name)
	assert.NotContains(t, s.metrics(), `source="east"`)

	f.write("meshdns.yaml", westOnly+"defaults: {ttl: 7s}\nzones: {global: all.example.}\n")
	eventually(t, "another zone name", s.answers("api.shop.svc.all.example", "192.0.2.1"))
	assert.Equal(t, uint32(7), s.ask("api.shop.svc.all.example", "A").Answer()[0].TTL)
	assert.Equal(t, "REFUSED", s.ask(global, "A").Rcode())
}

// A bad configuration changes nothing, is logged and counted; the admin API and its
// counters live through all of it (CASES C188).
func TestBadConfigurationChangesNothing(t *testing.T) {
	f := twoClusters(t, westEast)
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	eventually(t, "both clusters", s.answers(global, "192.0.2.1", "198.51.100.1"))
	assert.Contains(t, s.metrics(), "meshdns_config_valid 1\n")

	next := 0
	refused := func(content string, texts ...string) {
		f.write("meshdns.yaml", content)
		_, next = s.stderr.await(next, "changed configuration refused")
		var line string
		line, next = s.stderr.await(next-1, texts...)
		assert.NotEmpty(t, line, texts)
		eventually(t, "metric", func() bool { return strings.Contains(s.metrics(), "meshdns_config_valid 0\n") })
		assert.True(t, s.answers(global, "192.0.2.1", "198.51.100.1")())
		assert.Equal(t, 200, s.get("/readyz", nil, nil), "C116: no readiness change")
	}
	refused("clusters: [{name: west, manifest: west}]\n", "clusters[0].manifest", "unknown field")
	refused("\n", "the configuration file is empty")
	s.signals <- syscall.SIGHUP
	_, next = s.stderr.await(next, "changed configuration refused", "is empty") // who asks is told again

	require.NoError(t, os.Remove(f.path("meshdns.yaml")))
	_, next = s.stderr.await(next, "changed configuration refused", "no such file")

	f.write("meshdns.yaml", westOnly)
	eventually(t, "a good one again", s.answers(global, "192.0.2.1"))
	eventually(t, "metric", func() bool { return strings.Contains(s.metrics(), "meshdns_config_valid 1\n") })
	assert.Contains(t, s.metrics(), `meshdns_config_reloads_total{result="refused"} 4`)
	assert.Contains(t, s.metrics(), `meshdns_config_reloads_total{result="taken"} 1`)
}

func TestHangupReadsAgain(t *testing.T) {
	f := twoClusters(t, westOnly)
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	s.signals <- syscall.SIGHUP
	line, _ := s.stderr.await(0, "configuration taken up")
	assert.NotEmpty(t, line)
}

func TestListenNeedsARestart(t *testing.T) {
	f := twoClusters(t, westOnly)
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	at := s.dns

	// Flags stand over the file: nothing changes.
	f.write("meshdns.yaml", westOnly+"listen: {dns: ['127.0.0.1:5399']}\ndefaults: {ttl: 9s}\n")
	_, next := s.stderr.await(0, "configuration taken up")
	assert.NotContains(t, s.stderr.String(), "at the next start only")
	assert.Equal(t, at, s.dns)

	f.write("meshdns.yaml", westOnly+"staleness: {keepShared: 1m}\n")
	line, _ := s.stderr.await(next-2, "at the next start only", "staleness.keepShared")
	assert.NotEmpty(t, line)

	f.write("meshdns.yaml", westOnly+"listen: {workers: 3, batch: 64}\n")
	for _, field := range []string{"listen.workers", "listen.batch"} {
		line, _ := s.stderr.await(next-2, "at the next start only", field)
		assert.NotEmpty(t, line)
	}
}

// Each address has as many UDP sockets as the configuration says.
func TestServeOpensASocketForEachWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere an address has one socket")
	}
	f := twoClusters(t, westOnly+"listen: {workers: 5, batch: 2}\n")
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	port := s.dns.Port()
	sockets, err := os.ReadFile("/proc/net/udp")
	require.NoError(t, err)
	assert.Equal(t, 5, strings.Count(string(sockets), fmt.Sprintf(": 0100007F:%04X ", port)), string(sockets))
	eventually(t, "all of them answer", s.answers(global, "192.0.2.1"))
}

// FAULTS 17: many changes under load lose no question and leak nothing.
func TestReloadsUnderLoad(t *testing.T) {
	f := twoClusters(t, westOnly)
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	eventually(t, "the first cluster", s.answers(global, "192.0.2.1"))
	asked, stop := askAlways(t, s)

	before := 0
	const reloads = 200
	for i := range reloads {
		config := westOnly
		if i%2 == 0 {
			config = westEast
		}
		f.write("meshdns.yaml", fmt.Sprintf("%sdefaults: {ttl: %ds}\n", config, i+1))
		eventually(t, "taken up", func() bool {
			answer := s.ask(global, "A").Answer()
			return len(answer) > 0 && answer[0].TTL == uint32(i+1)
		})
		if i == 3 {
			before = runtime.NumGoroutine()
		}
	}
	stop()
	assert.Positive(t, asked.Load())
	t.Logf("%d reloads, %d questions, all answered", reloads, asked.Load())
	eventually(t, fmt.Sprintf("no more goroutines than the %d before", before), func() bool { return runtime.NumGoroutine() <= before })
}

// askAlways asks for the first cluster's service without a pause until stop is called;
// a question that gets no good answer fails the test.
func askAlways(t *testing.T, s *serving) (asked *atomic.Int64, stop func()) {
	t.Helper()
	asked = &atomic.Int64{}
	done := make(chan struct{})
	var askers sync.WaitGroup
	for range 2 {
		askers.Go(func() {
			client := dns.NewClient(dns.ClientConfig{Timeout: 5 * time.Second})
			q := dns.Question{Name: names.MustParse("api.shop.svc.cluster.west"), Type: 1}
			for {
				select {
				case <-done:
					return
				default:
				}
				reply, err := client.Exchange(context.Background(), q, s.dns)
				if !assert.NoError(t, err) || !assert.Equal(t, "NOERROR", reply.Rcode()) {
					return
				}
				asked.Add(1)
			}
		})
	}
	return asked, func() { close(done); askers.Wait() }
}

// CASES C115, FAULTS 18: SIGTERM under load. Not ready first, every question is answered
// while it drains, the exit code is 0.
func TestStopLosesNothing(t *testing.T) {
	f := twoClusters(t, westOnly)
	s := startServe(t, "--config", f.path("meshdns.yaml"), "--drain", "1h")
	eventually(t, "ready", func() bool { return s.get("/readyz", nil, nil) == 200 })
	asked, stop := askAlways(t, s)

	s.signals <- syscall.SIGTERM
	var state admin.State
	eventually(t, "not ready", func() bool { return s.get("/readyz", nil, &state) == http.StatusServiceUnavailable })
	assert.Equal(t, admin.State{Stopping: true, Waiting: []string{}}, state)
	assert.Equal(t, 200, s.get("/healthz", nil, nil))
	since := asked.Load()
	eventually(t, "answers while it drains", func() bool { return asked.Load() > since+100 })
	stop()
	assert.Equal(t, 0, s.stop(syscall.SIGTERM), "a second signal ends the drain")
	_, err := net.Dial("tcp", s.dns.String())
	assert.Error(t, err)
}

func TestReadyzWaits(t *testing.T) {
	f := twoClusters(t, "clusters: [{name: west, manifests: west}, {name: north, kubeconfig: north.kubeconfig}]\nsite: west\n")
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	eventually(t, "the cluster that is there", s.answers("api.shop.svc.cluster.west", "192.0.2.1"))
	var state admin.State
	assert.Equal(t, 503, s.get("/readyz", nil, &state))
	assert.Equal(t, admin.State{Waiting: []string{"north"}}, state)
	assert.Equal(t, "SERVFAIL", s.ask("absent.shop.svc.cluster.global", "A").Rcode())
	assert.Equal(t, "SERVFAIL", s.ask("api.shop.svc.cluster.north", "A").Rcode())
	assert.Contains(t, s.metrics(), `meshdns_source_up{source="north"} 0`)
}

func TestPortsAreTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()

	got := run(t, "serve", "--demo", "--listen", address, "--admin", "127.0.0.1:0")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "listen on "+address+" over TCP: ")
	assert.Contains(t, got.stderr, "(--listen chooses another address)")

	got = run(t, "serve", "--demo", "--listen", "127.0.0.1:0", "--admin", address)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "address already in use (--admin chooses another address)")
	assert.Empty(t, got.stdout)
}

func TestServeWithoutAnything(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	got := run(t, "serve")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "meshdns serve --demo")
	assert.Contains(t, got.stderr, "no --config")
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: West
clusters:
- {name: w, cluster: {server: "http://127.0.0.1:1"}}
- {name: e, cluster: {server: "http://127.0.0.1:2"}}
contexts:
- {name: West, context: {cluster: w, user: u}}
- {name: also-west, context: {cluster: w, user: u}}
- {name: east@example, context: {cluster: e, user: u}}
users:
- {name: u, user: {token: t}}
`

// DESIGN section 5, "No config at all".
func TestServeKubeconfigContexts(t *testing.T) {
	f := newFolder(t, map[string]string{"kubeconfig": kubeconfig})
	t.Setenv("KUBECONFIG", f.path("kubeconfig"))
	s := startServe(t, "--clusterset", "West")
	var state admin.State
	assert.Equal(t, 503, s.get("/readyz", nil, &state))
	assert.Equal(t, []string{"east-example", "west"}, state.Waiting)
	snapshot := s.explained("api.shop.svc.cluster.west", "A")
	assert.Equal(t, "cluster.west", snapshot.Zone)
	eventually(t, "the API server is asked", func() bool {
		var list []api.Source
		s.get("/api/v1/sources", nil, &list)
		return len(list) == 2 && list[0].LastError != "" && list[1].LastError != ""
	})
}

func TestServeUsage(t *testing.T) {
	tests := []struct{ args, stderr string }{
		{"--demo --config x", "--demo brings its own configuration"},
		{"--demo --clusterset x", "--clusterset is for a start without a configuration"},
		{"--demo --drain -1s", "--drain -1s is negative"},
		{"--demo --listen here", `--listen "here" is not an address such as 127.0.0.1:5354`},
		{"--demo --admin 9253", `--admin "9253" is not an address such as 127.0.0.1:9253`},
		{"--demo --log-level loud", `invalid argument "loud"`},
		{"--demo --log-format xml", `"xml" is neither text nor json`},
		{"extra", `unknown command "extra"`},
	}
	for _, test := range tests {
		got := run(t, append([]string{"serve"}, strings.Fields(test.args)...)...)
		assert.Equal(t, 2, got.code, test.args)
		assert.Contains(t, got.stderr, test.stderr, test.args)
	}
}

func TestServeBadConfiguration(t *testing.T) {
	f := newFolder(t, map[string]string{"meshdns.yaml": "clusters: [{name: global, manifests: x}]\nsight: west\n"})
	got := run(t, "serve", "--config", f.path("meshdns.yaml"))
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, f.path("meshdns.yaml")+":1:19: clusters[0].name")
	assert.Contains(t, got.stderr, f.path("meshdns.yaml")+":2:1: sight")

	got = run(t, "serve", "--config", f.path("absent.yaml"))
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "reading the configuration: ")
}
