package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// settles bounds how long a change may take to show in tests that are not about speed.
const settles = 10 * time.Second

// lab is what all tests share: one etcd and the clusters west and east. It is made when
// the first test needs it and lives until the last has run.
type lab struct {
	env *harness.Env

	mu       sync.Mutex
	etcd     *harness.EtcdServer
	clusters map[string]*harness.APIServer
}

var shared *lab

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	env, err := harness.New(os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() {
		if err := env.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop:", err)
		}
	}()
	shared = &lab{env: env, clusters: map[string]*harness.APIServer{}}
	return m.Run()
}

// need skips the test where a program is missing, or fails it where CI=true. A product
// that does not build is a failure everywhere.
func need(t *testing.T, tools ...harness.Tool) {
	t.Helper()
	for _, tool := range tools {
		_, err := shared.env.Binary(tool)
		if harness.IsMissing(err) && os.Getenv("CI") != "true" {
			t.Skipf("SKIPPED, since %v", err)
		}
		require.NoError(t, err)
	}
}

// clusters gives the shared clusters west and east, started at the first call.
func clusters(t *testing.T) (west, east *harness.APIServer) {
	t.Helper()
	need(t, harness.Etcd, harness.KubeAPIServer)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if len(shared.clusters) == 0 {
		start := time.Now()
		require.NoError(t, shared.start(t.Context(), "west", "east"))
		t.Logf("two API servers ready after %s", time.Since(start).Round(time.Millisecond))
	}
	west, east = shared.clusters["west"], shared.clusters["east"]
	for _, cluster := range []*harness.APIServer{west, east} {
		logOnFailure(t, cluster.Process())
	}
	return west, east
}

// start starts API servers at the same time, and etcd before the first.
func (l *lab) start(ctx context.Context, names ...string) error {
	if err := l.startEtcd(ctx); err != nil {
		return err
	}
	made := make([]*harness.APIServer, len(names))
	failed := make(chan error, len(names))
	for i, name := range names {
		server, err := l.env.NewAPIServer(name, l.etcd)
		if err != nil {
			return err
		}
		made[i] = server
		go func() { failed <- server.Start(ctx) }()
	}
	for range names {
		if err := <-failed; err != nil {
			return err
		}
	}
	for _, server := range made {
		l.clusters[server.Name] = server
	}
	return nil
}

func (l *lab) startEtcd(ctx context.Context) (err error) {
	if l.etcd == nil {
		l.etcd, err = l.env.StartEtcd(ctx)
	}
	return err
}

// newCluster makes a cluster of this test's own, not yet started. Its data are new even
// where a test of the same name ran before.
func newCluster(t *testing.T, name string) *harness.APIServer {
	t.Helper()
	need(t, harness.Etcd, harness.KubeAPIServer)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	require.NoError(t, shared.startEtcd(t.Context()))
	server, err := shared.env.NewAPIServer(name, shared.etcd)
	require.NoError(t, err)
	t.Cleanup(func() {
		server.Kill()
		logNow(t, server.Process())
	})
	return server
}

// startCluster starts a cluster that newCluster has made.
func startCluster(t *testing.T, server *harness.APIServer) {
	t.Helper()
	require.NoError(t, server.Start(t.Context()))
}

// namespace makes a namespace of this test's own in clusters, and drops it at the end.
func namespace(t *testing.T, name string, in ...*harness.APIServer) string {
	t.Helper()
	for _, cluster := range in {
		require.NoError(t, cluster.PutNamespace(t.Context(), name))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), settles)
			defer cancel()
			if err := cluster.DropNamespace(ctx, name); err != nil {
				t.Errorf("clean up: %v", err)
			}
		})
	}
	return name
}

// startMeshdns starts the product, which is stopped at the test's end and then has to
// end well, unless it has ended before.
func startMeshdns(t *testing.T, product harness.Product) *harness.MeshdnsServer {
	t.Helper()
	need(t, harness.Meshdns)
	server, err := shared.env.StartMeshdns(product)
	require.NoError(t, err)
	logOnFailure(t, server.Process)
	t.Cleanup(func() {
		if server.Ended() {
			return
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		if exit := server.Exit(); exit != 0 {
			t.Errorf("exit status %d after SIGTERM", exit)
		}
	})
	return server
}

// startReady is startMeshdns and the wait until it is ready.
func startReady(t *testing.T, product harness.Product) *harness.MeshdnsServer {
	t.Helper()
	server := startMeshdns(t, product)
	require.NoError(t, server.WaitReady(t.Context(), settles))
	return server
}

// startCoreDNS starts a CoreDNS, which is stopped at the test's end.
func startCoreDNS(t *testing.T, corefile func(harness.CoreDNSPorts) string) *harness.CoreDNSServer {
	t.Helper()
	need(t, harness.CoreDNS)
	server, err := shared.env.StartCoreDNS(t.Context(), corefile)
	require.NoError(t, err)
	logOnFailure(t, server.Process)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// startUpstream starts the rest of the world with these records.
func startUpstream(t *testing.T, records ...string) *harness.Upstream {
	t.Helper()
	upstream, err := harness.StartUpstream(records...)
	require.NoError(t, err)
	t.Cleanup(upstream.Close)
	return upstream
}

// config is a configuration of the given clusters, the first of which is the site, and
// whatever YAML is to follow.
func config(rest string, members ...*harness.APIServer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "site: %s\nclusters:\n", members[0].Name)
	for _, member := range members {
		fmt.Fprintf(&b, "- {name: %s, kubeconfig: %q}\n", member.Name, member.Kubeconfig)
	}
	return b.String() + rest
}

// logOnFailure shows the end of a process's log when the test fails.
func logOnFailure(t *testing.T, p *harness.Process) {
	t.Helper()
	t.Cleanup(func() { logNow(t, p) })
}

func logNow(t *testing.T, p *harness.Process) {
	if t.Failed() && p != nil {
		t.Logf("the log of %s ends:\n%s", p.Name, p.Tail(40))
	}
}

// put makes or replaces Services and Slices in a cluster.
func put(t *testing.T, cluster *harness.APIServer, objects ...any) {
	t.Helper()
	for _, object := range objects {
		var err error
		switch object := object.(type) {
		case harness.Service:
			err = cluster.PutService(t.Context(), object)
		case harness.Slice:
			err = cluster.PutSlice(t.Context(), object)
		default:
			err = fmt.Errorf("put: %T is neither a Service nor a Slice", object)
		}
		require.NoError(t, err)
	}
}
