package admin

import (
	"fmt"
	"net/http"
	"time"
)

// zoneFileType is a zone file's media type (RFC 4027).
const zoneFileType = "text/dns; charset=us-ascii"

// export answers /api/v1/zones/{zone}: the zone as a zone file, written while it is read,
// however large it is. One that cannot be written to its end is cut off in a way that the
// client notices.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	zone := canonical(r.PathValue("zone"))
	if len(zone) > maxText {
		s.fail(w, r, &InputError{"zone", fmt.Sprintf("longer than %d bytes", maxText)})
		return
	}
	w.Header().Set("Content-Type", zoneFileType)
	found, err := s.Zones.Export(unhurried{w}, zone)
	switch {
	case !found:
		writeError(w, http.StatusNotFound, "", fmt.Sprintf("no zone %q is served here", zone))
	case err != nil:
		s.Logger.InfoContext(r.Context(), "zone file was not taken to its end", "zone", zone, "error", err)
		panic(http.ErrAbortHandler) // ends the connection without the end of the answer
	}
}

// unhurried gives each write the time that a whole answer has otherwise.
type unhurried struct {
	http.ResponseWriter
}

func (u unhurried) Write(p []byte) (int, error) {
	// Where the connection has no deadlines, none is needed.
	_ = http.NewResponseController(u.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	return u.ResponseWriter.Write(p)
}
