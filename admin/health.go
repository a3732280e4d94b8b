package admin

import (
	"fmt"
	"net/http"
	"strings"
)

// healthz says that the process is alive, whatever its sources do: restarting a server
// whose sources are away would only lose what it still knows (CASES C113).
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "ok\n")
}

// readyz is 200 when questions should come here, 503 with the reason when not: as text,
// or as State in JSON where the Accept header names application/json.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	state := s.Readiness.State()
	if state.Waiting == nil {
		state.Waiting = []string{}
	}
	code := http.StatusOK
	if !state.Ready {
		code = http.StatusServiceUnavailable
	}
	if wantsJSON(r) {
		writeJSON(w, code, state)
		return
	}
	writeText(w, code, state.text())
}

func (s State) text() string {
	switch {
	case s.Ready:
		return "ready\n"
	case s.Stopping:
		return "stopping\n"
	default:
		return fmt.Sprintf("not ready, waiting for:\n%s\n", strings.Join(s.Waiting, "\n"))
	}
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}
