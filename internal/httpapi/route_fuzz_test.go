package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// stateName is what spec and CheckName allow, written down a second time on purpose.
var stateName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// FuzzRoute sends what is left of a request line, headers and a body to the whole API, as an administrator: whatever a
// client makes up is answered or refused, never a failure of the server's, and a name never becomes a path.
func FuzzRoute(f *testing.F) {
	const lock = `{"ID":"l1","Operation":"OperationTypeApply","Info":"","Who":"a@b","Version":"1.12.6","Created":"2026-01-02T03:04:05Z","Path":""}`
	const doc = `{"version":4,"serial":1,"lineage":"a","resources":[]}`
	long := strings.Repeat("a", 129)
	for _, s := range []struct{ method, target, headers, body string }{
		{"GET", "/api/tf-states/net/state", "", ""},
		{"POST", "/api/tf-states/net/state?ID=l1", "Content-Type: application/json", doc},
		{"PUT", "/api/tf-states/net/state", "", doc}, // L11
		{"LOCK", "/api/tf-states/net/lock", "", lock},
		{"UNLOCK", "/api/tf-states/net/lock", "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==", ""}, // L01
		{"POST", "/api/tf-states/net/lock", "", lock},
		{"DELETE", "/api/tf-states/net/lock", "", lock},
		{"DELETE", "/api/tf-states/net/state", "", ""},
		{"LOCK", "/api/tf-states/net/lock", "", `{}`}, // L05
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":""}`},
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":7}`},
		{"LOCK", "/api/tf-states/net/lock", "", `not JSON`},
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":"u","Who":"Žofie@日本-host` + "\u202e" + `evil","Created":"9999-12-31T23:59:59Z"}`}, // L09
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":"u","Who":"\ud800"}`},
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":"u\u0000"}`},
		{"LOCK", "/api/tf-states/net/lock", "", `{"ID":"u","Info":"` + strings.Repeat("x", 17<<10) + `"}`},
		{"LOCK", "/api/tf-states/..%2f..%2fetc/lock", "", lock},
		{"POST", "/api/tf-states/%2e%2e/state", "", doc},
		{"POST", "/api/tf-states/a%2Fb/state", "", doc},
		{"POST", "/api/tf-states/a%00b/state", "", doc},
		{"POST", "/api/tf-states/../../state", "", doc},
		{"POST", "//api//tf-states//net//state", "", doc},
		{"POST", "/api/tf-states/./state", "", doc},
		{"POST", "/api/tf-states/" + long + "/state", "", doc},
		{"POST", "/api/tf-states/%FF/state", "", doc},
		{"GET", "/api/tf-states/net/state%3fID=x", "", ""},
		{"GET", "http://elsewhere.test/api/tf-states/net/state", "Host: a/b", ""},
		{"OPTIONS", "*", "", ""},
		{"CONNECT", "net:443", "", ""},
		{"HEAD", "/api/tf-states/net/state", "", ""},
		{"GET", "/api/tf-states?limit=2&cursor=%00&q=%25", "", ""},
		{"GET", "/api/tf-states?limit=-1&locked=maybe", "", ""},
		{"GET", "/api/tf-states/net/versions/9223372036854775808/content", "", ""},
		{"GET", "/api/tf-states/net/diff?from=1&to=1", "", ""},
		{"GET", "/api/state-resources?q=%ff", "", ""},
		{"POST", "/api/tf-states/net/rollback", "Content-Type: application/json", `{"version":1}`},
		{"POST", "/api/tf-states/other/import", "Content-Type: application/json", doc},
		{"POST", "/api/tf-states/net/force-unlock", "Content-Type: application/json", `{"reason":"\u0000"}`},
		{"GET", "/api/audit?object=%00&action=state.", "Accept: application/x-ndjson", ""},
		{"GET", "/assets/..%2f..%2fgo.mod", "", ""},
		{"GET", "/api/runs/run_x/events", "Last-Event-ID: -1\r\nAccept: text/event-stream", ""},
		{"GET", "/api/tf-states/net/state", "Authorization: Basic !!!\r\nX-Forwarded-For: ,,\r\nX-Request-Id: \x01", ""},
		{"POST", "/api/tf-states/net/state", "Content-MD5: nonsense\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"},
		{"POST", "/api/tf-states/net/state", "Content-Length: 100000000000", doc},
		// Bodies that do not arrive whole, on a plain route and on one that huma decodes.
		{"POST", "/api/tf-states/net/state", "Transfer-Encoding: chunked", "\n"},
		{"LOCK", "/api/tf-states/net/lock", "Transfer-Encoding: chunked", "zz\r\n"},
		{"POST", "/api/tf-states/net/rollback", "Content-Type: application/json\r\nTransfer-Encoding: chunked", "d\r\n{\"version\":1}\r\nzz"},
		{"POST", "/api/tf-states/net/rollback", "Content-Type: application/json\r\nContent-Length: 20", `{"version":1}`},
		{"GET", "/metrics", "Accept-Encoding: gzip;q=nan", ""},
		{"GET", "/stacks/%E2%80%AE/../..", "", ""},
	} {
		f.Add(s.method, s.target, s.headers, s.body)
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		s.log.reset() // nothing looks at it, and there are many inputs
		raw := method + " " + target + " HTTP/1.1\r\n" + headers + "\r\n\r\n" + body
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return // net/http refuses it before there is a handler
		}
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+s.admin)
		}
		if r.ContentLength == 0 && r.Body == http.NoBody && body != "" {
			r.Body, r.ContentLength = readCloser{strings.NewReader(body)}, int64(len(body))
		}
		r.RemoteAddr = "127.0.0.1:1"
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		if aborted := serve(s.api, w, r.WithContext(ctx)); aborted {
			t.Fatalf("%q: the answer was cut", raw)
		}
		checkAnswer(t, raw, r, w)
		checkFolder(t, s.folder)
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// serve reports whether the handler cut its answer, as net/http lets it.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			aborted = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}

func checkAnswer(t *testing.T, raw string, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 500 && w.Code != http.StatusNotImplemented && w.Code != http.StatusServiceUnavailable {
		t.Fatalf("%q = %d %s", raw, w.Code, w.Body)
	}
	if w.Header().Get("X-Request-Id") == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q = %d without an id or the headers that every answer has: %v", raw, w.Code, w.Header())
	}
	if w.Code >= 400 && w.Header().Get("Content-Type") == "application/problem+json" && r.Method != http.MethodHead && w.Header().Get("Content-Encoding") == "" {
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Code == "" || p.Detail == "" {
			t.Errorf("%q = %d with the problem %s: %v", raw, w.Code, w.Body, err)
		}
	}
	// A request that wrote has named a state as states may be named, by the path as the client spelled it.
	part := strings.Split(r.URL.EscapedPath(), "/")
	if w.Code != http.StatusOK || r.Method == http.MethodGet || r.Method == http.MethodHead || len(part) < 5 || part[1] != "api" || part[2] != "tf-states" {
		return
	}
	if name, err := url.PathUnescape(part[3]); err != nil || !stateName.MatchString(name) {
		t.Fatalf("%q = 200 for the state %q", raw, name)
	}
}

// checkFolder finds a file that a request made beside the database.
func checkFolder(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "holdfast.db") {
			t.Fatalf("%s stands beside the database", e.Name())
		}
	}
}
