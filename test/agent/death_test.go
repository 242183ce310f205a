package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// slow is a configuration that creates "first", then a resource that runs until the test lets it go or it is told to
// stop, then "last". It tells where by files: began, and release to let it go.
func slow(t *testing.T, where string) []byte {
	return pack(t, map[string]string{"main.tf": fmt.Sprintf(`
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  input = terraform_data.first.id
  provisioner "local-exec" { command = "echo $$ > %[1]s/began; while [ ! -e %[1]s/release ]; do sleep 0.02; done" }
}
resource "terraform_data" "last" { input = terraform_data.slow.id }
`, where)})
}

func release(t *testing.T, where string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(where, "release"), nil, 0o666); err != nil { //nolint:gosec // any user's template reads it
		t.Fatal(err)
	}
}

// pidOf finds the process with this command line beginning among the children of parent.
func pidOf(t *testing.T, name string, parent int) int {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, d := range dirs {
			line, err := os.ReadFile(filepath.Join(d, "cmdline"))
			if err != nil || !strings.Contains(strings.Split(string(line), "\x00")[0], name) {
				continue
			}
			stat, err := os.ReadFile(filepath.Join(d, "stat"))
			if err != nil {
				continue
			}
			fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && (parent == 0 || fields[1] == strconv.Itoa(parent)) && fields[0] != "Z" {
				return pid
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("there is no process %s below %d", name, parent)
	return 0
}

func kill(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

func TestWorkerKilledDuringApply(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	agent := a.unisolated(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	worker := pidOf(t, "holdfast-worker", agent.Process.Pid)
	kill(t, worker, syscall.SIGKILL)
	// The tool gets its one interrupt from the kernel, stops, and cannot reach the relay; the broker delivers what it wrote.
	r := p.reported(applied)
	if r.Outcome != "failed" || r.Class != "infrastructure" || !r.PartialApply || r.StateUnsaved {
		t.Errorf("report: got %+v, want failed, infrastructure, partial, and the state saved", r)
	}
	if got := p.resources(); !slices.Contains(got, "terraform_data.first") {
		t.Errorf("state: got %v, want what was created before the kill", got)
	}
	a.empty()
	// A new worker is there, and works.
	p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"x"}`)
}

func TestWorkerKilledDuringPlan(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	agent := a.unisolated(p)
	// The plan is slow because the server keeps it waiting for the lock.
	hold := make(chan struct{})
	p.change(func() { p.held["LOCK /state/lock"] = hold })
	k := p.offer(&task{Work: api.Work{Kind: "plan"}, source: pack(t, map[string]string{"main.tf": `resource "terraform_data" "x" {}`})})
	p.until("the plan wants the lock", func() bool { return slices.Contains(p.requests, "LOCK /state/lock") })
	kill(t, pidOf(t, "holdfast-worker", agent.Process.Pid), syscall.SIGKILL)
	r := p.reported(k)
	close(hold)
	if r.Outcome != "failed" || r.Class != "infrastructure" || r.PartialApply || k.plan != nil {
		t.Errorf("report: got %+v, want failed, infrastructure, not partial, no plan", r)
	}
	a.empty()
}

func TestBrokerKilledDuringApply(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.share()
	a.worker()
	broker := a.broker(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	p.until("the log so far is stored", func() bool { return strings.Contains(text(applied.log), "slow: Creating") })
	_ = broker.Process.Kill()
	broker.exit(t)
	a.broker(p) // its next life
	r := p.reported(applied)
	if r.Outcome != "failed" || r.Class != "lost" || !r.PartialApply || r.StateUnsaved {
		t.Errorf("report: got %+v, want failed, lost, partial, and the state saved", r)
	}
	if got := p.resources(); !slices.Contains(got, "terraform_data.first") || slices.Contains(got, "terraform_data.last") {
		t.Errorf("state: got %v, want what was created, and nothing after the interrupt", got)
	}
	a.empty()
	inOrder(t, applied)
	p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"x"}`)
}

// inOrder wants the log to be complete in number and order.
func inOrder(t *testing.T, k *task) {
	t.Helper()
	for i, c := range k.log {
		if c.Seq != int64(i) {
			t.Errorf("chunk %d of the log has number %d", i, c.Seq)
		}
	}
}

// TestR13_ResultOutlivesServerAndBroker takes the server away at the end of an apply, kills the broker while it tries
// to report, and brings both back.
func TestR13_ResultOutlivesServerAndBroker(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.share()
	a.worker()
	broker := a.broker(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	p.change(func() { p.status["POST tasks/{id}/report"] = 503 })
	release(t, where)
	p.until("the report was tried", func() bool { return slices.Contains(p.requests[len(p.requests)-1:], "POST tasks/{id}/report") })
	p.change(func() { p.down = true })
	_ = broker.Process.Kill()
	broker.exit(t)
	a.broker(p)
	p.until("the next life tries", func() bool { return len(p.requests) > 0 })
	p.change(func() { p.down, p.status = false, map[string]int{} })
	r := p.reported(applied)
	if r.Outcome != "succeeded" || r.PartialApply {
		t.Errorf("report: got %+v, want the true result", r)
	}
	inOrder(t, applied)
	if !strings.Contains(text(applied.log), "last: Creation complete") {
		t.Errorf("the log's end is missing:\n%s", text(applied.log))
	}
	a.empty()
}

// TestServerAwayDuringApply drops every connection while the apply saves its state: nothing is lost, the relay waits.
func TestServerAwayDuringApply(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	where := place(t)
	// A state that is there already, so that the tool's next word is the save.
	p.reported(p.apply(p.plan(pack(t, map[string]string{"main.tf": `resource "terraform_data" "old" {}`}), `{}`)))
	saves := p.saves
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	p.change(func() { p.down, p.requests = true, nil })
	release(t, where)
	p.until("the save was tried again and again", func() bool { return count(p.requests, "POST /state") >= 4 })
	if p.saves != saves || applied.report != nil {
		t.Errorf("while the server is away: got %d saves and report %+v, want neither", p.saves-saves, applied.report)
	}
	p.change(func() { p.down = false })
	r := p.reported(applied)
	if r.Outcome != "succeeded" || len(p.resources()) != 3 || p.lock != "" {
		t.Errorf("got %+v with state %v and lock %q, want success with all, unlocked", r, p.resources(), p.lock)
	}
	inOrder(t, applied)
	a.empty()
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// TestDeniedStateSaysWhy has the server deny a plan what it asks of its state: the report says why, which the tool does
// not.
func TestDeniedStateSaysWhy(t *testing.T) {
	for _, c := range []struct{ request, want string }{
		{"LOCK /state/lock", "The server refused LOCK: injected"},
		{"GET /state", "The server refused to read the state: injected"},
	} {
		t.Run(c.request, func(t *testing.T) {
			p, a := newPlatform(t), newAgent(t)
			a.unisolated(p)
			p.change(func() { p.status[c.request] = 403 })
			src := pack(t, map[string]string{"main.tf": `resource "terraform_data" "x" {}`})
			k := p.offer(&task{Work: api.Work{Kind: "plan", Inputs: json.RawMessage(`{}`)}, source: src})
			if r := p.reported(k); r.Outcome != "failed" || r.Class != "refused" || !strings.HasSuffix(r.Message, c.want) {
				t.Errorf("report: got %+v, want failed, refused, with %q at the end", r, c.want)
			}
			a.empty()
		})
	}
}

// TestStateRefusedThenDelivered refuses the saves of an apply; the tool writes errored.tfstate, and that is delivered.
func TestStateRefusedThenDelivered(t *testing.T) {
	for name, c := range map[string]struct {
		later   int
		unsaved bool
	}{"taken later": {0, false}, "never taken": {409, true}} {
		t.Run(name, func(t *testing.T) {
			p, a := newPlatform(t), newAgent(t)
			a.unisolated(p)
			planned := p.plan(pack(t, map[string]string{"main.tf": `resource "terraform_data" "x" {}`}), `{}`)
			p.change(func() { p.status["POST /state"] = 409 })
			hold := make(chan struct{})
			p.change(func() { p.held["UNLOCK /state/lock"] = hold })
			applied := p.apply(planned)
			p.until("the tool gives up", func() bool { return slices.Contains(p.requests[len(p.requests)-1:], "UNLOCK /state/lock") })
			p.change(func() { p.status["POST /state"] = c.later })
			close(hold)
			r := p.reported(applied)
			if r.Outcome != "failed" || !r.PartialApply || r.StateUnsaved != c.unsaved {
				t.Errorf("report: got %+v, want failed, partial, state unsaved %v", r, c.unsaved)
			}
			kept, err := filepath.Glob(filepath.Join(a.dir, ".broker", "unsaved", "*.tfstate"))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.resources(); c.unsaved == slices.Contains(got, "terraform_data.x") || c.unsaved != (len(kept) == 1) {
				t.Errorf("stored %v, kept %v; want it in one place", got, kept)
			}
			if !strings.Contains(text(applied.log), "refused to save the state with status 409: injected") {
				t.Errorf("the log does not say why the state was refused:\n%s", text(applied.log))
			}
			a.empty()
		})
	}
}
