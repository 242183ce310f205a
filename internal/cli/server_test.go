package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/cli"
	"holdfast.dev/holdfast/internal/config"
)

const sealingKey = "HOLDFAST_TF_STATE_ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// started is a command that goes on until it is interrupted.
type started struct {
	interrupts chan os.Signal
	code       chan int
	printed    chan struct{} // something new was
	mu         sync.Mutex
	out, err   bytes.Buffer
}

// lockedBuffer lets a test read what a command has printed so far.
type lockedBuffer struct {
	s *started
	b *bytes.Buffer
}

func (l lockedBuffer) Write(p []byte) (int, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	select {
	case l.s.printed <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (s *started) texts() (out, err string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String(), s.err.String()
}

func startCommand(environ []string, args ...string) *started {
	s := &started{interrupts: make(chan os.Signal, 2), code: make(chan int, 1), printed: make(chan struct{}, 1)}
	env := cli.Env{
		Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: lockedBuffer{s, &s.out}, Stderr: lockedBuffer{s, &s.err},
		Interrupts: s.interrupts, Version: "1.2.3", Now: time.Now,
	}
	go func() { s.code <- cli.Run(context.Background(), env) }()
	return s
}

// end is the command's exit code, once it has one.
func (s *started) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.code:
		return code
	case <-time.After(60 * time.Second):
		out, err := s.texts()
		t.Fatalf("the command does not end\n%s\n%s", out, err)
		return 0
	}
}

// until waits for a match in what the command prints, and gives its first group.
func (s *started) until(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for late := time.After(60 * time.Second); ; {
		out, errs := s.texts()
		if m := re.FindStringSubmatch(out + errs); m != nil {
			return m[1]
		}
		select {
		case <-s.printed:
		case code := <-s.code:
			s.code <- code
			t.Fatalf("it ended with %d and without %s\n%s\n%s", code, pattern, out, errs)
		case <-late:
			t.Fatalf("no %s in\n%s\n%s", pattern, out, errs)
		}
	}
}

func TestServerRefusesWrongSettings(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		environ []string
		want    []string
	}{
		"malformed":      {[]string{sealingKey, "HOLDFAST_TF_STATE_MAX_BYTES=32MB"}, []string{"HOLDFAST_TF_STATE_MAX_BYTES", `"32MB"`}},
		"short key":      {[]string{"HOLDFAST_TF_STATE_ENCRYPTION_KEY=c2hvcnQ="}, []string{"HOLDFAST_TF_STATE_ENCRYPTION_KEY", "openssl rand -base64 32"}},
		"no data folder": {[]string{sealingKey, "HOLDFAST_DATA_DIR=" + missing}, []string{"HOLDFAST_DATA_DIR", missing}},
		"short token":    {[]string{sealingKey, "HOLDFAST_BOOTSTRAP_TOKEN=short"}, []string{"HOLDFAST_BOOTSTRAP_TOKEN"}},
		"mistyped, too":  {[]string{sealingKey, "HOLDFAST_DATA_DRI=x", "HOLDFAST_DATA_DIR=" + missing}, []string{"did you mean HOLDFAST_DATA_DIR?"}},
	} {
		s := startCommand(c.environ, "server")
		code := s.end(t)
		out, errs := s.texts()
		if code != 2 || out != "" {
			t.Errorf("%s: exit code %d, want 2, and nothing on stdout: %q", name, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q does not say %s", name, errs, want)
			}
		}
	}
}

func TestServerHelpListsEverySetting(t *testing.T) {
	s := startCommand(nil, "server", "--help")
	if code := s.end(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	out, _ := s.texts()
	for _, x := range config.ServerSettings(&config.Server{}).Settings() {
		if !strings.Contains(out, x.Name+" ("+x.Default) {
			t.Errorf("the help does not show %s with its default %q", x.Name, x.Default)
		}
	}
}

func TestServerUntilAnInterrupt(t *testing.T) {
	s := startCommand([]string{sealingKey, "HOLDFAST_LISTEN_ADDR=127.0.0.1:0", "HOLDFAST_DATA_DIR=" + t.TempDir(), "HOLDFAST_WHAT=x"}, "server")
	link := s.until(t, `(http://127\.0\.0\.1:\d+/signin#code=[A-Z2-7]+)`)
	addr, _, _ := strings.Cut(link, "/signin")
	resp, err := http.Get(addr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("readyz = %d", resp.StatusCode)
	}
	s.interrupts <- syscall.SIGTERM
	if code := s.end(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, errs := s.texts(); !strings.Contains(errs, "unknown setting HOLDFAST_WHAT") {
		t.Errorf("the log does not warn of the unknown setting:\n%s", errs)
	}
}

func TestDevKeepsEverythingInOneFolder(t *testing.T) {
	dir, home := filepath.Join(t.TempDir(), "dev"), t.TempDir()
	environ := []string{"HOME=" + home, "HOLDFAST_TF_STATE_ENCRYPTION_KEY=ignored", "HOLDFAST_DATABASE_URL=postgres://ignored/x"}
	for range 2 { // a second start finds what the first one made
		s := startCommand(environ, "dev", "--no-agent", "--listen", "127.0.0.1:0", "--data", dir)
		addr := s.until(t, `Holdfast is at (http://127\.0\.0\.1:\d+), without an agent`)
		s.until(t, `(http://\S+/signin#code=[A-Z2-7]+)`)
		who := startCommand(environ, "whoami", "--json")
		if code := who.end(t); code != 0 {
			_, errs := who.texts()
			t.Errorf("whoami at once: exit code %d\n%s", code, errs)
		}
		if out, _ := who.texts(); !strings.Contains(out, `"admin"`) {
			t.Errorf("whoami = %s", out)
		}
		accounts := startCommand(environ, "account", "list", "--json", "--addr", addr)
		accounts.end(t)
		if out, _ := accounts.texts(); strings.Count(out, `"local"`) != 1 {
			t.Errorf("accounts = %s, want local once", out)
		}
		s.interrupts <- os.Interrupt
		if code := s.end(t); code != 0 {
			_, errs := s.texts()
			t.Errorf("exit code %d, want 0\n%s", code, errs)
		}
	}
	for _, secret := range []string{"platform.key", "token", "holdfast.db", "server.log"} {
		info, err := os.Stat(filepath.Join(dir, secret))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", secret, info, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, ".gitignore")); err != nil || string(b) != "*\n" {
		t.Errorf(".gitignore = %q, %v", b, err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "server.log"))
	if err != nil || bytes.Contains(log, bytes.TrimSpace(token)) {
		t.Errorf("the log holds the token, or cannot be read: %v", err)
	}
}

func TestDevWithoutTheAgentsProgram(t *testing.T) {
	s := startCommand([]string{"HOME=" + t.TempDir()}, "dev", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	if code := s.end(t); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if _, errs := s.texts(); !strings.Contains(errs, "holdfast-agent") || !strings.Contains(errs, "--no-agent") {
		t.Errorf("it says %q, want what is missing and what to do", errs)
	}
}

func TestVersionAndOpenAPI(t *testing.T) {
	s := startCommand(nil, "version")
	s.end(t)
	if out, _ := s.texts(); !strings.HasPrefix(out, "holdfast 1.2.3 (go1.") {
		t.Errorf("version = %q", out)
	}
	s = startCommand(nil, "openapi")
	s.end(t)
	_, want, err := app.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := s.texts(); out != string(want) || !strings.Contains(out, "/api/tf-states/{name}/state") {
		t.Errorf("openapi printed %d bytes, want the %d of the document", len(out), len(want))
	}
}
