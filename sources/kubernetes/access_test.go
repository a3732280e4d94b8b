package kubernetes

import (
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
)

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path+".tmp", []byte(content), 0o600))
	require.NoError(t, os.Rename(path+".tmp", path))
}

func writeKubeconfig(t *testing.T, path string, config *clientcmdapi.Config) {
	t.Helper()
	data, err := runtime.Encode(clientcmdlatest.Codec, config)
	require.NoError(t, err)
	writeFile(t, path, string(data))
}

func TestNewRefusesWhatCanNeverWork(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := []struct {
		name string
		cfg  Config
		text string
	}{
		{"no name", Config{Kubeconfig: "x"}, "no cluster name"},
		{"no way in", Config{Name: "west"}, "cluster west: want one of"},
		{"two ways in", Config{Name: "west", Kubeconfig: "x", Manifests: "y"}, "got 2"},
		{"not in a cluster", Config{Name: "west", InCluster: true}, "in-cluster"},
	}
	for _, tc := range tests {
		_, err := New(tc.cfg)
		assert.ErrorContains(t, err, tc.text, tc.name)
	}
	_, err := New(Config{Name: "west", Kubeconfig: "not there"})
	assert.NoError(t, err)
}

func testLive(cfg Config) *live { return &live{cfg: cfg} }

func TestLoadKubeconfigErrors(t *testing.T) {
	dir := t.TempDir()
	path := func(name, content string) string {
		writeFile(t, filepath.Join(dir, name), content)
		return filepath.Join(dir, name)
	}
	good := kubeconfig(t, filepath.Join(dir, "good"), "https://one.example")
	tests := []struct {
		name string
		cfg  Config
		text string
	}{
		{"missing", Config{Kubeconfig: filepath.Join(dir, "missing")}, "no such file"},
		{"all of a list missing", Config{Kubeconfig: filepath.Join(dir, "m1") + ":" + filepath.Join(dir, "m2")}, "no contexts"},
		{"not YAML", Config{Kubeconfig: path("bad", "a: [")}, "yaml"},
		{"empty", Config{Kubeconfig: path("empty", "")}, "no contexts"},
		{"unknown context", Config{Kubeconfig: good, Context: "east"}, `context "east"`},
		{"none current", Config{Kubeconfig: path("none", "apiVersion: v1\nkind: Config\ncontexts: [{name: a, context: {cluster: c}}]\n")}, "none is current"},
		{"context without cluster", Config{Kubeconfig: path("dangling", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n")}, `context "a"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := testLive(tc.cfg).load()
			assert.ErrorContains(t, err, tc.text)
		})
	}
}

func TestLoadKubeconfigOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	one := kubeconfig(t, filepath.Join(dir, "one"), "https://one.example")
	raw, err := loadKubeconfig(one)
	require.NoError(t, err)
	other := clientcmdapi.NewConfig()
	other.Clusters["d"] = &clientcmdapi.Cluster{Server: "https://two.example"}
	other.Contexts["east"] = &clientcmdapi.Context{Cluster: "d"}
	two := filepath.Join(dir, "two")
	writeKubeconfig(t, two, other)
	require.Len(t, raw.Contexts, 1)

	list := one + string(filepath.ListSeparator) + two
	cfg, err := testLive(Config{Kubeconfig: list, Context: "east"}).load()
	require.NoError(t, err)
	assert.Equal(t, "https://two.example", cfg.Host)
	contexts, current, path, err := Contexts(list)
	require.NoError(t, err)
	assert.Equal(t, []Context{{"east", "https://two.example"}, {"west", "https://one.example"}}, contexts)
	assert.Equal(t, "west", current)
	assert.Equal(t, list, path)
}

func TestCredentialProgramsTalkToNobody(t *testing.T) {
	raw := clientcmdapi.NewConfig()
	raw.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://one.example"}
	raw.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		Command: "get-token", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
	}}
	raw.Contexts["west"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg, err := contextConfig(raw, "west")
	require.NoError(t, err)
	assert.True(t, cfg.ExecProvider.StdinUnavailable)
}

func TestContextsAsKubectl(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	_, _, _, err := Contexts("")
	assert.ErrorIs(t, err, ErrNoKubeconfig)

	inHome := filepath.Join(home, ".kube", "config")
	require.NoError(t, os.MkdirAll(filepath.Dir(inHome), 0o755))
	kubeconfig(t, inHome, "https://home.example")
	contexts, current, path, err := Contexts("")
	require.NoError(t, err)
	assert.Equal(t, []Context{{"west", "https://home.example"}}, contexts)
	assert.Equal(t, "west", current)
	assert.Equal(t, inHome, path)

	elsewhere := kubeconfig(t, filepath.Join(home, "other"), "https://other.example")
	t.Setenv("KUBECONFIG", elsewhere)
	contexts, _, path, err = Contexts("")
	require.NoError(t, err)
	assert.Equal(t, "https://other.example", contexts[0].Server)
	assert.Equal(t, elsewhere, path)

	_, _, _, err = Contexts(filepath.Join(home, "missing"))
	assert.ErrorContains(t, err, "no such file")
}

func TestBrokenAccessIsAnError(t *testing.T) {
	raw := clientcmdapi.NewConfig()
	raw.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://one.example", CertificateAuthorityData: []byte("rubbish")}
	raw.Contexts["west"] = &clientcmdapi.Context{Cluster: "c"}
	path := filepath.Join(t.TempDir(), "config")
	writeKubeconfig(t, path, raw)
	r := runConfig(t, Config{Kubeconfig: path})
	r.untilError(t, "access to the cluster")
	assert.False(t, r.status().Synced)
}

// What the kubeconfig names may come later than the kubeconfig.
func TestAccessIsTriedAgain(t *testing.T) {
	api := newFakeAPI(t, newService("api")).start(true)
	dir := t.TempDir()
	raw := clientcmdapi.NewConfig()
	raw.Clusters["c"] = &clientcmdapi.Cluster{Server: api.server.URL, CertificateAuthority: filepath.Join(dir, "ca.crt")}
	raw.Contexts["west"] = &clientcmdapi.Context{Cluster: "c"}
	raw.CurrentContext = "west"
	path := filepath.Join(dir, "config")
	writeKubeconfig(t, path, raw)
	r := runConfig(t, Config{Kubeconfig: path})
	r.untilError(t, "ca.crt")
	writeFile(t, filepath.Join(dir, "ca.crt"), authority(api))
	r.untilSynced(t).untilText(t, "shop/api ")
}

// authority is the certificate of a fake API server.
func authority(api *fakeAPI) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.server.Certificate().Raw}))
}

// FAULTS 10: a pod's token is rotated; the new one is used without a restart. The service
// account's files are swapped as kubelet does.
func TestInClusterTokenIsRotated(t *testing.T) {
	api := newFakeAPI(t, newService("api")).start(true)
	var token atomic.Value
	token.Store("Bearer one")
	api.setFault(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Header.Get("Authorization") == token.Load() {
			return false
		}
		respond(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return true
	})
	host, port, err := net.SplitHostPort(api.server.Listener.Addr().String())
	require.NoError(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	account := t.TempDir()
	r := runConfig(t, Config{InCluster: true}, func(s *Source) { s.account = account })
	r.untilError(t, "ca.crt")
	mount := func(name, token string) {
		writeFile(t, filepath.Join(account, name, "token"), token)
		writeFile(t, filepath.Join(account, name, "ca.crt"), authority(api))
		require.NoError(t, os.Symlink(name, filepath.Join(account, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(account, "..data_tmp"), filepath.Join(account, "..data")))
	}
	mount("..1", "one")
	for _, name := range []string{"token", "ca.crt"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(account, name)))
	}
	r.untilSynced(t).untilText(t, "shop/api ")

	token.Store("Bearer two")
	api.endWatches()
	r.untilError(t, "Unauthorized")
	mount("..2", "two")
	r.untilSynced(t)
	api.put(newService("web"))
	r.untilText(t, "shop/api ", "shop/web ")
}
