package registry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

// set decodes documents of one file that must all be good.
func set(t testing.TB, texts_ ...string) []*MeshService {
	t.Helper()
	text := ""
	for _, s := range texts_ {
		text += s + "---\n"
	}
	docs, problems := Decode("f.yaml", []byte(text), options())
	require.Len(t, docs, len(texts_), "%v", texts(problems))
	return docs
}

func static(name string) string { return meshService(name, "type: Static\nlocator: 192.0.2.1") }

func dns(name, host string) string { return meshService(name, "type: DNS\nlocator: "+host) }

func TestCheckSet(t *testing.T) {
	for name, c := range map[string]struct {
		docs []string
		want []string
	}{
		"nothing":                    {nil, []string{}},
		"names that only look alike": {[]string{static("foo.mesh"), static("foo.foo.mesh"), static("xfoo.mesh"), static("west.mesh"), static("a.b.foo.mesh")}, []string{}},
		"one name twice, but for case": {[]string{static("web.mesh"), static("Web.mesh")}, []string{ // CASES C50, C95
			"f.yaml:12:9: metadata.name: web.mesh is registered twice: the one in f.yaml:4:9 is served, this one is not"}},
		"one name three times": {[]string{static("web.mesh"), static("web.mesh"), static("web.mesh")}, []string{
			"f.yaml:12:9: metadata.name: web.mesh is registered twice: the one in f.yaml:4:9 is served, this one is not",
			"f.yaml:20:9: metadata.name: web.mesh is registered twice: the one in f.yaml:4:9 is served, this one is not"}},
		"alias and VM set": {[]string{dns("web.mesh", "web.example.com"), static("web.mesh")}, []string{ // CASES C134
			"f.yaml:12:9: metadata.name: web.mesh is registered twice: the one in f.yaml:4:9 is served, this one is not"}},
		"site label": {[]string{static("west.foo.mesh"), static("foo.mesh")}, []string{
			`f.yaml:4:9: metadata.name: west.foo.mesh collides with the endpoints that foo.mesh (f.yaml:12:9) has in the site "west"`}},
		"host below a site label": {[]string{static("foo.mesh"), static("a.east.foo.mesh")}, []string{
			`f.yaml:12:9: metadata.name: a.east.foo.mesh collides with the endpoints that foo.mesh (f.yaml:4:9) has in the site "east"`}},
		"part of a dotted site label": {[]string{static("foo.mesh"), static("azmk8s.io.foo.mesh")}, []string{
			`f.yaml:12:9: metadata.name: azmk8s.io.foo.mesh collides with the endpoints that foo.mesh (f.yaml:4:9) has in the site "aks-4d61b17c.hcp.westus2.azmk8s.io"`}},
		"site of a backend": {[]string{meshService("foo.mesh", "type: Static\nlocator: 192.0.2.1\ncluster: cellar"), static("cellar.foo.mesh")}, []string{
			`f.yaml:13:9: metadata.name: cellar.foo.mesh collides with the endpoints that foo.mesh (f.yaml:4:9) has in the site "cellar"`}},
		"loop of two": {[]string{dns("x.mesh", "y.mesh"), dns("y.mesh", "x.mesh")}, []string{ // CASES C20
			"f.yaml:7:12: spec.locator: x.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:12:9)",
			"f.yaml:15:12: spec.locator: y.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:12:9)"}},
		"loop through names below": {[]string{dns("x.mesh", "_http._tcp.y.mesh"), dns("y.mesh", "192-0-2-1.west.x.mesh")}, []string{
			"f.yaml:7:12: spec.locator: x.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:12:9)",
			"f.yaml:15:12: spec.locator: y.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:12:9)"}},
		"itself, by a name below": {[]string{dns("x.mesh", "a.west.x.mesh")}, []string{
			"f.yaml:7:12: spec.locator: x.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9)"}},
		"chain without a loop":           {[]string{dns("x.mesh", "y.mesh"), dns("y.mesh", "z.mesh"), static("z.mesh")}, []string{}},
		"chain that ends nowhere":        {[]string{dns("x.mesh", "y.mesh")}, []string{}},
		"a dotted name of its own below": {[]string{dns("x.mesh", "a.x.mesh"), static("a.x.mesh")}, []string{}},
		"a chain into a loop is not in it": {[]string{dns("a.mesh", "x.mesh"), dns("x.mesh", "y.mesh"), dns("y.mesh", "x.mesh"), static("b.mesh")}, []string{
			"f.yaml:15:12: spec.locator: x.mesh is resolved by resolving itself, through x.mesh (f.yaml:12:9), y.mesh (f.yaml:20:9)",
			"f.yaml:23:12: spec.locator: y.mesh is resolved by resolving itself, through x.mesh (f.yaml:12:9), y.mesh (f.yaml:20:9)"}},
		"a loop through one that is not served": {[]string{static("x.mesh"), dns("x.mesh", "y.mesh"), dns("y.mesh", "x.mesh")}, []string{
			"f.yaml:12:9: metadata.name: x.mesh is registered twice: the one in f.yaml:4:9 is served, this one is not"}},
		"only the backend that loops": {[]string{
			meshService("x.mesh", "backends:\n- {type: Static, locator: 192.0.2.1}\n- {type: DNS, locator: y.mesh}"), dns("y.mesh", "x.mesh")}, []string{
			"f.yaml:8:26: spec.backends[1].locator: x.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:13:9)",
			"f.yaml:16:12: spec.locator: y.mesh is resolved by resolving itself, through x.mesh (f.yaml:4:9), y.mesh (f.yaml:13:9)"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, texts(CheckSet(set(t, c.docs...), options())))
		})
	}
}

// The nameless site is called local (resolver/select.go).
func TestCheckSetWithoutSite(t *testing.T) {
	docs := set(t, static("foo.mesh"), static("local.foo.mesh"))
	assert.Empty(t, CheckSet(docs, options()))
	opts := options()
	opts.Site = ""
	assert.Len(t, CheckSet(docs, opts), 1)
}

func TestConflictsPutTheOlderFirst(t *testing.T) {
	docs := set(t, static("web.mesh"), static("web.mesh"), static("web.mesh"))
	docs[0].Created = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	docs[1].Created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	conflicts := Conflicts(docs, options())
	require.Len(t, conflicts, 1)
	assert.Equal(t, Duplicate, conflicts[0].Kind)
	assert.Equal(t, []*MeshService{docs[2], docs[1], docs[0]}, conflicts[0].Documents)
}

// What is found does not depend on the order in which documents come.
func TestConflictsInAnyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var texts_ []string
		for i := range 2 + rnd.IntN(8) {
			name := fmt.Sprintf("%c.mesh", 'a'+rune(i))
			if rnd.IntN(6) == 0 {
				name = "west.a.mesh"
			}
			host := fmt.Sprintf("%c.mesh", 'a'+rune(rnd.IntN(10)))
			if host == name {
				host = "example.com"
			}
			texts_ = append(texts_, dns(name, host))
		}
		docs := set(t, texts_...)
		want := Conflicts(docs, options())
		rnd.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		require.Equal(t, want, Conflicts(docs, options()))
		for _, c := range want { // leaving out the documents of each loop leaves no loop
			if c.Kind == Loop {
				require.Len(t, c.Problems, len(c.Documents))
			}
		}
	}
}

// Hostile sets: one long circle, and thousands of documents with one name, each leading to all.
func TestConflictsAreBounded(t *testing.T) {
	var circle, same []string
	for i := range 3000 {
		circle = append(circle, dns(fmt.Sprintf("s%d.mesh", i), fmt.Sprintf("s%d.mesh", (i+1)%3000)))
		same = append(same, dns("x.mesh", "a.x.mesh"))
	}
	start := time.Now()
	conflicts := Conflicts(set(t, circle...), options())
	require.Len(t, conflicts, 1)
	require.Len(t, conflicts[0].Problems, 3000)
	assert.Less(t, len(conflicts[0].Problems[0].Message), 500)
	assert.Contains(t, conflicts[0].Problems[0].Message, "2992 more")
	conflicts = Conflicts(set(t, same...), options())
	require.Len(t, conflicts, 2)
	assert.Less(t, time.Since(start), 30*time.Second)
}

// A DNS locator in a zone of this server is resolved inside of it; one that cannot be is
// asked from the upstreams, which is warned of.
func TestLocatorInOwnZone(t *testing.T) {
	opts := Options{
		Mesh: names.MustParse("mesh"), Zones: []names.Name{names.MustParse("cluster.global"), names.MustParse("clusterset.local")},
		Unserved: []names.Name{names.MustParse("clusterset.local")},
	}
	for locator, want := range map[string]string{
		"b.mesh": "", "_http._tcp.b.mesh": "", "api.shop.svc.cluster.global": "", "db.example": "", "x.dns.b.mesh": "",
		"ns.dns.mesh":                   "one of the server's own names",
		"dns-version.cluster.global":    "one of the server's own names",
		"api.shop.svc.clusterset.local": "in clusterset.local., a zone that is not served yet",
	} {
		_, problems := Decode("d.yaml", []byte(dns("a.mesh", locator)), opts)
		if want == "" {
			assert.Empty(t, problems, locator)
			continue
		}
		require.Len(t, problems, 1, locator)
		assert.Equal(t, document.Warning, problems[0].Severity)
		assert.Equal(t, "spec.locator", problems[0].Field)
		assert.Contains(t, problems[0].Message, want)
	}
	docs, problems := Decode("d.yaml", []byte(dns("a.mesh", "_http._quic.b.mesh")), opts)
	assert.Empty(t, docs)
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].Message, `protocol "_quic": want _tcp, _udp or _sctp`)
}
