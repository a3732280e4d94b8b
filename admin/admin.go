// Package admin is the HTTP side of the server, for people and for machines that watch:
// metrics, probes, a small read-only JSON API and a status page. It knows nothing of how
// names are resolved; what it shows comes through the small interfaces below.
//
// A request's way:
//
//	serve.go   the listener's limits, the graceful end
//	guard.go   only GET and HEAD, no bodies to speak of, security headers
//	admin.go   the routes
//	health.go  /healthz, /readyz
//	apiv1.go   /api/v1/…, JSON as package api draws it
//	export.go  /api/v1/zones/{zone}, the one that is a zone file
//	page.go    / and /explain, the pages for people (templates in page/)
//
// Paths and JSON fields are a contract with programs outside of the project: they may be
// added, never renamed or removed.
package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/meshdns/meshdns/api"
)

// Sources lists what the server learns from.
type Sources interface {
	// Sources are ordered by kind and name.
	Sources() []api.Source
}

// Catalogue lists the names that are served.
type Catalogue interface {
	// Services is one page, in an order that stays the same.
	Services(Query) api.Services
	// Service is one name, in any case, without its final dot.
	Service(name string) (api.Service, bool)
}

// Query chooses a page of services.
type Query struct {
	After    string // names after this one, "" from the start
	Limit    int    // at most so many, 1 to MaxLimit
	Zone     string // only of this zone, lower-case, without final dot; "" all
	Contains string // only names that hold this text, lower-case; "" all
}

// Explainer says why a name is answered as it is.
type Explainer interface {
	// Explain must not be asked for an empty name or type. An error that is an
	// *InputError is the asker's fault.
	Explain(ctx context.Context, q Question) (api.Explanation, error)
}

// Question is what is to be explained.
type Question struct {
	Name   string     // as asked
	Type   string     // a record type, upper-case
	Client netip.Addr // whose question it is; the zero Addr for nobody's in particular
}

// InputError is what was wrong with a request.
type InputError struct {
	Field   string // the query parameter
	Message string
}

// Error implements error.
func (e *InputError) Error() string { return e.Field + ": " + e.Message }

// Readiness says whether questions should be sent to this server.
type Readiness interface {
	State() State
}

// State is whether the server is ready, and what /readyz answers as JSON.
type State struct {
	Ready    bool     `json:"ready"`
	Stopping bool     `json:"stopping"` // on its way out, still answering
	Waiting  []string `json:"waiting"`  // sources without a whole first list
}

// Zones lists the zones that the server is authoritative for.
type Zones interface {
	Zones() []Zone
	// Export writes a zone (its name without final dot) as a zone file. found is false, and
	// nothing has been written, when there is no such zone; otherwise an error is one of w.
	Export(w io.Writer, zone string) (found bool, err error)
}

// Zone is one row of the status page.
type Zone struct {
	Name   string // without final dot
	Serial uint32
}

// Config is what a Server needs. All but Version must be set.
type Config struct {
	Sources   Sources
	Catalogue Catalogue
	Explainer Explainer
	Readiness Readiness
	Zones     Zones
	Metrics   http.Handler // answers /metrics
	Logger    *slog.Logger
	Now       func() time.Time // the clock that ages are counted by
	Version   string           // shown on the status page
}

// Server answers the admin paths.
type Server struct {
	Config
	pages *pages
}

// New makes a Server.
func New(c Config) *Server {
	return &Server{Config: c, pages: parsePages()}
}

// Handler answers all admin paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.Metrics)
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/api/v1/services", s.services)
	mux.HandleFunc("/api/v1/services/{name}", s.service)
	mux.HandleFunc("/api/v1/sources", s.sources)
	mux.HandleFunc("/api/v1/explain", s.explain)
	mux.HandleFunc("/api/v1/zones/{zone}", s.export)
	mux.HandleFunc("/api/", s.noSuchPath)
	mux.HandleFunc("/style.css", s.style)
	mux.HandleFunc("/explain", s.explainPage)
	mux.HandleFunc("/{$}", s.statusPage)
	return guard(mux)
}
