// Package chaos_test takes the server, its database and its disk away while clients work, and checks that nothing which
// was acknowledged is lost and no lock has two holders. `go test` does it with small numbers; `make chaos` runs it at full
// size (-full), and prints what it did.
package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/testkit/smalldisk"
	"holdfast.dev/holdfast/test/load"
)

var full = flag.Bool("full", false, "run at full size, as make chaos does")

// sized is a number as it is with -full, and as it is without.
func sized(whole, small int) int {
	if *full {
		return whole
	}
	return small
}

func TestMain(m *testing.M) {
	smalldisk.Main()
	flag.Parse()
	code := m.Run()
	if program, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// built is the program, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-chaos-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "holdfast.dev/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return program, nil
})

// mortal is a server that is killed and comes back, at another address each time.
type mortal struct {
	program, dir, database string
	disk                   int64    // bytes of a file system of its own on dir; 0 for none
	more                   []string // settings

	process atomic.Pointer[load.Process]
	starts  int
}

// start starts a server with its data in dir. database is "" for SQLite.
func start(t *testing.T, dir, database string, more ...string) *mortal {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return stand(t, &mortal{program: program, dir: dir, database: database, more: more})
}

func stand(t *testing.T, m *mortal) *mortal {
	t.Helper()
	m.begin(t)
	t.Cleanup(func() {
		if err := m.process.Load().Stop(); err != nil {
			t.Error(err)
		}
		m.showLog(t)
	})
	return m
}

func (m *mortal) begin(t *testing.T) {
	t.Helper()
	m.starts++
	var ground func(*exec.Cmd) error
	if m.disk > 0 {
		ground = func(cmd *exec.Cmd) error { return smalldisk.On(cmd, m.dir, m.disk) }
	}
	p, err := load.StartOn(t.Context(), ground, m.program, m.dir, m.database, m.log(), m.more...)
	if err != nil {
		m.showLog(t)
		t.Fatal(err)
	}
	m.process.Store(p)
}

// log is what the server says in its present life.
func (m *mortal) log() string { return filepath.Join(m.dir, fmt.Sprintf("server-%d.log", m.starts)) }

// kill ends the server as a power cut does, and starts it again. That a life ended without complaints is checked:
// whatever a kill leaves behind is nothing that the next start stumbles over.
func (m *mortal) kill(t *testing.T) {
	t.Helper()
	if err := m.process.Load().Kill(); err != nil {
		t.Fatal(err)
	}
	m.quiet(t)
	m.begin(t)
}

// quiet fails where the server's log has an error of its own.
func (m *mortal) quiet(t *testing.T) {
	t.Helper()
	said, err := os.ReadFile(m.log())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			t.Fatalf("in its life %d the server said:\n%s", m.starts, line)
		}
	}
}

func (m *mortal) showLog(t *testing.T) {
	t.Helper()
	if said, err := os.ReadFile(m.log()); err == nil && t.Failed() {
		t.Logf("the server said at last:\n%s", said[max(0, len(said)-6000):])
	}
}

func (m *mortal) at() load.Server { return m.process.Load().Server }

// as is where the server is, for another user.
func (m *mortal) as(token string) func() load.Server {
	return func() load.Server { return load.Server{URL: m.at().URL, Token: token} }
}

func (m *mortal) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Address: m.at().URL, Token: redact.NewSecret(m.at().Token)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// operators makes service users and gives their tokens.
func (m *mortal) operators(t *testing.T, n int) []string {
	t.Helper()
	tokens := make([]string, n)
	for i := range n {
		made, err := m.client(t).CreateToken(t.Context(), api.CreateToken{Name: fmt.Sprint("operator-", i), Role: "operator"})
		if err != nil {
			t.Fatal(err)
		}
		tokens[i] = made.Token
	}
	return tokens
}

// verified checks the audit chain, and that it holds what it held at the anchor of an earlier check.
func (m *mortal) verified(t *testing.T, anchor string) (next string) {
	t.Helper()
	v, err := m.client(t).VerifyAudit(t.Context(), anchor)
	if err != nil {
		t.Fatalf("verify the audit chain: %v", err)
	}
	if !v.Intact {
		t.Fatalf("the audit chain is broken at record %d: %s", v.BrokenAt, v.Reason)
	}
	return v.Anchor
}

// await takes n from signals. Their sender ends ctx where it gives up.
func await(ctx context.Context, t *testing.T, signals <-chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-signals:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}

// jitter lets a moment pass, so that what comes next meets a request at any of its steps.
func jitter() { <-time.After(rand.N(15 * time.Millisecond)) }
