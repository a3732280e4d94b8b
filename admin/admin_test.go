package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/api"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// mesh is a fixed server to show: each method is what one interface asks for.
type mesh struct {
	sources  []api.Source
	services []api.Service
	zones    []Zone
	state    State
	query    Query    // the last one asked
	question Question // the last one asked
	explain  func(Question) (api.Explanation, error)
}

func (m *mesh) Sources() []api.Source { return m.sources }
func (m *mesh) Zones() []Zone         { return m.zones }

// Export writes a zone of m in two pieces; "cut" fails after the first.
func (m *mesh) Export(w io.Writer, zone string) (bool, error) {
	if zone != "mesh" && zone != "cut" {
		return false, nil
	}
	_, _ = io.WriteString(w, "; zone "+zone+"\n")
	if zone == "cut" {
		return true, errors.New("no room")
	}
	_, err := io.WriteString(w, "; end of zone\n")
	return true, err
}
func (m *mesh) State() State { return m.state }

func (m *mesh) Services(q Query) api.Services {
	m.query = q
	page := api.Services{}
	for _, s := range m.services {
		if s.Name <= q.After || !strings.Contains(s.Name, q.Contains) || q.Zone != "" && s.Zone != q.Zone {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = page.Items[q.Limit-1].Name
			break
		}
		page.Items = append(page.Items, s)
	}
	return page
}

func (m *mesh) Service(name string) (api.Service, bool) {
	for _, s := range m.services {
		if s.Name == name {
			return s, true
		}
	}
	return api.Service{}, false
}

func (m *mesh) Explain(_ context.Context, q Question) (api.Explanation, error) {
	m.question = q
	return m.explain(q)
}

func newMesh() *mesh {
	success := testNow.Add(-5 * time.Second)
	return &mesh{
		sources: []api.Source{
			{Name: "registryDir", Kind: "files", State: api.Fresh, Since: testNow.Add(-time.Hour), LastSuccess: &success, Services: 2},
			{Name: "east", Kind: "kubernetes", State: api.Syncing, Since: testNow.Add(-90 * time.Second), LastError: "connection refused <east>"},
		},
		services: []api.Service{
			{Name: "api.shop.svc.cluster.global", Zone: "cluster.global", Backends: []string{"Kubernetes west shop/api"}, Ready: 2, Total: 3},
			{Name: "bar.mesh", Zone: "mesh", Ready: 1, Total: 1},
			{Name: "baz.mesh", Zone: "mesh", Conflicts: []string{"PortConflict: http"}},
		},
		zones: []Zone{{Name: "mesh", Serial: 7}},
		state: State{Ready: true},
		explain: func(q Question) (api.Explanation, error) {
			return api.Explanation{Name: q.Name, Type: q.Type, Rcode: "NOERROR", Zone: "mesh"}, nil
		},
	}
}

func newServer(m *mesh) *Server {
	return New(Config{
		Sources: m, Catalogue: m, Explainer: m, Readiness: m, Zones: m,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }),
		Logger:  slog.New(slog.DiscardHandler),
		Now:     func() time.Time { return testNow },
		Version: "v1.2.3",
	})
}

func get(t *testing.T, m *mesh, target string, header ...string) (*http.Response, string) {
	t.Helper()
	return do(t, m, httptest.NewRequest(http.MethodGet, target, nil), header...)
}

func do(t *testing.T, m *mesh, r *http.Request, header ...string) (*http.Response, string) {
	t.Helper()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	newServer(m).Handler().ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return w.Result(), string(body)
}

func TestReadyz(t *testing.T) {
	tests := []struct {
		name   string
		state  State
		accept string
		code   int
		body   string
	}{
		{"ready", State{Ready: true}, "", 200, "ready\n"},
		{"C113 waiting, text", State{Waiting: []string{"east", "west"}}, "*/*", 503, "not ready, waiting for:\neast\nwest\n"},
		{"C113 waiting, JSON", State{Waiting: []string{"east"}}, "application/json", 503, `{"ready":false,"stopping":false,"waiting":["east"]}` + "\n"},
		{"ready, JSON", State{Ready: true}, "application/json", 200, `{"ready":true,"stopping":false,"waiting":[]}` + "\n"},
		{"C115 stopping", State{Stopping: true}, "", 503, "stopping\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMesh()
			m.state = test.state
			response, body := get(t, m, "/readyz", "Accept", test.accept)
			assert.Equal(t, test.code, response.StatusCode)
			assert.Equal(t, test.body, body)

			response, body = get(t, m, "/healthz")
			assert.Equal(t, 200, response.StatusCode, "liveness never depends on sources")
			assert.Equal(t, "ok\n", body)
		})
	}
}

func TestServicesPages(t *testing.T) {
	m := newMesh()
	var names []string
	for after, pages := "", 0; ; pages++ {
		require.Less(t, pages, 3, "more pages than services")
		_, body := get(t, m, "/api/v1/services?limit=2&after="+after)
		var page api.Services
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	assert.Equal(t, []string{"api.shop.svc.cluster.global", "bar.mesh", "baz.mesh"}, names)
}

func TestServicesQuery(t *testing.T) {
	tests := []struct {
		target string
		want   Query
	}{
		{"/api/v1/services", Query{Limit: 500}},
		{"/api/v1/services?limit=10000", Query{Limit: 10000}},
		{"/api/v1/services?after=A.Mesh.&zone=MESH.&q=Ba", Query{After: "a.mesh", Zone: "mesh", Contains: "ba", Limit: 500}},
		{"/?q=ba&zone=mesh", Query{Zone: "mesh", Contains: "ba", Limit: 50}},
	}
	for _, test := range tests {
		m := newMesh()
		response, body := get(t, m, test.target)
		assert.Equal(t, 200, response.StatusCode, body)
		assert.Equal(t, test.want, m.query, test.target)
	}
}

func TestJSONHasNoNull(t *testing.T) {
	m := newMesh()
	for _, target := range []string{
		"/api/v1/services", "/api/v1/services?q=nothing", "/api/v1/services/bar.mesh", "/api/v1/explain?name=bar.mesh",
	} {
		response, body := get(t, m, target)
		assert.Equal(t, 200, response.StatusCode, target)
		assert.Equal(t, "application/json; charset=utf-8", response.Header.Get("Content-Type"))
		assert.NotContains(t, body, "null", target)
		assert.True(t, json.Valid([]byte(body)), target)
	}
	m.sources = nil
	_, body := get(t, m, "/api/v1/sources")
	assert.Equal(t, "[]\n", body)
}

func TestSources(t *testing.T) {
	m := newMesh()
	response, body := get(t, m, "/api/v1/sources")
	assert.Equal(t, 200, response.StatusCode)
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list, 2)
	for _, field := range []string{"name", "kind", "state", "since", "lastError", "services", "endpoints"} {
		assert.Contains(t, list[0], field)
	}
	assert.Equal(t, "2026-03-01T11:00:00Z", list[0]["since"])
	assert.Equal(t, "connection refused <east>", list[1]["lastError"])
}

func TestService(t *testing.T) {
	m := newMesh()
	response, body := get(t, m, "/api/v1/services/Bar.MESH.")
	assert.Equal(t, 200, response.StatusCode)
	assert.JSONEq(t, `{"name":"bar.mesh","zone":"mesh","backends":[],"ready":1,"total":1,"conflicts":[]}`, body)

	response, body = get(t, m, "/api/v1/services/absent.mesh")
	assert.Equal(t, 404, response.StatusCode)
	assert.JSONEq(t, `{"error":"no service \"absent.mesh\" is served here"}`, body)
}

func TestExplain(t *testing.T) {
	m := newMesh()
	response, body := get(t, m, "/api/v1/explain?name=Bar.mesh&type=srv&client=::ffff:192.0.2.1")
	assert.Equal(t, 200, response.StatusCode)
	assert.Equal(t, Question{Name: "Bar.mesh", Type: "SRV", Client: netip.MustParseAddr("192.0.2.1")}, m.question)
	assert.JSONEq(t, `{"name":"Bar.mesh","type":"SRV","rcode":"NOERROR","zone":"mesh","steps":[],"endpoints":[]}`, body)

	_, _ = get(t, m, "/api/v1/explain?name=bar.mesh")
	assert.Equal(t, Question{Name: "bar.mesh", Type: "A"}, m.question)
}

func TestBadInput(t *testing.T) {
	long := strings.Repeat("a", 1021)
	tests := []struct {
		target, field, message string
		code                   int
	}{
		{"/api/v1/explain", "name", "name: missing: say which name to explain", 400},
		{"/api/v1/explain?name=a..b", "name", "name: empty label", 400},
		{"/api/v1/explain?name=a&client=1.2.3", "client", `client: "1.2.3" is not an IP address`, 400},
		{"/api/v1/explain?name=" + long, "name", "name: longer than 1020 bytes", 400},
		{"/api/v1/explain?name=broken.mesh", "", "the resolver is broken", 500},
		{"/api/v1/services?limit=0", "limit", `limit: "0" is not a number from 1 to 10000`, 400},
		{"/api/v1/services?limit=10001", "limit", `limit: "10001" is not a number from 1 to 10000`, 400},
		{"/api/v1/services?limit=x", "limit", `limit: "x" is not a number from 1 to 10000`, 400},
		{"/api/v1/services?q=" + long, "q", "q: longer than 1020 bytes", 400},
		{"/api/v2/services", "", `no path "/api/v2/services" here`, 404},
	}
	for _, test := range tests {
		m := newMesh()
		m.explain = func(q Question) (api.Explanation, error) {
			if q.Name == "broken.mesh" {
				return api.Explanation{}, errors.New("the resolver is broken")
			}
			return api.Explanation{}, fmt.Errorf("explaining: %w", &InputError{Field: "name", Message: "empty label"})
		}
		response, body := get(t, m, test.target)
		assert.Equal(t, test.code, response.StatusCode, test.target)
		var got apiError
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		assert.Equal(t, apiError{Error: test.message, Field: test.field}, got)
	}
}

func TestOnlyReads(t *testing.T) {
	m := newMesh()
	for _, path := range []string{"/", "/metrics", "/healthz", "/api/v1/services", "/api/v1/sources"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			response, _ := do(t, m, httptest.NewRequest(method, path, strings.NewReader("x")))
			assert.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, method+" "+path)
			assert.Equal(t, "GET, HEAD", response.Header.Get("Allow"))
		}
		response, _ := do(t, m, httptest.NewRequest(http.MethodHead, path, nil))
		assert.Equal(t, http.StatusOK, response.StatusCode, path)
	}
}

func TestSecurityHeaders(t *testing.T) {
	m := newMesh()
	for _, path := range []string{"/", "/explain?name=bar.mesh", "/api/v1/sources", "/metrics", "/nothing"} {
		response, _ := get(t, m, path)
		assert.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"), path)
		assert.Equal(t, "same-origin", response.Header.Get("Cross-Origin-Resource-Policy"), path)
		assert.Empty(t, response.Header.Get("Access-Control-Allow-Origin"), path)
	}
}

func TestMetricsPath(t *testing.T) {
	_, body := get(t, newMesh(), "/metrics")
	assert.Equal(t, "up 1\n", body)
}
