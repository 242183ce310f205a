package client

import (
	"context"
	"crypto/md5" //nolint:gosec // what the protocol uses
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

const secret = "hf_pat_AAAAAAAAAAAAAAAAAAAAAAAA"

// serve starts a server of h and gives a client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return connect(t, s.URL)
}

func connect(t *testing.T, address string) *Client {
	t.Helper()
	c, err := New(Config{Address: address, Token: redact.NewSecret(secret), UserAgent: "holdfast/test", Patience: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(t *testing.T, w http.ResponseWriter, status int, v any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

func TestRefusalKeepsTheServersWords(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("Authorization = %q", got)
		}
		answer(t, w, http.StatusConflict, api.Problem{Status: 409, Code: "plan_changed", Detail: "The plan is another one.", Hint: "Look at it again.", RequestID: "req_1"})
	})
	_, err := c.ApproveRun(t.Context(), "run_1", "sha256:a")
	f := fault.From(err)
	if f.Kind != fault.Conflict || f.Code != "plan_changed" || f.Public != "The plan is another one." || f.Hint != "Look at it again." {
		t.Fatalf("got %+v", f)
	}
	if p, ok := ProblemOf(err); !ok || p.RequestID != "req_1" {
		t.Fatalf("problem = %+v, %v", p, ok)
	}
}

func TestKinds(t *testing.T) {
	for status, want := range map[int]fault.Kind{
		400: fault.Invalid, 401: fault.Unauthenticated, 403: fault.Forbidden, 404: fault.NotFound, 409: fault.Conflict, 410: fault.Gone,
		413: fault.TooLarge, 422: fault.Unprocessable, 423: fault.Locked, 426: fault.UpgradeRequired, 429: fault.TooMany, 500: fault.Internal,
		503: fault.Unavailable, 507: fault.NoSpace, 418: fault.Invalid, 502: fault.Unavailable,
	} {
		if got := kind(status); got != want {
			t.Errorf("kind(%d) = %s, want %s", status, got, want)
		}
	}
}

func TestWhatIsNotHoldfastIsSaidSo(t *testing.T) {
	for _, status := range []int{200, 403, 404} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>sign in</html>")
		})
		_, err := c.Whoami(t.Context())
		if fault.Code(err) != "not_holdfast" {
			t.Errorf("status %d: got %v", status, err)
		}
	}
}

func TestRepeats(t *testing.T) {
	cases := []struct {
		name   string
		status int
		code   string // "" is a foreign answer, made by a proxy
		call   func(c *Client) error
		want   int32 // tries, where the second would be answered
	}{
		{"read, 503 of ours", 503, "unavailable", whoami, 2},
		{"read, 503 of a proxy", 503, "", whoami, 2},
		{"read, 502", 502, "", whoami, 2},
		{"read, 500", 500, "internal", whoami, 1},
		{"read, 429", 429, "slow_down", whoami, 2},
		{"one-time, 503 of ours changed nothing", 503, "unavailable", issue, 2},
		{"one-time, 503 of a proxy may have been done", 503, "", issue, 1},
		{"one-time, 502", 502, "", issue, 1},
		{"start without a key, 502", 502, "", start(""), 1},
		{"start with a key, 502", 502, "", start("k"), 2},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var tries atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tries.Add(1) > 1 {
					answer(t, w, http.StatusOK, struct{}{})
					return
				}
				if tc.code == "" {
					w.WriteHeader(tc.status)
					return
				}
				answer(t, w, tc.status, api.Problem{Status: tc.status, Code: tc.code, Detail: "no"})
			})
			err := tc.call(c)
			if got := tries.Load(); got != tc.want || (err == nil) != (tc.want == 2) {
				t.Fatalf("got %d tries and error %v, want %d tries", got, err, tc.want)
			}
		})
	}
}

func whoami(c *Client) error {
	_, err := c.Whoami(context.Background())
	return err
}

func issue(c *Client) error {
	_, err := c.IssueAgent(context.Background(), api.IssueAgent{Name: "a", AccountID: "local"})
	return err
}

func start(key string) func(*Client) error {
	return func(c *Client) error {
		_, err := c.StartRun(context.Background(), "shop", api.StartRun{Key: key})
		return err
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	var first atomic.Int64
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(0, time.Now().UnixNano()) {
			w.Header().Set("Retry-After", "1")
			answer(t, w, http.StatusServiceUnavailable, api.Problem{Code: "busy"})
			return
		}
		if since := time.Since(time.Unix(0, first.Load())); since < time.Second {
			t.Errorf("came back after %s", since)
		}
		answer(t, w, http.StatusOK, api.Whoami{Name: "ada"})
	})
	who, err := c.Whoami(t.Context())
	if err != nil || who.Name != "ada" {
		t.Fatalf("got %+v, %v", who, err)
	}
	if _, err := c.WithPatience(-1).Whoami(t.Context()); err != nil {
		t.Fatalf("a client without patience: %v", err)
	}
}

func TestPatienceEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	_ = l.Close()
	began := time.Now()
	_, err = connect(t, address).WithPatience(300 * time.Millisecond).Whoami(t.Context())
	if fault.Code(err) != "server_unreachable" || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the person had enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	if _, err := connect(t, address).WithPatience(time.Hour).Whoami(ctx); !errors.Is(err, stop) {
		t.Fatalf("cancelled: got %v", err)
	}
}

func TestUploadBodyIsSentWholeOnEveryTry(t *testing.T) {
	content := strings.Repeat("packed ", 10000)
	var tries atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != content || r.ContentLength != int64(len(content)) {
			t.Errorf("got %d of %d bytes, length %d, %v", len(got), len(content), r.ContentLength, err)
		}
		if r.Header.Get("Content-Type") != "application/zstd" {
			t.Errorf("Content-Type = %q", r.Header.Get("Content-Type"))
		}
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answer(t, w, http.StatusCreated, api.Source{ID: "obj_1"})
	})
	src, err := c.UploadSource(t.Context(), int64(len(content)), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil })
	if err != nil || src.ID != "obj_1" || tries.Load() != 2 {
		t.Fatalf("got %+v, %v after %d tries", src, err, tries.Load())
	}
}

func TestTokenStaysWithItsHost(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(true) }))
	t.Cleanup(other.Close)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/api/whoami", http.StatusTemporaryRedirect)
	})
	_, err := c.Whoami(t.Context())
	if fault.Code(err) != "redirect_refused" || leaked.Load() {
		t.Fatalf("got %v, other host was called: %v", err, leaked.Load())
	}
	// A redirect that turns a change into a read would report success for nothing done.
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			answer(t, w, http.StatusOK, struct{}{})
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	if err := issue(c); fault.Code(err) != "redirect_refused" {
		t.Fatalf("changed method: got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"https://Holdfast.example.com/": "https://holdfast.example.com", "http://127.0.0.1:8480": "http://127.0.0.1:8480",
		" https://a.example/hf// ": "https://a.example/hf",
	} {
		got, err := ParseAddress(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseAddress(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "holdfast.example.com", "ftp://a", "https://", "https://a?x=1", "https://a#f", "https://ada:pass-word@a", "http://[::1", "127.0.0.1:8480"} {
		_, err := ParseAddress(in)
		if fault.Code(err) != "invalid_address" {
			t.Errorf("ParseAddress(%q): got %v", in, err)
		}
		if err != nil && strings.Contains(err.Error(), "pass-word") {
			t.Errorf("the refusal repeats a password: %v", err)
		}
	}
	if u, err := connect(t, "https://a.example/hf").locate(path("stacks", "a/b?c"), nil); err != nil || u.String() != "https://a.example/hf/api/stacks/a%2Fb%3Fc" {
		t.Errorf("locate = %v, %v", u, err)
	}
}

func TestAllGoesThroughPages(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("cursor") {
		case "":
			answer(t, w, 200, api.List[api.Stack]{Items: []api.Stack{{Name: "a"}, {Name: "b"}}, Next: "2"})
		case "2":
			answer(t, w, 200, api.List[api.Stack]{Items: []api.Stack{{Name: "c"}}})
		}
	})
	names := func(most int) (out string) {
		for s, err := range All(t.Context(), most, func(ctx context.Context, p Page) (api.List[api.Stack], error) { return c.Stacks(ctx, "", p) }) {
			if err != nil {
				t.Fatal(err)
			}
			out += s.Name
		}
		return out
	}
	for most, want := range map[int]string{0: "abc", 1: "a", 2: "ab", 9: "abc"} {
		if got := names(most); got != want {
			t.Errorf("at most %d: got %q, want %q", most, got, want)
		}
	}
}

func TestPullStateFindsDamage(t *testing.T) {
	document := []byte("{\"serial\": 12345678901234567890}\n")
	light, full := md5.Sum(document), sha256.Sum256(document) //nolint:gosec // what the protocol uses
	send := document
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/tf-states/shop.main/versions/3/content" {
			t.Errorf("path %s", r.URL.Path)
		}
		w.Header().Set("Content-Md5", base64.StdEncoding.EncodeToString(light[:]))
		_, _ = w.Write(send)
	})
	pull := func(sum string) (string, error) {
		var b strings.Builder
		_, err := c.PullState(t.Context(), "shop.main", 3, sum, &b)
		return b.String(), err
	}
	if got, err := pull(hex.EncodeToString(full[:])); err != nil || got != string(document) {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := pull(strings.Repeat("0", 64)); fault.Code(err) != "state_damaged" {
		t.Errorf("other SHA-256: got %v", err)
	}
	send = []byte(strings.Replace(string(document), "5", "6", 1))
	if _, err := pull(""); fault.Code(err) != "state_damaged" {
		t.Errorf("other MD5: got %v", err)
	}
}

// events is a server of a run's history that breaks as told.
type events struct {
	connections atomic.Int32
	resumed     []string // the Last-Event-ID of each connection
}

func (e *events) serve(t *testing.T, w http.ResponseWriter, r *http.Request, steps ...func(w http.ResponseWriter)) {
	n := int(e.connections.Add(1))
	e.resumed = append(e.resumed, r.Header.Get("Last-Event-Id"))
	if n > len(steps) {
		t.Errorf("connection %d, of %d", n, len(steps))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	steps[n-1](w)
}

func changed(w http.ResponseWriter) { _, _ = io.WriteString(w, "event: run\ndata: {}\n\n") }

func event(w http.ResponseWriter, seq int) {
	_, _ = fmt.Fprintf(w, ": a comment\nid: %d\nevent: message\ndata: {\"seq\":%d,\ndata: \"text\":\"line %d\"}\n\n", seq, seq, seq)
	_ = http.NewResponseController(w).Flush()
}

func TestWatchResumesAfterTheLastEvent(t *testing.T) {
	var e events
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e.serve(t, w, r,
			func(w http.ResponseWriter) { event(w, 4); changed(w); event(w, 5); panic(http.ErrAbortHandler) },
			func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
			func(w http.ResponseWriter) { event(w, 5); event(w, 6); _, _ = io.WriteString(w, "data: {\"seq\":7") }, // the end cuts a message
			func(w http.ResponseWriter) { event(w, 7); changed(w); event(w, 8) })
	})
	var got []string
	for n, err := range c.WatchRun(t.Context(), "run_1", 3) {
		switch {
		case err != nil:
			t.Fatal(err)
		case n.Event != nil:
			got = append(got, n.Event.Text)
		case n.Changed:
			got = append(got, "changed")
		case n.Lost != nil:
			got = append(got, "lost")
		}
		if n.Event != nil && n.Event.Seq == 8 {
			break
		}
	}
	want := "line 4 changed line 5 lost lost line 6 line 7 changed line 8"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if r := strings.Join(e.resumed, " "); r != "3 5 5 6" {
		t.Errorf("resumed after %s", r)
	}
}

func TestWatchLeavesASilentConnection(t *testing.T) {
	var e events
	release := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		e.serve(t, w, r,
			func(w http.ResponseWriter) { event(w, 1); <-release },
			func(w http.ResponseWriter) { event(w, 2) })
	})
	t.Cleanup(func() { close(release) })
	c.silence = 100 * time.Millisecond
	var lost error
	for n, err := range c.WatchRun(t.Context(), "run_1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n.Lost != nil {
			lost = n.Lost
		}
		if n.Event != nil && n.Event.Seq == 2 {
			break
		}
	}
	if lost == nil || !strings.Contains(lost.Error(), errSilent.Error()) {
		t.Errorf("lost = %v", lost)
	}
}

func TestWatchEndsWhereItIsRefused(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(t, w, http.StatusNotFound, api.Problem{Code: "run_not_found", Detail: "There is no such run."})
	})
	for _, err := range c.WatchRun(t.Context(), "run_1", 0) {
		if fault.Code(err) != "run_not_found" {
			t.Fatalf("got %v", err)
		}
	}
}

func TestRunLogsFollowUntilTheRunIsOver(t *testing.T) {
	var looks atomic.Int32
	ended := time.Now()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logs") {
			chunks := map[string][]api.LogChunk{
				"att_1": {{Seq: 0, Text: "a"}, {Seq: 1, Text: "b"}},
				"att_2": {{Seq: 0, Text: "c"}},
			}[r.URL.Query().Get("attempt")]
			if looks.Load() < 2 {
				chunks = chunks[:1]
			}
			if r.URL.Query().Get("after") == "0" {
				chunks = chunks[1:]
			}
			answer(t, w, 200, api.List[api.LogChunk]{Items: chunks})
			return
		}
		run := api.Run{Attempts: []api.Attempt{{ID: "att_1"}}}
		if looks.Add(1) >= 2 {
			run.Attempts, run.EndedAt = append(run.Attempts, api.Attempt{ID: "att_2"}), &ended
		}
		answer(t, w, 200, run)
	})
	chunks, err := Collect(c.RunLogs(t.Context(), "run_1", true, nil))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, chunk := range chunks {
		got += chunk.Text
	}
	if got != "abc" {
		t.Errorf("got %q", got)
	}
}
