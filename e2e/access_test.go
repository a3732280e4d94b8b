package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/e2e/harness"
)

// TestAccess starts the product as a user without any right: it says what it lacks. Then
// the rights that the documentation names are granted, and they are enough.
func TestAccess(t *testing.T) {
	west, east := clusters(t)
	ns := namespace(t, "access", west, east)
	put(t, west, api(ns, "http:8080", harness.Ready("192.0.2.1")...)...)
	put(t, east, api(ns, "http:8080", harness.Ready("198.51.100.1")...)...)
	dir, err := shared.env.Folder("reader")
	require.NoError(t, err)
	limited := *east
	limited.Kubeconfig = filepath.Join(dir, "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(limited.Kubeconfig, east.ReaderContext("east")))

	mesh := startMeshdns(t, harness.Product{Config: config("", west, &limited)})
	_, err = mesh.WaitListening(t.Context(), settles)
	require.NoError(t, err)
	s := asked(mesh)
	s.all(t, "api.access.svc.cluster.global A = 192.0.2.1", "none.access.svc.cluster.west A = NXDOMAIN")
	require.NoError(t, harness.Poll(t.Context(), settles, func() error { return saysForbidden(mesh) }))
	s.notReady(t, "api.access.svc.cluster.east A", "none.access.svc.cluster.global A")
	status, body, err := mesh.Get("/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "east")

	grant(t, east)
	start := time.Now()
	s.within(t, reconnects, "api.access.svc.cluster.global A", "192.0.2.1, 198.51.100.1")
	t.Logf("served %s after the rights were granted", time.Since(start).Round(time.Millisecond))
	s.all(t, "none.access.svc.cluster.global A = NXDOMAIN")
	require.NoError(t, mesh.WaitReady(t.Context(), settles))
}

// saysForbidden is nil when the source east is not synced and says why.
func saysForbidden(mesh *harness.MeshdnsServer) error {
	_, body, err := mesh.Get("/api/v1/sources")
	if err != nil {
		return err
	}
	var sources []struct{ Name, State, LastError string }
	if err := json.Unmarshal([]byte(body), &sources); err != nil {
		return harness.Final(err)
	}
	for _, source := range sources {
		if source.Name == "east" && source.State == "syncing" && strings.Contains(source.LastError, "forbidden") {
			return nil
		}
	}
	return fmt.Errorf("no source east that is syncing and says forbidden: %s", body)
}

// grant gives Reader what the product needs of a cluster, until the test's end.
func grant(t *testing.T, cluster *harness.APIServer) {
	t.Helper()
	name := metav1.ObjectMeta{Name: "meshdns"}
	verbs := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: verbs},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: harness.Reader}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}}
	rbac := cluster.Client.RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), settles)
		defer cancel()
		require.NoError(t, rbac.ClusterRoleBindings().Delete(ctx, name.Name, metav1.DeleteOptions{}))
		require.NoError(t, rbac.ClusterRoles().Delete(ctx, name.Name, metav1.DeleteOptions{}))
	})
}
