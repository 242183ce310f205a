package app_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/web"
)

const (
	key   = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	admin = "the-first-administrator-of-the-tests"
)

// server is an App that runs.
type server struct {
	*app.App
	stop  func()       // begins the shutdown
	ended <-chan error // what Run returned
}

func settings(t *testing.T, dir string, more ...string) config.Server {
	t.Helper()
	environ := append([]string{"HOLDFAST_LISTEN_ADDR=127.0.0.1:0", "HOLDFAST_DATA_DIR=" + dir, "HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + key}, more...)
	s, _, err := config.LoadServer(environ)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func build(ctx context.Context, s config.Server, log io.Writer) (*app.App, error) {
	return app.New(ctx, app.Config{Settings: s, Version: "test", UI: web.FS(), Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
}

func start(t *testing.T, s config.Server) *server {
	t.Helper()
	a, err := build(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, a)
}

func run(t *testing.T, a *app.App) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	out := &server{App: a, stop: cancel, ended: ended}
	t.Cleanup(func() {
		cancel()
		out.wait(t)
	})
	return out
}

// wait is until Run has returned; it may be called again.
func (s *server) wait(t *testing.T) {
	t.Helper()
	select {
	case err, first := <-s.ended:
		if first && err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Run does not end")
	}
	closed := make(chan error)
	close(closed)
	s.ended = closed
}

func (s *server) as(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Address: "http://" + s.Addr(), Token: redact.NewSecret(token), Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServesAndKeepsWhatItWasGiven(t *testing.T) {
	dir := t.TempDir()
	s := start(t, settings(t, dir, "HOLDFAST_BOOTSTRAP_TOKEN="+admin))
	if s.SignInLink() != "" {
		t.Error("a link is given beside the bootstrap token")
	}
	if _, err := s.as(t, admin).AddAccount(t.Context(), api.AddAccount{Name: "local"}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.wait(t)
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Error("it still listens after Run")
	}
	again := start(t, settings(t, dir))
	if again.SignInLink() != "" {
		t.Error("a second start gives a link although the token was used")
	}
	accounts, err := again.as(t, admin).Accounts(t.Context(), client.Page{})
	if err != nil || len(accounts.Items) != 1 {
		t.Errorf("after the restart: %d accounts, %v, want 1", len(accounts.Items), err)
	}
}

func TestSignInLinkUntilItIsUsed(t *testing.T) {
	dir := t.TempDir()
	first := start(t, settings(t, dir))
	lost := first.SignInLink()
	first.stop()
	first.wait(t)
	second := start(t, settings(t, dir, "HOLDFAST_BASE_URL=https://holdfast.example.com"))
	link := second.SignInLink()
	page, code, ok := strings.Cut(link, "/signin#code=")
	if lost == "" || link == lost || !ok || page != "https://holdfast.example.com" {
		t.Fatalf("links %q and %q, want two that differ, the second under the base URL", lost, link)
	}
	resp, err := http.Post("http://"+second.Addr()+"/api/session", "application/json", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("sign-in with the link = %d", resp.StatusCode)
	}
	second.stop()
	second.wait(t)
	if third := start(t, settings(t, dir)); third.SignInLink() != "" {
		t.Error("a link is given although somebody has signed in")
	}
}

func TestShutdownEndsLongPollsAndFinishesRequests(t *testing.T) {
	s := start(t, settings(t, t.TempDir(), "HOLDFAST_BOOTSTRAP_TOKEN="+admin))
	c := s.as(t, admin)
	if _, err := c.AddAccount(t.Context(), api.AddAccount{Name: "local"}); err != nil {
		t.Fatal(err)
	}
	agent, err := c.IssueAgent(t.Context(), api.IssueAgent{Name: "a", AccountID: "local"})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, token string, body io.Reader) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr()+path, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		return http.DefaultTransport.RoundTrip(req)
	}
	if r, err := post("/api/agent/v1/register", agent.Token, strings.NewReader(`{"version":"1.0.0","capabilities":[]}`)); err != nil || r.StatusCode != 200 {
		t.Fatalf("register = %v, %v", r, err)
	}
	type result struct {
		resp *http.Response
		err  error
	}
	poll, upload := make(chan result, 1), make(chan result, 1)
	begun := time.Now()
	go func() {
		r, err := post("/api/agent/v1/claim", agent.Token, strings.NewReader(`{"capabilities":[],"wait_seconds":30}`))
		poll <- result{r, err}
	}()
	body, rest := io.Pipe()
	go func() {
		r, err := post("/api/accounts", admin, body)
		upload <- result{r, err}
	}()
	if _, err := rest.Write([]byte(`{"name":`)); err != nil {
		t.Fatal(err)
	}
	for metrics := ""; !strings.Contains(metrics, "holdfast_http_requests_open 3\n"); { // both, and the one that asks
		resp, err := http.Get("http://" + s.Addr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if metrics = string(b); time.Since(begun) > 20*time.Second {
			t.Fatalf("the two requests do not begin:\n%s", metrics)
		}
	}
	s.stop()
	if got := <-poll; got.err != nil || got.resp.StatusCode != http.StatusNoContent {
		t.Errorf("the long poll = %v, %v, want 204", got.resp, got.err)
	}
	if _, err := rest.Write([]byte(`"late"}`)); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	if got := <-upload; got.err != nil || got.resp.StatusCode != http.StatusCreated {
		t.Errorf("the request that had begun = %v, %v, want 201", got.resp, got.err)
	}
	s.wait(t)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the shutdown took %v, want well below the 30 s of the long poll", took)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		s     config.Server
		names []string
	}{
		"no data folder":     {settings(t, missing), []string{"HOLDFAST_DATA_DIR", missing, "does not exist"}},
		"a file":             {settings(t, file), []string{"HOLDFAST_DATA_DIR", file, "is not a folder"}},
		"no database folder": {settings(t, t.TempDir(), "HOLDFAST_DATABASE_URL=sqlite:"+missing+"/x.db"), []string{"HOLDFAST_DATABASE_URL", missing}},
		"a taken address":    {settings(t, t.TempDir(), "HOLDFAST_LISTEN_ADDR="+taken.Addr().String()), []string{"HOLDFAST_LISTEN_ADDR", taken.Addr().String()}},
	} {
		a, err := build(t.Context(), c.s, io.Discard)
		if err == nil {
			a.Close()
		}
		if fault.Code(err) != config.CodeInvalid {
			t.Errorf("%s: error %v, want code %s", name, err, config.CodeInvalid)
			continue
		}
		for _, want := range c.names {
			if text := fault.From(err).Public; !strings.Contains(text, want) {
				t.Errorf("%s: error %q does not name %s", name, text, want)
			}
		}
	}
	s := settings(t, t.TempDir())
	s.EncryptionKey = redact.NewSecret("not-a-key")
	if _, err := build(t.Context(), s, io.Discard); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "HOLDFAST_TF_STATE_ENCRYPTION_KEY") || strings.Contains(err.Error(), "not-a-key") {
		t.Errorf("a wrong key: error %v, want one that names the setting and not the key", err)
	}
}

// TestTwoServersOnOneDatabase starts two servers at the same moment, and has them race for what only one may get.
func TestTwoServersOnOneDatabase(t *testing.T) {
	url := pgtest.New(t)
	s := settings(t, t.TempDir(), "HOLDFAST_DATABASE_URL="+url, "HOLDFAST_BOOTSTRAP_TOKEN="+admin)
	apps, errs := make([]*app.App, 2), make([]error, 2)
	var starting sync.WaitGroup
	for i := range apps {
		starting.Go(func() { apps[i], errs[i] = build(t.Context(), s, io.Discard) })
	}
	starting.Wait()
	var servers []*server
	for i, a := range apps {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		servers = append(servers, run(t, a))
	}
	orgs, err := servers[0].as(t, admin).Organizations(t.Context(), client.Page{})
	if err != nil || len(orgs.Items) != 1 {
		t.Fatalf("organizations = %+v, %v, want one", orgs.Items, err)
	}
	me, err := servers[0].as(t, admin).Whoami(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		raceOfAdministrators(t, servers, me.ID)
	}
	// A token that one server has revoked is dead on the other at once.
	made, err := servers[0].as(t, admin).CreateToken(t.Context(), api.CreateToken{Name: "short"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := servers[1].as(t, made.Token).Whoami(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := servers[0].as(t, admin).RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := servers[1].as(t, made.Token).Whoami(t.Context()); fault.Code(err) != "token_revoked" {
		t.Errorf("the other server takes a revoked token: %v", err)
	}
	verdict, err := servers[1].as(t, admin).VerifyAudit(t.Context(), "")
	if err != nil || !verdict.Intact || verdict.Records == 0 {
		t.Errorf("the audit chain that two servers wrote = %+v, %v", verdict, err)
	}
}

// raceOfAdministrators has two administrators demote each other at the same moment; one of them has to stay.
func raceOfAdministrators(t *testing.T, servers []*server, first string) {
	t.Helper()
	name := access.NewToken("second-").Reveal()[:20]
	second, err := servers[0].as(t, admin).CreateToken(t.Context(), api.CreateToken{Name: name, Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := servers[1].as(t, second.Token).Whoami(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 2)
	var demoting sync.WaitGroup
	demoting.Go(func() {
		_, errs[0] = servers[0].as(t, admin).SetUser(t.Context(), other.ID, api.SetUser{Role: "viewer"})
	})
	demoting.Go(func() {
		_, errs[1] = servers[1].as(t, second.Token).SetUser(t.Context(), first, api.SetUser{Role: "viewer"})
	})
	demoting.Wait()
	if errs[0] == nil && errs[1] == nil {
		t.Fatal("two administrators have demoted each other: nobody administers the organization")
	}
	if errs[0] != nil { // the second won: it gives the role back and loses its own
		if _, err := servers[1].as(t, second.Token).SetUser(t.Context(), first, api.SetUser{Role: "admin"}); err != nil {
			t.Fatal(err)
		}
		if _, err := servers[0].as(t, admin).SetUser(t.Context(), other.ID, api.SetUser{Role: "viewer"}); err != nil {
			t.Fatal(err)
		}
	}
}
