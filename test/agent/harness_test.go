// Package agent_test tests broker and worker as the processes they are, with the real tool, against a server that can
// fail on demand.
package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

// The users of the tests that need two. The worker's is swept, so these are nobody's.
const (
	brokerUID = 64100
	workerUID = 64101
	groupID   = 64102
)

// programs is the folder with the built programs.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-agent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	programs = dir
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users have to run what is in it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-o", dir, "holdfast.dev/holdfast/cmd/holdfast-agent", "holdfast.dev/holdfast/cmd/holdfast-worker")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the agent:", err)
		return 1
	}
	return m.Run()
}

// agent is the processes under test.
type agent struct {
	t    testing.TB
	dir  string // work directory
	tool string
	env  []string // more of it, for both

	files []*os.File // descriptors from 3 on

	mu  sync.Mutex
	out bytes.Buffer // of all
}

func newAgent(t testing.TB) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf-")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, dir: dir, tool: tofubin.Path(t)}
	t.Cleanup(func() {
		if t.Failed() {
			a.mu.Lock()
			t.Logf("the processes said:\n%s", a.out.String())
			a.mu.Unlock()
		}
		_ = os.RemoveAll(dir)
	})
	return a
}

func (a *agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.String()
}

// process is one of them.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (a *agent) start(uid int, env []string, program string, args ...string) *process {
	a.t.Helper()
	cmd := exec.Command(filepath.Join(programs, program), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "HOLDFAST_WORK_DIR=" + a.dir}, append(env, a.env...)...)
	cmd.Stdout, cmd.Stderr = a, a
	cmd.ExtraFiles = a.files
	cmd.WaitDelay = time.Second
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: groupID, Groups: []uint32{groupID}}}
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// exit waits for the end and gives the exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(90 * time.Second):
		t.Fatalf("%s does not end", p.Path)
	}
	return p.ProcessState.ExitCode()
}

// unisolated starts broker and worker as one user.
func (a *agent) unisolated(p *platform) *process {
	a.t.Helper()
	return a.start(0, []string{
		"HOLDFAST_PLATFORM_URL=" + p.url, "HOLDFAST_AGENT_TOKEN=" + agentToken, "HOLDFAST_HEALTH_ADDR=off", "HOLDFAST_TOFU_BIN=" + a.tool,
		"HOLDFAST_DEVELOPMENT_UNISOLATED=1", "HOLDFAST_ALLOW_INLINE_SOURCES=true",
	}, "holdfast-agent", "unisolated")
}

// share makes the work directory that of two users.
func (a *agent) share() {
	a.t.Helper()
	if os.Getuid() != 0 {
		a.t.Fatal("this test runs broker and worker as two users, which needs root")
	}
	if err := errors.Join(os.Chown(a.dir, brokerUID, groupID), os.Chmod(a.dir, 0o770|os.ModeSetgid)); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) broker(p *platform) *process {
	a.t.Helper()
	return a.start(brokerUID, []string{
		"HOLDFAST_PLATFORM_URL=" + p.url, "HOLDFAST_AGENT_TOKEN=" + agentToken, "HOLDFAST_HEALTH_ADDR=off",
		fmt.Sprintf("HOLDFAST_WORKER_UID=%d", workerUID), "HOLDFAST_ALLOW_INLINE_SOURCES=true",
	}, "holdfast-agent", "broker")
}

func (a *agent) worker() *process {
	a.t.Helper()
	return a.start(workerUID, []string{"HOLDFAST_TOFU_BIN=" + a.tool, fmt.Sprintf("HOLDFAST_BROKER_UID=%d", brokerUID)}, "holdfast-agent", "worker")
}

// pack makes a source.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil { //nolint:gosec // test data
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := source.Pack(t.Context(), dir, &b, source.Limits{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// plan runs a plan and wants it to succeed.
func (p *platform) plan(src []byte, inputs string) *task {
	p.t.Helper()
	k := p.offer(&task{Work: api.Work{Kind: "plan", Inputs: json.RawMessage(inputs)}, source: src})
	if r := p.reported(k); r.Outcome != "succeeded" {
		p.t.Fatalf("plan: got %+v\n%s", r, p.describe())
	}
	return k
}

// apply queues the apply of a plan.
func (p *platform) apply(of *task, change ...func(*task)) *task {
	p.t.Helper()
	m := of.plan
	k := &task{Work: api.Work{Kind: "apply", Inputs: of.Inputs, Sensitive: of.Sensitive, Plan: &api.WorkPlan{
		Digest: m.Digest, Tool: m.Tool, Version: m.Version, LockFile: m.LockFile, ConfigHash: m.ConfigHash, View: m.View,
	}}, source: of.source, planFile: of.planFile}
	for _, c := range change {
		c(k)
	}
	return p.offer(k)
}

// empty waits until no attempt's directory is left, and fails if one stays.
func (a *agent) empty() {
	a.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left, err := filepath.Glob(filepath.Join(a.dir, "att_*"))
		more, err2 := filepath.Glob(filepath.Join(a.dir, ".broker", "att_*"))
		if err := errors.Join(err, err2); err != nil {
			a.t.Fatal(err)
		}
		if len(left)+len(more) == 0 {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("directories that are left: %v %v", left, more)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// file waits for a file that a template makes.
func file(t testing.TB, path string) string {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		b, err := os.ReadFile(path)
		if err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			t.Fatalf("wait for %s: %v", path, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// place is a folder that templates of any user may write in.
func place(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf-place-")
	if err == nil {
		err = os.Chmod(dir, 0o777) //nolint:gosec // that is its use
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
