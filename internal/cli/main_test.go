package cli_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/cli"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/web"
)

const (
	platformKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	adminToken  = "the-first-administrator-of-the-tests"
)

// TestMain makes this test binary the program itself where it is started under its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": func() {
		interrupts := make(chan os.Signal, 2)
		signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
		os.Exit(cli.Run(context.Background(), cli.Env{
			Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Interrupts: interrupts, Version: "1.2.3", Now: time.Now,
		}))
	}})
}

// server is a real server on its own data, which can be stopped and started again.
type server struct {
	dir, addr string
	ahead     atomic.Int64 // nanoseconds that its clock is ahead of ours
	stop      func()
	ended     chan error
}

// newServer starts a server with an administrator and the account local.
func newServer(t testing.TB, dir string) *server {
	t.Helper()
	s := &server{dir: dir, addr: "127.0.0.1:0"}
	s.start(t)
	t.Cleanup(func() { s.halt(t) })
	if _, err := s.client(t, adminToken).AddAccount(t.Context(), api.AddAccount{Name: "local"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	settings, _, err := config.LoadServer([]string{
		"HOLDFAST_LISTEN_ADDR=" + s.addr, "HOLDFAST_DATA_DIR=" + s.dir,
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + platformKey, "HOLDFAST_BOOTSTRAP_TOKEN=" + adminToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(context.Background(), app.Config{
		Settings: settings, Version: "1.2.3", UI: web.FS(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = a.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- a.Run(ctx) }()
}

// halt stops the server and waits until it has. It may be called again.
func (s *server) halt(t testing.TB) {
	t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
		close(s.ended)
	case <-time.After(30 * time.Second):
		t.Error("the server does not end")
	}
}

func (s *server) url() string { return "http://" + s.addr }

func (s *server) client(t testing.TB, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Address: s.url(), Token: redact.NewSecret(token), Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
