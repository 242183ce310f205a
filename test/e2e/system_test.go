package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

// patience bounds every wait of these tests. Nothing takes that long; what does is stuck.
const patience = 90 * time.Second

// system is Holdfast as it is installed: a server, a broker and a worker, each a process of its own, and the command
// line, over one database. The processes can be killed and started again.
type system struct {
	t      *testing.T
	bin    string // folder of the three programs
	dir    string
	addr   string
	env    []string // of the server
	agent  []string // environment of the agent
	token  redact.Secret
	client *client.Client

	mu     sync.Mutex
	server *exec.Cmd
	broker *exec.Cmd
}

// programs are built once for all tests.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "holdfast.dev/holdfast/cmd/...").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// onEachDatabase runs a test on a system with each database, both at once.
func onEachDatabase(t *testing.T, test func(t *testing.T, s *system), settings ...string) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newSystem(t, "", settings...))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newSystem(t, pgtest.New(t), settings...))
	})
}

// newSystem starts everything. database "" is SQLite.
func newSystem(t *testing.T, database string, settings ...string) *system {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, bin: bin, dir: t.TempDir(), addr: freeAddress(t), token: redact.NewSecret(adminToken)}
	for _, d := range []string{"data", "work", "home"} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	s.env = append([]string{
		"HOLDFAST_LISTEN_ADDR=" + s.addr, "HOLDFAST_DATA_DIR=" + filepath.Join(s.dir, "data"), "HOLDFAST_BOOTSTRAP_TOKEN=" + adminToken,
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(key),
	}, settings...)
	if database != "" {
		s.env = append(s.env, "HOLDFAST_DATABASE_URL="+database)
	}
	s.client, err = client.New(client.Config{Address: "http://" + s.addr, Token: s.token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.startServer()
	if _, err := s.client.AddAccount(t.Context(), api.AddAccount{Name: "local"}); err != nil {
		t.Fatalf("add the account: %v", err)
	}
	issued, err := s.client.IssueAgent(t.Context(), api.IssueAgent{Name: "agent", AccountID: "local"})
	if err != nil {
		t.Fatalf("issue the agent: %v", err)
	}
	s.agent = []string{
		"PATH=" + os.Getenv("PATH"), "HOLDFAST_PLATFORM_URL=http://" + s.addr, "HOLDFAST_AGENT_TOKEN=" + issued.Token,
		"HOLDFAST_WORK_DIR=" + filepath.Join(s.dir, "work"), "HOLDFAST_TOFU_BIN=" + tofubin.Path(t), "HOLDFAST_ALLOW_INLINE_SOURCES=true",
		"HOLDFAST_DEVELOPMENT_UNISOLATED=1", "HOLDFAST_HEALTH_ADDR=127.0.0.1:0",
	}
	s.startAgent()
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs one of the programs in the background. Its output is shown where the test fails.
func (s *system) start(name string, env []string, args ...string) *exec.Cmd {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = env, log, log, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	return cmd
}

func (s *system) startServer() {
	s.t.Helper()
	cmd := s.start("holdfast", s.env, "server")
	s.mu.Lock()
	s.server = cmd
	s.mu.Unlock()
	s.until("the server is ready", func() bool {
		answer, err := http.Get("http://" + s.addr + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func (s *system) startAgent() {
	s.t.Helper()
	s.broker = s.start("holdfast-agent", s.agent, "unisolated")
}

// kill ends a process as a machine that goes away does.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func (s *system) stop() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	if s.broker != nil && s.broker.ProcessState == nil {
		_ = s.broker.Process.Signal(syscall.SIGTERM)
		_ = s.broker.Wait()
	}
	if server != nil && server.ProcessState == nil {
		kill(server)
	}
	if !s.t.Failed() {
		return
	}
	for _, name := range []string{"holdfast", "holdfast-agent"} {
		if log, err := os.ReadFile(filepath.Join(s.dir, name+".log")); err == nil {
			s.t.Logf("%s said:\n%s", name, log[max(0, len(log)-8000):])
		}
	}
}

// until waits for what happens in other processes, which nothing here can be told of.
func (s *system) until(what string, is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-timeout:
			s.t.Fatalf("it did not come to pass in %s that %s", patience, what)
		}
	}
}

// folder is a configuration to run.
func (s *system) folder(name, main string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// said is what a command printed and how it ended.
type said struct {
	out, err string
	code     int
}

// command is the command line, ready to run.
func (s *system) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, "holdfast"), args...)
	cmd.Env = []string{"HOME=" + filepath.Join(s.dir, "home"), "HOLDFAST_ADDR=http://" + s.addr, "HOLDFAST_TOKEN=" + s.token.Reveal()}
	cmd.Dir = s.dir
	return cmd
}

// run runs a command to its end.
func (s *system) run(args ...string) said {
	s.t.Helper()
	return s.wait(s.begin(args...))
}

type begun struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan error
}

func (s *system) begin(args ...string) *begun {
	s.t.Helper()
	b := &begun{cmd: s.command(args...), ended: make(chan error, 1)}
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.err
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { b.ended <- b.cmd.Wait() }()
	return b
}

func (s *system) wait(b *begun) said {
	s.t.Helper()
	select {
	case err := <-b.ended:
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			s.t.Fatal(err)
		}
	case <-time.After(patience):
		_ = b.cmd.Process.Kill()
		<-b.ended
		s.t.Fatalf("%v did not end in %s\n%s%s", b.cmd.Args[1:], patience, &b.out, &b.err)
	}
	return said{out: b.out.String(), err: b.err.String(), code: b.cmd.ProcessState.ExitCode()}
}

// mustRun runs a command that has to end with 0.
func (s *system) mustRun(args ...string) string {
	s.t.Helper()
	got := s.run(args...)
	if got.code != 0 {
		s.t.Fatalf("holdfast %s ended with %d, want 0\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// newestRun is the run that was started last.
func (s *system) newestRun() api.Run {
	s.t.Helper()
	list, err := s.client.Runs(s.t.Context(), client.RunFilter{}, client.Page{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		s.t.Fatalf("list the newest run: %v, %d items", err, len(list.Items))
	}
	r, err := s.client.Run(s.t.Context(), list.Items[0].ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// untilRun waits until the newest run is as wanted.
func (s *system) untilRun(what string, is func(api.Run) bool) api.Run {
	s.t.Helper()
	var r api.Run
	s.until("the run "+what, func() bool { r = s.newestRun(); return is(r) })
	return r
}

// resources are the addresses in the current document of a state, as the real tool lists them.
func (s *system) resources(stateName string) []string {
	s.t.Helper()
	dir := s.folder("look-"+stateName, `terraform {
  backend "http" {}
}
`)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.dir, "home"), "TF_HTTP_USERNAME=me", "TF_HTTP_PASSWORD=" + s.token.Reveal(),
		"TF_HTTP_ADDRESS=http://" + s.addr + "/api/tf-states/" + stateName + "/state",
	}
	var out []byte
	for _, args := range [][]string{{"init", "-input=false"}, {"state", "list"}} {
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		cmd := exec.CommandContext(ctx, tofubin.Path(s.t), args...)
		cmd.Env, cmd.Dir = env, dir
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			s.t.Fatalf("tofu %v: %v\n%s", args, err, out)
		}
		cancel()
	}
	list := strings.Fields(string(out))
	slices.Sort(list)
	return list
}

// intact checks what must hold however a run has gone: the audit chain is whole and no lock is left.
func (s *system) intact(stateName string) {
	s.t.Helper()
	s.mustRun("audit", "verify")
	st, err := s.client.State(s.t.Context(), stateName)
	if err != nil {
		s.t.Fatal(err)
	}
	if st.Lock != nil || st.Hold != nil {
		s.t.Errorf("state %s: lock %+v, hold %+v after the run has ended, want none", stateName, st.Lock, st.Hold)
	}
}
