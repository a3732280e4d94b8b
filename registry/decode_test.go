package registry

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

func options() Options {
	return Options{
		Mesh: names.MustParse("mesh."), Source: "registryDir",
		Zones:    []names.Name{names.MustParse("cluster.global."), names.MustParse("inner.mesh.")},
		Clusters: []string{"west", "east", "aks-4d61b17c.hcp.westus2.azmk8s.io"}, Site: "west",
	}
}

func texts(problems []document.Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

// meshService is a document with the given name and lines of spec.
func meshService(name, spec string) string {
	return "apiVersion: meshdns.io/v1alpha1\nkind: MeshService\nmetadata:\n  name: " + name +
		"\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
}

// one decodes a text that must hold one good document.
func one(t *testing.T, text string) (*MeshService, []string) {
	t.Helper()
	docs, problems := Decode("f.yaml", []byte(text), options())
	require.Len(t, docs, 1, "%v", texts(problems))
	return docs[0], texts(problems)
}

// bare drops what only CheckSet needs, for comparisons.
func bare(backends []Backend) []Backend {
	for i := range backends {
		backends[i].field, backends[i].locatorAt = "", document.Place{}
	}
	return backends
}

func TestDecodeLongForm(t *testing.T) {
	data, err := os.ReadFile("testdata/long.yaml")
	require.NoError(t, err)
	docs, problems := Decode("long.yaml", data, options())
	require.Len(t, docs, 1)
	assert.Equal(t, []string{
		"long.yaml:11:11: spec.backends[1].type: warning: not yet effective: answers SERVFAIL until its backend is built in",
		"long.yaml:15:5: spec.backends[1].health: warning: not yet effective: nothing is probed",
	}, texts(problems))
	docs[0].nameAt = document.Place{}
	bare(docs[0].Backends)
	const locator = "/subscriptions/e3f0/resourceGroups/mesh-rg/providers/Microsoft.Compute/virtualMachineScaleSets/checkout"
	assert.Equal(t, &MeshService{
		Name:   names.MustParse("checkout.mesh"),
		Origin: Origin{Source: "registryDir", File: "long.yaml", Line: 1, Kind: "MeshService"},
		Backends: []Backend{
			{Type: Kubernetes, Locator: "shop/checkout", Cluster: "*", Weight: 80, HasWeight: true, Namespace: "shop", Service: "checkout"},
			{Type: Azure, Locator: locator, Port: 7654, Weight: 20, HasWeight: true},
		},
		Ports: []sources.Port{{Name: "http", Protocol: sources.TCP, Number: 8080}},
		TTL:   5 * time.Second, HasTTL: true,
		Identity: "spiffe://prod.example/ns/shop/sa/checkout",
		Policy:   Policy{Order: "shuffle", Locality: "none"},
	}, docs[0])
}

// The first seed's manifest loads word for word.
func TestDecodeProposal(t *testing.T) {
	data, err := os.ReadFile("testdata/proposal.yaml")
	require.NoError(t, err)
	docs, problems := Decode("proposal.yaml", data, options())
	require.Len(t, docs, 1)
	assert.Equal(t, []string{"proposal.yaml:9:9: spec.type: warning: not yet effective: answers SERVFAIL until its backend is built in"}, texts(problems))
	assert.Equal(t, names.MustParse("baz.mesh"), docs[0].Name)
	assert.Equal(t, Origin{Source: "registryDir", File: "proposal.yaml", Line: 4, Kind: "Service"}, docs[0].Origin)
	b := docs[0].Backends[0]
	assert.Equal(t, Azure, b.Type)
	assert.Equal(t, uint16(7654), b.Port)
	assert.Equal(t, b.Locator, b.BackendKey())
}

// Documents that the discussions show and that are not read yet are no errors.
func TestDecodeDiscussedKinds(t *testing.T) {
	data, err := os.ReadFile("testdata/discussed.yaml")
	require.NoError(t, err)
	docs, problems := Decode("d.yaml", data, options())
	assert.Empty(t, docs)
	assert.Equal(t, []string{
		"d.yaml:1:7: kind: warning: TrafficTarget is not read yet: it has no effect",
		"d.yaml:17:7: kind: warning: TrafficSplit is not read yet: it has no effect",
		"d.yaml:31:7: kind: warning: HTTPRouteGroup is not read yet: it has no effect",
	}, texts(problems))
}

func TestDecodeProposalIsStrict(t *testing.T) {
	const head = "apiVersion: specs.smi-spec.io/v1alpha1\nkind: Service\nmetadata: {name: foo.mesh}\n"
	docs, problems := Decode("f.yaml", []byte(head+"spec: {type: DNS, locator: foo.example.com, port: 80}"), options())
	require.Len(t, docs, 1)
	assert.Empty(t, problems)
	docs, problems = Decode("f.yaml", []byte(head+"spec: {type: DNS, locator: foo.example.com, ttl: 5s}"), options())
	assert.Empty(t, docs)
	assert.Equal(t, []string{"f.yaml:4:45: spec.ttl: unknown field; known here: cluster, locator, port, type"}, texts(problems))
}

func TestDecodeKinds(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no kind":         {"metadata: {name: a}", "f.yaml:1:1: kind: missing: want MeshService (apiVersion meshdns.io/v1alpha1)"},
		"no version":      {"kind: MeshService", "f.yaml:1:1: apiVersion: missing: want meshdns.io/v1alpha1"},
		"other version":   {"apiVersion: meshdns.io/v2\nkind: MeshService", "kind: meshdns.io/v2 MeshService is no registry document: its apiVersion is meshdns.io/v1alpha1"},
		"typo in kind":    {"apiVersion: meshdns.io/v1alpha1\nkind: MeshSrvice", "f.yaml:2:7: kind: meshdns.io/v1alpha1 MeshSrvice is no registry document: want MeshService"},
		"core Service":    {"apiVersion: v1\nkind: Service", "kind: v1 Service is no registry document: plain Kubernetes objects belong into a folder named by clusters[].manifests"},
		"other Service":   {"apiVersion: specs.smi-spec.io/v1\nkind: Service", "its apiVersion is specs.smi-spec.io/v1alpha1"},
		"unknown":         {"apiVersion: example.com/v1\nkind: Thing", "kind: example.com/v1 Thing is no registry document: want"},
		"known elsewhere": {"apiVersion: example.com/v1\nkind: ServiceEntry", "is no registry document"},
		"a list":          {"[a]", "f.yaml:1:1: kind: missing"},
		"Istio":           {"apiVersion: networking.istio.io/v1\nkind: ServiceEntry", "warning: ServiceEntry is not read yet"},
		"Linkerd":         {"apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload", "warning: ExternalWorkload is not read yet"},
		"multi-cluster":   {"apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport", "warning: ServiceImport is not read yet"},
		"SMI":             {"apiVersion: split.smi-spec.io/v1alpha4\nkind: TrafficSplit", "warning: TrafficSplit is not read yet"},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := Decode("f.yaml", []byte(c.text), options())
			assert.Empty(t, docs)
			require.Len(t, problems, 1)
			assert.Contains(t, problems[0].String(), c.want)
		})
	}
}

func TestDecodeLists(t *testing.T) {
	text := `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
{"apiVersion": "meshdns.io/v1alpha1", "kind": "MeshService", "metadata": {"name": "a.mesh", "uid": "1", "managedFields": [{}], "creationTimestamp": "2026-01-02T03:04:05Z"},
 "spec": {"type": "Static", "locator": "10.0.0.1"}, "status": {"conditions": []}},
{"apiVersion": "meshdns.io/v1alpha1", "kind": "MeshService", "metadata": {"name": "b.mesh"}, "spec": {"type": "Static", "loactor": "10.0.0.1"}},
{"apiVersion": "meshdns.io/v1alpha1", "kind": "MeshServiceList", "items": [
{"apiVersion": "meshdns.io/v1alpha1", "kind": "MeshService", "metadata": {"name": "c.mesh"}, "spec": {"type": "Static", "locator": "10.0.0.1"}}]}]}`
	docs, problems := Decode("f.json", []byte(text), options())
	require.Len(t, docs, 2)
	assert.Equal(t, "a.mesh", docs[0].Name.Text())
	assert.Equal(t, 2, docs[0].Origin.Line)
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), docs[0].Created)
	assert.Equal(t, "c.mesh", docs[1].Name.Text())
	assert.Equal(t, []string{
		"f.json:4:94: items[1].spec.locator: missing",
		"f.json:4:121: items[1].spec.loactor: unknown field; known here: backends, cluster, health, identity, locator, policy, port, ports, priority, staleness, ttl, type, weight",
	}, texts(problems))
}

func TestDecodeListDepth(t *testing.T) {
	text := "{apiVersion: v1, kind: List}"
	for range 5 {
		text = "{apiVersion: v1, kind: List, items: [" + text + "]}"
	}
	_, problems := Decode("f.yaml", []byte(text), options())
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].String(), "lists nested more than 3 deep")
}

// CASES C130: a hundred good documents and a bad one: the hundred live.
func TestDecodeSkipsBadDocuments(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		text.WriteString(meshService(fmt.Sprintf("s%d.mesh", i), "type: Static\nlocator: 192.0.2.1") + "---\n")
	}
	text.WriteString(meshService("bad.mesh", "type: Static\nlocator: 300.1.1.1"))
	docs, problems := Decode("f.yaml", []byte(text.String()), options())
	assert.Len(t, docs, 100)
	assert.Equal(t, []string{`f.yaml:807:12: spec.locator: "300.1.1.1" is no IP address`}, texts(problems))
}

// What was left out is known by name where that can be read.
func TestDecodeAll(t *testing.T) {
	bad := func(name string) string { return meshService(name, "type: Static\nloactor: 192.0.2.1") }
	for name, c := range map[string]struct {
		text    string
		leftOut int
		refused []string
		unnamed bool
	}{
		"good":            {static("a.mesh"), 0, nil, false},
		"another's kind":  {"apiVersion: networking.istio.io/v1\nkind: ServiceEntry", 0, nil, false},
		"bad ones":        {bad("A.mesh") + "---\n" + static("b.mesh") + "---\n" + bad("c.mesh"), 2, []string{"a.mesh f.yaml:1: f.yaml:7:3: spec.loactor: unknown", "c.mesh f.yaml:17: f.yaml:23:3: spec.loactor: unknown"}, false},
		"typo in kind":    {strings.Replace(static("a.mesh"), "MeshService", "MeshSrvice", 1), 1, []string{"a.mesh f.yaml:1: f.yaml:2:7: kind: "}, false},
		"not a mesh name": {bad("a.example"), 1, nil, false},
		"a reserved name": {bad("dns.mesh"), 1, nil, false},
		"no name":         {bad("''"), 1, nil, true},
		"broken":          {static("a.mesh") + "---\nkind: [", 1, nil, true},
		"in a list":       {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(bad("a.mesh"), "\n", "\n  "), 1, []string{"a.mesh f.yaml:4: f.yaml:10:5: items[0].spec.loactor: unknown"}, false},
		"a broken list":   {"apiVersion: v1\nkind: List\nitems: {}", 1, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := DecodeAll("f.yaml", []byte(c.text), options())
			assert.Equal(t, c.leftOut, r.LeftOut, "%v", texts(r.Problems))
			require.Len(t, r.Refused, len(c.refused))
			for i, doc := range r.Refused {
				got := fmt.Sprintf("%s %s:%d: %s", doc.Name.Text(), doc.Origin.File, doc.Origin.Line, doc.Faults[0])
				assert.Contains(t, got, c.refused[i])
				assert.Empty(t, doc.Backends)
			}
			assert.Equal(t, c.unnamed, r.Unnamed)
		})
	}
}

// CASES C50, C52: names are folded; validator and resolver agree on what is served.
func TestDecodeNames(t *testing.T) {
	for name, want := range map[string]string{
		"foo.mesh": "", "foo.mesh.": "", "Foo.MESH": "", "redis_x.mesh": "", "ok-1.mesh": "", "a.b.c.mesh": "", "com.mesh": "",
		"dnsx.mesh": "", "x.dns.foo.mesh": "", "global.mesh": "",
		"-bad.mesh":                         `label "-bad"`,
		"bad-.mesh":                         `label "bad-"`,
		"_http._tcp.foo.mesh":               `label "_http"`,
		"'*.mesh'":                          `label "*"`,
		"a\\.b.mesh":                        `label "a.b"`,
		"bücher.mesh":                       `label "b`,
		strings.Repeat("x", 64) + ".mesh":   "label longer than 63 bytes",
		strings.Repeat("x.", 126) + "mesh.": "name longer than 255 bytes in wire form",
		"mesh":                              "mesh is not below the mesh zone mesh",
		"web":                               "web is not below the mesh zone mesh",
		"foo.example.com":                   "not below the mesh zone mesh",
		"foo..mesh":                         "empty label",
		"dns.mesh":                          "reserved for the server's own names",
		"ns.dns.mesh":                       "reserved for the server's own names",
		"DNS-Version.mesh":                  "reserved for the server's own names",
		"inner.mesh":                        "is in the zone inner.mesh",
		"foo.inner.mesh":                    "is in the zone inner.mesh",
		"":                                  "missing: want a DNS name below mesh",
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := Decode("f.yaml", []byte(meshService(name, "type: Static\nlocator: 192.0.2.1")), options())
			if want == "" {
				require.Len(t, docs, 1, "%v", texts(problems))
				assert.Equal(t, strings.ToLower(strings.TrimSuffix(name, ".")), docs[0].Name.Text())
				return
			}
			assert.Empty(t, docs)
			require.Len(t, problems, 1)
			assert.Contains(t, problems[0].String(), "metadata.name: ")
			assert.Contains(t, problems[0].String(), want)
		})
	}
}

func TestDecodeShortForm(t *testing.T) {
	doc, problems := one(t, meshService("a.mesh", "type: Kubernetes\nlocator: default/bar\nport: 80\ncluster: east\nweight: 0\npriority: 2"))
	assert.Equal(t, []Backend{{Type: Kubernetes, Locator: "default/bar", Cluster: "east", Port: 80, HasWeight: true, Priority: 2,
		Namespace: "default", Service: "bar"}}, bare(doc.Backends))
	assert.Equal(t, []string{
		"f.yaml:11:13: spec.priority: warning: not yet effective: backends of all priorities are answered",
	}, problems)
}

func TestDecodeLocators(t *testing.T) {
	type want struct {
		backend Backend
		problem string
	}
	k8s := func(cluster string) want {
		return want{backend: Backend{Cluster: cluster, Namespace: "ns", Service: "svc"}}
	}
	host := func(s string, srv bool) want { return want{backend: Backend{Host: names.MustParse(s), SRV: srv}} }
	static := func(addrs ...string) want {
		var b Backend
		for _, a := range addrs {
			b.Addresses = append(b.Addresses, netip.MustParseAddr(a))
		}
		return want{backend: b}
	}
	bad := func(text string) want { return want{problem: text} }
	const aks = "aks-4d61b17c.hcp.westus2.azmk8s.io"
	for _, c := range []struct {
		kind    BackendType
		locator string
		cluster string
		want    want
	}{
		{Kubernetes, "ns/svc", "", k8s("")},
		{Kubernetes, "NS/Svc", "local", k8s("")},
		{Kubernetes, "ns/svc", `"*"`, k8s("*")},
		{Kubernetes, "ns/svc", "East", k8s("east")},
		{Kubernetes, "svc.ns.svc.cluster.east", "", k8s("east")},
		{Kubernetes, "SVC.ns.svc.Cluster.EAST.", "", k8s("east")},
		{Kubernetes, "svc.ns.svc.cluster.east", "east", k8s("east")},
		{Kubernetes, "svc.ns.svc.cluster." + aks, "", k8s(aks)},
		{Kubernetes, "svc.ns.svc.cluster.west", "local", k8s("west")},
		{Kubernetes, "svc.ns.svc.cluster.global", "", k8s("*")},
		{Kubernetes, "svc.ns.svc.cluster.global", `"*"`, k8s("*")},
		{Kubernetes, "svc.ns.svc.cluster.local", "", k8s("")},
		{Kubernetes, "svc.ns.svc.cluster.local", aks, k8s(aks)},
		{Kubernetes, "svc.ns.svc.cluster.east", "west", bad(`names the cluster "east", but the cluster field says "west"`)},
		{Kubernetes, "svc.ns.svc.cluster.east", "local", bad(`the cluster field says "local"`)},
		{Kubernetes, "svc.ns.svc.cluster.global", "west", bad(`the cluster field says "west"`)},
		{Kubernetes, "svc", "", bad("want namespace/name or name.namespace.svc.cluster.<cluster>")},
		{Kubernetes, "svc.ns.pod.cluster.east", "", bad("want namespace/name")},
		{Kubernetes, "svc.ns.svc.cluster.", "", bad("want namespace/name")},
		{Kubernetes, "svc.ns.svc.cluster.a..b", "", bad(`cluster "a..b"`)},
		{Kubernetes, "ns/", "", bad(`service name ""`)},
		{Kubernetes, "a/b/c", "", bad(`service name "b/c"`)},
		{Kubernetes, "n_s/svc", "", bad(`namespace "n_s"`)},
		{Kubernetes, "ns/svc", `"we*"`, bad(`"we*": "*" alone is all clusters; as a part of a name it is not supported`)},
		{Kubernetes, "ns/svc", `"*st"`, bad("as a part of a name it is not supported")},
		{Kubernetes, "ns/svc", "global", bad(`"global" is no cluster`)},
		{Kubernetes, "ns/svc", "we_st", bad(`"we_st" is no cluster's name`)},
		{DNS, "foo.example.com", "", host("foo.example.com", false)},
		{DNS, "Foo.example.com.", "", host("foo.example.com", false)},
		{DNS, "b.mesh.example", "", host("b.mesh.example", false)},
		{DNS, "_http._tcp.foo.example.com", "", host("_http._tcp.foo.example.com", true)},
		{DNS, "_dmarc.example.com", "", host("_dmarc.example.com", false)},
		{DNS, "redis_x.example.com", "", host("redis_x.example.com", false)},
		{DNS, "a.mesh", "", bad(`"a.mesh" is the registered name itself`)},
		{DNS, "A.Mesh.", "", bad("is the registered name itself")},
		{DNS, "_http._tcp.a.mesh", "", bad("is the registered name itself")},
		{DNS, "10.0.0.1", "", bad("is an address: want a host name, or type Static")},
		{DNS, `"[::1]"`, "", bad("is an address")},
		{DNS, "300.1.1.1", "", bad("no host name ends in a number (1)")},
		{DNS, "foo..example.com", "", bad("empty label")},
		{DNS, "foo bar.example.com", "", bad(`label "foo bar"`)},
		{DNS, "https://foo.example.com", "", bad(`label "https://foo"`)},
		{DNS, ".", "", bad("want a host name")},
		{DNS, strings.Repeat("x", 64) + ".example.com", "", bad("label longer than 63 bytes")},
		{Static, "10.0.0.1,10.0.0.2", "", static("10.0.0.1", "10.0.0.2")},
		{Static, `"[2001:db8::1], 2001:db8::2 ,10.0.0.1"`, "", static("2001:db8::1", "2001:db8::2", "10.0.0.1")},
		{Static, `"::ffff:10.0.0.1"`, "", static("10.0.0.1")},
		{Static, "10.0.0.1,300.1.1.1", "", bad(`"300.1.1.1" is no IP address`)},
		{Static, "10.0.0.1,", "", bad("an empty address")},
		{Static, "10.0.0.1:80", "", bad(`address "10.0.0.1:80" has a port: give it in the field port`)},
		{Static, `"[2001:db8::1]:80"`, "", bad("has a port")},
		{Static, `"[10.0.0.1]"`, "", bad("is no IP address")},
		{Static, `"[2001:db8::1"`, "", bad("is no IP address")},
		{Static, "fe80::1%eth0", "", bad("has a zone")},
		{Static, "0.0.0.0", "", bad("is no single host's")},
		{Static, "'::'", "", bad("is no single host's")},
		{Static, "224.0.0.1", "", bad("is no single host's")},
		{Static, "255.255.255.255", "", bad("is no single host's")},
		{Static, "foo.example.com", "", bad("is no IP address")},
		{"k8s", "ns/svc", "", bad(`unknown type "k8s": want one of Kubernetes, DNS, Azure, AWS, GCP, Consul, Static`)},
		{"''", "ns/svc", "", bad("spec.type: missing: want one of")},
		{Static, "''", "", bad("spec.locator: missing")},
	} {
		t.Run(string(c.kind)+" "+c.locator+" "+c.cluster, func(t *testing.T) {
			spec := "type: " + string(c.kind) + "\nlocator: " + c.locator
			if c.cluster != "" {
				spec += "\ncluster: " + c.cluster
			}
			text := meshService("a.mesh", spec)
			if c.want.problem != "" {
				docs, problems := Decode("f.yaml", []byte(text), options())
				assert.Empty(t, docs)
				require.Len(t, problems, 1, "%v", texts(problems))
				assert.Contains(t, problems[0].String(), c.want.problem)
				return
			}
			doc, problems := one(t, text)
			assert.Empty(t, problems)
			got := bare(doc.Backends)[0]
			got.Type, got.Locator = "", ""
			assert.Equal(t, c.want.backend, got)
		})
	}
}

func TestDecodeStaticTwice(t *testing.T) {
	doc, problems := one(t, meshService("a.mesh", "type: Static\nlocator: 10.0.0.1, 10.0.0.1"))
	assert.Len(t, doc.Backends[0].Addresses, 1)
	assert.Equal(t, []string{"f.yaml:7:12: spec.locator: warning: address 10.0.0.1 is given twice"}, problems)
}

func TestDecodeStaticNamesEveryBadAddress(t *testing.T) {
	_, problems := Decode("f.yaml", []byte(meshService("a.mesh", "type: Static\nlocator: 300.1.1.1,10.0.0.1,x")), options())
	assert.ElementsMatch(t, []string{
		`f.yaml:7:12: spec.locator: "300.1.1.1" is no IP address`, `f.yaml:7:12: spec.locator: "x" is no IP address`,
	}, texts(problems))
}

func TestDecodeClusterFieldElsewhere(t *testing.T) {
	doc, problems := one(t, meshService("a.mesh", "type: Static\nlocator: 10.0.0.1\ncluster: '*'"))
	assert.Equal(t, LocalCluster, doc.Backends[0].Cluster)
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], `spec.cluster: warning: "*" says nothing of a backend of type Static`)
	doc, problems = one(t, meshService("a.mesh", "type: Static\nlocator: 10.0.0.1\ncluster: basement"))
	assert.Equal(t, "basement", doc.Backends[0].Cluster)
	assert.Empty(t, problems)
}

func TestDecodeKnownClusters(t *testing.T) {
	local := []byte(meshService("a.mesh", "type: Kubernetes\nlocator: ns/svc"))
	nowhere := []byte(meshService("a.mesh", "type: Kubernetes\nlocator: svc.ns.svc.cluster.nowhere"))

	docs, problems := Decode("f.yaml", nowhere, options())
	assert.Len(t, docs, 1)
	assert.Equal(t, []string{`f.yaml:7:12: spec.locator: warning: no cluster "nowhere" is configured here: what it holds stays unknown and the name answers SERVFAIL`}, texts(problems))

	opts := options()
	opts.Site = ""
	docs, problems = Decode("f.yaml", local, opts)
	assert.Empty(t, docs)
	assert.Equal(t, []string{`f.yaml:7:12: spec.locator: means the local cluster, but the configuration does not say which that is: set "site", or name a cluster here`}, texts(problems))

	opts.Clusters = nil
	for _, data := range [][]byte{local, nowhere} {
		docs, problems = Decode("f.yaml", data, opts)
		assert.Len(t, docs, 1)
		assert.Empty(t, problems)
	}
}

func TestDecodeCloudLocators(t *testing.T) {
	const rg = "/subscriptions/e3f0/resourceGroups/rg"
	for kind, locators := range map[BackendType]map[string]bool{
		Azure: {
			rg + "/providers/Microsoft.Compute/virtualMachineScaleSets/baz": true, rg + "/providers/Microsoft.Compute/virtualMachines/vm": true,
			rg + "/providers/microsoft.network/NetworkInterfaces/nic": true, rg + "/providers/Microsoft.Network/loadBalancers/lb": true,
			"/resource" + rg + "/providers/Microsoft.Compute/virtualMachines/vm": true, rg + "?tag.role=web": true, rg + "?tag.a=b&tag.c=d": true,
			rg: false, rg + "?tag.=x": false, rg + "?role=web": false, rg + "?tag.role=": false, rg + "/providers/Microsoft.Compute/disks/d": false,
			rg + "/providers/Microsoft.Compute/virtualMachines/": false, "subscriptions/e3f0": false, "baz": false,
			rg + "/providers/Microsoft.Compute/virtualMachines/vm?tag.a=b": false,
		},
		AWS: {
			"arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:uuid:autoScalingGroupName/web": true,
			"arn:aws-cn:elasticloadbalancing:cn-north-1:123456789012:targetgroup/web/73e2d6bc24d8a067":  true,
			"arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-1":                             true,
			"ec2://eu-west-1?tag.role=web":                   true,
			"ec2://eu-west-1":                                false,
			"ec2://?tag.role=web":                            false,
			"ec2://eu-west-1/x?tag.role=web":                 false,
			"arn:aws:s3:::bucket":                            false,
			"arn:aws:lambda:eu-west-1:123456789012:function": false,
			"arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/app/web/50dc6c495c0c9188":    false,
			"arn:aws:autoscaling:eu-west-1:123456789012:launchConfiguration:uuid:launchConfigurationName/": false,
			"web": false,
		},
		GCP: {
			"projects/p/zones/z/instanceGroups/g": true, "projects/p/regions/r/instanceGroups/g": true,
			"projects/p/zones/z/instances?label.app=web": true, "projects/p/zones/z/instances": false,
			"projects/p/zones/z/instanceGroups/g?label.a=b": false, "projects//zones/z/instanceGroups/g": false, "g": false,
		},
		Consul: {
			"web": true, "web?dc=eu&tag=v1": true, "web?peer=p&partition=q": true, "web?dc=": true, "?dc=eu": false, "web?near=_agent": false, "web?": false, "a/b": false,
		},
	} {
		for locator, good := range locators {
			t.Run(locator, func(t *testing.T) {
				docs, problems := Decode("f.yaml", []byte(meshService("a.mesh", "type: "+string(kind)+"\nlocator: '"+locator+"'")), options())
				require.Len(t, problems, 1, "%v", texts(problems))
				if good {
					require.Len(t, docs, 1)
					assert.Equal(t, locator, docs[0].Backends[0].BackendKey())
					assert.Contains(t, problems[0].String(), "spec.type: warning: not yet effective: answers SERVFAIL")
					return
				}
				assert.Empty(t, docs)
				assert.Contains(t, problems[0].String(), "f.yaml:7:12: spec.locator: \""+locator+"\": want ")
			})
		}
	}
}

// CASES C164: what is configured is what is decoded, 0 and absent differ.
func TestDecodeTTL(t *testing.T) {
	const spec = "type: Static\nlocator: 10.0.0.1\n"
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "1": time.Second, "5s": 5 * time.Second, "90000": 90000 * time.Second} {
		doc, problems := one(t, meshService("a.mesh", spec+"ttl: "+text))
		assert.Empty(t, problems)
		assert.True(t, doc.HasTTL)
		assert.Equal(t, want, doc.TTL)
	}
	doc, _ := one(t, meshService("a.mesh", spec))
	assert.False(t, doc.HasTTL)
	for _, text := range []string{"-1", "-1s", "4294967296", "2147483648", "1500ms", "soon", "[5]"} {
		docs, problems := Decode("f.yaml", []byte(meshService("a.mesh", spec+"ttl: "+text)), options())
		assert.Empty(t, docs, text)
		require.Len(t, problems, 1)
		assert.Equal(t, "spec.ttl", problems[0].Field)
	}
}

func TestDecodeSpecProblems(t *testing.T) {
	const static = "type: Static\nlocator: 10.0.0.1\n"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"typo": {"type: Static\nloactor: 10.0.0.1", []string{ // CASES C131
			"f.yaml:5:1: spec.locator: missing",
			"f.yaml:7:3: spec.loactor: unknown field; known here: backends, cluster, health, identity, locator, policy, port, ports, priority, staleness, ttl, type, weight"}},
		"list for a mapping": {"backends:\n- [type, Static]", []string{"f.yaml:7:5: spec.backends[0]: want fields (a mapping), got a list"}},
		"mapping for a list": {"backends: {type: Static}", []string{"f.yaml:6:13: spec.backends: want a list, got fields (a mapping)"}},
		"both forms":         {static + "backends: [{type: Static, locator: 10.0.0.2}]", []string{"f.yaml:6:9: spec.type: stands beside spec.backends: want either one backend directly in spec or the list"}},
		"port beside a list": {"port: 1\nbackends: [{type: Static, locator: 10.0.0.2}]", []string{"f.yaml:6:9: spec.port: stands beside spec.backends: want either one backend directly in spec or the list"}},
		"no backend":         {"ttl: 5s", []string{"f.yaml:5:1: spec: no backend: want type and locator, or a list of backends"}},
		"empty list":         {"backends: []", []string{"f.yaml:6:3: spec.backends: empty: want at least one backend"}},
		"port range":         {static + "port: 70000", []string{"f.yaml:8:9: spec.port: 70000 is out of range: 0 to 65535"}},
		"weight range":       {static + "weight: -1", []string{"f.yaml:8:11: spec.weight: -1 is out of range: 0 to 65535"}},
		"ports": {static + "ports:\n- {name: -x, port: 1}\n- {name: a, port: 0}\n- {name: a, port: 1, protocol: udp}\n- {name: A, port: 2}\n- {name: b, port: 3, protocol: QUIC}", []string{
			`f.yaml:9:12: spec.ports[0].name: port name "-x": want letters, digits and inner hyphens, at most 63`,
			"f.yaml:10:21: spec.ports[1].port: missing: want 1 to 65535",
			`f.yaml:12:5: spec.ports[3]: a second TCP port with the name "a"`,
			`f.yaml:13:34: spec.ports[4].protocol: unknown protocol "QUIC": want TCP, UDP or SCTP`}},
		"policy": {static + "policy: {order: fixed, locality: near, maxAnswers: -1, panicThreshold: 101}", []string{
			`f.yaml:8:19: spec.policy.order: unknown value "fixed": want shuffle`,
			`f.yaml:8:36: spec.policy.locality: unknown value "near": want none, prefer, strict`,
			"f.yaml:8:36: spec.policy.locality: warning: not yet effective: endpoints of all places are answered alike",
			"f.yaml:8:54: spec.policy.maxAnswers: -1 is out of range: 0 (all) or more",
			"f.yaml:8:74: spec.policy.panicThreshold: 101 is out of range: 0 to 100 percent"}},
		"health": {static + "health: {interval: 0s, timeout: -1s, unhealthyAfter: 0, healthyAfter: 0}", []string{
			"f.yaml:8:3: spec.health.tcp: missing: want the port to probe",
			"f.yaml:8:3: spec.health: warning: not yet effective: nothing is probed",
			"f.yaml:8:22: spec.health.interval: 0s is out of range: want more than 0s",
			"f.yaml:8:35: spec.health.timeout: -1s is out of range: want more than 0s",
			"f.yaml:8:56: spec.health.unhealthyAfter: 0 is out of range: want at least 1 probe",
			"f.yaml:8:73: spec.health.healthyAfter: 0 is out of range: want at least 1 probe"}},
		"staleness": {static + "staleness: {keepShared: -1s, keepOnly: -1s, then: explode}", []string{
			"f.yaml:8:3: spec.staleness: warning: not yet effective: the configuration's staleness holds for all backends",
			"f.yaml:8:27: spec.staleness.keepShared: -1s is negative",
			"f.yaml:8:42: spec.staleness.keepOnly: -1s is negative",
			`f.yaml:8:53: spec.staleness.then: unknown value "explode": want servfail, drop`}},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := Decode("f.yaml", []byte(meshService("a.mesh", c.spec)), options())
			assert.Empty(t, docs)
			assert.Equal(t, c.want, texts(problems))
		})
	}
}

// CASES C52: a field that is accepted without effect says so, and one that has its effect
// or is zero does not.
func TestDecodeNotYetEffective(t *testing.T) {
	const static = "type: Static\nlocator: 10.0.0.1\n"
	_, problems := one(t, meshService("a.mesh", static+"weight: 0\npriority: 0\npolicy: {order: shuffle, locality: none, maxAnswers: 0, panicThreshold: 0}"))
	assert.Empty(t, problems)
	_, problems = one(t, meshService("a.mesh", static+"priority: 1\npolicy: {locality: prefer, maxAnswers: 3, panicThreshold: 50}\nhealth: {tcp: 80}"))
	assert.Len(t, problems, 5)
	for _, p := range problems {
		assert.Contains(t, p, ": warning: not yet effective: ")
	}
}

func TestDecodeIdentity(t *testing.T) {
	for id, good := range map[string]bool{
		"spiffe://prod.example/ns/shop/sa/checkout": true, "spiffe://prod.example": true, "spiffe://prod_1.example/A_b.c-d": true,
		"https://prod.example/x": false, "spiffe://": false, "spiffe:///x": false, "spiffe://Prod.example/x": false, "spiffe://prod.example/": false,
		"spiffe://prod.example//x": false, "spiffe://prod.example/..": false, "spiffe://prod.example:80/x": false, "spiffe://me@prod.example/x": false,
		"spiffe://prod.example/x?y": false, "spiffe://prod.example/x#y": false, "spiffe://prod.example/%41": false, "prod.example": false,
		"spiffe://prod.example/" + strings.Repeat("x", 2048): false,
	} {
		docs, problems := Decode("f.yaml", []byte(meshService("a.mesh", "type: Static\nlocator: 10.0.0.1\nidentity: '"+id+"'")), options())
		if good {
			require.Len(t, docs, 1, id)
			assert.Equal(t, id, docs[0].Identity)
			assert.Empty(t, problems)
			continue
		}
		assert.Empty(t, docs, id)
		require.Len(t, problems, 1, id)
		assert.Contains(t, problems[0].String(), "f.yaml:8:13: spec.identity: ")
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{"long", "proposal", "discussed"} {
		data, err := os.ReadFile("testdata/" + file + ".yaml")
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, problems := Decode("f.yaml", data, options())
		for _, d := range docs {
			assert.True(t, d.Name.IsAtOrBelow(options().Mesh) && d.Name != options().Mesh)
			assert.NotEmpty(t, d.Backends)
			for _, b := range d.Backends {
				assert.NotEmpty(t, b.Locator)
				assert.True(t, b.Type != Static || len(b.Addresses) > 0)
				assert.True(t, b.Type != DNS || !b.Host.IsZero())
				assert.True(t, b.Type != Kubernetes || b.Service != "" && b.Namespace != "")
			}
		}
		for _, p := range problems {
			assert.True(t, p.Line > 0 && p.Column > 0 || len(data) > document.MaxBytes, p.String())
			assert.NotEmpty(t, p.Message)
		}
		again, _ := Decode("f.yaml", data, options())
		assert.Equal(t, docs, again)
		assert.Equal(t, CheckSet(docs, options()), CheckSet(again, options()))
	})
}
