package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/httpapi"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/web"
)

const (
	platformKey    = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	bootstrapToken = "the-first-administrator-of-the-tests"
)

// server is the whole API on a real engine and a real store, with a clock that tests can move.
type server struct {
	*httptest.Server
	api    *httpapi.API
	engine *engine.Engine
	store  *store.Store
	admin  string // an administrator's token
	log    *logBuffer
	folder string // of the database
	offset atomic.Int64
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (s *server) now() time.Time          { return time.Now().Add(time.Duration(s.offset.Load())) }
func (s *server) advance(d time.Duration) { s.offset.Add(int64(d)) }

func newServer(t testing.TB, change ...func(*httpapi.Config)) *server {
	t.Helper()
	s := &server{log: &logBuffer{}, admin: bootstrapToken, folder: t.TempDir()}
	db, err := sqlite.Open(t.Context(), filepath.Join(s.folder, "holdfast.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s.store = db
	keys, err := keyring.NewPlatform(redact.NewSecret(platformKey))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.NewChain(keys.AuditKey())
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.engine = engine.New(engine.Config{Store: db, Keys: keys, Chain: chain, Now: s.now, Log: logger, Limits: engine.Limits{
		StateMaxBytes: 32 << 20, KeepVersions: 50, DeletedKeep: 7 * 24 * time.Hour, HeartbeatTimeout: 2 * time.Minute, SourceMaxBytes: 100 << 20, PlanMaxBytes: 256 << 20,
	}})
	if code, err := s.engine.Bootstrap(t.Context(), redact.NewSecret(bootstrapToken)); err != nil || !code.IsZero() {
		t.Fatalf("Bootstrap = code given %t, %v, want no code and no error", !code.IsZero(), err)
	}
	base, err := url.Parse("http://holdfast.test")
	if err != nil {
		t.Fatal(err)
	}
	c := httpapi.Config{Engine: s.engine, Log: logger, Now: s.now, Version: "test", BaseURL: base, Metrics: prometheus.NewRegistry(), UI: web.FS()}
	for _, f := range change {
		f(&c)
	}
	s.api = httpapi.New(c)
	s.Server = httptest.NewServer(s.api)
	t.Cleanup(s.Close)
	return s
}

// answer is a response that has been read.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) problem(t *testing.T) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("the answer %d %q is no problem: %v", a.StatusCode, a.body, err)
	}
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type of a problem = %q", got)
	}
	if p.Status != a.StatusCode || p.Code == "" || p.Detail == "" || p.RequestID == "" || p.RequestID != a.Header.Get("X-Request-Id") {
		t.Errorf("problem %+v with status %d and request id %q: a field is missing or differs", p, a.StatusCode, a.Header.Get("X-Request-Id"))
	}
	return p
}

// into decodes a successful answer.
func into[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var v T
	if a.StatusCode != status {
		t.Fatalf("%s %s = %d %s, want %d", a.Request.Method, a.Request.URL.Path, a.StatusCode, a.body, status)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("decode %s: %v", a.body, err)
	}
	return v
}

func wantProblem(t *testing.T, a answer, status int, code string) api.Problem {
	t.Helper()
	p := a.problem(t)
	if a.StatusCode != status || p.Code != code {
		t.Errorf("%s %s = %d %s, want %d %s", a.Request.Method, a.Request.URL.Path, a.StatusCode, p.Code, status, code)
	}
	return p
}

type with func(*http.Request)

func bearer(token string) with {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func header(name, value string) with { return func(r *http.Request) { r.Header.Set(name, value) } }

// do sends a request; body is encoded as JSON unless it is a string.
func (s *server) do(t *testing.T, method, path string, body any, opts ...with) answer {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, o := range opts {
		o(req)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp, raw}
}

// as sends a request with a token.
func (s *server) as(t *testing.T, token, method, path string, body any) answer {
	t.Helper()
	return s.do(t, method, path, body, bearer(token))
}

// user makes a service user of the role and gives its token.
func (s *server) user(t *testing.T, name string, role access.Role) (id, token string) {
	t.Helper()
	made := into[api.CreatedToken](t, s.as(t, s.admin, "POST", "/api/tokens", api.CreateToken{Name: name, Role: string(role)}), 201)
	return made.ID, made.Token
}

// agent makes an account and an agent of it, and gives the agent and its token.
func (s *server) agent(t *testing.T, name, account string) api.IssuedAgent {
	t.Helper()
	if a := s.as(t, s.admin, "POST", "/api/accounts", api.AddAccount{Name: account}); a.StatusCode != 201 && a.StatusCode != 409 {
		t.Fatalf("add account: %d %s", a.StatusCode, a.body)
	}
	return into[api.IssuedAgent](t, s.as(t, s.admin, "POST", "/api/provisioning/agents", api.IssueAgent{Name: name, AccountID: account}), 201)
}

// attempt stores an attempt, without the run around it, and gives it and a token of it.
func (s *server) attempt(t *testing.T) (run.Attempt, string) {
	t.Helper()
	g := s.agent(t, "of-the-attempt", "local")
	token := access.NewToken(access.AttemptPrefix)
	now := s.now()
	who, err := s.engine.Authenticate(t.Context(), redact.NewSecret(g.Token))
	if err != nil {
		t.Fatal(err)
	}
	st := run.Stack{ID: id.New(id.Stack, now), Org: who.Org, Name: "shop", Account: who.Account, Approval: run.Never, CreatedAt: now, UpdatedAt: now}
	r := run.Run{ID: id.New(id.Run, now), Org: who.Org, Stack: st.ID, StackName: "shop", Account: who.Account, Kind: run.Deploy, Status: run.Planning, CreatedAt: now}
	task := run.Task{ID: id.New(id.Task, now), Org: who.Org, Run: r.ID, Component: "main", Account: who.Account, Kind: run.TaskPlan, Status: run.TaskRunning, CreatedAt: now}
	a := run.Attempt{
		ID: id.New(id.Attempt, now), Org: who.Org, Task: task.ID, Run: r.ID, Component: "main", TaskKind: run.TaskPlan, Number: 1,
		Agent: g.Agent.ID, AgentName: g.Agent.Name, Status: run.AttemptAccepted, OfferedAt: now, AcceptedAt: now, HeartbeatAt: now,
	}
	err = s.store.Update(t.Context(), func(tx engine.Tx) error {
		if _, err := tx.PutStack(t.Context(), st); err != nil {
			return err
		}
		if err := tx.CreateRun(t.Context(), r); err != nil {
			return err
		}
		if err := tx.CreateTask(t.Context(), task); err != nil {
			return err
		}
		if err := tx.CreateAttempt(t.Context(), a); err != nil {
			return err
		}
		return tx.CreateToken(t.Context(), access.Token{
			ID: id.New(id.Token, now), Org: who.Org, Name: "attempt", Hash: access.Hash(token).Hex(),
			AttemptID: a.ID, State: "sta_none", CreatedAt: now,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, token.Reveal()
}
