package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// apiServers are the API servers of the clusters, over real HTTP: they stream the services
// and slices of the fixture as initial events of a watch, and changes of slices after that,
// without holding any of them.
type apiServers struct {
	tb       testing.TB
	server   *httptest.Server
	services int
	every    time.Duration // between two changes of a cluster's slices; 0: none
	changed  atomic.Int64  // changes that were sent
}

func newAPIServers(tb testing.TB, services int, every time.Duration) *apiServers {
	a := &apiServers{tb: tb, services: services, every: every}
	a.server = httptest.NewServer(a)
	tb.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// kubeconfig is a file that leads to a cluster.
func (a *apiServers) kubeconfig(c int) string {
	path := filepath.Join(a.tb.TempDir(), clusterName(c)+".kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "%s/%d"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`, a.server.URL, c)
	require.NoError(a.tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// ServeHTTP implements http.Handler.
func (a *apiServers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	first, _, _ := strings.Cut(r.URL.Path[1:], "/")
	c, err := strconv.Atoi(first)
	if err != nil || q.Get("watch") != "true" {
		http.Error(w, "only watches", http.StatusNotImplemented)
		return
	}
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(max(1, seconds))*time.Second)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	s := &stream{apiServers: a, cluster: c, out: bufio.NewWriterSize(w, 1<<16), flusher: w.(http.Flusher)}
	s.slices = strings.HasSuffix(r.URL.Path, "/endpointslices")
	if q.Get("sendInitialEvents") == "true" {
		s.initial(ctx)
	}
	s.changes(ctx)
}

// stream is one watch.
type stream struct {
	*apiServers
	cluster int
	slices  bool
	out     *bufio.Writer
	flusher http.Flusher
}

func (s *stream) flush() {
	_ = s.out.Flush() // an error ends the request's context
	s.flusher.Flush()
}

func (s *stream) initial(ctx context.Context) {
	for i := 0; i < s.services && ctx.Err() == nil; i++ {
		s.event("ADDED", i, 0)
	}
	kind := `"kind":"Service","apiVersion":"v1"`
	if s.slices {
		kind = `"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1"`
	}
	fmt.Fprintf(s.out, `{"type":"BOOKMARK","object":{%s,"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind)
	s.flush()
}

// changes sends changes of slices until the watch ends.
func (s *stream) changes(ctx context.Context) {
	if !s.slices || s.every == 0 {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.event("MODIFIED", round*7919%s.services, round)
			s.flush()
			s.changed.Add(1)
		}
	}
}

func (s *stream) event(event string, i, round int) {
	meta := fmt.Sprintf(`"namespace":%q,"resourceVersion":"7","uid":"6f1c3a52-0d0e-4d62-9b1b-%012d","creationTimestamp":"2026-01-02T03:04:05Z"`, namespaceOf(i), i)
	if !s.slices {
		fmt.Fprintf(s.out, `{"type":%q,"object":{"kind":"Service","apiVersion":"v1","metadata":{"name":%q,%s},"spec":{"type":"ClusterIP",`+
			`"clusterIP":%[4]q,"clusterIPs":[%[4]q],"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}}}`+"\n",
			event, nameOf(i), meta, address(200+s.cluster, i, 0))
		return
	}
	fmt.Fprintf(s.out, `{"type":%q,"object":{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":"%s-x7k2p",%s,`+
		`"labels":{"kubernetes.io/service-name":%[2]q}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"endpoints":[`,
		event, nameOf(i), meta)
	for e := range endpointsPerPart {
		n := i*endpointsPerPart + e
		if e > 0 {
			s.out.WriteByte(',')
		}
		fmt.Fprintf(s.out, `{"addresses":[%q],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":%q,"zone":%q,`+
			`"targetRef":{"kind":"Pod","namespace":%q,"name":%q}}`,
			address(s.cluster, n, round), nodeOf(s.cluster, n), zoneOf(n), namespaceOf(i), podOf(i, e))
	}
	s.out.WriteString("]}}\n")
}
