package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// interruptible is like slow, but counts the interrupts its tool gets: the shell in it is not told of them, so what is
// counted is what the tool says.
func interrupts(k *task) int {
	return strings.Count(text(k.log), "Interrupt received") + strings.Count(text(k.log), "Two interrupts received")
}

// TestR14_CancelDuringApply cancels while a resource is being created.
func TestR14_CancelDuringApply(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	p.change(func() { applied.cancel = true })
	r := p.reported(applied)
	if r.Outcome != "cancelled" || r.Class != "cancelled" || !r.PartialApply || r.StateUnsaved {
		t.Errorf("report: got %+v, want cancelled, partial, the state saved", r)
	}
	if got := p.resources(); !slices.Contains(got, "terraform_data.first") || slices.Contains(got, "terraform_data.last") || p.lock != "" {
		t.Errorf("state: got %v, lock %q, want what was created, nothing after it, unlocked", got, p.lock)
	}
	if n := interrupts(applied); n != 1 {
		t.Errorf("the tool got %d interrupts, want 1\n%s", n, text(applied.log))
	}
	a.empty()
}

// TestCancelBeforeWork cancels while the source is still being fetched.
func TestCancelBeforeWork(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	hold := make(chan struct{})
	defer close(hold)
	p.change(func() { p.held["GET tasks/{id}/source"] = hold })
	k := p.offer(&task{Work: api.Work{Kind: "plan"}, source: pack(t, map[string]string{"main.tf": hello}), cancel: true})
	if r := p.reported(k); r.Outcome != "cancelled" || r.PartialApply {
		t.Errorf("report: got %+v, want cancelled", r)
	}
	a.empty()
}

// TestR17_DrainDuringApply stops the agent in the middle of an apply: one interrupt, the state saved, the report
// delivered, heartbeats to the very end, exit 0.
func TestR17_DrainDuringApply(t *testing.T) {
	for _, way := range []string{"two users", "unisolated"} {
		t.Run(way, func(t *testing.T) {
			p, a := newPlatform(t), newAgent(t)
			var broker *process
			if way == "two users" {
				a.share()
				a.worker()
				broker = a.broker(p)
			} else {
				broker = a.unisolated(p)
			}
			where := place(t)
			applied := p.apply(p.plan(slow(t, where), `{}`))
			file(t, filepath.Join(where, "began"))
			// The unlock is held back, so that the drain lasts for some heartbeats.
			hold := make(chan struct{})
			p.change(func() { p.held["UNLOCK /state/lock"] = hold })
			kill(t, broker.Process.Pid, syscall.SIGTERM)
			p.until("three heartbeats say that it is draining", func() bool {
				n := 0
				for _, b := range applied.beats {
					if b.Draining {
						n++
					}
				}
				return n >= 3
			})
			kill(t, broker.Process.Pid, syscall.SIGTERM) // an impatient supervisor changes nothing
			close(hold)
			if code := broker.exit(t); code != 0 {
				t.Errorf("exit: got %d, want 0", code)
			}
			r := p.reported(applied)
			if r.Outcome != "cancelled" || !r.PartialApply || r.StateUnsaved || p.lock != "" {
				t.Errorf("report: got %+v, lock %q, want cancelled, partial, the state saved, unlocked", r, p.lock)
			}
			if n := interrupts(applied); n != 1 {
				t.Errorf("the tool got %d interrupts, want 1\n%s", n, text(applied.log))
			}
			a.empty()
		})
	}
}

// TestR16_DrainWhileClaiming stops the agent with the answer to its claim on the way: the task is not accepted. With
// its acceptance on the way, it is brought to its end.
func TestR16_DrainWhileClaiming(t *testing.T) {
	t.Run("before the offer", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		hold := make(chan struct{})
		p.change(func() { p.held["POST claim"] = hold })
		broker := a.unisolated(p)
		p.until("the agent claims", func() bool { return slices.Contains(p.requests, "POST claim") })
		k := p.offer(&task{Work: api.Work{Kind: "plan"}, source: pack(t, map[string]string{"main.tf": hello})})
		kill(t, broker.Process.Pid, syscall.SIGTERM)
		if code := broker.exit(t); code != 0 {
			t.Errorf("exit: got %d, want 0", code)
		}
		close(hold)
		if k.accepted {
			t.Error("the draining agent accepted the task")
		}
		a.empty()
	})
	t.Run("after the acceptance", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		broker := a.unisolated(p)
		hold := make(chan struct{})
		p.change(func() { p.held["POST tasks/{id}/accept"] = hold })
		k := p.offer(&task{Work: api.Work{Kind: "plan"}, source: pack(t, map[string]string{"main.tf": hello})})
		p.until("the agent accepts", func() bool { return slices.Contains(p.requests, "POST tasks/{id}/accept") })
		kill(t, broker.Process.Pid, syscall.SIGTERM)
		close(hold)
		if r := p.reported(k); r.Outcome != "cancelled" {
			t.Errorf("report: got %+v, want cancelled", r)
		}
		if code := broker.exit(t); code != 0 {
			t.Errorf("exit: got %d, want 0", code)
		}
		a.empty()
	})
}

// TestR21_WorkerStopped stops the worker alone, as its supervisor does: one interrupt for the tool, and the broker
// goes on with the next worker.
func TestR21_WorkerStopped(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.share()
	worker := a.worker()
	a.broker(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`))
	file(t, filepath.Join(where, "began"))
	kill(t, worker.Process.Pid, syscall.SIGTERM)
	if code := worker.exit(t); code != 0 {
		t.Errorf("exit: got %d, want 0", code)
	}
	a.worker()
	r := p.reported(applied)
	if r.Outcome != "failed" || r.Class != "infrastructure" || !r.PartialApply || r.StateUnsaved || p.lock != "" {
		t.Errorf("report: got %+v, lock %q, want failed, infrastructure, partial, the state saved, unlocked", r, p.lock)
	}
	if n := interrupts(applied); n != 1 {
		t.Errorf("the tool got %d interrupts, want 1", n)
	}
	p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"x"}`)
	a.empty()
}

// TestSensitiveInputsAreHidden prints a sensitive value in the ways a template can, whole and in pieces of a log.
func TestSensitiveInputsAreHidden(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	src := pack(t, map[string]string{"main.tf": `
variable "declared" {
  type      = string
  sensitive = true
}
variable "told" { type = map(string) }
resource "terraform_data" "x" {
  input = "${nonsensitive(var.declared)} and ${var.told.key}"
  provisioner "local-exec" {
    command = "echo ${nonsensitive(var.declared)}; printf '${substr(nonsensitive(var.declared), 0, 9)}'; sleep 0.3; echo '${substr(nonsensitive(var.declared), 9, -1)}'; echo ${base64encode(var.told.key)}; echo control-text"
  }
}
output "x" { value = terraform_data.x.input }
`})
	k := p.offer(&task{Work: api.Work{Kind: "plan", Sensitive: []string{"told"}, Inputs: []byte(`{"declared":"canary-declared-1234","told":{"key":"canary-told-56789"}}`)}, source: src})
	if r := p.reported(k); r.Outcome != "succeeded" {
		t.Fatalf("plan: got %+v\n%s", r, p.describe())
	}
	applied := p.apply(k)
	r := p.reported(applied)
	if r.Outcome != "succeeded" || !strings.Contains(text(applied.log), "control-text") {
		t.Fatalf("apply: got %+v\n%s", r, p.describe())
	}
	for name, all := range map[string]string{"plan log": text(k.log), "view": string(k.plan.View), "apply log": text(applied.log), "message": r.Message} {
		for _, canary := range []string{"canary-declared-1234", "canary-told-56789", "Y2FuYXJ5LXRvbGQtNTY3ODk"} {
			if strings.Contains(all, canary) {
				t.Errorf("the %s shows %s:\n%s", name, canary, all)
			}
		}
	}
}

// TestHardTimeout lets a command exceed its limit.
func TestHardTimeout(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	where := place(t)
	applied := p.apply(p.plan(slow(t, where), `{}`), func(k *task) { k.Timeout = 6 })
	r := p.reported(applied)
	if r.Outcome != "failed" || r.Class != "infrastructure" || !r.PartialApply || !strings.Contains(r.Message, "time limit") {
		t.Errorf("report: got %+v, want failed, infrastructure, partial, and the time limit named", r)
	}
	if got := p.resources(); !slices.Contains(got, "terraform_data.first") || p.lock != "" {
		t.Errorf("state: got %v, lock %q, want what was created, unlocked", got, p.lock)
	}
	if n := interrupts(applied); n != 1 {
		t.Errorf("the tool got %d interrupts, want 1", n)
	}
	a.empty()
}

// TestApplyRefusals changes, one at a time, each thing that an approval covers.
func TestApplyRefusals(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	src := pack(t, map[string]string{"main.tf": hello})
	planned := p.plan(src, `{"name":"world"}`)
	other := p.plan(pack(t, map[string]string{"main.tf": hello + `resource "terraform_data" "more" {}`}), `{"name":"world"}`)
	for name, change := range map[string]func(*task){
		"the plan's bytes":     func(k *task) { k.planFile = append(bytes.Clone(k.planFile), 0) },
		"another plan":         func(k *task) { k.planFile = other.planFile },
		"another plan, signed": func(k *task) { k.planFile, k.Plan.Digest = other.planFile, other.plan.Digest },
		"the source":           func(k *task) { k.source = other.source },
		"the inputs":           func(k *task) { k.Inputs = []byte(`{"name":"mallory"}`) },
		"the tool":             func(k *task) { k.Plan.Tool = map[string]string{"tofu": "terraform", "terraform": "tofu"}[k.Plan.Tool] },
		"the tool's version":   func(k *task) { k.Plan.Version = "1.0.0" },
		"the lock file":        func(k *task) { k.Plan.LockFile = strings.Repeat("0", 64) },
		"the configuration":    func(k *task) { k.Plan.ConfigHash = strings.Repeat("0", 64) },
		"what is approved":     func(k *task) { k.Plan.View = []byte(`{"format":1,"changes":[],"actions_digest":"sha256:0"}`) },
		"no view":              func(k *task) { k.Plan.View = []byte(`"?"`) },
	} {
		k := p.apply(planned, change)
		r := p.reported(k)
		if r.Outcome != "failed" || r.Class != "refused" || r.PartialApply || r.Message == "" {
			t.Errorf("%s changed: got %+v, want refused\n%s", name, r, text(k.log))
		}
		if p.saves != 0 {
			t.Fatalf("%s changed: something was applied", name)
		}
	}
	// Unchanged, it is applied.
	if r := p.reported(p.apply(planned)); r.Outcome != "succeeded" || p.saves == 0 {
		t.Errorf("unchanged: got %+v with %d saves", r, p.saves)
	}
	a.empty()
}

// TestNoApplyWithoutAnAnswer lets the server be away, or say no, in the moment before the apply.
func TestNoApplyWithoutAnAnswer(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	planned := p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"world"}`)
	p.change(func() { p.status["POST tasks/{id}/heartbeat"] = 409 })
	applied := p.apply(planned)
	r := p.reported(applied)
	if r.Outcome != "cancelled" || r.PartialApply || p.saves != 0 {
		t.Errorf("got %+v with %d saves, want cancelled and nothing applied", r, p.saves)
	}
	a.empty()
}

func TestTokenRefused(t *testing.T) {
	t.Run("at start", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		p.change(func() { p.status["POST register"] = 401 })
		if code := a.unisolated(p).exit(t); code != 3 {
			t.Errorf("exit: got %d, want 3", code)
		}
		if !strings.Contains(a.said(), "HOLDFAST_AGENT_TOKEN") {
			t.Errorf("it does not say what to do: %s", a.said())
		}
	})
	t.Run("during an apply", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		broker := a.unisolated(p)
		where := place(t)
		p.apply(p.plan(slow(t, where), `{}`))
		file(t, filepath.Join(where, "began"))
		p.change(func() {
			for _, r := range []string{"heartbeat", "logs", "report"} {
				p.status["POST tasks/{id}/"+r] = 401
			}
		})
		if code := broker.exit(t); code != 3 {
			t.Errorf("exit: got %d, want 3", code)
		}
		if got := p.resources(); !slices.Contains(got, "terraform_data.first") || p.lock != "" {
			t.Errorf("state: got %v, lock %q, want it saved, unlocked", got, p.lock)
		}
	})
	t.Run("not now is no end", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		p.change(func() { p.status["POST register"] = 403 })
		broker := a.unisolated(p)
		deadline := time.Now().Add(30 * time.Second)
		for !strings.Contains(a.said(), "refuses this agent for now") {
			if time.Now().After(deadline) {
				t.Fatal("it does not say that it is refused")
			}
			time.Sleep(5 * time.Millisecond)
		}
		kill(t, broker.Process.Pid, syscall.SIGTERM)
		if code := broker.exit(t); code != 0 {
			t.Errorf("exit: got %d, want 0", code)
		}
	})
}

func TestSettingsStopTheStart(t *testing.T) {
	a := newAgent(t)
	good := []string{"HOLDFAST_PLATFORM_URL=http://127.0.0.1:1", "HOLDFAST_AGENT_TOKEN=" + agentToken, "HOLDFAST_HEALTH_ADDR=off"}
	tofu := "HOLDFAST_TOFU_BIN=" + a.tool
	plain := filepath.Join(place(t), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		program string
		args    []string
		env     []string
		want    string
	}{
		"no server":                 {"holdfast-agent", []string{"broker"}, good[1:], "HOLDFAST_PLATFORM_URL"},
		"no token":                  {"holdfast-agent", []string{"broker"}, append([]string{}, good[0], good[2]), "HOLDFAST_AGENT_TOKEN"},
		"no work directory":         {"holdfast-agent", []string{"broker"}, append([]string{"HOLDFAST_WORK_DIR="}, good...), "HOLDFAST_WORK_DIR"},
		"a missing work directory":  {"holdfast-agent", []string{"broker"}, append([]string{"HOLDFAST_WORK_DIR=/no/such"}, good...), "/no/such"},
		"a work directory of bytes": {"holdfast-agent", []string{"broker"}, append([]string{"HOLDFAST_WORK_DIR=" + plain}, good...), "HOLDFAST_WORK_DIR"},
		"the same user":             {"holdfast-agent", []string{"broker"}, append([]string{fmt.Sprintf("HOLDFAST_WORKER_UID=%d", 64100)}, good...), "HOLDFAST_WORKER_UID"},
		"unisolated without leave":  {"holdfast-agent", []string{"unisolated"}, good, "HOLDFAST_DEVELOPMENT_UNISOLATED"},
		"leave without unisolated":  {"holdfast-agent", []string{"broker"}, append([]string{"HOLDFAST_DEVELOPMENT_UNISOLATED=1"}, good...), "HOLDFAST_DEVELOPMENT_UNISOLATED"},
		"no such tool":              {"holdfast-agent", []string{"worker"}, []string{"HOLDFAST_TOFU_BIN=/no/tofu"}, "HOLDFAST_TOFU_BIN"},
		"a tool that is none":       {"holdfast-agent", []string{"worker"}, []string{"HOLDFAST_TOFU_BIN=/bin/true"}, "HOLDFAST_TOFU_BIN"},
		"a token for the worker":    {"holdfast-agent", []string{"worker"}, append([]string{tofu}, good...), "HOLDFAST_"},
		"a token by another name":   {"holdfast-worker", nil, []string{tofu, "HOLDFAST_AGENT_TOKEN_FILE=/dev/null"}, "HOLDFAST_AGENT_TOKEN_FILE"},
		"an unknown command":        {"holdfast-agent", []string{"dance"}, good, "dance"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.share()
			if code := a.start(brokerUID, c.env, c.program, c.args...).exit(t); code != 2 {
				t.Errorf("exit: got %d, want 2", code)
			}
			if !strings.Contains(a.said(), c.want) || strings.Contains(a.said(), agentToken) {
				t.Errorf("it says %q, want %s named, and never the token", a.said(), c.want)
			}
		})
	}
	t.Run("a worker that is root", func(t *testing.T) {
		a := newAgent(t)
		if code := a.start(0, []string{tofu}, "holdfast-agent", "worker").exit(t); code != 2 {
			t.Errorf("exit: got %d, want 2: %s", code, a.said())
		}
	})
}
