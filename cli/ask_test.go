package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/api"
)

// shown is a server to ask, with what admin shows of it.
type shown struct {
	state admin.State
	list  []api.Source
}

func (s *shown) Sources() []api.Source                  { return s.list }
func (s *shown) Services(admin.Query) api.Services      { return api.Services{} }
func (s *shown) Service(string) (_ api.Service, _ bool) { return }
func (s *shown) State() admin.State                     { return s.state }
func (s *shown) Zones() []admin.Zone                    { return nil }

func (s *shown) Export(w io.Writer, zone string) (bool, error) {
	if zone != "mesh" {
		return false, nil
	}
	_, err := io.WriteString(w, "; zone mesh.\n")
	return true, err
}

func (s *shown) Explain(_ context.Context, q admin.Question) (api.Explanation, error) {
	if q.Type == "BOGUS" {
		return api.Explanation{}, &admin.InputError{Field: "type", Message: `"BOGUS" is no record type`}
	}
	e := api.Explanation{Name: q.Name, Type: q.Type, Rcode: "NOERROR", Zone: "mesh", Steps: []string{"registered by foo.yaml:1", "order: shuffle"}}
	if q.Client.IsValid() {
		e.Steps = append(e.Steps, "client "+q.Client.String())
	}
	e.Endpoints = []api.Endpoint{
		{Address: "192.0.2.11", Port: 8080, Hostname: "my-svc-0", Cluster: "clusterx", Backend: "my-ns/my-svc", State: "ready", Included: true, Reason: "ready"},
		{Address: "192.0.2.13", Cluster: "clusterx", State: "notReady", Reason: "not ready"},
	}
	return e, nil
}

func startAdmin(t *testing.T, s *shown) string {
	t.Helper()
	server := httptest.NewServer(admin.New(admin.Config{
		Sources: s, Catalogue: s, Explainer: s, Readiness: s, Zones: s,
		Metrics: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}).Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func TestStatus(t *testing.T) {
	now := time.Now()
	success := now.Add(-5 * time.Second)
	s := &shown{
		state: admin.State{Waiting: []string{"east", "north"}},
		list: []api.Source{
			{Name: "west", Kind: "kubernetes", State: api.Fresh, Since: now.Add(-72 * time.Hour), LastSuccess: &success, Services: 10, Endpoints: 32, Skipped: 1, LastSkip: "bad slice"},
			{Name: "east", Kind: "kubernetes", State: api.Syncing, Since: now.Add(-10 * time.Minute), LastError: "refused\x1b[2J"},
		},
	}
	url := startAdmin(t, s)
	got := run(t, "status", "--admin", url)
	assert.Equal(t, ran{stdout: "" +
		"not ready, waiting for east, north\n" +
		"SOURCE  KIND        STATE    FOR  LAST SUCCESS  SERVICES  ENDPOINTS  SKIPPED  REFUSED  ERROR\n" +
		"west    kubernetes  fresh    3d   5s ago        10        32         1        0        left out: bad slice\n" +
		"east    kubernetes  syncing  10m  never         0         0          0        0        refused\\x1b[2J\n",
	}, got)

	got = run(t, "status", "--admin", url, "-o", "json")
	assert.Equal(t, 0, got.code)
	var list []api.Source
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &list), "a bare list")
	assert.Len(t, list, 2)

	s.state = admin.State{Ready: true}
	assert.Contains(t, run(t, "status", "--admin", url).stdout, "ready\nSOURCE")
}

func TestExplain(t *testing.T) {
	url := startAdmin(t, &shown{})
	got := run(t, "explain", "foo.mesh", "--admin", url, "--client", "192.0.2.77")
	assert.Equal(t, ran{stdout: "" +
		"foo.mesh A: NOERROR, zone mesh\n" +
		"  1. registered by foo.yaml:1\n" +
		"  2. order: shuffle\n" +
		"  3. client 192.0.2.77\n" +
		"\n" +
		"ADDRESS     PORT  ANSWERED  STATE     CLUSTER   BACKEND       HOST      WEIGHT  WHY\n" +
		"192.0.2.11  8080  yes       ready     clusterx  my-ns/my-svc  my-svc-0  0       ready\n" +
		"192.0.2.13  -     no        notReady  clusterx  -             -         0       not ready\n",
	}, got)

	got = run(t, "explain", "foo.mesh", "srv", "--admin", url, "-o", "json")
	assert.Equal(t, 0, got.code)
	var e map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &e))
	assert.Equal(t, "SRV", e["type"])
	assert.Len(t, e["endpoints"], 2)
}

func TestExport(t *testing.T) {
	url := startAdmin(t, &shown{})
	assert.Equal(t, ran{stdout: "; zone mesh.\n"}, run(t, "export", "mesh.", "--admin", url))
}

func TestAskingFails(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer other.Close()
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	mesh := startAdmin(t, &shown{})
	tests := []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"status", "--admin", gone.URL}, 1, "is the server running? --admin says where"},
		{[]string{"status", "--admin", other.URL}, 1, "did not answer with JSON"},
		{[]string{"explain", "foo.mesh", "--admin", notFound.URL}, 1, "is this a meshdns admin API?"},
		{[]string{"export", "mesh", "--admin", gone.URL}, 1, "is the server running? --admin says where"},
		{[]string{"export", "mesh", "--admin", notFound.URL}, 1, "is this a meshdns admin API?"},
		{[]string{"export", "foo.mesh", "--admin", mesh}, 1, `no zone "foo.mesh" is served here`},
		{[]string{"export", "foo..mesh", "--admin", mesh}, 2, "foo..mesh"},
		{[]string{"explain", "foo.mesh", "bogus", "--admin", mesh}, 2, `type: "BOGUS" is no record type`},
	}
	for _, test := range tests {
		got := run(t, test.args...)
		assert.Equal(t, test.code, got.code, test.args)
		assert.Contains(t, got.stderr, test.stderr, test.args)
		assert.Empty(t, got.stdout, test.args)
	}
}
