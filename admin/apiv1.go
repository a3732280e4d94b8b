package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/meshdns/meshdns/api"
)

// Sizes of a page of services.
const (
	DefaultLimit = 500
	MaxLimit     = 10_000
)

// maxText bounds every query parameter: a name of 255 bytes, each written as \DDD.
const maxText = 1020

// services answers /api/v1/services: a page of names in order.
//
//	?limit=  how many at most, 1 to 10000, 500 unless given
//	?after=  go on after this name: the `next` of the page before
//	?zone=   only names of this zone
//	?q=      only names that contain this text, in any case
func (s *Server) services(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query(), DefaultLimit)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, wholeServices(s.Catalogue.Services(q)))
}

// service answers /api/v1/services/{name}.
func (s *Server) service(w http.ResponseWriter, r *http.Request) {
	name := canonical(r.PathValue("name"))
	found, ok := s.Catalogue.Service(name)
	if !ok {
		writeError(w, http.StatusNotFound, "", fmt.Sprintf("no service %q is served here", name))
		return
	}
	writeJSON(w, http.StatusOK, wholeService(found))
}

// sources answers /api/v1/sources, a bare list.
func (s *Server) sources(w http.ResponseWriter, _ *http.Request) {
	list := s.Sources.Sources()
	if list == nil {
		list = []api.Source{}
	}
	writeJSON(w, http.StatusOK, list)
}

// explain answers /api/v1/explain.
//
//	?name=    the name, required
//	?type=    a record type, A unless given
//	?client=  the IP address whose question it is
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuestion(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	explanation, err := s.Explainer.Explain(r.Context(), q)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, wholeExplanation(explanation))
}

func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) {
	writeError(w, http.StatusNotFound, "", fmt.Sprintf("no path %q here", r.URL.Path))
}

// fail answers 400 for what the asker did wrong and 500, with a log line, for the rest.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var input *InputError
	if errors.As(err, &input) {
		writeError(w, http.StatusBadRequest, input.Field, input.Error())
		return
	}
	s.Logger.ErrorContext(r.Context(), "admin request failed", "path", r.URL.Path, "error", err)
	writeError(w, http.StatusInternalServerError, "", err.Error())
}

func parseQuery(values url.Values, limit int) (Query, error) {
	if err := checkLengths(values, "after", "zone", "q"); err != nil {
		return Query{}, err
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxLimit {
			return Query{}, &InputError{"limit", fmt.Sprintf("%q is not a number from 1 to %d", text, MaxLimit)}
		}
		limit = n
	}
	return Query{
		After:    canonical(values.Get("after")),
		Limit:    limit,
		Zone:     canonical(values.Get("zone")),
		Contains: strings.ToLower(values.Get("q")),
	}, nil
}

func parseQuestion(values url.Values) (Question, error) {
	if err := checkLengths(values, "name", "type", "client"); err != nil {
		return Question{}, err
	}
	q := Question{Name: values.Get("name"), Type: strings.ToUpper(values.Get("type"))}
	if q.Name == "" {
		return Question{}, &InputError{"name", "missing: say which name to explain"}
	}
	if q.Type == "" {
		q.Type = "A"
	}
	if text := values.Get("client"); text != "" {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return Question{}, &InputError{"client", fmt.Sprintf("%q is not an IP address", text)}
		}
		q.Client = addr.Unmap()
	}
	return q, nil
}

func checkLengths(values url.Values, fields ...string) error {
	for _, field := range fields {
		if len(values.Get(field)) > maxText {
			return &InputError{field, fmt.Sprintf("longer than %d bytes", maxText)}
		}
	}
	return nil
}

// canonical is a name as the API writes it: lower-case, without its final dot.
func canonical(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// The whole… functions make absent lists empty ones, so that no reader meets null.

func wholeServices(page api.Services) api.Services {
	items := make([]api.Service, len(page.Items))
	for i, item := range page.Items {
		items[i] = wholeService(item)
	}
	page.Items = items
	return page
}

func wholeService(s api.Service) api.Service {
	if s.Backends == nil {
		s.Backends = []string{}
	}
	if s.Conflicts == nil {
		s.Conflicts = []string{}
	}
	return s
}

func wholeExplanation(e api.Explanation) api.Explanation {
	if e.Steps == nil {
		e.Steps = []string{}
	}
	if e.Endpoints == nil {
		e.Endpoints = []api.Endpoint{}
	}
	return e
}

// apiError is the JSON of every answer that is not 200.
type apiError struct {
	Error string `json:"error"`
	Field string `json:"field,omitempty"` // the query parameter that is wrong
}

func writeError(w http.ResponseWriter, code int, field, message string) {
	writeJSON(w, code, apiError{Error: message, Field: field})
}

// writeJSON ignores write errors: the client is gone, and nobody else is waiting.
func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}
