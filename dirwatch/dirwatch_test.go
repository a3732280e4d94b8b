package dirwatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched runs a Watcher for the length of a test.
type watched struct {
	t         *testing.T
	snapshots chan Snapshot
	recheck   chan time.Time
}

// start watches paths without re-checks but those that the test asks for.
func start(t *testing.T, cfg Config) *watched {
	w := &watched{t: t, snapshots: make(chan Snapshot), recheck: make(chan time.Time)}
	cfg.Recheck = w.recheck
	cfg.Settle = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- New(cfg).Run(ctx, func(s Snapshot) {
			select {
			case w.snapshots <- s:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// until returns the first snapshot that shows what is wanted, as text gives it; check, if
// given, sees every snapshot on the way.
func (w *watched) until(want map[string]string, check ...func(Snapshot)) Snapshot {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	var last map[string]string
	for {
		select {
		case s := <-w.snapshots:
			for _, f := range check {
				f(s)
			}
			if last = text(s); assert.ObjectsAreEqual(want, last) {
				return s
			}
		case <-deadline:
			require.Equal(w.t, want, last)
		}
	}
}

// text is a snapshot by base names; errors as "!".
func text(s Snapshot) map[string]string {
	m := map[string]string{}
	for _, f := range s.Files {
		m[filepath.Base(f.Path)] = string(f.Content)
		if f.Err != nil {
			m[filepath.Base(f.Path)] = "!"
		}
	}
	return m
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func link(t *testing.T, target, path string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, path))
}

// swap puts target into the link at path as kubelet does: a new link renamed over it.
func swap(t *testing.T, target, path string) {
	t.Helper()
	link(t, target, path+"_tmp")
	require.NoError(t, os.Rename(path+"_tmp", path))
}

func TestReadTakesDocumentsOfAllFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.YML", "c/d/e.json", "no.txt", ".hidden.yaml", ".git/x.yaml", "f.yaml~"} {
		write(t, filepath.Join(dir, name), name)
	}
	s, err := Read(dir)
	require.NoError(t, err)
	var paths []string
	for _, f := range s.Files {
		rel, err := filepath.Rel(dir, f.Path)
		require.NoError(t, err)
		assert.Equal(t, rel, string(f.Content))
		paths = append(paths, rel)
	}
	assert.Equal(t, []string{"a.yaml", "b.YML", "c/d/e.json"}, paths)
}

func TestReadTakesNamedFilesWhateverTheirEnding(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".config"), "x")
	s, err := Read(filepath.Join(dir, ".config"), filepath.Join(dir, ".config"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{".config": "x"}, text(s))
}

func TestReadKeepsRelativePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "conf/a.yaml", "x")
	s, err := Read("./conf")
	require.NoError(t, err)
	require.Len(t, s.Files, 1)
	assert.Equal(t, "conf/a.yaml", s.Files[0].Path)
}

func TestReadErrorsAreInTheSnapshot(t *testing.T) {
	tests := []struct {
		name   string
		make   func(t *testing.T, dir string)
		path   string // of the entry, below dir
		folder bool
		is     error
	}{
		{"link to nothing", func(t *testing.T, dir string) { link(t, "gone", filepath.Join(dir, "a.yaml")) },
			"a.yaml", false, fs.ErrNotExist},
		{"links in a circle", func(t *testing.T, dir string) { link(t, "a.yaml", filepath.Join(dir, "a.yaml")) },
			"a.yaml", false, errLinks},
		{"link to a folder above", func(t *testing.T, dir string) { link(t, ".", filepath.Join(dir, "sub")) },
			"sub", true, errCircle},
		{"pipe", func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600))
		}, "a.yaml", false, errNoRegular},
		{"missing", func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)) }, "", true, fs.ErrNotExist},
		{"nested too deep", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, strings.Repeat("x/", maxDepth), "a.yaml"), "x")
		}, strings.TrimSuffix(strings.Repeat("x/", maxDepth), "/"), true, errDepth},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			require.NoError(t, os.Mkdir(dir, 0o755))
			tc.make(t, dir)
			s, err := Read(dir)
			require.ErrorIs(t, err, tc.is)
			require.Len(t, s.Files, 1)
			f := s.Files[0]
			assert.Equal(t, filepath.Join(dir, tc.path), f.Path)
			assert.ErrorIs(t, f.Err, tc.is)
			assert.ErrorContains(t, f.Err, f.Path)
			assert.Equal(t, tc.folder, f.Folder)
			assert.Nil(t, f.Content)
			assert.Equal(t, f.Err, s.Unknown(f.Path))
			if tc.folder {
				assert.Equal(t, f.Err, s.Unknown(filepath.Join(f.Path, "below.yaml")))
			}
			assert.NoError(t, s.Unknown(f.Path+"beside.yaml"))
		})
	}
}

func TestUnknownBelowTheCurrentFolder(t *testing.T) {
	s := Snapshot{Files: []*File{{Path: ".", Err: errDepth, Folder: true}}}
	assert.Error(t, s.Unknown("a.yaml"))
	assert.NoError(t, s.Unknown("/a.yaml"))
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "12345")
	write(t, filepath.Join(dir, "b.yaml"), "123456")
	w := start(t, Config{Paths: []string{dir}, MaxFileSize: 5})
	s := w.until(map[string]string{"a.yaml": "12345", "b.yaml": "!"})
	assert.ErrorIs(t, s.Files[1].Err, errTooLarge)
}

func TestGrowingFileIsBounded(t *testing.T) {
	_, err := readBounded(endless{}, nil, 100_000)
	assert.ErrorIs(t, err, errTooLarge)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRunWithoutPathsIsAnError(t *testing.T) {
	assert.Error(t, New(Config{}).Run(context.Background(), func(Snapshot) {}))
}

func TestChangesAreDelivered(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("a.yaml"), "a1")
	w := start(t, Config{Paths: []string{dir}})
	first := w.until(map[string]string{"a.yaml": "a1"})

	write(t, path("sub/deep/b.yaml"), "b1")
	second := w.until(map[string]string{"a.yaml": "a1", "b.yaml": "b1"})
	assert.Same(t, first.Files[0], second.Files[0], "an unchanged file is shared")

	write(t, path("sub/deep/b.yaml"), "b2")
	w.until(map[string]string{"a.yaml": "a1", "b.yaml": "b2"})

	write(t, path("a.tmp"), "a2") // as editors write
	require.NoError(t, os.Rename(path("a.tmp"), path("a.yaml")))
	w.until(map[string]string{"a.yaml": "a2", "b.yaml": "b2"})
	write(t, path("a.yaml"), "a3") // the watch is with the new file
	w.until(map[string]string{"a.yaml": "a3", "b.yaml": "b2"})

	require.NoError(t, os.Rename(path("sub"), path("sub2"))) // a whole folder
	w.until(map[string]string{"a.yaml": "a3", "b.yaml": "b2"},
		func(s Snapshot) { assert.Contains(t, s.Files[1].Path, "sub2") })
	write(t, path("sub2/deep/b.yaml"), "b3")
	w.until(map[string]string{"a.yaml": "a3", "b.yaml": "b3"})

	require.NoError(t, os.RemoveAll(path("sub2")))
	w.until(map[string]string{"a.yaml": "a3"})
	require.NoError(t, os.Remove(path("a.yaml")))
	w.until(map[string]string{})
}

func TestNothingIsDeliveredWithoutChange(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "a")
	w := start(t, Config{Paths: []string{dir}})
	w.until(map[string]string{"a.yaml": "a"})
	write(t, filepath.Join(dir, "a.yaml"), "a") // the same bytes
	write(t, filepath.Join(dir, "a.txt"), "no document")
	for range 4 { // each is taken once the look before it is done with
		select {
		case w.recheck <- time.Time{}:
		case s := <-w.snapshots:
			t.Fatalf("delivered %v", text(s))
		}
	}
}

// What is decoded at once is decoded once a content, and the content is not kept.
func TestContentsAreDecodedOnce(t *testing.T) {
	dir := t.TempDir()
	const files = 20
	for i := range files {
		write(t, filepath.Join(dir, fmt.Sprintf("%02d.yaml", i)), strings.Repeat("x", i))
	}
	var decodes atomic.Int64
	w := start(t, Config{Paths: []string{dir}, MaxFileSize: 1_000, Decode: func(path string, content []byte) any {
		decodes.Add(1)
		return filepath.Base(path) + " " + string(content)
	}})
	check := func(s Snapshot, first string) {
		require.Len(t, s.Files, files)
		for i, f := range s.Files {
			want := strings.Repeat("x", i)
			if i == 0 {
				want = first
			}
			assert.Nil(t, f.Content)
			assert.Equal(t, fmt.Sprintf("%02d.yaml %s", i, want), f.Decoded)
		}
	}
	check(<-w.snapshots, "")
	w.recheck <- time.Time{} // all files are young: they are read again
	w.recheck <- time.Time{} // taken once the look before it is done with
	assert.EqualValues(t, files, decodes.Load())

	write(t, filepath.Join(dir, "00.new"), "new")
	require.NoError(t, os.Rename(filepath.Join(dir, "00.new"), filepath.Join(dir, "00.yaml")))
	check(<-w.snapshots, "new")
	assert.EqualValues(t, files+1, decodes.Load())

	write(t, filepath.Join(dir, "00.yaml"), strings.Repeat("x", 1_001))
	for s := range w.snapshots { // it may be seen empty before
		if s.Files[0].Err != nil {
			assert.ErrorIs(t, s.Files[0].Err, errTooLarge)
			assert.Nil(t, s.Files[0].Decoded)
			return
		}
	}
}

// kubelet lays a ConfigMap volume out as data folder, link ..data and links of the keys.
type kubelet struct {
	t   *testing.T
	dir string
	n   int
}

func (k *kubelet) update(files map[string]string) {
	k.n++
	data := fmt.Sprintf("..2026_01_01_%d", k.n)
	for name, content := range files {
		write(k.t, filepath.Join(k.dir, data, name), content)
	}
	swap(k.t, data, filepath.Join(k.dir, "..data"))
	for name := range files {
		if err := os.Symlink("..data/"+name, filepath.Join(k.dir, name)); !errors.Is(err, fs.ErrExist) {
			require.NoError(k.t, err)
		}
	}
	if k.n > 1 {
		require.NoError(k.t, os.RemoveAll(filepath.Join(k.dir, fmt.Sprintf("..2026_01_01_%d", k.n-1))))
	}
}

func TestConfigMapSwapIsOneStep(t *testing.T) {
	k := &kubelet{t: t, dir: t.TempDir()}
	content := func(i int) map[string]string {
		return map[string]string{"a.yaml": fmt.Sprint("v", i), "b.yaml": fmt.Sprint("v", i)}
	}
	k.update(content(0))
	w := start(t, Config{Paths: []string{k.dir}})
	oneStep := func(s Snapshot) {
		m := text(s)
		assert.Equal(t, m["a.yaml"], m["b.yaml"])
		assert.NotContains(t, m, "!")
	}
	w.until(content(0), oneStep)
	for i := 1; i <= 50; i++ {
		k.update(content(i))
		if i%5 == 0 { // else swaps overtake the reader
			w.until(content(i), oneStep)
		}
	}
}

func TestConfigMapKeysComeAndGo(t *testing.T) {
	k := &kubelet{t: t, dir: t.TempDir()}
	w := start(t, Config{Paths: []string{k.dir}})
	w.until(map[string]string{})
	k.update(map[string]string{"a.yaml": "a", "b.yaml": "b"})
	w.until(map[string]string{"a.yaml": "a", "b.yaml": "b"})
	k.update(map[string]string{"a.yaml": "a2"})
	require.NoError(t, os.Remove(filepath.Join(k.dir, "b.yaml")))
	w.until(map[string]string{"a.yaml": "a2"})
}

func TestConfigFileInAConfigMap(t *testing.T) {
	k := &kubelet{t: t, dir: t.TempDir()}
	k.update(map[string]string{"meshdns.yaml": "1"})
	w := start(t, Config{Paths: []string{filepath.Join(k.dir, "meshdns.yaml")}})
	w.until(map[string]string{"meshdns.yaml": "1"})
	for i := range 5 {
		k.update(map[string]string{"meshdns.yaml": fmt.Sprint(i, "x")})
		w.until(map[string]string{"meshdns.yaml": fmt.Sprint(i, "x")})
	}
}

func TestLinkedFolderIsSwapped(t *testing.T) {
	dir := t.TempDir()
	for _, release := range []string{"r1", "r2", "r3"} {
		write(t, filepath.Join(dir, "releases", release, "conf", "a.yaml"), release)
	}
	link(t, "releases/r1", filepath.Join(dir, "current"))
	w := start(t, Config{Paths: []string{filepath.Join(dir, "current", "conf")}})
	w.until(map[string]string{"a.yaml": "r1"})
	for _, release := range []string{"r2", "r3", "r1"} {
		swap(t, "releases/"+release, filepath.Join(dir, "current"))
		w.until(map[string]string{"a.yaml": release})
	}
	write(t, filepath.Join(dir, "releases", "r1", "conf", "a.yaml"), "r1b")
	w.until(map[string]string{"a.yaml": "r1b"})
}

func TestLinkedFileIsFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(elsewhere, "target"), "1")
	link(t, filepath.Join(elsewhere, "target"), filepath.Join(dir, "a.yaml"))
	w := start(t, Config{Paths: []string{dir}})
	w.until(map[string]string{"a.yaml": "1"})
	write(t, filepath.Join(elsewhere, "target"), "2")
	w.until(map[string]string{"a.yaml": "2"})
	require.NoError(t, os.Remove(filepath.Join(elsewhere, "target")))
	w.until(map[string]string{"a.yaml": "!"})
	write(t, filepath.Join(elsewhere, "target"), "3")
	w.until(map[string]string{"a.yaml": "3"})
}

func TestMissingFolderIsTakenUp(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "x", "y", "z")
	w := start(t, Config{Paths: []string{root}})
	s := w.until(map[string]string{"z": "!"})
	assert.True(t, s.Files[0].Folder)
	write(t, filepath.Join(root, "a.yaml"), "a")
	w.until(map[string]string{"a.yaml": "a"})
	require.NoError(t, os.RemoveAll(root))
	w.until(map[string]string{"z": "!"})
	write(t, filepath.Join(root, "a.yaml"), "a2")
	w.until(map[string]string{"a.yaml": "a2"})
}

func TestReplacedFolderIsWatched(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "conf")
	write(t, filepath.Join(root, "a.yaml"), "1")
	write(t, filepath.Join(dir, "new", "a.yaml"), "2")
	w := start(t, Config{Paths: []string{root}})
	w.until(map[string]string{"a.yaml": "1"})
	require.NoError(t, os.Rename(root, filepath.Join(dir, "old")))
	require.NoError(t, os.Rename(filepath.Join(dir, "new"), root))
	w.until(map[string]string{"a.yaml": "2"})
	write(t, filepath.Join(root, "a.yaml"), "3")
	w.until(map[string]string{"a.yaml": "3"})
}

func TestHalfWrittenFileIsFollowedByItsRest(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Config{Paths: []string{dir}})
	w.until(map[string]string{})
	f, err := os.Create(filepath.Join(dir, "a.yaml"))
	require.NoError(t, err)
	_, err = f.WriteString("first ")
	require.NoError(t, err)
	w.until(map[string]string{"a.yaml": "first "})
	_, err = f.WriteString("rest")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	w.until(map[string]string{"a.yaml": "first rest"})
}

func TestManyRapidChanges(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Config{Paths: []string{dir}})
	w.until(map[string]string{})
	want := map[string]string{}
	for i := range 200 {
		name := fmt.Sprintf("%d.yaml", i%20)
		want[name] = fmt.Sprint("v", i)
		write(t, filepath.Join(dir, name), want[name])
	}
	w.until(want)
}

func TestBusyConsumerGetsTheLatestOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "0")
	w := start(t, Config{Paths: []string{path}})
	for i := range 100 { // the first snapshot waits to be taken meanwhile
		write(t, path, fmt.Sprint(i))
	}
	delivered := 0
	w.until(map[string]string{"a.yaml": "99"}, func(Snapshot) { delivered++ })
	assert.LessOrEqual(t, delivered, 2)
}

// What events do not show is found by the re-check: here the notifier's own watch of the
// folder is taken away, as a lost event would.
func TestRecheckFindsWhatEventsMissed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "1")
	n := newNotifier(New(Config{}).cfg.Logger)
	defer n.close()
	s := newScanner([]string{dir}, 100, n)
	assert.Equal(t, map[string]string{"a.yaml": "1"}, text(s.first()))
	require.NoError(t, n.fs.Remove(dir))
	write(t, path, "2")
	got, changed := s.next(nil)
	assert.True(t, changed)
	assert.Equal(t, map[string]string{"a.yaml": "2"}, text(got))
	assert.Contains(t, n.fs.WatchList(), dir, "the watch is back")
}

func TestWatchesAreGivenUp(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sub", "a.yaml"), "1")
	n := newNotifier(New(Config{}).cfg.Logger)
	defer n.close()
	s := newScanner([]string{dir}, 100, n)
	s.first()
	require.Contains(t, n.fs.WatchList(), filepath.Join(dir, "sub"))
	require.NoError(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, ".sub")))
	s.next(nil)
	for _, watched := range n.fs.WatchList() {
		assert.NotContains(t, watched, "sub")
	}
	assert.Len(t, n.folders, 2, "the folder and the one it is in")
}
