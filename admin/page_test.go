package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/net/html"

	"github.com/meshdns/meshdns/api"
)

func TestStatusPage(t *testing.T) {
	m := newMesh()
	response, body := get(t, m, "/")
	assert.Equal(t, 200, response.StatusCode)
	assert.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	for _, want := range []string{
		"ready", "Version v1.2.3", "2026-03-01T12:00:00Z",
		`data-label="Last success">5s ago`, `data-label="Last success">never`, `data-label="For">1m 30s`,
		`data-label="Serial" class="number">7`,
		"connection refused &lt;east&gt;", // text from outside is escaped
		"2 of 3", "PortConflict: http", `href="/explain?name=bar.mesh&amp;type=A"`,
	} {
		assert.Contains(t, body, want)
	}
	assertWellFormed(t, body)
}

func TestStatusPageNeedsNothingFromOutside(t *testing.T) {
	_, body := get(t, newMesh(), "/")
	for _, word := range []string{"<script", "http://", "https://", "style=", "onclick"} {
		assert.NotContains(t, body, word)
	}
	response, style := get(t, newMesh(), "/style.css")
	assert.Equal(t, "text/css; charset=utf-8", response.Header.Get("Content-Type"))
	assert.NotContains(t, style, "url(")
	assert.Contains(t, body, `name="viewport"`)
	assert.Contains(t, style, "@media (max-width")
}

func TestStatusPageStates(t *testing.T) {
	m := newMesh()
	m.state = State{Waiting: []string{"east", "west"}}
	_, body := get(t, m, "/")
	assert.Contains(t, body, "not ready, waiting for east, west")
	m.state = State{Stopping: true}
	_, body = get(t, m, "/")
	assert.Contains(t, body, ">stopping<")
}

func TestStatusPageFilter(t *testing.T) {
	m := newMesh()
	_, body := get(t, m, `/?q=BA&zone=mesh&limit=1`)
	assert.Contains(t, body, "bar.mesh")
	assert.NotContains(t, body, "explain?name=api.shop")
	assert.Contains(t, body, `href="/?after=bar.mesh&amp;q=ba&amp;zone=mesh#services"`)
	assert.Contains(t, body, "<option selected>mesh</option>")

	_, body = get(t, m, `/?q=nothing"><i>`)
	assert.Contains(t, body, "None that match.")
	assert.NotContains(t, body, "<i>")

	response, body := get(t, m, "/?limit=none")
	assert.Equal(t, 400, response.StatusCode)
	assert.Contains(t, body, "limit: ")
}

func TestExplainPage(t *testing.T) {
	m := newMesh()
	m.explain = func(q Question) (api.Explanation, error) {
		return api.Explanation{Name: q.Name, Type: q.Type, Rcode: "NOERROR", Zone: "mesh",
			Steps: []string{"zone mesh is ours"},
			Endpoints: []api.Endpoint{
				{Address: "192.0.2.1", Port: 8080, State: "ready", Included: true, Reason: "ready"},
				{Address: "192.0.2.9", State: "notReady", Reason: "not ready"},
			}}, nil
	}
	response, body := get(t, m, "/explain?name=bar.mesh&type=a&client=192.0.2.77")
	assert.Equal(t, 200, response.StatusCode)
	for _, want := range []string{"zone mesh is ours", "192.0.2.9", "not ready", `value="192.0.2.77"`, `value="bar.mesh"`} {
		assert.Contains(t, body, want)
	}
	assertWellFormed(t, body)

	response, body = get(t, m, "/explain?name=")
	assert.Equal(t, 400, response.StatusCode)
	assert.Contains(t, body, "say which name to explain")
}

func TestAge(t *testing.T) {
	tests := map[time.Duration]string{
		-time.Second:                   "0s",
		0:                              "0s",
		59 * time.Second:               "59s",
		61 * time.Second:               "1m 1s",
		2*time.Hour + 3*time.Minute:    "2h 3m",
		50 * time.Hour:                 "2d 2h",
		24*time.Hour - time.Nanosecond: "23h 59m",
	}
	for d, want := range tests {
		assert.Equal(t, want, age(testNow, testNow.Add(-d)))
	}
	assert.Equal(t, "unknown", age(testNow, time.Time{}))
}

// assertWellFormed says whether every element that is opened is closed, in order.
func assertWellFormed(t *testing.T, body string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "input": true}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(body)); ; {
		switch z.Next() {
		case html.ErrorToken:
			assert.Empty(t, open, "elements left open")
			return
		case html.StartTagToken:
			if name := z.Token().Data; !void[name] {
				open = append(open, name)
			}
		case html.EndTagToken:
			name := z.Token().Data
			if !assert.NotEmpty(t, open, "</%s> without a start", name) ||
				!assert.Equal(t, open[len(open)-1], name, "out of order") {
				return
			}
			open = open[:len(open)-1]
		}
	}
}
