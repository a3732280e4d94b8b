package kubernetes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/sources"
)

const apiService = `
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}], unknownField: [1, 2]}
`

const apiSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-a, namespace: shop, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [192.0.2.1]}]
`

// named is apiService with another name.
func named(name string) string { return strings.Replace(apiService, "name: api", "name: "+name, 1) }

// folder is a folder of manifests with a Source that reads it.
type folder struct {
	*running
	t    *testing.T
	path string
}

func newFolder(t *testing.T, files map[string]string) *folder {
	f := &folder{t: t, path: t.TempDir()}
	for name, content := range files {
		f.write(name, content)
	}
	f.running = runConfig(t, Config{Manifests: f.path, EquivalenceLabel: "meshdns.io/equivalent-to"})
	return f
}

func (f *folder) write(name, content string) { writeFile(f.t, filepath.Join(f.path, name), content) }

func (f *folder) remove(name string) { require.NoError(f.t, os.Remove(filepath.Join(f.path, name))) }

func TestManifests(t *testing.T) {
	f := newFolder(t, map[string]string{
		"api.yaml":         apiService + "---" + apiSlice,
		"sub/ignored.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\n# nothing\n---\n",
		"list.json": `{"kind": "List", "apiVersion": "v1", "items": [
			{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.1"}},
			{"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "not-core"}}]}`,
		"typed.yaml": "kind: ServiceList\napiVersion: v1\nitems:\n- metadata: {name: typed}\n  spec: {clusterIP: 10.0.0.2}\n",
		"typed.json": `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[
			{"metadata":{"name":"w","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv6","endpoints":[{"addresses":["2001:db8::1"]}]}]}`,
	})
	f.untilSynced(t).untilText(t, "shop/api [api-a 192.0.2.1]", "default/web [w 2001:db8::1]", "default/typed ")
	assert.Equal(t, "manifests", f.status().Kind)
	assert.Zero(t, f.status().Skipped)
	assert.Equal(t, sources.Headless, f.service("shop/api").Type())

	before := f.count()
	f.write("api.yaml", apiService+"---"+apiSlice+"---"+strings.Replace(apiSlice, "api-a", "api-b", 1))
	f.untilText(t, "shop/api [api-a 192.0.2.1][api-b 192.0.2.1]", "default/web [w 2001:db8::1]", "default/typed ")
	assert.Equal(t, before+1, f.count(), "only what changed")
	f.remove("api.yaml")
	f.remove("typed.json")
	f.untilText(t, "default/web ", "default/typed ")
}

func TestManifestsOfOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump")
	writeFile(t, path, apiService)
	r := runConfig(t, Config{Manifests: path}).untilSynced(t)
	r.untilText(t, "shop/api ")
}

func TestManifestsFolderAppearsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later")
	r := runConfig(t, Config{Manifests: path})
	r.untilError(t, "waiting for the first list of manifests in "+path)
	assert.False(t, r.status().Synced)
	writeFile(t, filepath.Join(path, "api.yaml"), apiService)
	r.untilSynced(t).untilText(t, "shop/api ")
	require.NoError(t, os.RemoveAll(path))
	r.untilError(t, "no such file")
	r.untilText(t, "shop/api ") // an error is not an absence
	writeFile(t, filepath.Join(path, "web.yaml"), named("web"))
	r.untilSynced(t)
	r.until(t, "web", func() bool { return r.service("shop/web") != "" })
}

// A file that breaks keeps its last good objects, the others live.
func TestBrokenManifestKeepsItsObjects(t *testing.T) {
	f := newFolder(t, map[string]string{"api.yaml": apiService + "---" + apiSlice, "web.yaml": named("web")})
	f.untilSynced(t).untilText(t, "shop/api [api-a 192.0.2.1]", "shop/web ")
	before := f.count()

	f.write("api.yaml", apiService+"---\nnot: [yaml")
	f.until(t, "skip", func() bool { return f.status().Skipped == 1 })
	assert.Regexp(t, `api\.yaml:\d+:1: not valid YAML or JSON: `, f.status().LastSkip)
	f.write("web.yaml", named("web2"))
	f.untilText(t, "shop/api [api-a 192.0.2.1]", "shop/web2 ")

	f.write("api.yaml", "") // being written
	f.write("web.yaml", named("web3"))
	f.untilText(t, "shop/api [api-a 192.0.2.1]", "shop/web3 ")

	f.write("api.yaml", strings.Replace(apiService, "port: 80", "port: eighty", 1)+"---"+apiSlice)
	f.until(t, "skip", func() bool { return strings.Contains(f.status().LastSkip, "port") })
	f.write("web.yaml", named("web4"))
	f.untilText(t, "shop/api [api-a 192.0.2.1]", "shop/web4 ")
	for _, u := range f.since(before) {
		assert.NotEqual(t, "api", u.Key.Name)
	}
	assert.Empty(t, f.status().Error)

	f.write("api.yaml", apiSlice) // good again, the service is taken out
	f.untilText(t, "shop/web4 ")
	assert.Zero(t, f.status().Skipped)
}

func TestUnreadableManifestKeepsItsObjects(t *testing.T) {
	f := newFolder(t, map[string]string{"api.yaml": apiService})
	f.untilSynced(t).untilText(t, "shop/api ")
	f.remove("api.yaml")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(f.path, "api.yaml")))
	f.untilError(t, "api.yaml")
	f.untilText(t, "shop/api ")
	f.remove("api.yaml")
	f.untilText(t)
	f.untilSynced(t)
}

func TestSameObjectTwice(t *testing.T) {
	f := newFolder(t, map[string]string{
		"a.yaml": apiService + "---" + apiSlice,
		"b.yaml": strings.Replace(apiSlice, "192.0.2.1", "192.0.2.2", 1),
	})
	f.untilSynced(t).untilText(t, "shop/api [api-a 192.0.2.2]")
	f.write("c.yaml", "")
	f.write("d.yaml", named("web"))
	f.untilText(t, "shop/api [api-a 192.0.2.2]", "shop/web ")
	assert.Equal(t, 1, f.logs.count("twice"))
	f.remove("b.yaml")
	f.untilText(t, "shop/api [api-a 192.0.2.1]", "shop/web ")
}

const apiEndpoints = `
apiVersion: v1
kind: Endpoints
metadata: {name: api, namespace: shop}
subsets:
- addresses: [{ip: 192.0.2.1, hostname: web-0, nodeName: n1}, {ip: "2001:db8::1"}]
  notReadyAddresses: [{ip: 192.0.2.2}]
  ports: [{name: http, port: 8080, protocol: TCP}]
- addresses: [{ip: 192.0.2.3}]
  ports: [{port: 9090}]
`

func TestEndpointsAreMirrored(t *testing.T) {
	f := newFolder(t, map[string]string{"api.yaml": apiService + "---" + apiEndpoints})
	f.untilSynced(t).untilText(t, "shop/api [api/0/IPv4 192.0.2.1 192.0.2.2][api/0/IPv6 2001:db8::1][api/1/IPv4 192.0.2.3]")
	v4 := f.slice("shop/api", 0)
	assert.Equal(t, []sources.Port{{Name: "http", Number: 8080}}, v4.Ports().List())
	assert.Equal(t, "web-0", v4.Fields().Endpoints[0].Hostname)
	assert.Equal(t, sources.Ready, v4.Fields().Endpoints[0].State)
	assert.Equal(t, sources.NotReady, v4.Fields().Endpoints[1].State)
	assert.Equal(t, []sources.Port{{Number: 9090}}, f.slice("shop/api", 2).Ports().List())
}

// The rules of Kubernetes' own mirroring (KEP-0752).
func TestEndpointsThatAreNotMirrored(t *testing.T) {
	tests := []struct{ name, text string }{
		{"service with a selector", strings.Replace(apiService, "spec: {", "spec: {selector: {app: api}, ", 1) + "---" + apiEndpoints},
		{"marked", apiService + "---" + strings.Replace(apiEndpoints, "namespace: shop}", "namespace: shop, labels: {endpointslice.kubernetes.io/skip-mirror: \"true\"}}", 1)},
		{"election", apiService + "---" + strings.Replace(apiEndpoints, "namespace: shop}", "namespace: shop, annotations: {control-plane.alpha.kubernetes.io/leader: x}}", 1)},
		{"another service's", apiService + "---" + strings.Replace(apiEndpoints, "name: api", "name: other", 1)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			newFolder(t, map[string]string{"api.yaml": tc.text}).untilSynced(t).untilText(t, "shop/api ")
		})
	}
}

// A dump of a cluster has the Endpoints and what the cluster mirrored of them.
func TestEndpointsBesideTheirMirror(t *testing.T) {
	mirrored := strings.Replace(apiSlice, "labels: {", "labels: {endpointslice.kubernetes.io/managed-by: endpointslicemirroring-controller.k8s.io, ", 1)
	f := newFolder(t, map[string]string{"api.yaml": apiService + "---" + apiEndpoints + "---" + mirrored})
	f.untilSynced(t).untilText(t, "shop/api [api-a 192.0.2.1]")
	f.write("api.yaml", apiService+"---"+apiEndpoints+"---"+apiSlice) // written by hand, beside them
	f.untilText(t, "shop/api [api-a 192.0.2.1][api/0/IPv4 192.0.2.1 192.0.2.2][api/0/IPv6 2001:db8::1][api/1/IPv4 192.0.2.3]")
}

func TestBadManifestsAreSkippedAndCounted(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		message    string
	}{
		{"wrong type of a field", "kind: Service\napiVersion: v1\nmetadata: {name: x}\nspec: {ports: http}\n", 1, "Service default/x: cannot unmarshal string"},
		{"no object", "- a\n- b\n", 1, "not a Kubernetes object"},
		{"text", "just text\n", 1, "not a Kubernetes object"},
		{"no kind", "metadata: {name: x}\n", 1, "kind is missing"},
		{"no name", "kind: Service\napiVersion: v1\n", 1, "metadata.name is missing"},
		{"name that is no label", "kind: Service\napiVersion: v1\nmetadata: {name: Big_Name}\n", 1, "not a DNS label"},
		{"old API", "kind: EndpointSlice\napiVersion: discovery.k8s.io/v1beta1\nmetadata: {name: x}\n", 1, "v1beta1 is not read"},
		{"item of a list", "kind: List\napiVersion: v1\nitems:\n- kind: Service\n  apiVersion: v1\n- 7\n", 4, "metadata.name is missing"},
		{"item of a JSON list", "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [\n{},\n\n7]}", 2, "kind is missing"},
		{"keys that are no text", "kind: Service\napiVersion: v1\nmetadata: {name: x}\nspec: {[1]: 2}\n", 1, "not a Kubernetes object"},
		{"syntax", "kind: Service\n\tapiVersion: v1\n", 2, "not valid YAML"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := t.TempDir()
			writeFile(t, filepath.Join(path, "a.yaml"), tc.text)
			writeFile(t, filepath.Join(path, "b.yaml"), apiService)
			problems, err := CheckManifests(path)
			require.NoError(t, err)
			require.NotEmpty(t, problems)
			assert.Equal(t, filepath.Join(path, "a.yaml"), problems[0].File)
			assert.Equal(t, tc.line, problems[0].Line)
			assert.Contains(t, problems[0].Message, tc.message)

			r := runConfig(t, Config{Manifests: path}).untilSynced(t)
			r.untilText(t, "shop/api ")
			assert.Equal(t, len(problems), r.status().Skipped)
			assert.Empty(t, r.status().Error, "it does not make the source unhealthy")
		})
	}
}

func TestCheckManifests(t *testing.T) {
	path := t.TempDir()
	writeFile(t, filepath.Join(path, "a.yaml"), apiService+"---"+strings.Replace(apiSlice, "192.0.2.1", "x.y", 1))
	writeFile(t, filepath.Join(path, "b.yaml"), apiService)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(path, "c.yaml")))
	problems, err := CheckManifests(path)
	assert.ErrorContains(t, err, "c.yaml")
	require.Len(t, problems, 2)
	assert.Contains(t, problems[0].String(), `a.yaml:2:1: warning: Service shop/api is not used: it is also in `)
	assert.Contains(t, problems[1].String(), `a.yaml:7:1: warning: EndpointSlice shop/api-a: address "x.y" is left out`)
	assert.False(t, document.HasErrors(problems))
}

func FuzzDecodeFile(f *testing.F) {
	for _, seed := range []string{apiService, apiSlice, apiEndpoints, "a: [", "{}", "[]", "null", "kind: List\nitems: [1]",
		`{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"x"}}]}`, "a: &a [*a]", "? {a: b}\n: c"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, i := range decodeFile("f", data, &converter{}).items {
			require.NotEmpty(t, i.id().name)
			if i.object != nil {
				require.False(t, i.object.bad)
			}
		}
	})
}

func TestManifestsRunEnds(t *testing.T) {
	s, err := New(Config{Name: "west", Manifests: t.TempDir()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.NoError(t, s.Run(ctx, newSink()))
}
