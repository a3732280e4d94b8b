package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckFindsEverything(t *testing.T) {
	f := newFolder(t, map[string]string{
		"meshdns.yaml": `site: west
registryDir: registry
clusters:
- name: west
  manifests: west
- name: Bad_Name
  kubeconfig: absent.kubeconfig
nonsense: true
`,
		"registry/a.yaml": `apiVersion: meshdns.io/v1alpha1
kind: MeshService
metadata: {name: foo.mesh}
spec: {backends: [{type: Static, loactor: 192.0.2.1}]}
`,
		"west/broken.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: [\n",
	})
	got := run(t, "check", "--config", f.path("meshdns.yaml"))
	assert.Equal(t, 1, got.code)
	for _, want := range []string{
		f.path("meshdns.yaml") + ":6:9: clusters[1].name: ",
		f.path("meshdns.yaml") + ":8:1: nonsense: unknown field",
		f.path("meshdns.yaml") + ":7:15: clusters[1].kubeconfig: warning: not usable as it is now: ",
		f.path("registry/a.yaml") + ":4:34: spec.backends[0].loactor: unknown field",
		f.path("west/broken.yaml") + ":",
	} {
		assert.Contains(t, got.stdout, want)
	}
	assert.Contains(t, got.stderr, "meshdns.yaml: errors: ")
}

func TestCheckJSON(t *testing.T) {
	f := newFolder(t, map[string]string{"meshdns.yaml": "nonsense: true\n"})
	got := run(t, "check", "--config", f.path("meshdns.yaml"), "-o", "json")
	assert.Equal(t, 1, got.code)
	var findings []finding
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &findings))
	require.NotEmpty(t, findings)
	found := findings[0]
	found.Message = ""
	assert.Equal(t, finding{File: f.path("meshdns.yaml"), Line: 1, Column: 1, Field: "nonsense", Severity: "error"}, found)
}

func TestCheckWarningsAreNoFailure(t *testing.T) {
	f := twoClusters(t, westOnly+"upstreams: [system]\n")
	got := run(t, "check", "--config", f.path("meshdns.yaml"))
	assert.Equal(t, 0, got.code, got.stdout)
	assert.Empty(t, got.stdout)

	f.write("meshdns.yaml", "site: west\nclusters: [{name: west, kubeconfig: absent}]\n")
	got = run(t, "check", "--config", f.path("meshdns.yaml"))
	assert.Equal(t, 0, got.code, got.stdout)
	assert.Contains(t, got.stdout, "meshdns.yaml:2:37: clusters[0].kubeconfig: warning: ")

	f.write("kubeconfig", kubeconfig)
	f.write("meshdns.yaml", "site: west\nclusters: [{name: west, kubeconfig: kubeconfig, context: north}]\n")
	got = run(t, "check", "--config", f.path("meshdns.yaml"))
	assert.Contains(t, got.stdout, `has no context "north"`)
	f.write("meshdns.yaml", "site: west\nclusters: [{name: west, kubeconfig: kubeconfig, context: also-west}]\n")
	assert.Equal(t, ran{stderr: f.path("meshdns.yaml") + ": errors: 0, warnings: 0\n"}, run(t, "check", "--config", f.path("meshdns.yaml")))
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	f := newFolder(t, map[string]string{"meshdns.yaml": "site: west\nregistryDir: absent\nclusters: [{name: west, manifests: absent2}]\n"})
	got := run(t, "check", "--config", f.path("meshdns.yaml"))
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, "meshdns.yaml:2:14: registryDir: "+f.path("absent")+" does not exist")
	assert.Contains(t, got.stdout, "meshdns.yaml:3:36: clusters[0].manifests: "+f.path("absent2")+" does not exist")

	got = run(t, "check", "--config", f.path("none.yaml"))
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, f.path("none.yaml")+": cannot be read")

	assert.Equal(t, 2, run(t, "check").code)
}

// The demo's own documents are good ones.
func TestCheckDemo(t *testing.T) {
	for _, path := range []string{"../demo/mesh/meshdns.yaml", "../demo/elsewhere/meshdns.yaml"} {
		assert.Equal(t, ran{stderr: path + ": errors: 0, warnings: 0\n"}, run(t, "check", "--config", path))
	}
}
