package admin

import "net/http"

// maxBody: no path takes a body; what a client sends all the same is read no further.
const maxBody = 4 << 10

// guard lets only reads through and puts the security headers on every answer.
func guard(next http.Handler) http.Handler {
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, "", "only GET and HEAD: nothing can be changed here")
			return
		}
		next.ServeHTTP(w, r)
	})
	return http.MaxBytesHandler(reads, maxBody)
}

// setHeaders forbids all that the pages don't need: scripts, frames, foreign content,
// and reading by pages of other origins.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
