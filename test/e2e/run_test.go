package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// gated is a configuration whose apply stops in the middle: the first resource is made, the second waits for a file.
func gated(dir string) string {
	return fmt.Sprintf(`
resource "terraform_data" "first" { input = 1 }

resource "terraform_data" "second" {
  input      = 2
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "echo x >> %[1]s/begun; while [ ! -e %[1]s/go ]; do sleep 0.05; done"
  }
}
`, dir)
}

// gatedPlan makes the agent's tool stop before it plans.
func (s *system) gatedPlan() {
	s.t.Helper()
	for i, line := range s.agent {
		tool, ok := strings.CutPrefix(line, "HOLDFAST_TOFU_BIN=")
		if !ok {
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = plan ]; then\n  echo x >> %[1]s/begun\n  while [ ! -e %[1]s/go ]; do sleep 0.05; done\nfi\nexec %[2]s \"$@\"\n", s.dir, tool)
		path := filepath.Join(s.dir, "gated-tofu")
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			s.t.Fatal(err)
		}
		s.agent[i] = "HOLDFAST_TOFU_BIN=" + path
	}
	_ = s.broker.Process.Signal(syscall.SIGTERM)
	_ = s.broker.Wait()
	s.startAgent()
}

func (s *system) begun() int {
	b, _ := os.ReadFile(filepath.Join(s.dir, "begun"))
	return strings.Count(string(b), "x")
}

func (s *system) untilBegun() {
	s.t.Helper()
	s.until("the gate is reached", func() bool { return s.begun() > 0 })
}

func (s *system) openGate() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

var bothMade = []string{"terraform_data.first", "terraform_data.second"}

func TestMainJob(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *system) {
		dir := s.folder("shop", `
variable "greeting" { default = "hello" }
variable "secret" {
  default   = "canary-0123456789"
  sensitive = true
}
resource "terraform_data" "a" { input = var.greeting }
resource "terraform_data" "b" { triggers_replace = [var.greeting] }
resource "terraform_data" "s" { input = var.secret }
output "greeting" { value = terraform_data.a.output }
output "secret" {
  value     = var.secret
  sensitive = true
}
`)
		out := s.mustRun("up", dir, "--yes")
		for _, want := range []string{"3 to create", `greeting = "hello"`} {
			if !strings.Contains(out, want) {
				t.Errorf("up printed\n%s\nwant %q in it", out, want)
			}
		}
		first := s.newestRun()
		if first.Status != "succeeded" || first.Approval.Status != "approved" || first.Approval.Digest != first.PlanDigest || first.Approval.By == "" {
			t.Errorf("run is %s, approval %+v, want succeeded and approved by somebody with the plan's digest %s", first.Status, first.Approval, first.PlanDigest)
		}
		if out := s.mustRun("up", dir, "--yes"); !strings.Contains(out, "No changes") {
			t.Errorf("the second up printed\n%s\nwant that nothing changes", out)
		}
		if r := s.newestRun(); r.Approval.Status != "skipped" || r.Components[0].Action != "none" {
			t.Errorf("the second run: approval %s, action %s, want skipped and none", r.Approval.Status, r.Components[0].Action)
		}
		s.mustRun("up", dir, "--yes", "--input", "greeting=bonjour")
		r := s.newestRun()
		if r.Risk != "high" || r.Totals.Replace != 1 || r.Totals.Change != 1 {
			t.Errorf("the third run: risk %s, totals %+v, want high, 1 replaced, 1 changed", r.Risk, r.Totals)
		}
		whole, _ := json.Marshal(r)
		logs := s.mustRun("run", "logs", r.ID)
		plan, err := s.client.RunPlan(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		view, _ := json.Marshal(plan)
		for where, text := range map[string]string{"the run": string(whole), "its log": logs, "its plan": string(view)} {
			if strings.Contains(text, "canary-0123456789") {
				t.Errorf("R11: the sensitive value is in %s", where)
			}
		}
		s.mustRun("up", dir, "--yes", "--destroy")
		if got := s.resources("shop.main"); len(got) != 0 {
			t.Errorf("after the destroy the state has %v, want nothing", got)
		}
		s.intact("shop.main")
	})
}

// TestStepsFollowAllocation takes the permissions on states from the steps of runs, before a plan and between a plan and
// its apply: nothing is done, and the run says why and who can change it.
func TestStepsFollowAllocation(t *testing.T) {
	s := newSystem(t, "")
	dir := s.folder("shop", `resource "terraform_data" "a" {}`)
	failed := func(permission, says string) {
		t.Helper()
		r := s.untilRun("has ended", func(r api.Run) bool { return r.EndedAt != nil })
		if r.Status != "failed" || r.Class != "refused" || r.PartialApply {
			t.Errorf("run is %s, %s, partial %t, want failed, refused and nothing applied", r.Status, r.Class, r.PartialApply)
		}
		for _, want := range []string{permission, says, "An administrator of the organization can", "holdfast permission set " + permission + " operator"} {
			if !strings.Contains(r.Message, want) {
				t.Errorf("the run says %q, want %q in it", r.Message, want)
			}
		}
	}
	s.mustRun("permission", "set", "tf_state:read", "disabled")
	if got := s.run("up", dir, "--yes"); got.code == 0 {
		t.Errorf("up with tf_state:read disabled ended with 0\n%s", got.out)
	}
	failed("tf_state:read", "disabled in this organization")
	s.mustRun("permission", "set", "tf_state:read", "operator")

	s.wait(s.begin("up", dir, "--detach"))
	r := s.untilRun("waits for approval", func(r api.Run) bool { return r.Status == "awaiting_approval" })
	s.mustRun("permission", "set", "tf_state:write", "admin")
	s.mustRun("run", "approve", r.ID, "--digest", r.PlanDigest)
	failed("tf_state:write", "the steps of a run act as operator")
	s.mustRun("permission", "set", "tf_state:write", "operator")
	s.mustRun("up", dir, "--yes")
	if got := s.resources("shop.main"); !slices.Equal(got, []string{"terraform_data.a"}) {
		t.Errorf("the state has %v, want what was applied once that was allowed again", got)
	}
}

func TestRejectAndCancel(t *testing.T) {
	s := newSystem(t, "")
	dir := s.folder("shop", gated(s.dir))
	up := s.begin("up", dir, "--detach")
	s.wait(up)
	r := s.untilRun("waits for approval", func(r api.Run) bool { return r.Status == "awaiting_approval" })
	if got := s.run("run", "approve", r.ID, "--digest", "sha256:0000"); got.code == 0 {
		t.Errorf("approving another digest ended with 0\n%s", got.out)
	}
	s.mustRun("run", "reject", r.ID)
	if r := s.newestRun(); r.Status != "rejected" || s.begun() != 0 {
		t.Errorf("run is %s and began %d times, want rejected and never begun", r.Status, s.begun())
	}
	up = s.begin("up", dir, "--yes")
	s.untilBegun()
	if err := up.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := s.wait(up); got.code != 3 {
		t.Errorf("up of a cancelled run ended with %d, want 3\n%s%s", got.code, got.out, got.err)
	}
	r = s.newestRun()
	if r.Status != "cancelled" && r.Status != "failed" {
		t.Errorf("run is %s after the cancel, want cancelled or failed", r.Status)
	}
	if got := s.resources("shop.main"); !slices.Contains(got, "terraform_data.first") {
		t.Errorf("the state has %v, want the resource that was made before the cancel", got)
	}
	s.intact("shop.main")
}

func TestServerKilledDuringPlan(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *system) {
		s.gatedPlan()
		up := s.begin("up", s.folder("shop", `resource "terraform_data" "first" {}`), "--yes")
		s.untilBegun()
		kill(s.server)
		s.openGate()
		s.startServer()
		if got := s.wait(up); got.code != 0 {
			t.Errorf("up ended with %d, want 0\n%s%s", got.code, got.out, got.err)
		}
		if got := s.resources("shop.main"); !slices.Equal(got, []string{"terraform_data.first"}) {
			t.Errorf("the state has %v, want the one resource", got)
		}
		if n := s.begun(); n != 1 {
			t.Errorf("the plan was begun %d times, want once", n)
		}
		s.intact("shop.main")
	})
}

func TestServerKilledDuringApply(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *system) {
		up := s.begin("up", s.folder("shop", gated(s.dir)), "--yes")
		s.untilBegun()
		kill(s.server)
		s.openGate()
		s.startServer()
		if got := s.wait(up); got.code != 0 {
			t.Errorf("up ended with %d, want 0\n%s%s", got.code, got.out, got.err)
		}
		if got := s.resources("shop.main"); !slices.Equal(got, bothMade) {
			t.Errorf("the state has %v, want %v", got, bothMade)
		}
		if n := s.begun(); n != 1 {
			t.Errorf("the apply was begun %d times, want once", n)
		}
		s.intact("shop.main")
	})
}

func TestBrokerKilledDuringApplyIsLost(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *system) {
		up := s.begin("up", s.folder("shop", gated(s.dir)), "--yes")
		s.untilBegun()
		kill(s.broker)
		if got := s.wait(up); got.code != 1 {
			t.Errorf("up of a lost run ended with %d, want 1\n%s%s", got.code, got.out, got.err)
		}
		r := s.newestRun()
		if r.Status != "failed" || r.Class != "lost" || !r.PartialApply {
			t.Errorf("run is %s, class %q, partial %t, want failed, lost and maybe left half-made", r.Status, r.Class, r.PartialApply)
		}
		s.openGate()
		s.startAgent()
		s.until("the agent is back", func() bool {
			list := s.mustRun("agent", "list")
			return strings.Contains(list, "online")
		})
		// The agent is back and asks for work; a plan shows that it is given some, and the apply not again.
		s.mustRun("up", s.folder("other", `resource "terraform_data" "x" {}`), "--yes")
		if n := s.begun(); n != 1 {
			t.Errorf("the apply was begun %d times, want once: a lost apply is never started by itself", n)
		}
	}, "HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS=15")
}

func TestWorkerKilledDuringApply(t *testing.T) {
	s := newSystem(t, "")
	up := s.begin("up", s.folder("shop", gated(s.dir)), "--yes")
	s.untilBegun()
	worker := child(s.broker.Process.Pid)
	if worker == 0 {
		t.Fatal("the broker has no worker")
	}
	if err := syscall.Kill(worker, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := s.wait(up); got.code != 1 {
		t.Errorf("up ended with %d, want 1\n%s%s", got.code, got.out, got.err)
	}
	r := s.newestRun()
	if r.Status != "failed" || !r.PartialApply {
		t.Errorf("run is %s, partial %t, message %q, want failed and maybe left half-made", r.Status, r.PartialApply, r.Message)
	}
	// The way out: plan and apply again, with the worker that was started anew.
	s.openGate()
	s.mustRun("up", s.folder("shop", gated(s.dir)), "--yes")
	if got := s.resources("shop.main"); !slices.Equal(got, bothMade) {
		t.Errorf("the state has %v, want %v", got, bothMade)
	}
	s.intact("shop.main")
}

// child is a process whose parent is pid; 0 without one.
func child(pid int) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var kid, parent int
		if n, _ := fmt.Sscan(rest, &state, &parent); n != 2 || parent != pid {
			continue
		}
		if _, err := fmt.Sscan(string(b), &kid); err == nil {
			return kid
		}
	}
	return 0
}

// TestServerKilledAtRandom keeps the promises while the server dies again and again at whatever moment.
func TestServerKilledAtRandom(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *system) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(100+random.IntN(900)) * time.Millisecond):
				}
				kill(s.server)
				s.startServer()
			}
		}()
		const runs = 6
		for i := range runs {
			dir := s.folder("shop", fmt.Sprintf("resource \"terraform_data\" \"n\" {\n  count = %d\n}\n", i+1))
			up := s.begin("up", dir, "--yes")
			if got := s.wait(up); got.code != 0 {
				t.Errorf("up %d ended with %d, want 0\n%s%s", i, got.code, got.out, got.err)
				break
			}
		}
		close(stop)
		<-stopped
		if got := s.resources("shop.main"); !t.Failed() && len(got) != runs {
			t.Errorf("the state has %v, want %d resources", got, runs)
		}
		s.intact("shop.main")
	})
}
