package kubernetes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
)

func writeFile(t *testing.T, path, content string) {
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
