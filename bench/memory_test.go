package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/sources/kubernetes"
)

// BenchmarkMemory is what endpoints in slices of two, of three clusters behind API servers,
// take: on the heap layer by layer, in this process; and resident in the whole server, a
// process of its own, after its start and after a while of changes. It prints a table.
//
//	go test -run '^$' -bench Memory -benchtime 1x ./bench
func BenchmarkMemory(b *testing.B) {
	for _, endpoints := range []int{10_000, 1_000_000} {
		if testing.Short() && endpoints > 10_000 {
			continue // minutes
		}
		services := endpoints / clusters / endpointsPerPart
		b.Run(fmt.Sprintf("endpoints=%d/heap", endpoints), func(b *testing.B) {
			for b.Loop() {
				report(b, endpoints, measureLayers(b, services))
			}
		})
		b.Run(fmt.Sprintf("endpoints=%d/resident", endpoints), func(b *testing.B) {
			for b.Loop() {
				report(b, endpoints, measureServer(b, services))
			}
		})
	}
}

// layer is a line of the table.
type layer struct {
	name, unit string
	bytes      int
}

func report(b *testing.B, endpoints int, table []layer) {
	var out strings.Builder
	fmt.Fprintf(&out, "\n| %d endpoints | MB | bytes an endpoint |\n|---|---|---|\n", endpoints)
	for _, l := range table {
		fmt.Fprintf(&out, "| %s | %.1f | %d |\n", l.name, float64(l.bytes)/1e6, l.bytes/endpoints)
		b.ReportMetric(float64(l.bytes)/1e6, l.unit)
	}
	b.Log(out.String())
}

// recorder is a Sink that keeps what it gets.
type recorder struct {
	mu      sync.Mutex
	updates []sources.Update
	synced  map[string]bool
	ready   chan struct{} // closed when all clusters are synced
}

func (r *recorder) Update(u sources.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, u)
}

func (r *recorder) Status(s sources.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Synced && !r.synced[s.Source] {
		r.synced[s.Source] = true
		if len(r.synced) == clusters {
			close(r.ready)
		}
	}
}

// measureLayers fills one layer after the other and looks at the heap in between.
func measureLayers(b *testing.B, services int) []layer {
	api := newAPIServers(b, services, 0)
	before := liveHeap()
	sink := &recorder{synced: map[string]bool{}, ready: make(chan struct{})}
	runSources(b, api, sink)
	<-sink.ready
	sink.mu.Lock()
	defer sink.mu.Unlock()
	require.Len(b, sink.updates, services*clusters)
	values := 0
	for _, u := range sink.updates {
		values += sizeClass(len(u.Value.(sources.Service)))
	}
	recorded := cap(sink.updates)*int(unsafe.Sizeof(sources.Update{})) + len(sink.updates)*int(unsafe.Sizeof(sources.Service("")))
	held := liveHeap() - before - recorded

	last := &capture{}
	r := resolver.New(resolver.Config{Settings: settings(), Publisher: last})
	runResolver(b, r)
	for i, u := range sink.updates {
		r.Update(u)
		if i%10_000 == 0 {
			require.NoError(b, r.Flush(context.Background()))
		}
	}
	require.NoError(b, r.Flush(context.Background()))
	sink.updates = nil
	merged := liveHeap() - before
	p := newPublisher()
	p.Publish(last.snapshot, resolver.Changes{All: true})
	all := liveHeap() - before
	runtime.KeepAlive(p)
	runtime.KeepAlive(r)
	return []layer{
		{"values: services with slices, endpoints and their texts", "values-MB", values},
		{"tables of the sources, besides the values", "tables-MB", held - values},
		{"resolver", "resolver-MB", merged - held},
		{"zones", "zones-MB", all - merged},
		{"live heap", "live-MB", all},
	}
}

// capture is a resolver.Publisher that keeps the last Snapshot.
type capture struct{ snapshot *resolver.Snapshot }

func (c *capture) Publish(s *resolver.Snapshot, _ resolver.Changes) { c.snapshot = s }

func runSources(b *testing.B, api *apiServers, sink sources.Sink) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for c := range clusters {
		source, err := kubernetes.New(kubernetes.Config{Name: clusterName(c), Kubeconfig: api.kubeconfig(c)})
		require.NoError(b, err)
		running.Go(func() { _ = source.Run(ctx, sink) }) // its error could only be New's
	}
	b.Cleanup(func() { cancel(); running.Wait() })
}

func runResolver(b *testing.B, r *resolver.Resolver) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
}

// liveHeap is what is left after a collection.
func liveHeap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// sizeClass is how much memory an object of n bytes without pointers takes.
func sizeClass(n int) int { return cap(append([]byte(nil), make([]byte, n)...)) }

const (
	// changesEvery is one cluster's: about 1,000 changes a second in all.
	changesEvery = 3 * time.Millisecond
	// changing is for how long changes are let go on: dozens of collections.
	changing = 30 * time.Second
	// settling is how long an idle server's resident memory must not have gone down to
	// count as settled; the runtime gives memory back little by little.
	settling = 10 * time.Second
)

// measureServer runs the server itself.
func measureServer(b *testing.B, services int) []layer {
	api := newAPIServers(b, services, changesEvery)
	server := startServer(b, api)
	started := server.settled(time.Minute)
	cpu, changes, at := server.cpu(), api.changed.Load(), time.Now()
	highest := 0
	for range time.Tick(time.Second) {
		highest = max(highest, server.resident("VmRSS"))
		if time.Since(at) > changing {
			break
		}
	}
	done := api.changed.Load() - changes
	b.ReportMetric(float64((server.cpu()-cpu).Microseconds())/float64(done), "server-cpu-µs/change")
	b.Logf("%d changes in %s", done, time.Since(at).Round(time.Second))
	return []layer{
		{"resident, started", "started-MB", started},
		{"resident, highest of half a minute of changes", "resident-MB", highest},
		{"resident, highest ever (the start)", "peak-MB", server.resident("VmHWM")},
	}
}

// process is a server at work.
type process struct {
	b   *testing.B
	cmd *exec.Cmd
}

func startServer(b *testing.B, api *apiServers) *process {
	dir := b.TempDir()
	binary := filepath.Join(dir, "meshdns")
	out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput()
	require.NoError(b, err, string(out))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	admin := free.Addr().String()
	require.NoError(b, free.Close())
	config := fmt.Sprintf("listen: {dns: [\"127.0.0.1:0\"], admin: %q}\nsite: %s\n"+
		// Ready means loaded here, however slow the machine is at it.
		"startup: {grace: 10m}\nclusters:\n", admin, clusterName(0))
	for c := range clusters {
		config += fmt.Sprintf("- {name: %s, kubeconfig: %q}\n", clusterName(c), api.kubeconfig(c))
	}
	file := filepath.Join(dir, "meshdns.yaml")
	require.NoError(b, os.WriteFile(file, []byte(config), 0o600))
	p := &process{b: b, cmd: exec.Command(binary, "serve", "--config", file, "--drain", "0s")}
	p.cmd.Stderr = os.Stderr
	require.NoError(b, p.cmd.Start())
	b.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	})
	p.untilReady("http://" + admin + "/readyz")
	return p
}

func (p *process) untilReady(url string) {
	deadline := time.After(5 * time.Minute)
	for range time.Tick(100 * time.Millisecond) {
		select {
		case <-deadline:
			p.b.Fatal("the server never became ready")
		default:
		}
		if reply, err := http.Get(url); err == nil {
			_ = reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return
			}
		}
	}
}

// settled is the resident memory once it goes down no more, or when the time is over.
func (p *process) settled(limit time.Duration) int {
	lowest, since, deadline := p.resident("VmRSS"), time.Now(), time.Now().Add(limit)
	for range time.Tick(time.Second) {
		now := p.resident("VmRSS")
		if now < lowest*99/100 {
			lowest, since = now, time.Now()
		}
		if time.Since(since) > settling || time.Now().After(deadline) {
			return now
		}
	}
	return 0
}

// resident is a field of the process's status in bytes.
func (p *process) resident(field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.b, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb := 0
			_, err := fmt.Sscan(rest, &kb)
			require.NoError(p.b, err)
			return kb << 10
		}
	}
	p.b.Skip("no resident memory in /proc on this system")
	return 0
}

// cpu is the process's user and system time so far.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(p.b, err)
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(p.b, err)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}
