package httpapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/httpapi"
)

func TestRefusalsNeverRepeatWhatWasSent(t *testing.T) {
	s := newServer(t)
	const secret = "hf-canary-4711"
	for name, c := range map[string]struct {
		path, body, kind string
		status           int
		code             string
	}{
		"not JSON":         {"/api/accounts", secret + "{", "application/json", 400, "invalid_request"},
		"wrong type":       {"/api/accounts", `{"name": {"x": "` + secret + `"}}`, "application/json", 422, "invalid_request"},
		"wrong value":      {"/api/tokens", `{"name": "x", "role": "` + secret + `"}`, "application/json", 422, "invalid_request"},
		"too long":         {"/api/accounts", `{"name": "` + strings.Repeat(secret, 20) + `"}`, "application/json", 422, "invalid_request"},
		"missing":          {"/api/users", `{"name": "` + secret + `"}`, "application/json", 422, "invalid_request"},
		"bad name":         {"/api/accounts", `{"name": "/` + secret + `"}`, "application/json", 400, "invalid_request"},
		"unreadable token": {"/api/tokens", `{"name": "x", "expires_in": "` + secret + `"}`, "application/json", 400, "invalid_request"},
		"not a form":       {"/api/accounts", "name=" + secret, "application/x-www-form-urlencoded", 415, "unsupported_media_type"},
		"empty":            {"/api/accounts", "", "application/json", 400, "invalid_request"},
		"trailing":         {"/api/accounts", `{"name": "x"} ` + secret, "application/json", 400, "invalid_request"},
	} {
		a := s.do(t, "POST", c.path, c.body, bearer(s.admin), header("Content-Type", c.kind))
		p := a.problem(t)
		if a.StatusCode != c.status || p.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, a.StatusCode, a.body, c.status, c.code)
		}
		if strings.Contains(string(a.body), secret) {
			t.Errorf("%s: the answer repeats what was sent: %s", name, a.body)
		}
	}
	if strings.Contains(s.log.String(), secret) {
		t.Error("the log repeats what was sent")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := newServer(t)
	big := `{"name": "` + strings.Repeat("x", httpapi.DefaultBodyBytes) + `"}`
	wantProblem(t, s.do(t, "POST", "/api/accounts", big, bearer(s.admin)), 413, "body_too_large")
	chunked := func(r *http.Request) { r.ContentLength = -1; r.Body = io.NopCloser(strings.NewReader(big)) }
	wantProblem(t, s.do(t, "POST", "/api/accounts", nil, bearer(s.admin), header("Content-Type", "application/json"), chunked), 413, "body_too_large")
	wantProblem(t, s.do(t, "POST", "/api/accounts", big), 401, "no_credential") // before anything is read
}

func TestPathsAndMethodsThatAreNot(t *testing.T) {
	s := newServer(t)
	wantProblem(t, s.as(t, s.admin, "GET", "/api/nothing", nil), 404, "no_such_route")
	wantProblem(t, s.as(t, s.admin, "GET", "/api", nil), 404, "no_such_route")
	a := s.as(t, s.admin, "PUT", "/api/accounts", nil)
	wantProblem(t, a, 405, "method_not_allowed")
	if got := a.Header.Get("Allow"); got != "GET, HEAD, POST" {
		t.Errorf("Allow = %q", got)
	}
	wantProblem(t, s.as(t, s.admin, "DELETE", "/", nil), 405, "method_not_allowed")
}

func TestHeadersThatKeepBrowsersSafe(t *testing.T) {
	ui := fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>UI</title>")}, "assets/app-1a2b.js": {Data: []byte("export {}")}}
	s := newServer(t, func(c *httpapi.Config) { c.UI = ui })
	for path, c := range map[string]struct{ cache, policy, kind string }{
		"/api/whoami":         {"no-store", "default-src 'none'; frame-ancestors 'none'", "application/json"},
		"/":                   {"no-cache", "script-src 'self'", "text/html; charset=utf-8"},
		"/runs/run_1":         {"no-cache", "script-src 'self'", "text/html; charset=utf-8"},
		"/assets/app-1a2b.js": {"public, max-age=31536000, immutable", "script-src 'self'", "text/javascript; charset=utf-8"},
	} {
		a := s.as(t, s.admin, "GET", path, nil)
		h := a.Header
		if a.StatusCode != 200 || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") == "" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || !strings.Contains(h.Get("Content-Security-Policy"), c.policy) ||
			strings.Contains(h.Get("Content-Security-Policy"), "script-src 'self' 'unsafe") || h.Get("Cache-Control") != c.cache || h.Get("Content-Type") != c.kind {
			t.Errorf("GET %s = %d with headers %v", path, a.StatusCode, h)
		}
	}
	wantProblem(t, s.do(t, "GET", "/assets/gone.js", nil), 404, "no_such_file")
	for _, path := range []string{"/../../etc/passwd", "/..%2f..%2fetc/passwd", "/assets/../../x"} {
		if a := s.do(t, "GET", path, nil); strings.Contains(string(a.body), "root:") {
			t.Errorf("GET %s gives a file of the host", path)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	s := newServer(t)
	const ours = "req_01hzy3v8m4e6k7q9r2t5w8x0ab"
	if got := s.do(t, "GET", "/healthz", nil, header("X-Request-Id", ours)).Header.Get("X-Request-Id"); got != ours {
		t.Errorf("a well-formed id became %q", got)
	}
	for _, bad := range []string{"x", "req_", strings.Repeat("a", 500), "req_01HZY3V8M4E6K7Q9R2T5W8X0AB"} {
		if got := s.do(t, "GET", "/healthz", nil, header("X-Request-Id", bad)).Header.Get("X-Request-Id"); got == bad || len(got) != 30 {
			t.Errorf("the id %.40q became %q", bad, got)
		}
	}
}

func TestLogHoldsNoCredentialAndNoQuery(t *testing.T) {
	s := newServer(t)
	s.as(t, s.admin, "GET", "/api/accounts?cursor=SECRETQUERY", nil)
	s.do(t, "GET", "/api/whoami?ID=SECRETQUERY", nil, basicAuth(s.admin))
	s.do(t, "POST", "/api/session", api.SignIn{Token: s.admin})
	wrong := access.NewToken(access.PersonalPrefix).Reveal()
	s.as(t, wrong, "GET", "/api/whoami", nil)
	s.as(t, s.admin, "DELETE", "/api/tokens/"+wrong, nil)
	s.do(t, "GET", "/api/accounts/a%0d%0amsg=forged%1b[31m", nil)
	log := s.log.String()
	for _, bad := range []string{"SECRETQUERY", s.admin, wrong, "\x1b", "\nmsg=forged"} {
		if strings.Contains(log, bad) {
			t.Errorf("the log holds %q:\n%s", bad, log)
		}
	}
	if n := strings.Count(log, "msg=request"); n != 6 {
		t.Errorf("the log has %d request lines, want 6:\n%s", n, log)
	}
	if !strings.Contains(log, "path=/api/accounts") || !strings.Contains(log, "request_id=req_") {
		t.Errorf("the log lacks the path or the request id:\n%s", log)
	}
}

func TestCompression(t *testing.T) {
	s := newServer(t)
	a := s.do(t, "GET", "/api/openapi.json", nil, header("Accept-Encoding", "gzip"))
	if a.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("Content-Encoding = %q", a.Header.Get("Content-Encoding"))
	}
	z, err := gzip.NewReader(strings.NewReader(string(a.body)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(plain), `"openapi"`) || len(a.body)*4 > len(plain) {
		t.Errorf("%d bytes became %d, %v", len(plain), len(a.body), err)
	}
	if small := s.do(t, "GET", "/healthz", nil, header("Accept-Encoding", "gzip")); small.Header.Get("Content-Encoding") != "" {
		t.Error("a few bytes were compressed")
	}
}

func TestOps(t *testing.T) {
	s := newServer(t)
	if a := s.do(t, "GET", "/healthz", nil); a.StatusCode != 200 {
		t.Errorf("healthz = %d", a.StatusCode)
	}
	if a := s.do(t, "GET", "/readyz", nil); a.StatusCode != 200 {
		t.Errorf("readyz = %d %s", a.StatusCode, a.body)
	}
	s.as(t, s.admin, "GET", "/api/accounts/with-a-name-that-is-not-in-a-label", nil)
	m := string(s.do(t, "GET", "/metrics", nil).body)
	if !strings.Contains(m, `holdfast_http_request_seconds_count{route="GET /healthz",status="2xx"} 1`) || strings.Contains(m, "with-a-name") {
		t.Errorf("metrics:\n%s", m)
	}
	s.api.Drain()
	a := s.do(t, "GET", "/readyz", nil)
	wantProblem(t, a, 503, "shutting_down")
	if a.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}
