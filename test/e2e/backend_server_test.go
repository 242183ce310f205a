package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/httpapi"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

const adminToken = "the-administrator-of-these-tests-0123456789"

// backendMaxBytes is the most that a document may have there.
const backendMaxBytes = 32 << 20

// backendServer is the API on a real engine and store, and what a person at a terminal has.
type backendServer struct {
	*httptest.Server
	log   *lines
	token string      // an administrator's
	away  atomic.Bool // requests are cut without an answer
}

// lines is a log that can be waited for.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

// wait returns once the log has what, at least n times.
func (l *lines) wait(t *testing.T, what string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		l.mu.Lock()
		got, changed := strings.Count(l.text.String(), what), l.changed
		l.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the log never said %q %d times:\n%s", what, n, l.text.String())
		}
	}
}

// onEachStore runs a test on both databases.
func onEachStore(t *testing.T, test func(t *testing.T, s *backendServer)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t)) })
}

func onSQLite(t *testing.T) *backendServer {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"))
	if err != nil {
		t.Fatal(err)
	}
	return newBackendServer(t, db)
}

func onPostgres(t *testing.T) *backendServer {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	return newBackendServer(t, db)
}

func newBackendServer(t *testing.T, db *store.Store) *backendServer {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	keys, err := keyring.NewPlatform(redact.NewSecret("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.NewChain(keys.AuditKey())
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{changed: make(chan struct{})}
	logger := slog.New(slog.NewTextHandler(log, nil))
	eng := engine.New(engine.Config{Store: db, Keys: keys, Chain: chain, Now: time.Now, Log: logger, Limits: engine.Limits{
		StateMaxBytes: backendMaxBytes, KeepVersions: 50, RunEndGrace: 10 * time.Minute, HeartbeatTimeout: 2 * time.Minute, SourceMaxBytes: 1 << 20, PlanMaxBytes: 1 << 20,
	}})
	if _, err := eng.Bootstrap(t.Context(), redact.NewSecret(adminToken)); err != nil {
		t.Fatal(err)
	}
	h := httpapi.New(httpapi.Config{
		Engine: eng, Log: logger, Now: time.Now, Version: "test", BaseURL: &url.URL{Scheme: "http", Host: "holdfast.test"},
		Metrics: prometheus.NewRegistry(),
	})
	s := &backendServer{log: log, token: adminToken}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// ask sends a request and gives status and body.
func (s *backendServer) ask(t *testing.T, token, method, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

// want is ask for a status, and decodes the answer into v unless that is nil.
func (s *backendServer) want(t *testing.T, token, method, path, body string, status int, v any) {
	t.Helper()
	got, b := s.ask(t, token, method, path, body)
	if got != status {
		t.Fatalf("%s %s = %d %s, want %d", method, path, got, b, status)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, b)
	}
}

func (s *backendServer) state(t *testing.T, name string) api.State {
	t.Helper()
	var v api.State
	s.want(t, s.token, "GET", "/api/tf-states/"+name, "", 200, &v)
	return v
}

func (s *backendServer) versions(t *testing.T, name string) []api.StateVersion {
	t.Helper()
	var v api.List[api.StateVersion]
	s.want(t, s.token, "GET", "/api/tf-states/"+name+"/versions", "", 200, &v)
	return v.Items
}

// user makes a service user of the role and gives its token.
func (s *backendServer) user(t *testing.T, name, role string) string {
	t.Helper()
	var made api.CreatedToken
	s.want(t, s.token, "POST", "/api/tokens", `{"name":"`+name+`","role":"`+role+`"}`, 201, &made)
	return made.Token
}

// cli runs the command line as the administrator, and gives what it printed; failure is an expected exit status of 1.
func (s *backendServer) cli(t *testing.T, failure bool, args ...string) string {
	t.Helper()
	return s.cliIn(t, nil, failure, args...)
}

// cliIn is cli with more environment.
func (s *backendServer) cliIn(t *testing.T, env []string, failure bool, args ...string) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "holdfast"), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "HOLDFAST_ADDR=" + s.URL, "HOLDFAST_TOKEN=" + s.token}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); (got == 1) != failure || got > 1 {
		t.Fatalf("holdfast %s ended with %d\n%s", strings.Join(args, " "), got, out)
	}
	return string(out)
}

// eachTool runs a test with tofu and, where there is one, with terraform.
func eachTool(t *testing.T, test func(t *testing.T, tool string)) {
	t.Helper()
	t.Run("tofu", func(t *testing.T) { test(t, tofubin.Path(t)) })
	if terraform, ok := tofubin.Terraform(t); ok {
		t.Run("terraform", func(t *testing.T) { test(t, terraform) })
	}
}

// workdir is a configuration whose state the server keeps.
type workdir struct {
	dir, bin string
	env      []string
}

// httpBackend is the block that newWorkdir's environment fills in.
const httpBackend = "terraform {\n  backend \"http\" {}\n}\n"

func newWorkdir(t *testing.T, s *backendServer, bin, name, token, config string, env ...string) *workdir {
	t.Helper()
	w := &workdir{dir: t.TempDir(), bin: bin}
	w.write(t, "main.tf", httpBackend+config)
	base := s.URL + "/api/tf-states/" + name
	w.env = append([]string{
		"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE=/dev/null",
		"TF_HTTP_ADDRESS=" + base + "/state", "TF_HTTP_LOCK_ADDRESS=" + base + "/lock", "TF_HTTP_UNLOCK_ADDRESS=" + base + "/lock",
		"TF_HTTP_USERNAME=me", "TF_HTTP_PASSWORD=" + token,
	}, env...)
	return w
}

func (w *workdir) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *workdir) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, w.bin, args...)
	c.Dir, c.Env = w.dir, w.env
	return c
}

// run expects the tool to succeed and gives what it printed.
func (w *workdir) run(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := w.command(t, args...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// fail expects exit status 1 and gives what it printed.
func (w *workdir) fail(t *testing.T, args ...string) string {
	t.Helper()
	c := w.command(t, args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 1 {
		t.Fatalf("%s: %v, want exit status 1\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
