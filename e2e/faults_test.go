package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

const (
	// reconnects bounds the time until a cluster that is back is seen to be: clients back
	// off up to half a minute while it is away.
	reconnects = 60 * time.Second

	edeStale    = dns.ExtendedErrorCodeStaleAnswer
	edeNotReady = dns.ExtendedErrorCodeNotReady
)

// TestStartWithOneClusterUnreachable is FAULTS 3: nothing waits for the missing cluster
// but what only it could know, and it needs no restart once it is there.
func TestStartWithOneClusterUnreachable(t *testing.T) {
	west, east := clusters(t)
	north := newCluster(t, "north") // its port is dead
	ns := namespace(t, "start", west, east)
	put(t, west, api(ns, "http:8080", harness.Ready("192.0.2.1")...)...)
	put(t, east, api(ns, "http:8080", harness.Ready("198.51.100.1")...)...)

	mesh := startMeshdns(t, harness.Product{Config: config("", west, east, north)})
	took, err := mesh.WaitListening(t.Context(), settles)
	require.NoError(t, err)
	t.Logf("answering %s after the start of the process", took.Round(time.Millisecond))
	require.LessOrEqual(t, took, time.Second)

	s := asked(mesh)
	s.all(t,
		"api.start.svc.cluster.global A = 192.0.2.1, 198.51.100.1",
		"api.start.svc.cluster.east A = 198.51.100.1",
		"none.start.svc.cluster.west A = NXDOMAIN",
		"none.start.svc.cluster.east A = NXDOMAIN",
		"absent.mesh A = NXDOMAIN", // waits for registries only, and there is none
		"a.b.c.d.svc.cluster.global A = NXDOMAIN")
	s.notReady(t, "none.start.svc.cluster.global A", "none.start.svc.cluster.global AAAA",
		"none.other.svc.cluster.global SRV", "api.start.svc.cluster.north A")
	status, body, err := mesh.Get("/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "north")
	require.NotContains(t, body, "east")

	startCluster(t, north)
	namespace(t, ns, north)
	put(t, north, api(ns, "http:8080", harness.Ready("203.0.113.1")...)...)
	start := time.Now()
	s.within(t, reconnects, "api.start.svc.cluster.global A", "192.0.2.1, 198.51.100.1, 203.0.113.1")
	t.Logf("the cluster was served %s after its slice was written", time.Since(start).Round(time.Millisecond))
	s.all(t,
		"api.start.svc.cluster.north A = 203.0.113.1",
		"none.start.svc.cluster.north A = NXDOMAIN",
		"none.start.svc.cluster.global A = NXDOMAIN")
	require.NoError(t, mesh.WaitReady(t.Context(), settles))
}

// notReady asserts SERVFAIL with the reason, over and over for a while: nothing may say
// in between that such a name does not exist.
func (s server) notReady(t *testing.T, questions ...string) {
	t.Helper()
	err := harness.Hold(t.Context(), time.Second, func() error {
		for _, question := range questions {
			reply := s.ask(t, question)
			if got := harness.Summary(reply); got != "SERVFAIL" {
				return fmt.Errorf("%s is %s, not SERVFAIL", question, got)
			}
			if !slices.Contains(harness.ExtendedErrors(reply), edeNotReady) {
				return fmt.Errorf("%s has no EDE 14: %v", question, reply.Extra)
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// within is eventually with another deadline, over UDP.
func (s server) within(t *testing.T, deadline time.Duration, question, want string) {
	t.Helper()
	q := parse(t, question)
	if err := harness.Poll(t.Context(), deadline, func() error { return s.check(q, want) }); err != nil {
		s.fail(t, q, err)
	}
}

// stale waits until the answer of a question says, or no longer says, that it is stale.
func (s server) stale(t *testing.T, deadline time.Duration, question string, want bool) {
	t.Helper()
	err := harness.Poll(t.Context(), deadline, func() error {
		reply := s.ask(t, question)
		if slices.Contains(harness.ExtendedErrors(reply), edeStale) != want {
			return fmt.Errorf("%s: EDE 3 is %v\n%s", question, !want, reply)
		}
		return nil
	})
	require.NoError(t, err)
}

// TestClusterDies is FAULTS 1: an API server that dies takes no answer with it.
func TestClusterDies(t *testing.T) {
	west, _ := clusters(t)
	north := newCluster(t, "north")
	startCluster(t, north)
	ns := namespace(t, "dies", west, north)
	put(t, west, api(ns, "http:8080", harness.Ready("192.0.2.1")...)...)
	put(t, north, api(ns, "http:8080", harness.Ready("203.0.113.1")...)...)
	put(t, north,
		harness.Service{Namespace: ns, Name: "only", Headless: true, Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "only-1", Service: "only", Ports: []string{"http:80"}, Endpoints: harness.Ready("203.0.113.2")})
	put(t, west,
		harness.Service{Namespace: ns, Name: "here", Headless: true, Ports: []string{"http:80"}},
		harness.Slice{Namespace: ns, Name: "here-1", Service: "here", Ports: []string{"http:80"}, Endpoints: harness.Ready("192.0.2.2")})
	mesh := startReady(t, harness.Product{Config: config("", west, north)})
	s := asked(mesh)
	all := []watched{
		{"api.dies.svc.cluster.global A", "192.0.2.1, 203.0.113.1"},
		{"only.dies.svc.cluster.global A", "203.0.113.2"},
		{"here.dies.svc.cluster.global A", "192.0.2.2"},
		{"api.dies.svc.cluster.north A", "203.0.113.1"},
		{"_http._tcp.only.dies.svc.cluster.north SRV", "80 203-0-113-2.only.dies.svc.cluster.north"},
		{"none.dies.svc.cluster.west A", "NXDOMAIN"},
	}
	for _, one := range all {
		s.eventually(t, one.question, one.want)
	}
	s.stale(t, settles, "api.dies.svc.cluster.global A", false)

	watch := watchAll(t, mesh.DNS, all...)
	killed := time.Now()
	north.Kill()
	s.stale(t, 30*time.Second, "api.dies.svc.cluster.global A", true)
	t.Logf("answers say that they are stale %s after the API server died", time.Since(killed).Round(time.Millisecond))
	s.stale(t, settles, "only.dies.svc.cluster.north A", true)
	s.stale(t, settles, "here.dies.svc.cluster.west A", false) // others are as they were
	require.Regexp(t, `(?m)^meshdns_source_up\{[^}]*north[^}]*\} 0$`, metrics(t, mesh))
	require.NoError(t, harness.Poll(t.Context(), settles, func() error { return watch.reached(10_000) }))
	t.Logf("%d queries while it was dead, all answered as before", watch.stop(t))

	startCluster(t, north)
	s.stale(t, reconnects, "api.dies.svc.cluster.global A", false)
	require.Regexp(t, `(?m)^meshdns_source_up\{[^}]*north[^}]*\} 1$`, metrics(t, mesh))
}

func metrics(t *testing.T, mesh *harness.MeshdnsServer) string {
	t.Helper()
	status, body, err := mesh.Get("/metrics")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	return body
}

// cutOff is the product that reaches its second cluster, east, through a proxy.
func cutOff(t *testing.T, west, east *harness.APIServer) (server, *harness.Proxy) {
	t.Helper()
	proxy, err := harness.NewProxy(east.Port)
	require.NoError(t, err)
	t.Cleanup(proxy.Cut)
	dir, err := shared.env.Folder("through-proxy")
	require.NoError(t, err)
	through := *east
	through.Kubeconfig = filepath.Join(dir, "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(through.Kubeconfig, east.ContextThrough(proxy, "east")))
	mesh := startReady(t, harness.Product{Config: config("", west, &through)})
	return asked(mesh), proxy
}

// TestChangedWhileDisconnected is FAULTS 9: what was deleted, changed and made while the
// network was away is so when it is back, and nothing else moves.
func TestChangedWhileDisconnected(t *testing.T) {
	west, east := clusters(t)
	ns := namespace(t, "cut", west, east)
	service := func(name string) harness.Service {
		return harness.Service{Namespace: ns, Name: name, Headless: true, Ports: []string{"http:80"}}
	}
	slice := func(name, address string) harness.Slice {
		return harness.Slice{Namespace: ns, Name: name, Service: name, Ports: []string{"http:80"}, Endpoints: harness.Ready(address)}
	}
	put(t, east, service("gone"), slice("gone", "198.51.100.1"), service("moved"), slice("moved", "198.51.100.2"), service("kept"), slice("kept", "198.51.100.3"))
	s, proxy := cutOff(t, west, east)
	before := []string{
		"gone.cut.svc.cluster.global A = 198.51.100.1",
		"moved.cut.svc.cluster.global A = 198.51.100.2",
	}
	s.all(t, before...)
	watch := watchAll(t, s.addr, watched{"kept.cut.svc.cluster.global A", "198.51.100.3"}, watched{"kept.cut.svc.cluster.east A", "198.51.100.3"})

	proxy.Cut()
	require.NoError(t, east.DeleteService(t.Context(), ns, "gone"))
	require.NoError(t, east.DeleteSlice(t.Context(), ns, "gone"))
	put(t, east, slice("moved", "198.51.100.20"), service("new"), slice("new", "198.51.100.4"))
	s.stale(t, 30*time.Second, "moved.cut.svc.cluster.global A", true)
	s.all(t, before...)
	require.NoError(t, proxy.Restore())
	start := time.Now()
	s.within(t, reconnects, "gone.cut.svc.cluster.global A", "NXDOMAIN")
	t.Logf("caught up %s after the network was back", time.Since(start).Round(time.Millisecond))
	s.all(t,
		"gone.cut.svc.cluster.east A = NXDOMAIN",
		"moved.cut.svc.cluster.global A = 198.51.100.20",
		"new.cut.svc.cluster.global A = 198.51.100.4")

	s.unchangedReconnect(t, proxy)
	t.Logf("%d queries for what had not changed, all answered as before", watch.stop(t))
}

// unchangedReconnect cuts and restores without any change: the zone stays as it is.
func (s server) unchangedReconnect(t *testing.T, proxy *harness.Proxy) {
	t.Helper()
	s.stale(t, settles, "kept.cut.svc.cluster.east A", false)
	serial := s.settledSerial(t, "cluster.east")
	proxy.Cut()
	s.stale(t, 30*time.Second, "kept.cut.svc.cluster.east A", true)
	require.NoError(t, proxy.Restore())
	s.stale(t, reconnects, "kept.cut.svc.cluster.east A", false)
	require.Equal(t, serial, s.settledSerial(t, "cluster.east"), "the serial after a reconnect without changes")
}

// settledSerial is a zone's serial once it has held for longer than the second that a
// change may have to wait for its own.
func (s server) settledSerial(t *testing.T, zone string) (serial uint32) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), settles, func() error {
		serial = s.serial(t, zone)
		return harness.Hold(t.Context(), 1500*time.Millisecond, func() error {
			if now := s.serial(t, zone); now != serial {
				return fmt.Errorf("the serial of %s went from %d to %d", zone, serial, now)
			}
			return nil
		})
	}))
	return serial
}

func (s server) serial(t *testing.T, zone string) uint32 {
	t.Helper()
	reply := s.ask(t, zone+" SOA")
	require.Len(t, reply.Answer, 1)
	return reply.Answer[0].(*dns.SOA).Serial
}

// TestFrozenWatch is FAULTS 8: a connection that goes silent without a reset is found and
// renewed within a minute. It takes most of that minute.
func TestFrozenWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: takes up to a minute")
	}
	west, east := clusters(t)
	ns := namespace(t, "frozen", west, east)
	put(t, east, api(ns, "http:8080", harness.Ready("198.51.100.1")...)...)
	s, proxy := cutOff(t, west, east)
	s.eventually(t, "api.frozen.svc.cluster.global A", "198.51.100.1")

	proxy.Freeze()
	put(t, east, api(ns, "http:8080", harness.Ready("198.51.100.2")...)...)
	start := time.Now()
	s.within(t, time.Minute, "api.frozen.svc.cluster.global A", "198.51.100.2")
	t.Logf("found and renewed %s after the freeze", time.Since(start).Round(time.Millisecond))
}
