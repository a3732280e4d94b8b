package files

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

func options() registry.Options {
	return registry.Options{Mesh: names.MustParse("mesh."), Clusters: []string{"west"}, Site: "west"}
}

// sink is what a resolver would have: the documents, by file:name.
type sink struct {
	mu      sync.Mutex
	docs    map[string]*registry.MeshService
	updates int
	status  sources.Status
	changed chan struct{}
}

func newSink() *sink {
	return &sink{docs: map[string]*registry.MeshService{}, changed: make(chan struct{}, 1)}
}

func (k *sink) Update(u sources.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.updates++
	id := filepath.Base(u.Key.Namespace) + ":" + u.Key.Name
	if u.Value == nil {
		delete(k.docs, id)
		return
	}
	k.docs[id] = u.Value.(*registry.MeshService)
}

func (k *sink) Status(s sources.Status) {
	k.mu.Lock()
	k.status = s
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// locators are the documents' first locators, by file:name.
func (k *sink) locators() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := map[string]string{}
	for id, doc := range k.docs {
		if len(doc.Faults) == 0 {
			m[id] = doc.Backends[0].Locator
		}
	}
	return m
}

// refused are the first faults of bad documents without a good one in their place, by
// file:name.
func (k *sink) refused() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := map[string]string{}
	for id, doc := range k.docs {
		if len(doc.Faults) > 0 {
			m[id], _, _ = strings.Cut(filepath.Base(doc.Faults[0].String()), ";")
		}
	}
	return m
}

func (k *sink) state() (sources.Status, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status, k.updates
}

// running is a Source at work on a folder of its own.
type running struct {
	*sink
	*Source
	t       *testing.T
	dir     string
	recheck chan time.Time
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var start0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// start runs a Source on a folder that holds files (name → content).
func start(t *testing.T, files map[string]string) *running {
	t.Helper()
	r := &running{sink: newSink(), t: t, dir: t.TempDir(), recheck: make(chan time.Time), log: &lockedBuffer{}}
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	r.Source = New(Config{
		Dir: r.dir, Options: options(), Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Now: func() time.Time { return start0 }, Recheck: r.recheck,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, r.sink) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return r
}

// write replaces a file as careful programs do: in one step.
func (r *running) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	hidden := filepath.Join(filepath.Dir(path), ".new")
	require.NoError(r.t, os.WriteFile(hidden, []byte(content), 0o644))
	require.NoError(r.t, os.Rename(hidden, path))
}

// until waits for a state, and says what was there instead.
func (r *running) until(reached func() bool, found func() any) {
	r.t.Helper()
	deadline := time.After(60 * time.Second)
	for !reached() {
		select {
		case <-r.changed:
		case <-deadline:
			require.Fail(r.t, "not reached", "%v\n%v", found(), r.log)
		}
	}
}

// served waits until exactly these documents are served.
func (r *running) served(want map[string]string) {
	r.t.Helper()
	r.until(func() bool { return assert.ObjectsAreEqual(want, r.locators()) }, func() any { return r.locators() })
}

// skipped waits until so many documents are left out, for a reason that contains why.
func (r *running) skipped(count int, why string) {
	r.t.Helper()
	r.until(func() bool {
		status, _ := r.state()
		return status.Skipped == count && strings.Contains(status.LastSkip, why)
	}, func() any { status, _ := r.state(); return status })
}

func static(name, address string) string {
	return "apiVersion: meshdns.io/v1alpha1\nkind: MeshService\nmetadata: {name: " + name + "}\nspec: {type: Static, locator: " + address + "}\n---\n"
}

func dns(name, host string) string {
	return strings.NewReplacer("Static", "DNS").Replace(static(name, host))
}

func typo(name, address string) string {
	return strings.Replace(static(name, address), "locator", "loactor", 1)
}

func TestSourceFollowsTheFolder(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("a.mesh", "192.0.2.1") + static("b.mesh", "192.0.2.2"), "sub/c.yml": static("c.mesh", "192.0.2.3"), "notes.txt": "no"})
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "a.yaml:b.mesh": "192.0.2.2", "c.yml:c.mesh": "192.0.2.3"})
	r.skipped(0, "")
	status, updates := r.state()
	assert.Equal(t, sources.Status{Source: "registryDir", Kind: "files", Synced: true, LastSuccess: start0}, status)
	assert.Equal(t, 3, updates)
	assert.Equal(t, "registryDir", r.docs["a.yaml:a.mesh"].Origin.Source)

	r.write("a.yaml", static("a.mesh", "192.0.2.1")+static("b.mesh", "192.0.2.9"))
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "a.yaml:b.mesh": "192.0.2.9", "c.yml:c.mesh": "192.0.2.3"})
	_, updates = r.state()
	assert.Equal(t, 4, updates, "only what changed is sent")

	r.write("a.yaml", static("b.mesh", "192.0.2.9")) // a named removal is believed at once
	r.served(map[string]string{"a.yaml:b.mesh": "192.0.2.9", "c.yml:c.mesh": "192.0.2.3"})
	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "sub")))
	r.served(map[string]string{"a.yaml:b.mesh": "192.0.2.9"})
	r.write("d.json", `{"apiVersion": "specs.smi-spec.io/v1alpha1", "kind": "Service", "metadata": {"name": "d.mesh"}, "spec": {"type": "DNS", "locator": "d.example.com"}}`)
	r.served(map[string]string{"a.yaml:b.mesh": "192.0.2.9", "d.json:d.mesh": "d.example.com"})
	assert.Empty(t, r.log.String())
}

// CASES C130: a bad document is left out, the others live.
func TestSourceSkipsBadDocuments(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("a.mesh", "192.0.2.1") + static("b.mesh", "300.1.1.1"), "c.yaml": "kind: [", "d.yaml": static("d.mesh", "192.0.2.4")})
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "d.yaml:d.mesh": "192.0.2.4"})
	r.skipped(2, `a.yaml:9:31: spec.locator: "300.1.1.1" is no IP address`)
	status, _ := r.state()
	assert.True(t, status.Synced)
	assert.Empty(t, status.Error)

	r.write("d.yaml", static("d.mesh", "192.0.2.5"))
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "d.yaml:d.mesh": "192.0.2.5"})
	assert.Equal(t, 1, strings.Count(r.log.String(), "300.1.1.1"), "logged once")
	assert.Equal(t, 1, strings.Count(r.log.String(), "not valid YAML"))
	assert.Equal(t, 1, strings.Count(r.log.String(), "level=ERROR msg=\"registry file with a document whose name cannot be read"))

	r.write("a.yaml", static("a.mesh", "192.0.2.1")+static("b.mesh", "192.0.2.2"))
	require.NoError(t, os.Remove(filepath.Join(r.dir, "c.yaml")))
	r.skipped(0, "")
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "a.yaml:b.mesh": "192.0.2.2", "d.yaml:d.mesh": "192.0.2.5"})
}

// A name whose document is bad from the start is registered all the same: unknown, not
// absent, until the document is mended or removed. What was good before goes first.
func TestSourceRefusedNames(t *testing.T) {
	unknown := func(at string) string { return at + ": spec.loactor: unknown field" }
	r := start(t, map[string]string{
		"a.yaml": typo("a.mesh", "192.0.2.1") + typo("A.mesh", "192.0.2.1") + static("b.mesh", "192.0.2.2"),
		"b.yaml": typo("b.mesh", "192.0.2.3") + typo("x.b.mesh", "192.0.2.3") + typo("y.west.b.mesh", "192.0.2.3"),
		"c.yaml": dns("c.mesh", "d.mesh") + dns("d.mesh", "c.mesh") + "kind: [",
		"e.yaml": typo("web.example", "192.0.2.4") + typo("dns.mesh", "192.0.2.4") + typo("-.mesh", "192.0.2.4"),
		"f.yaml": "",
	})
	r.served(map[string]string{"a.yaml:b.mesh": "192.0.2.2"})
	r.skipped(11, "")
	loop := func(name, at string) string {
		return "c.yaml:" + at + ": spec.locator: " + name + ".mesh is resolved by resolving itself, through "
	}
	got := r.refused()
	for id, want := range map[string]string{
		"a.yaml:a.mesh": unknown("a.yaml:4:22"), "b.yaml:b.mesh": unknown("b.yaml:4:22"), "b.yaml:x.b.mesh": unknown("b.yaml:9:22"),
	} {
		assert.Equal(t, want, got[id], id)
		delete(got, id)
	}
	docs := r.docs
	assert.Contains(t, docs["c.yaml:c.mesh"].Faults[0].String(), loop("c", "4:28"))
	assert.Contains(t, docs["c.yaml:d.mesh"].Faults[0].String(), loop("d", "9:28"))
	assert.Len(t, got, 2, "%v", got)
	_, before := r.state()

	r.write("f.yaml", static("f.mesh", "192.0.2.5"))
	r.served(map[string]string{"a.yaml:b.mesh": "192.0.2.2", "f.yaml:f.mesh": "192.0.2.5"})
	_, after := r.state()
	assert.Equal(t, before+1, after, "what stays is not sent again")

	// Mended, in part or as a whole; unreadable; removed.
	r.write("a.yaml", static("a.mesh", "192.0.2.1")+static("b.mesh", "192.0.2.2"))
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "a.yaml:b.mesh": "192.0.2.2", "f.yaml:f.mesh": "192.0.2.5"})
	r.write("b.yaml", "kind: [")
	r.skipped(7, "")
	assert.Contains(t, r.refused(), "b.yaml:x.b.mesh", "the file may still register it")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "b.yaml")))
	require.NoError(t, os.Remove(filepath.Join(r.dir, "c.yaml")))
	r.skipped(3, "")
	assert.Empty(t, r.refused())
	r.write("a.yaml", typo("a.mesh", "192.0.2.1")+typo("n.mesh", "192.0.2.1"))
	r.skipped(5, "")
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "f.yaml:f.mesh": "192.0.2.5"})
	assert.Equal(t, map[string]string{"a.yaml:n.mesh": unknown("a.yaml:9:22")}, r.refused())
}

// Live, a mistake stops nobody's DNS: the last good content stays.
func TestSourceKeepsTheLastGoodContent(t *testing.T) {
	good := static("a.mesh", "192.0.2.1") + static("b.mesh", "192.0.2.2")
	all := map[string]string{"f.yaml:a.mesh": "192.0.2.1", "f.yaml:b.mesh": "192.0.2.2"}
	for name, c := range map[string]struct {
		content string
		want    map[string]string
		skipped int
		why     string
	}{
		"a typo in one":          {typo("a.mesh", "192.0.2.8") + static("b.mesh", "192.0.2.9"), map[string]string{"f.yaml:a.mesh": "192.0.2.1", "f.yaml:b.mesh": "192.0.2.9"}, 1, "spec.locator: missing"},
		"a typo, one taken out":  {typo("a.mesh", "192.0.2.8"), map[string]string{"f.yaml:a.mesh": "192.0.2.1"}, 1, "spec.locator: missing"},
		"a typo under new name":  {typo("c.mesh", "192.0.2.8") + static("b.mesh", "192.0.2.9"), map[string]string{"f.yaml:b.mesh": "192.0.2.9"}, 1, "spec.locator: missing"},
		"a nameless one":         {typo("''", "192.0.2.8") + static("b.mesh", "192.0.2.9"), map[string]string{"f.yaml:a.mesh": "192.0.2.1", "f.yaml:b.mesh": "192.0.2.9"}, 1, "metadata.name: missing"},
		"broken at the end":      {static("b.mesh", "192.0.2.9") + "kind: [\n", map[string]string{"f.yaml:a.mesh": "192.0.2.1", "f.yaml:b.mesh": "192.0.2.9"}, 1, "not valid YAML"},
		"broken throughout":      {"\xff\xfe", all, 1, "not UTF-8"},
		"empty":                  {"", all, 1, "empty: its documents stay as they were"},
		"comments only":          {"# moved\n", map[string]string{}, 0, ""},
		"another kind":           {strings.ReplaceAll(good, "MeshService", "MeshSrvice"), all, 2, "MeshSrvice"},
		"the same once more":     {good + static("a.mesh", "192.0.2.7"), all, 1, "a.mesh is registered twice"},
		"a loop with itself":     {dns("a.mesh", "x.west.a.mesh") + static("b.mesh", "192.0.2.2"), all, 1, "is resolved by resolving itself"},
		"a loop of two new":      {dns("a.mesh", "b.mesh") + dns("b.mesh", "a.mesh"), all, 2, "is resolved by resolving itself"},
		"a site's label":         {good + static("west.a.mesh", "192.0.2.3"), all, 1, "west.a.mesh collides with the endpoints that a.mesh"},
		"a site's label, deeper": {good + static("x.west.a.mesh", "192.0.2.3"), all, 1, "x.west.a.mesh collides"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, map[string]string{"f.yaml": good})
			r.served(all)
			r.write("f.yaml", c.content)
			r.skipped(c.skipped, c.why)
			r.served(c.want)
			if c.skipped > 0 {
				assert.Contains(t, r.log.String(), "level=WARN")
			}
			r.write("f.yaml", static("z.mesh", "192.0.2.5"))
			r.served(map[string]string{"f.yaml:z.mesh": "192.0.2.5"})
			r.skipped(0, "")
		})
	}
}

// CASES C20: of a loop, who closes it loses; with nobody before, all of it.
func TestSourceLoops(t *testing.T) {
	r := start(t, map[string]string{"x.yaml": dns("x.mesh", "y.mesh"), "y.yaml": dns("y.mesh", "x.mesh"), "z.yaml": static("z.mesh", "192.0.2.1")})
	r.served(map[string]string{"z.yaml:z.mesh": "192.0.2.1"})
	r.skipped(2, "x.mesh is resolved by resolving itself, through x.mesh")
	r.write("y.yaml", static("y.mesh", "192.0.2.2")) // x.yaml is taken up though it did not change
	r.served(map[string]string{"x.yaml:x.mesh": "y.mesh", "y.yaml:y.mesh": "192.0.2.2", "z.yaml:z.mesh": "192.0.2.1"})
	r.write("z.yaml", dns("z.mesh", "x.mesh"))
	r.served(map[string]string{"x.yaml:x.mesh": "y.mesh", "y.yaml:y.mesh": "192.0.2.2", "z.yaml:z.mesh": "x.mesh"})
	r.write("y.yaml", dns("y.mesh", "z.mesh"))
	r.skipped(1, "y.mesh is resolved by resolving itself")
	r.served(map[string]string{"x.yaml:x.mesh": "y.mesh", "y.yaml:y.mesh": "192.0.2.2", "z.yaml:z.mesh": "x.mesh"})
}

// CASES C95: one name in two files goes to the resolver, which has the last word.
func TestSourcePassesDuplicatesOn(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("web.mesh", "192.0.2.1"), "b.yaml": static("Web.mesh", "192.0.2.2")})
	r.served(map[string]string{"a.yaml:web.mesh": "192.0.2.1", "b.yaml:web.mesh": "192.0.2.2"})
	r.skipped(0, "web.mesh is registered twice: the one in "+filepath.Join(r.dir, "a.yaml"))
	require.NoError(t, os.Remove(filepath.Join(r.dir, "a.yaml")))
	r.served(map[string]string{"b.yaml:web.mesh": "192.0.2.2"})
	r.skipped(0, "")
}

func TestSourceCollisionGoesToTheYounger(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("west.foo.mesh", "192.0.2.1"), "b.yaml": static("foo.mesh", "192.0.2.2")})
	r.served(map[string]string{"a.yaml:west.foo.mesh": "192.0.2.1"})
	r.skipped(1, "west.foo.mesh collides with the endpoints that foo.mesh")
}

// What cannot be read is an error, not an absence.
func TestSourceUnreadable(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("a.mesh", "192.0.2.1"), "sub/b.yaml": static("b.mesh", "192.0.2.2")})
	all := map[string]string{"a.yaml:a.mesh": "192.0.2.1", "b.yaml:b.mesh": "192.0.2.2"}
	r.served(all)
	require.NoError(t, os.Rename(filepath.Join(r.dir, "a.yaml"), filepath.Join(r.dir, "moved")))
	require.NoError(t, os.Symlink("a.yaml", filepath.Join(r.dir, "a.yaml"))) // a circle
	r.skipped(1, "a.yaml: cannot be read: ")
	r.served(all)
	require.NoError(t, os.Remove(filepath.Join(r.dir, "a.yaml")))
	require.NoError(t, os.Rename(filepath.Join(r.dir, "moved"), filepath.Join(r.dir, "a.yaml")))
	r.skipped(0, "")
	r.served(all)
}

func TestSourceWaitsForItsFolder(t *testing.T) {
	k := newSink()
	dir := filepath.Join(t.TempDir(), "later")
	recheck := make(chan time.Time)
	s := New(Config{Dir: dir, Options: options(), Recheck: recheck})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, k) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	r := &running{sink: k, t: t, dir: dir, log: &lockedBuffer{}}
	status := func() sources.Status { st, _ := k.state(); return st }
	r.until(func() bool { return status().Error != "" }, func() any { return status() })
	assert.False(t, status().Synced)
	assert.Zero(t, status().LastSuccess)
	assert.Contains(t, status().Error, dir)

	r.write("a.yaml", static("a.mesh", "192.0.2.1"))
	select {
	case recheck <- time.Time{}:
	case <-k.changed: // seen by itself
	}
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1"})
	r.until(func() bool { return status().Synced && status().Error == "" }, func() any { return status() })

	require.NoError(t, os.Rename(dir, dir+".away"))
	go func() { // until the folder's loss is seen
		for status().Error == "" {
			select {
			case recheck <- time.Time{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	r.until(func() bool { return status().Error != "" }, func() any { return status() })
	assert.True(t, status().Synced, "never goes back")
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1"})
}

func TestSourceReconfigure(t *testing.T) {
	r := start(t, map[string]string{"a.yaml": static("a.mesh", "192.0.2.1") + static("a.other", "192.0.2.2") + static("west.a.mesh", "192.0.2.3")})
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1"})
	r.skipped(2, "")
	_, before := r.state()

	opts := options()
	opts.Clusters, opts.Site = []string{"east"}, "east" // west is no site any more
	r.Reconfigure(r.dir, opts)
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1", "a.yaml:west.a.mesh": "192.0.2.3"})
	_, after := r.state()
	assert.Equal(t, before+1, after, "what stays is not sent again")

	opts.Mesh = names.MustParse("other.")
	r.Reconfigure(r.dir, opts)
	r.served(map[string]string{"a.yaml:a.other": "192.0.2.2"})

	second := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(second, "b.yaml"), []byte(static("b.other", "192.0.2.4")), 0o644))
	r.Reconfigure(second, opts)
	r.served(map[string]string{"b.yaml:b.other": "192.0.2.4"})
	r.Reconfigure("", opts)
	r.served(map[string]string{})
	r.Reconfigure(r.dir, options())
	r.served(map[string]string{"a.yaml:a.mesh": "192.0.2.1"})
	status, _ := r.state()
	assert.True(t, status.Synced)
}

func TestSourceLogIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		text.WriteString(typo(fmt.Sprintf("s%d.mesh", i), "192.0.2.1"))
	}
	r := start(t, map[string]string{"a.yaml": text.String()})
	r.skipped(100, "")
	assert.Equal(t, maxLines+1, strings.Count(r.log.String(), "\n"))
	assert.Contains(t, r.log.String(), "moreProblems=180")
}

// CASES C119: 5,000 documents, one changes.
func TestSourceTakesUpOneOfThousands(t *testing.T) {
	const count = 5000
	files := map[string]string{}
	var whole strings.Builder
	for i := range count {
		files[fmt.Sprintf("%d.yaml", i)] = static(fmt.Sprintf("s%d.mesh", i), "192.0.2.1")
		whole.WriteString(static(fmt.Sprintf("t%d.mesh", i), "192.0.2.1"))
	}
	for name, c := range map[string]struct {
		files               map[string]string
		file, before, after string
	}{
		"a file each": {files, "4321.yaml", files["4321.yaml"], static("s4321.mesh", "192.0.2.9")},
		"one file":    {map[string]string{"all.yaml": whole.String()}, "all.yaml", whole.String(), strings.Replace(whole.String(), "t4321.mesh}\nspec: {type: Static, locator: 192.0.2.1}", "t4321.mesh}\nspec: {type: Static, locator: 192.0.2.9}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c.files)
			sent := func() int { _, updates := r.state(); return updates }
			r.until(func() bool { return sent() == count }, func() any { return sent() })
			const limit = slowdown * time.Second
			best := time.Hour
			for i := 0; i < 10 && best >= limit; i++ { // others use the machine too
				begin := time.Now()
				r.write(c.file, []string{c.after, c.before}[i%2])
				r.until(func() bool { return sent() == count+i+1 }, func() any { return sent() })
				best = min(best, time.Since(begin))
			}
			t.Log("change to update:", best)
			assert.Less(t, best, limit)
		})
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml": static("a.mesh", "192.0.2.1"), "b.yaml": typo("b.mesh", "192.0.2.1"), "c.yaml": static("A.mesh", "192.0.2.1"),
		"d.yaml": "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "e.yaml")))
	var texts []string
	for _, p := range Check(dir, options()) {
		texts = append(texts, strings.ReplaceAll(p.String(), dir+string(filepath.Separator), ""))
	}
	require.Len(t, texts, 5)
	assert.Equal(t, "b.yaml:4:1: spec.locator: missing", texts[0])
	assert.Contains(t, texts[1], "b.yaml:4:22: spec.loactor: unknown field")
	assert.Equal(t, "c.yaml:3:18: metadata.name: a.mesh is registered twice: the one in a.yaml:3:18 is served, this one is not", texts[2])
	assert.Equal(t, "d.yaml:2:7: kind: warning: ServiceEntry is not read yet: it has no effect", texts[3])
	assert.Contains(t, texts[4], "e.yaml: cannot be read: ")

	problems := Check(filepath.Join(dir, "none"), options())
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0].String(), "none: cannot be read: ")
}
