package httpapi

import (
	"io/fs"
	"net/http"
	"path"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// uiPolicy is the content policy of the UI's pages: everything from this server alone, nothing inline, no page frames
// it. The UI is built so that it needs no inline styles either; its browser tests fail on whatever this stops.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'"

func underAPI(p string) bool { return p == "/api" || strings.HasPrefix(p, "/api/") }

// unmatched answers what no route takes: 405 with the methods that the path has, or 404.
func (a *API) unmatched(w http.ResponseWriter, r *http.Request, found http.Handler) {
	var probe headers
	found.ServeHTTP(&probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.Header().Get("Allow")
		w.Header().Set("Allow", allow)
		p := newProblem(r.Context(), http.StatusMethodNotAllowed, "method_not_allowed", "This path has no method "+shortMethod(r.Method)+".", "It has "+allow+".")
		a.fail(w, r, p)
		return
	}
	a.fail(w, r, fault.New(fault.NotFound, "no_such_route", "There is nothing at this path.").WithHint("GET /api/openapi.json lists what there is."))
}

func shortMethod(m string) string {
	if len(m) > 16 {
		return "of this name"
	}
	return m
}

// headers takes an answer in and keeps its status and headers.
type headers struct {
	header http.Header
	status int
}

func (h *headers) Header() http.Header {
	if h.header == nil {
		h.header = http.Header{}
	}
	return h.header
}
func (h *headers) Write(p []byte) (int, error) { return len(p), nil }
func (h *headers) WriteHeader(status int)      { h.status = status }

// serveUI serves the built UI. Paths that name no file are pages of the UI itself, which its script shows.
func (a *API) serveUI(w http.ResponseWriter, r *http.Request) {
	note(r.Context(), "ui")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		a.fail(w, r, newProblem(r.Context(), http.StatusMethodNotAllowed, "method_not_allowed", "Pages can only be read.", "It has GET, HEAD."))
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", uiPolicy)
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if info, err := fs.Stat(a.ui, name); name == "" || err != nil || info.IsDir() {
		if strings.HasPrefix(name, "assets/") {
			a.fail(w, r, fault.New(fault.NotFound, "no_such_file", "There is no such file."))
			return
		}
		name = "index.html"
	}
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // their names hold a hash of their content
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	http.ServeFileFS(w, r, a.ui, name)
}
