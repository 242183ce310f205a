package relay

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the protocol's checksum
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/redact"
)

// bench is a relay between a test and a server that does what the test says.
type bench struct {
	t     *testing.T
	relay *Relay
	url   string // of the relay
	spool string

	mu     sync.Mutex
	server func(http.ResponseWriter, *http.Request)
	got    []string // "METHOD path?query body" as the server saw them
	said   []string
}

const (
	user     = "att_1"
	password = "right"
	empty    = `{"version":4,"serial":1,"lineage":"x","outputs":{},"resources":[]}`
	full     = `{"version":4,"serial":2,"lineage":"x","outputs":{},"resources":[{"type":"a"}]}`
)

func newBench(t *testing.T, access Access, server func(http.ResponseWriter, *http.Request)) *bench {
	t.Helper()
	b := &bench{t: t, server: server, spool: filepath.Join(t.TempDir(), "state")}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, token, _ := r.BasicAuth(); token != "attempt-token" {
			t.Errorf("%s came with token %q, want the attempt's", r.Method, token)
		}
		b.mu.Lock()
		b.got = append(b.got, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		serve := b.server
		b.mu.Unlock()
		serve(w, r)
	}))
	base, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	b.relay = New(Options{
		Platform: platform.New(base, redact.NewSecret("agent-token"), "test", log),
		State:    api.WorkState{Address: "/s/state", Lock: "/s/lock"}, Token: redact.NewSecret("attempt-token"), Access: access,
		User: user, Password: redact.NewSecret(password), MaxBytes: 1 << 20, SpoolFile: b.spool, Log: log, Now: time.Now,
		Say: func(s string) { b.mu.Lock(); b.said = append(b.said, s); b.mu.Unlock() },
	})
	front := httptest.NewServer(b.relay)
	b.url = front.URL
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		b.relay.Drain(gone)
		front.Close()
		upstream.Close()
	})
	return b
}

type result struct {
	status int
	body   string
}

func (b *bench) do(method, path, body string, change ...func(*http.Request)) result {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	for _, c := range change {
		c(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // a test
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return result{resp.StatusCode, string(text)}
}

func (b *bench) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.got...)
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestOnlyTheProtocolAndOnlyWithThePassword(t *testing.T) {
	b := newBench(t, Write, ok)
	for name, c := range map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"no password":       {"GET", "/state", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"a wrong password":  {"GET", "/state", func(r *http.Request) { r.SetBasicAuth(user, "wrong") }, 401},
		"another user":      {"GET", "/state", func(r *http.Request) { r.SetBasicAuth("att_2", password) }, 401},
		"a shifted split":   {"GET", "/state", func(r *http.Request) { r.SetBasicAuth(user+":r", "ight") }, 401},
		"another path":      {"GET", "/", nil, 405},
		"a path below":      {"GET", "/state/../lock", nil, 405},
		"another state":     {"GET", "/api/tf-states/other/state", nil, 405},
		"the lock read":     {"GET", "/state/lock", nil, 405},
		"another method":    {"DELETE", "/state", nil, 405},
		"put":               {"PUT", "/state", nil, 405},
		"the state locked":  {"LOCK", "/state", nil, 405},
		"a proxy's connect": {"POST", "/state/lock", nil, 405},
	} {
		if c.change == nil {
			c.change = func(*http.Request) {}
		}
		if r := b.do(c.method, c.path, "", c.change); r.status != c.want {
			t.Errorf("%s: got %d, want %d", name, r.status, c.want)
		}
	}
	if got := b.seen(); len(got) != 0 {
		t.Errorf("the server saw %q, want nothing", got)
	}
}

func TestAccess(t *testing.T) {
	nothing := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
		}
	}
	something := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, full)
		}
	}
	for name, c := range map[string]struct {
		access       Access
		server       func(http.ResponseWriter, *http.Request)
		read         bool
		method, path string
		body         string
		want         int
	}{
		"a preview reads":                        {Read, something, false, "GET", "/state", "", 200},
		"a preview does not lock":                {Read, something, false, "LOCK", "/state/lock", "{}", 403},
		"a preview does not unlock":              {Read, something, false, "UNLOCK", "/state/lock", "{}", 403},
		"a preview does not save":                {Read, nothing, true, "POST", "/state", empty, 403},
		"a plan locks":                           {Plan, something, false, "LOCK", "/state/lock", "{}", 200},
		"a plan saves the empty first state":     {Plan, nothing, true, "POST", "/state?ID=1", empty, 200},
		"a plan saves no full first state":       {Plan, nothing, true, "POST", "/state?ID=1", full, 403},
		"a plan saves no output":                 {Plan, nothing, true, "POST", "/state?ID=1", strings.Replace(empty, `"outputs":{}`, `"outputs":{"a":1}`, 1), 403},
		"a plan saves nothing over a state":      {Plan, something, true, "POST", "/state?ID=1", empty, 403},
		"a plan saves nothing before it looked":  {Plan, nothing, false, "POST", "/state?ID=1", empty, 403},
		"a plan saves no later state":            {Plan, nothing, true, "POST", "/state?ID=1", strings.Replace(empty, `"serial":1`, `"serial":2`, 1), 403},
		"a plan saves nothing that is no state":  {Plan, nothing, true, "POST", "/state?ID=1", "{}", 403},
		"a plan saves nothing that is encrypted": {Plan, nothing, true, "POST", "/state?ID=1", `{"meta":{},"encrypted_data":"x","serial":1}`, 403},
		"an apply saves":                         {Write, something, false, "POST", "/state?ID=1", full, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.access, c.server)
			if c.read {
				b.do("GET", "/state", "")
			}
			before := len(b.seen())
			r := b.do(c.method, c.path, c.body)
			if r.status != c.want {
				t.Errorf("got %d %s, want %d", r.status, r.body, c.want)
			}
			if passed := len(b.seen()) > before; passed != (c.want == 200) {
				t.Errorf("the server was asked: %v, want %v", passed, c.want == 200)
			}
			if _, err := os.Stat(b.spool); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the spool file is left: %v", err)
			}
		})
	}
}

func TestWhatIsServedIsRemembered(t *testing.T) {
	b := newBench(t, Plan, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") })
	b.do("GET", "/state", "")
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := b.relay.Served(); got != abc {
		t.Errorf("served: got %q, want the SHA-256 of abc", got)
	}
	b.server = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	if r := b.do("GET", "/state", ""); r.status != http.StatusForbidden || b.relay.Served() != abc {
		t.Errorf("a refusal: got %d, and served is now %q", r.status, b.relay.Served())
	}
	b.server = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	if r := b.do("GET", "/state", ""); r.status != http.StatusNotFound || b.relay.Served() != "" {
		t.Errorf("no state: got %d, and served is %q", r.status, b.relay.Served())
	}
}

// TestSaveIsRepeatedUntilAnswered breaks and refuses in every way that passes, and wants one acknowledgement, after
// the server's.
func TestSaveIsRepeatedUntilAnswered(t *testing.T) {
	var n int
	var b *bench
	b = newBench(t, Write, func(w http.ResponseWriter, r *http.Request) {
		n++
		if spooled, err := os.ReadFile(b.spool); err != nil || string(spooled) != full {
			t.Errorf("try %d: the spool holds %q, %v, want the document", n, spooled, err)
		}
		sum := md5.Sum([]byte(full)) //nolint:gosec // see above
		if got := r.Header.Get("Content-MD5"); got != base64.StdEncoding.EncodeToString(sum[:]) {
			t.Errorf("try %d: Content-MD5 is %q", n, got)
		}
		switch n {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		case 3:
			w.WriteHeader(http.StatusInsufficientStorage)
		case 4:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 5:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	begin := time.Now()
	if r := b.do("POST", "/state?ID=lock", full); r.status != 200 {
		t.Errorf("got %d, want 200 in the end", r.status)
	}
	if n != 6 || time.Since(begin) < time.Second {
		t.Errorf("%d tries in %v, want 6, and Retry-After honoured", n, time.Since(begin))
	}
	for _, got := range b.seen() {
		if got != "POST /s/state?ID=lock "+full {
			t.Errorf("the server saw %q", got)
		}
	}
	if _, err := os.Stat(b.spool); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool file is left: %v", err)
	}
}

func TestFinalAnswersPass(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 423} {
		b := newBench(t, Write, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"ID":"theirs","Who":"somebody"}`)
		})
		for _, method := range []string{"POST", "LOCK", "UNLOCK"} {
			path := "/state/lock"
			if method == "POST" {
				path = "/state"
			}
			if r := b.do(method, path, "{}"); r.status != status || r.body != `{"ID":"theirs","Who":"somebody"}` {
				t.Errorf("%s: got %d %q, want %d and the server's body", method, r.status, r.body, status)
			}
		}
		if len(b.said) != 3 || !strings.Contains(b.said[1], "somebody") {
			t.Errorf("the log says %q, want each refusal with its reason", b.said)
		}
		// A refused save stays, so that it can be delivered some other way.
		if f, err := Unsaved(b.spool); err != nil || f == nil {
			t.Errorf("a refused save: got %v, %v, want it kept", f, err)
		} else {
			_ = f.Close()
		}
	}
}

func TestSaveOutlivesWhoSentIt(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := newBench(t, Write, func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(first); <-second; panic(http.ErrAbortHandler) })
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/state", strings.NewReader(full))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	ended := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	<-first
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the sender: got %v", err)
	}
	close(second)
	limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	b.relay.Drain(limit)
	if got := b.seen(); len(got) != 2 || got[1] != "POST /s/state "+full {
		t.Errorf("the server saw %q, want the save twice", got)
	}
	if _, err := os.Stat(b.spool); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool file is left: %v", err)
	}
}

func TestDrainGivesUpAtItsLimitAndKeepsTheSave(t *testing.T) {
	tried := make(chan struct{}, 100)
	b := newBench(t, Write, func(w http.ResponseWriter, _ *http.Request) {
		tried <- struct{}{}
		w.WriteHeader(http.StatusBadGateway)
	})
	status := make(chan int, 1)
	go func() { status <- b.do("POST", "/state", full).status }()
	<-tried
	limit, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	b.relay.Drain(limit)
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503: never an acknowledgement", got)
	}
	if text, err := os.ReadFile(b.spool); err != nil || string(text) != full {
		t.Errorf("the spool holds %q, %v, want the save", text, err)
	}
	if r := b.do("GET", "/state", ""); r.status != http.StatusServiceUnavailable {
		t.Errorf("after the drain: got %d, want 503", r.status)
	}
}

func TestDamagedAndTooLargeSaves(t *testing.T) {
	b := newBench(t, Write, ok)
	wrong := func(r *http.Request) { r.Header.Set("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==") }
	if r := b.do("POST", "/state", full, wrong); r.status != http.StatusBadRequest {
		t.Errorf("a damaged save: got %d, want 400", r.status)
	}
	if r := b.do("POST", "/state", strings.Repeat("x", 1<<20+1)); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a save over the limit: got %d, want 413", r.status)
	}
	if r := b.do("LOCK", "/state/lock", strings.Repeat("x", maxLockBytes+1)); r.status != http.StatusBadRequest {
		t.Errorf("a lock document over the limit: got %d, want 400", r.status)
	}
	if got := b.seen(); len(got) != 0 {
		t.Errorf("the server saw %d requests, want none", len(got))
	}
	left, err := filepath.Glob(b.spool + "*")
	if err != nil || len(left) != 0 {
		t.Errorf("spool files are left: %v, %v", left, err)
	}
}

// TestDiskThatTakesNothing: the tool is told to try again, and people why, in the run's log.
func TestDiskThatTakesNothing(t *testing.T) {
	b := newBench(t, Write, ok)
	if err := os.Remove(filepath.Dir(b.spool)); err != nil {
		t.Fatal(err)
	}
	if r := b.do("POST", "/state", full); r.status != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", r.status)
	}
	if got := b.seen(); len(got) != 0 {
		t.Errorf("the server saw %v", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if said := strings.Join(b.said, "\n"); !strings.Contains(said, "the agent's disk") || !strings.Contains(said, "no such file") {
		t.Errorf("the run's log has %q, want the disk and its reason", said)
	}
}

// TestHalfADocumentIsNone breaks the server's answer in its middle.
func TestHalfADocumentIsNone(t *testing.T) {
	b := newBench(t, Write, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		var text []byte
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			t.Errorf("got %q as a whole document", text)
		}
	}
	if b.relay.Served() != "" {
		t.Error("half a document is remembered as served")
	}
}

func TestDeliver(t *testing.T) {
	n := 0
	b := newBench(t, Write, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	if err := b.relay.Deliver(t.Context(), bytes.NewReader([]byte(full)), int64(len(full))); err != nil {
		t.Errorf("deliver: %v", err)
	}
	if got := b.seen(); len(got) != 2 || got[1] != "POST /s/state "+full {
		t.Errorf("the server saw %q, want the document without a lock's id", got)
	}
	b.server = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }
	if err := b.relay.Deliver(t.Context(), bytes.NewReader([]byte(full)), int64(len(full))); platform.Status(err) != http.StatusConflict || !platform.Final(err) {
		t.Errorf("a refused delivery: got %v, want a final 409", err)
	}
}

// TestDenied keeps what the tool does not show: which permission was missing, and who can help.
func TestDenied(t *testing.T) {
	answers := map[string]int{"GET": 403, "LOCK": 423, "POST": 409, "UNLOCK": 403}
	b := newBench(t, Write, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(answers[r.Method])
		_, _ = io.WriteString(w, `{"detail":"`+r.Method+` is not allowed.","hint":"Ask an administrator."}`)
	})
	for _, c := range []struct{ method, path, want string }{
		{"LOCK", "/state/lock", ""},
		{"POST", "/state", ""},
		{"GET", "/state", "The server refused to read the state: GET is not allowed. Ask an administrator."},
		{"UNLOCK", "/state/lock", "The server refused UNLOCK: UNLOCK is not allowed. Ask an administrator."},
	} {
		got := b.do(c.method, c.path, full)
		if got.status != answers[c.method] || !strings.Contains(got.body, c.method+" is not allowed.") {
			t.Errorf("%s: answered %+v, want the server's own answer", c.method, got)
		}
		if denied := b.relay.Denied(); denied != c.want {
			t.Errorf("after %s: denied %q, want %q", c.method, denied, c.want)
		}
	}
	if len(b.said) != 4 || !strings.Contains(b.said[2], "refused to read the state with status 403: GET is not allowed. Ask an administrator.") {
		t.Errorf("the log says %q, want four refusals with their reasons", b.said)
	}
}
