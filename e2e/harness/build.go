package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Tool names a program that the tests run.
type Tool string

// The programs.
const (
	KubeAPIServer Tool = "kube-apiserver"
	Etcd          Tool = "etcd"
	CoreDNS       Tool = "coredns"
	Meshdns       Tool = "meshdns" // the product; built anew in each run
)

// ToolsToCache are the programs that are built once and kept.
func ToolsToCache() []Tool { return []Tool{Etcd, KubeAPIServer, CoreDNS} }

// recipe says how a tool is built.
type recipe struct {
	module string // folder of its module, under e2e
	pkg    string // its main package, inside the module
	main   string // the module that gives the version
	takes  string // what to expect on two cores with an empty build cache
}

// recipes is a function, since Go has no constant maps.
func recipes() map[Tool]recipe {
	const kubernetes = "k8s.io/kubernetes"
	return map[Tool]recipe{
		KubeAPIServer: {module: "kubeapiserver", pkg: ".", main: kubernetes, takes: "7 minutes"},
		Etcd:          {module: "kubeapiserver", pkg: "./etcd", main: "go.etcd.io/etcd/server/v3", takes: "1 minute"},
		CoreDNS:       {module: "coredns", pkg: ".", main: "github.com/coredns/coredns", takes: "4 minutes"},
	}
}

// MissingError says that a tool is neither installed nor could be built. Tests that need
// it are skipped, or fail where CI=true.
type MissingError struct {
	Tool Tool
	Err  error
}

func (m *MissingError) Error() string { return fmt.Sprintf("%s is missing: %v", m.Tool, m.Err) }
func (m *MissingError) Unwrap() error { return m.Err }

// CacheVariable names the environment variable with the cache folder.
const CacheVariable = "MESHDNS_E2E_CACHE"

// BinaryVariable names the environment variable with a ready binary of the product, for
// instance one with the race detector, to run in place of a fresh build.
const BinaryVariable = "MESHDNS_E2E_BINARY"

// Builder builds the tools into the cache folder.
type Builder struct {
	root  string // folder of the e2e module
	cache string
	log   io.Writer
}

// NewBuilder finds the e2e module that the working folder belongs to, and the cache.
func NewBuilder(log io.Writer) (*Builder, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	return &Builder{root: root, cache: cache, log: log}, nil
}

// moduleRoot is the folder of the go.mod in use.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(root, "kubeapiserver", "go.mod")); err != nil {
		return "", fmt.Errorf("%s is not the folder of the e2e module: %w", root, err)
	}
	return root, nil
}

// cacheFolder is outside of the tree, so that a fresh clone finds what another has built.
func cacheFolder() (string, error) {
	dir := os.Getenv(CacheVariable)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder (set %s): %w", CacheVariable, err)
		}
		dir = filepath.Join(user, "meshdns-e2e")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	return filepath.Abs(dir)
}

// Tool gives an installed tool, else the cached one, else builds it.
func (b *Builder) Tool(t Tool) (string, error) {
	if path, origin := installed(t); path != "" {
		b.say("%s: %s (%s)", t, path, origin)
		return path, nil
	}
	path, err := b.cached(t)
	if err != nil {
		return "", &MissingError{Tool: t, Err: err}
	}
	return path, nil
}

// cached gives the tool from the cache folder, building it first when it is not there.
func (b *Builder) cached(t Tool) (string, error) {
	r, ok := recipes()[t]
	if !ok {
		return "", fmt.Errorf("no recipe for %q", t)
	}
	args, version, err := b.arguments(r)
	if err != nil {
		return "", err
	}
	key, err := b.key(r, args)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.cache, fmt.Sprintf("%s-%s-%s", t, version, key))
	if isFile(path) {
		b.say("%s: %s", t, path)
		return path, nil
	}
	unlock, err := b.lock(t)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isFile(path) { // another process has built it meanwhile
		return path, nil
	}
	b.say("%s %s is not in %s: building it (about %s on two cores)", t, version, b.cache, r.takes)
	if err := b.build(filepath.Join(b.root, r.module), path, append(args, r.pkg)); err != nil {
		return "", err
	}
	return path, nil
}

// Product builds the product of the parent folder as it is released, to path.
func (b *Builder) Product(path string) (string, error) {
	if given := os.Getenv(BinaryVariable); given != "" {
		b.say("%s: %s (%s)", Meshdns, given, BinaryVariable)
		return filepath.Abs(given)
	}
	b.say("building %s from %s", Meshdns, filepath.Dir(b.root))
	return path, b.build(filepath.Dir(b.root), path, append(commonFlags(), "-ldflags=-s -w", "."))
}

// commonFlags make builds of one source equal wherever they run.
func commonFlags() []string { return []string{"-trimpath", "-buildvcs=false"} }

// arguments are the build flags of a recipe, and the version that they build.
func (b *Builder) arguments(r recipe) (args []string, version string, err error) {
	mod, err := os.ReadFile(filepath.Join(b.root, r.module, "go.mod"))
	if err != nil {
		return nil, "", fmt.Errorf("read the recipe's go.mod: %w", err)
	}
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(r.main) + ` (v\S+)`).FindSubmatch(mod)
	if found == nil {
		return nil, "", fmt.Errorf("%s/go.mod does not require %s", r.module, r.main)
	}
	version = string(found[1])
	ldflags := []string{"-s", "-w"}
	if r.main == "k8s.io/kubernetes" {
		ldflags = append(ldflags, kubernetesVersion(version)...)
	}
	return append(commonFlags(), "-ldflags="+strings.Join(ldflags, " ")), version, nil
}

// kubernetesVersion stamps the version as the release does; without it the API server
// says v0.0.0 and clients that look at the version take it for an ancient one.
func kubernetesVersion(version string) []string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return []string{
		"-X " + pkg + "gitVersion=" + version,
		"-X " + pkg + "gitMajor=" + parts[0],
		"-X " + pkg + "gitMinor=" + parts[1],
		"-X " + pkg + "gitTreeState=clean",
	}
}

// key hashes all that decides what a build makes.
func (b *Builder) key(r recipe, args []string) (string, error) {
	goVersion, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w", err)
	}
	dir := filepath.Join(b.root, r.module)
	sources, err := filepath.Glob(filepath.Join(dir, r.pkg, "*.go"))
	if err != nil {
		return "", fmt.Errorf("sources of %s: %w", r.module, err)
	}
	slices.Sort(sources)
	hash := sha256.New()
	fmt.Fprintln(hash, strings.TrimSpace(string(goVersion)), runtime.GOOS, runtime.GOARCH, args)
	for _, file := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}, sources...) {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("hash the sources: %w", err)
		}
		fmt.Fprintln(hash, filepath.Base(file), len(data))
		hash.Write(data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// lock keeps other processes from building the same tool; they wait in here.
func (b *Builder) lock(t Tool) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.cache, string(t)+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", t, err)
	}
	if tryLockFile(file) != nil {
		b.say("%s: another process builds it; waiting", t)
		if err := lockFile(file); err != nil {
			file.Close()
			return nil, fmt.Errorf("lock the build of %s: %w", t, err)
		}
	}
	return func() { file.Close() }, nil // closing unlocks
}

// build runs go build in dir. The binary appears at path whole or not at all.
func (b *Builder) build(dir, path string, args []string) error {
	temporary := path + ".building"
	defer os.Remove(temporary)
	cmd := exec.Command("go", append([]string{"build", "-o", temporary}, args...)...)
	cmd.Dir = dir
	// No workspace and no C compiler: the same result on every machine.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	stop := b.ticker(filepath.Base(path), start)
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, strings.TrimSpace(output.String()))
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put the binary in place: %w", err)
	}
	b.say("built %s in %s", filepath.Base(path), time.Since(start).Round(time.Second))
	return nil
}

// ticker says every half minute that a build goes on, until stop.
func (b *Builder) ticker(what string, start time.Time) (stop func()) {
	ticker, done := time.NewTicker(30*time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				b.say("still building %s after %s", what, time.Since(start).Round(time.Second))
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}

// say writes one line of progress.
func (b *Builder) say(format string, args ...any) {
	fmt.Fprintf(b.log, "e2e: "+format+"\n", args...)
}

// isFile tells whether path is a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// IsMissing tells whether an error says that this machine lacks a tool.
func IsMissing(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}
