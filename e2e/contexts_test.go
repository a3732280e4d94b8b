package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// TestContextsWithoutConfig starts the product with nothing but a kubeconfig (DESIGN
// section 5: no config at all).
func TestContextsWithoutConfig(t *testing.T) {
	west, east := clusters(t)
	need(t, harness.Meshdns)
	ns := namespace(t, "contexts", west, east)
	put(t, west, api(ns, "http:8080", harness.Ready("192.0.2.1")...)...)
	put(t, east, api(ns, "http:8080", harness.Ready("198.51.100.1")...)...)
	ips, err := west.ClusterIPs(t.Context(), ns, "api")
	require.NoError(t, err)
	const global = "api.contexts.svc.cluster.global A"

	t.Run("federated", func(t *testing.T) {
		s := asked(startReady(t, inUse(t, nil, west.Context("west"), east.Context("east"))))
		s.all(t,
			"api.contexts.svc.cluster.west A = "+ips[0], // the current context is the site
			"api.contexts.svc.cluster.east A = 198.51.100.1",
			global+" = NXDOMAIN") // clusters that share a file need not share names
	})
	t.Run("cluster set", func(t *testing.T) {
		s := asked(startReady(t, inUse(t, []string{"--clusterset", "west,east"}, west.Context("west"), east.Context("east"))))
		s.all(t,
			global+" = 192.0.2.1, 198.51.100.1",
			"api.contexts.svc.cluster.west A = "+ips[0],
			"api.contexts.svc.cluster.east A = 198.51.100.1")
	})
	t.Run("part of a cluster set", func(t *testing.T) {
		s := asked(startReady(t, inUse(t, []string{"--clusterset", "east"}, west.Context("west"), east.Context("east"))))
		s.all(t, global+" = 198.51.100.1", "api.contexts.svc.cluster.west A = "+ips[0])
	})
	t.Run("names of contexts", func(t *testing.T) {
		s := asked(startReady(t, inUse(t, []string{"--clusterset", "West_1,admin@East"}, west.Context("West_1"), east.Context("admin@East"))))
		s.all(t,
			global+" = 192.0.2.1, 198.51.100.1",
			"api.contexts.svc.cluster.west-1 A = "+ips[0],
			"api.contexts.svc.cluster.admin-east A = 198.51.100.1")
	})
	t.Run("one server twice", func(t *testing.T) {
		mesh := startReady(t, inUse(t, nil, west.Context("west"), east.Context("east"), west.Context("zz-again")))
		_, body, err := mesh.Get("/api/v1/sources")
		require.NoError(t, err)
		var sources []struct{ Name, State string }
		require.NoError(t, json.Unmarshal([]byte(body), &sources), body)
		require.Len(t, sources, 2, body)
	})
	t.Run("colliding names", func(t *testing.T) {
		mesh := startMeshdns(t, inUse(t, nil, west.Context("a_b"), east.Context("a-b")))
		ends(t, mesh, "a_b", "a-b")
	})
	t.Run("no kubeconfig", func(t *testing.T) {
		ends(t, startMeshdns(t, harness.Product{}), "--demo") // its home is an empty folder
	})
}

// inUse is the product with a kubeconfig of the given contexts in use and no config.
func inUse(t *testing.T, args []string, contexts ...harness.Context) harness.Product {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(path, contexts...))
	return harness.Product{Args: args, Env: []string{"KUBECONFIG=" + path}}
}

// ends waits for the product to end by itself with an error that has all the words.
func ends(t *testing.T, mesh *harness.MeshdnsServer, words ...string) {
	t.Helper()
	require.NoError(t, mesh.WaitEnd(t.Context(), settles))
	require.NotZero(t, mesh.Exit())
	for _, word := range words {
		require.Contains(t, mesh.Tail(20), word)
	}
}
