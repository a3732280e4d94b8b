package admin

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/meshdns/meshdns/api"
)

//go:embed page
var pageFiles embed.FS

// pageLimit is how many services the status page shows at once: what a reader scrolls
// through on a phone.
const pageLimit = 50

type pages struct {
	status, explain *template.Template
	style           []byte
}

// parsePages panics on a broken template: they are part of the program.
func parsePages() *pages {
	parse := func(name string) *template.Template {
		t := template.New("frame.html").Funcs(template.FuncMap{"join": strings.Join, "lower": strings.ToLower})
		return template.Must(t.ParseFS(pageFiles, "page/frame.html", "page/"+name))
	}
	style, err := pageFiles.ReadFile("page/style.css")
	if err != nil {
		panic(err)
	}
	return &pages{status: parse("status.html"), explain: parse("explain.html"), style: style}
}

// frame is what every page shows.
type frame struct {
	Title    string
	Version  string
	Now      string
	State    State
	Question Question
	Client   string // Question.Client as text, "" for none
}

type statusData struct {
	frame
	Sources  []sourceRow
	Zones    []Zone
	Services api.Services
	Query    Query
	Next     string // the link to the next page, "" at the end
	Problem  string
}

type explainData struct {
	frame
	Explanation api.Explanation
	Problem     string
}

// sourceRow is a source with its times as ages.
type sourceRow struct {
	api.Source
	InState, Confirmed string
}

// statusPage answers /.
func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	data := statusData{frame: s.frame("status"), Sources: s.sourceRows(), Zones: s.Zones.Zones()}
	code := http.StatusOK
	q, err := parseQuery(r.URL.Query(), pageLimit)
	if err != nil {
		data.Problem, code = err.Error(), http.StatusBadRequest
	} else {
		data.Query, data.Services = q, s.Catalogue.Services(q)
		data.Next = nextLink(q, data.Services.Next)
	}
	s.render(w, r, code, s.pages.status, data)
}

// explainPage answers /explain, the page behind the status page's form.
func (s *Server) explainPage(w http.ResponseWriter, r *http.Request) {
	data := explainData{frame: s.frame("explain")}
	values := r.URL.Query()
	data.Question = Question{Name: values.Get("name"), Type: values.Get("type")}
	data.Client = values.Get("client")
	code, err := http.StatusOK, error(nil)
	if data.Explanation, err = s.explained(r); err != nil {
		data.Problem, code = err.Error(), http.StatusInternalServerError
		if errors.As(err, new(*InputError)) {
			code = http.StatusBadRequest
		}
	}
	s.render(w, r, code, s.pages.explain, data)
}

func (s *Server) explained(r *http.Request) (api.Explanation, error) {
	q, err := parseQuestion(r.URL.Query())
	if err != nil {
		return api.Explanation{}, err
	}
	return s.Explainer.Explain(r.Context(), q)
}

func (s *Server) style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=60")
	http.ServeContent(w, r, "style.css", time.Time{}, bytes.NewReader(s.pages.style))
}

func (s *Server) frame(title string) frame {
	return frame{
		Title:   title,
		Version: s.Version,
		Now:     s.Now().UTC().Format(time.RFC3339),
		State:   s.Readiness.State(),
	}
}

func (s *Server) sourceRows() []sourceRow {
	now := s.Now()
	var rows []sourceRow
	for _, source := range s.Sources.Sources() {
		row := sourceRow{Source: source, InState: age(now, source.Since), Confirmed: "never"}
		if source.LastSuccess != nil {
			row.Confirmed = age(now, *source.LastSuccess) + " ago"
		}
		rows = append(rows, row)
	}
	return rows
}

// render writes a page whole or not at all.
func (s *Server) render(w http.ResponseWriter, r *http.Request, code int, t *template.Template, data any) {
	var page bytes.Buffer
	if err := t.Execute(&page, data); err != nil {
		s.fail(w, r, fmt.Errorf("rendering a page: %w", err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(page.Bytes())
}

func nextLink(q Query, next string) string {
	if next == "" {
		return ""
	}
	values := url.Values{"after": {next}}
	if q.Zone != "" {
		values.Set("zone", q.Zone)
	}
	if q.Contains != "" {
		values.Set("q", q.Contains)
	}
	return "/?" + values.Encode() + "#services"
}

// age is the time from then to now in its two largest units; a clock that was set back
// makes no negative ages.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "unknown"
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
