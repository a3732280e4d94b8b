package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"

	"k8s.io/apimachinery/pkg/runtime"
)

// fakeAPI is an API server of two kinds, over real HTTP, that can be made to fail.
type fakeAPI struct {
	t      *testing.T
	server *httptest.Server

	mu        sync.Mutex
	version   int
	objects   [numKinds]map[key]metav1.Object
	events    []fakeEvent
	compacted int           // older versions answer 410
	changed   chan struct{} // closed and replaced at each change
	closing   chan struct{} // closed to end all watches
	requests  []string      // "list services", "watch endpointslices initial", "page …"
	streams   [numKinds]int // watches that are open
	watchList bool          // initial events are known
	stopped   bool          // watches are over before they begin
	deaf      bool          // a watch's events after the initial ones are not sent
	// fault, when set, may answer a request itself and then returns true.
	fault func(w http.ResponseWriter, r *http.Request, what string) bool
}

type fakeEvent struct {
	version int
	kind    kind
	line    []byte
}

func newFakeAPI(t *testing.T, objects ...metav1.Object) *fakeAPI {
	f := &fakeAPI{t: t, version: 1, changed: make(chan struct{}), closing: make(chan struct{}), watchList: true}
	for k := range f.objects {
		f.objects[k] = map[key]metav1.Object{}
	}
	f.put(objects...)
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	return f
}

// start serves on a new address; TLS brings HTTP/2.
func (f *fakeAPI) start(withTLS bool) *fakeAPI {
	if withTLS {
		f.server.EnableHTTP2 = true
		f.server.StartTLS()
	} else {
		f.server.Start()
	}
	f.t.Cleanup(f.stop)
	return f
}

// stop ends the server as a crash would: nothing is accepted any more, and connections
// break.
func (f *fakeAPI) stop() {
	_ = f.server.Listener.Close()
	f.change(func() { f.stopped = true })
	f.server.CloseClientConnections()
	f.endWatches()
	f.server.Close()
}

// restart serves on the same address again after stop.
func (f *fakeAPI) restart() {
	listener, err := net.Listen("tcp", f.server.Listener.Addr().String())
	require.NoError(f.t, err)
	f.change(func() { f.stopped = false })
	f.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}}
	f.server.Start()
}

// change runs g with the lock held and wakes the watches.
func (f *fakeAPI) change(g func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAPI) put(objects ...metav1.Object) {
	for _, o := range objects {
		f.change(func() {
			k, id := kindOf(o), key{o.GetNamespace(), o.GetName()}
			event := "ADDED"
			if _, had := f.objects[k][id]; had {
				event = "MODIFIED"
			}
			f.version++
			o.SetResourceVersion(strconv.Itoa(f.version))
			f.objects[k][id] = o
			f.emit(k, event, o)
		})
	}
}

func (f *fakeAPI) delete(objects ...metav1.Object) {
	for _, o := range objects {
		f.change(func() {
			f.version++
			o.SetResourceVersion(strconv.Itoa(f.version))
			delete(f.objects[kindOf(o)], key{o.GetNamespace(), o.GetName()})
			f.emit(kindOf(o), "DELETED", o)
		})
	}
}

// raw sends bytes to all watches of a kind.
func (f *fakeAPI) raw(k kind, line string) {
	f.change(func() {
		f.version++
		f.events = append(f.events, fakeEvent{f.version, k, []byte(line)})
	})
}

// forget makes all versions up to now too old, and takes raw events away.
func (f *fakeAPI) forget() {
	f.change(func() {
		f.version++
		f.compacted = f.version
		f.events = nil
	})
}

// endWatches ends all watches in good order.
func (f *fakeAPI) endWatches() {
	f.change(func() {
		close(f.closing)
		f.closing = make(chan struct{})
	})
}

func (f *fakeAPI) setFault(fault func(w http.ResponseWriter, r *http.Request, what string) bool) {
	f.change(func() { f.fault = fault })
}

// count is how many requests began with what.
func (f *fakeAPI) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.HasPrefix(r, what) {
			n++
		}
	}
	return n
}

// lists is how many lists were asked for, in whatever way.
func (f *fakeAPI) lists() int {
	return f.count("list") + f.count("watch services initial") + f.count("watch endpointslices initial")
}

// askedLocked is how many requests were exactly what.
func (f *fakeAPI) askedLocked(what string) int {
	n := 0
	for _, r := range f.requests {
		if r == what {
			n++
		}
	}
	return n
}

// until waits for a state of the server.
func (f *fakeAPI) until(what string, is func() bool) {
	f.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		f.mu.Lock()
		changed, ok := f.changed, is()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(f.t, "never came: "+what, "%v", f.requests)
		}
	}
}

func (f *fakeAPI) emit(k kind, event string, o any) {
	f.events = append(f.events, fakeEvent{f.version, k, eventLine(f.t, event, k, o)})
}

func eventLine(t *testing.T, event string, k kind, o any) []byte {
	data := toJSON(t, o)
	typed := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, k.typeName(), k.groupVersion())
	return fmt.Appendf(nil, `{"type":%q,"object":%s%s}`+"\n", event, typed, data[1:])
}

func (k kind) typeName() string { return [...]string{"Service", "EndpointSlice"}[k] }

func (k kind) groupVersion() string { return [...]string{"v1", "discovery.k8s.io/v1"}[k] }

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := kindService
	if strings.HasSuffix(r.URL.Path, "/endpointslices") {
		k = kindSlice
	}
	q := r.URL.Query()
	what := "list " + k.String()
	switch {
	case q.Get("sendInitialEvents") == "true":
		what = "watch " + k.String() + " initial"
	case q.Get("watch") == "true":
		what = "watch " + k.String()
	case q.Get("continue") != "":
		what = "page " + k.String()
	}
	var fault func(http.ResponseWriter, *http.Request, string) bool
	f.change(func() {
		f.requests = append(f.requests, what)
		fault = f.fault
	})
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fault != nil && fault(w, r, what):
	case strings.HasPrefix(what, "watch"):
		f.watch(w, r, k, q)
	default:
		f.list(w, k, q)
	}
}

func (f *fakeAPI) list(w http.ResponseWriter, k kind, q url.Values) {
	f.mu.Lock()
	ids := make([]key, 0, len(f.objects[k]))
	for id := range f.objects[k] {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	from, _ := strconv.Atoi(q.Get("continue"))
	to := len(ids)
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 {
		to = min(to, from+limit)
	}
	items := []metav1.Object{}
	for _, id := range ids[from:to] {
		items = append(items, f.objects[k][id])
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(f.version)}
	if to < len(ids) {
		meta.Continue = strconv.Itoa(to)
	}
	data := toJSON(f.t, map[string]any{
		"kind": k.typeName() + "List", "apiVersion": k.groupVersion(), "metadata": meta, "items": items,
	})
	f.mu.Unlock()
	_, _ = w.Write(data)
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, k kind, q url.Values) {
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	f.mu.Lock()
	supported, compacted, closing, deaf, stopped := f.watchList, f.compacted, f.closing, f.deaf, f.stopped
	f.mu.Unlock()
	if stopped {
		return
	}
	if initial && !supported {
		respond(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch")
		return
	}
	f.change(func() { f.streams[k]++ })
	defer f.change(func() { f.streams[k]-- })
	w.WriteHeader(http.StatusOK)
	flush(w)
	switch {
	case initial:
		from = f.sendInitial(w, k)
	case from < compacted:
		_, _ = w.Write(eventStatus(f.t, http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		return
	}
	if deaf {
		from = 1 << 30
	}
	f.follow(w, r, k, from, closing, q.Get("timeoutSeconds"))
}

// sendInitial sends the initial events and returns the version that they end with.
func (f *fakeAPI) sendInitial(w http.ResponseWriter, k kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects[k] {
		_, _ = w.Write(eventLine(f.t, "ADDED", k, o))
	}
	_, _ = w.Write(f.bookmarkLocked(k, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	flush(w)
	return f.version
}

func (f *fakeAPI) bookmarkLocked(k kind, annotations map[string]string) []byte {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.Itoa(f.version), Annotations: annotations}
	if k == kindSlice {
		return eventLine(f.t, "BOOKMARK", k, &discoveryv1.EndpointSlice{ObjectMeta: meta})
	}
	return eventLine(f.t, "BOOKMARK", k, &corev1.Service{ObjectMeta: meta})
}

// follow sends events until the watch ends; like a real server, it sends a bookmark first
// when the time is over.
func (f *fakeAPI) follow(w http.ResponseWriter, r *http.Request, k kind, from int, closing chan struct{}, timeout string) {
	over := make(<-chan time.Time)
	if seconds, err := strconv.Atoi(timeout); err == nil {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	for {
		f.mu.Lock()
		changed := f.changed
		for _, e := range f.events {
			if e.version > from {
				from = e.version
				if e.kind == k {
					_, _ = w.Write(e.line)
				}
			}
		}
		f.mu.Unlock()
		flush(w)
		select {
		case <-changed:
		case <-closing:
			return
		case <-over:
			f.mu.Lock()
			_, _ = w.Write(f.bookmarkLocked(k, nil))
			f.mu.Unlock()
			return
		case <-r.Context().Done():
			return
		}
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func apiStatus(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

// respond answers a request with an API error.
func respond(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(apiStatus(code, reason, message))
}

func eventStatus(t *testing.T, code int, reason metav1.StatusReason, message string) []byte {
	return fmt.Appendf(nil, `{"type":"ERROR","object":%s}`+"\n", toJSON(t, apiStatus(code, reason, message)))
}

// kubeconfig writes a kubeconfig with one context, "west", for a server.
func kubeconfig(t *testing.T, path, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: strings.HasPrefix(server, "https")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["west"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "west"
	data, err := runtime.Encode(clientcmdlatest.Codec, config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".tmp", data, 0o600))
	require.NoError(t, os.Rename(path+".tmp", path))
	return path
}

// running is a Source at work.
type running struct {
	*sink
	logs *logs
	stop func()
}

// runSource runs a live source with short times until the test ends.
func runSource(t *testing.T, server string, change ...func(*Source)) *running {
	t.Helper()
	path := kubeconfig(t, filepath.Join(t.TempDir(), "config"), server)
	return runConfig(t, Config{Kubeconfig: path}, change...)
}

func runConfig(t *testing.T, cfg Config, change ...func(*Source)) *running {
	t.Helper()
	r := &running{sink: newSink(), logs: &logs{}}
	cfg.Name, cfg.Logger = "west", r.logs.logger()
	s, err := New(cfg)
	require.NoError(t, err)
	s.timing = timing{
		pageSize: 2, request: 10 * time.Second, watch: time.Hour, silence: time.Hour,
		gap: time.Millisecond, backoff: 5 * time.Millisecond, maxBackoff: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, r.sink) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(30 * time.Second):
			require.FailNow(t, "Run does not end")
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) untilSynced(t *testing.T) *running {
	t.Helper()
	r.until(t, "synced without error", func() bool { return r.status().Synced && r.status().Error == "" })
	return r
}

func (r *running) untilError(t *testing.T, text string) {
	t.Helper()
	r.until(t, "error "+text, func() bool { return strings.Contains(r.status().Error, text) })
}
