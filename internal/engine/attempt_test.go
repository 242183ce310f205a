package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// A lost plan is queued again, as often as three attempts allow.
func TestLostPlan(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Hold: true})
		r := w.start(w.startRun("shop"))
		for n := 1; n <= 3; n++ {
			k := w.take(w.agents[n%2])
			if k.work.Attempt.Number != n {
				t.Errorf("attempt has number %d, want %d", k.work.Attempt.Number, n)
			}
			w.wantStatus(r.ID, run.Planning)
			w.pass(longSilence)
		}
		r = w.wantStatus(r.ID, run.Failed)
		if r.Class != run.ClassLost || r.PartialApply || !strings.Contains(r.Message, "was not heard of since") {
			t.Errorf("the run ended with class %s, partial %t, message %q", r.Class, r.PartialApply, r.Message)
		}
		w.checkEnded(r)
		for _, a := range w.view(r.ID).Attempts {
			if a.Status != run.AttemptLost {
				t.Errorf("attempt %d is %s, want lost", a.Number, a.Status)
			}
		}
	})
}

// A lost apply ends its run and is never started again by itself.
func TestLostApply(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop"})
		r := w.planTo(w.startRun("shop"), oneChange())
		next := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		k.beat("apply")
		w.pass(110 * time.Second)
		w.wantStatus(r.ID, run.Applying)
		w.pass(30 * time.Second)
		r = w.wantStatus(r.ID, run.Failed)
		if r.Class != run.ClassLost || !r.PartialApply {
			t.Errorf("the run ended with class %s, partial %t, want lost and maybe partial", r.Class, r.PartialApply)
		}
		if o, ok := w.claim(w.agents[1]); ok {
			// The next run of the stack plans; the lost apply itself must not be there.
			if k := w.accept(w.agents[1], o); k.work.Run.ID != next.ID || k.work.Task.Kind != run.TaskPlan {
				t.Errorf("after the lost apply agent two was given %s of run %s", k.work.Task.Kind, k.work.Run.ID)
			}
		}
		for range 3 {
			w.pass(time.Minute)
		}
		applies := 0
		for _, a := range w.view(r.ID).Attempts {
			if a.TaskKind == run.TaskApply {
				applies++
			}
		}
		if applies != 1 {
			t.Errorf("the lost apply has %d attempts", applies)
		}
	})
}

// R13: the report of a lost apply comes after all, and the run says what really happened.
func TestR13LateReportOfALostApply(t *testing.T) {
	for outcome, want := range map[string]run.Run{
		"succeeded": {Status: run.Succeeded},
		"failed":    {Status: run.Failed, Class: run.Infrastructure, PartialApply: true},
		"cancelled": {Status: run.Failed, Class: run.ClassCancelled},
	} {
		t.Run(outcome, func(t *testing.T) {
			w := newRunWorld(t, openSQLite(t))
			w.putStack(engine.PutStack{Name: "shop"})
			r := w.planTo(w.startRun("shop"), oneChange())
			k := w.take(w.agents[0])
			k.beat("apply")
			w.pass(longSilence)
			w.wantStatus(r.ID, run.Failed)
			if order := k.beat("apply"); order != engine.OrderContinue {
				t.Fatalf("the apply that is back was told %q, want it to go on", order)
			}
			k.w.ok(k.save()) // its last save is still taken
			status, err := k.report(engine.Report{Outcome: outcome, Class: string(want.Class), PartialApply: want.PartialApply})
			if err != nil || status != run.AttemptStatus(outcome) {
				t.Fatalf("the late report = %s, %v", status, err)
			}
			got := w.wantStatus(r.ID, want.Status)
			if got.Class != want.Class || got.PartialApply != want.PartialApply {
				t.Errorf("the run says class %q, partial %t, want %q, %t", got.Class, got.PartialApply, want.Class, want.PartialApply)
			}
			w.checkEnded(got)
			if v := w.state("shop.main").Versions; v != 1 {
				t.Errorf("the state has %d versions, want the late save", v)
			}
			before := len(w.texts(r.ID))
			if again, err := k.report(engine.Report{Outcome: "failed"}); err != nil || again != status {
				t.Errorf("the repeat of the late report = %s, %v, want %s", again, err, status)
			}
			if after := len(w.texts(r.ID)); after != before {
				t.Errorf("the repeat made %d events", after-before)
			}
		})
	}
}

// An apply that had not begun when it was lost must not begin when its agent is back: its run has ended.
func TestALostApplyThatHadNotBegunNeverBegins(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	w.planTo(w.startRun("shop"), oneChange())
	k := w.take(w.agents[0])
	k.beat("init")
	w.pass(longSilence)
	for range 2 {
		if order := k.beat("apply"); order != engine.OrderSuperseded {
			t.Errorf("the heartbeat before its apply was answered %q, want superseded", order)
		}
	}
}

// The report of a lost plan is taken until another attempt is accepted.
func TestLateReportOfALostPlan(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		r := w.start(w.startRun("shop"))
		lost := w.take(w.agents[0])
		w.pass(longSilence)
		o, ok := w.claim(w.agents[1]) // offered to another agent, and not accepted yet
		if !ok {
			t.Fatal("the lost plan was not queued again")
		}
		if order := lost.beat("plan"); order != engine.OrderContinue {
			t.Errorf("the lost plan that is back was told %q", order)
		}
		w.ok(lost.deliverPlan())
		lost.succeed()
		w.wantStatus(r.ID, run.AwaitingApproval)
		_, err := w.engine.Accept(t.Context(), w.agents[1], o.Task, o.Attempt)
		wantCode(t, err, fault.Conflict, "attempt_over")
		if _, ok := w.claim(w.agents[1]); ok {
			t.Error("the plan is still in the queue")
		}
	})
}

func TestNothingIsTakenOfASupersededPlan(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		r := w.start(w.startRun("shop"))
		lost := w.take(w.agents[0])
		lost.plan = "the lost one's"
		w.ok(lost.deliverPlan())
		w.pass(longSilence)
		k := w.take(w.agents[1])
		if order := lost.beat("plan"); order != engine.OrderSuperseded {
			t.Errorf("the superseded attempt was told %q", order)
		}
		_, err := lost.report(engine.Report{Outcome: "succeeded"})
		wantCode(t, err, fault.Conflict, "attempt_over")
		wantCode(t, lost.deliverPlan(), fault.Conflict, "attempt_over")
		_, err = w.engine.AppendLogs(t.Context(), lost.agent, lost.work.Task.ID, lost.work.Attempt.ID, []run.LogChunk{{Text: "x"}})
		wantCode(t, err, fault.Conflict, "attempt_over")
		dead := must[access.Actor](t)(w.engine.Authenticate(t.Context(), lost.work.Token))
		if err := writeState(t.Context(), w.engine, dead, "shop.main", "late", "", engine.UnlockRequest{ID: "late"}); err == nil {
			t.Error("the superseded attempt's token can still lock the state")
		}
		k.planned()
		if got := w.wantStatus(r.ID, run.AwaitingApproval).Components[0].Plan.Digest; got != "sha256:"+sum("plan file") {
			t.Errorf("the plan that waits is %s, want the second attempt's", got)
		}
	})
}

func TestDuplicateReports(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	w.ok(k.deliverPlan())
	w.ok(k.deliverPlan()) // the whole delivery may be repeated
	k.succeed()
	before := w.texts(r.ID)
	for _, in := range []engine.Report{{Outcome: "succeeded"}, {Outcome: "failed", Message: "changed its mind"}} {
		if status, err := k.report(in); err != nil || status != run.AttemptSucceeded {
			t.Errorf("the repeated report = %s, %v, want succeeded", status, err)
		}
	}
	if after := w.texts(r.ID); len(after) != len(before) {
		t.Errorf("the repeats made events: %q", after[len(before):])
	}
	w.wantStatus(r.ID, run.Applying)
	_, err := k.report(engine.Report{Outcome: "exploded"})
	wantCode(t, err, fault.Unprocessable, "invalid_outcome")
}

func TestFailures(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Hold: true})
	fail := func(in engine.Report) run.Run {
		r := w.start(w.startRun("shop"))
		must[run.AttemptStatus](t)(w.take(w.agents[0]).report(in))
		return w.wantStatus(r.ID, run.Failed)
	}
	r := fail(engine.Report{Outcome: "failed", Class: "configuration", Message: "main.tf:3: no such\x00 function"})
	if r.Class != run.Configuration || r.Message != "main.tf:3: no such\uFFFD function" || r.Components[0].Status != run.ComponentFailed {
		t.Errorf("a failed plan: class %s, message %q, component %s", r.Class, r.Message, r.Components[0].Status)
	}
	w.checkEnded(r)
	if r := fail(engine.Report{Outcome: "failed", Class: "novel"}); r.Class != run.Infrastructure {
		t.Errorf("a class nobody knows became %q", r.Class)
	}
	if r := fail(engine.Report{Outcome: "succeeded"}); r.Class != run.Infrastructure || !strings.Contains(r.Message, "delivered no plan") {
		t.Errorf("a success without a plan: class %s, message %q", r.Class, r.Message)
	}
	for what, view := range map[string]func() (errored, incomplete bool){
		"errored": func() (bool, bool) { return true, false }, "incomplete": func() (bool, bool) { return false, true },
	} {
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		k.view.Errored, k.view.Incomplete = view()
		k.planned()
		if r = w.wantStatus(r.ID, run.Failed); r.Class != run.Configuration { // R31
			t.Errorf("an %s plan ended with class %s", what, r.Class)
		}
		w.checkEnded(r)
	}
	// A failed apply whose state could not be saved keeps the hold until it is recovered.
	r = w.planTo(w.startRun("shop"), oneChange())
	k := w.take(w.agents[0])
	must[run.AttemptStatus](t)(k.report(engine.Report{Outcome: "failed", Class: "infrastructure", PartialApply: true, StateUnsaved: true, Message: "no space"}))
	r = w.wantStatus(r.ID, run.Failed)
	if hold := w.state("shop.main").Hold; !r.PartialApply || hold == nil || hold.Run != r.ID {
		t.Errorf("after an unsaved apply: partial %t, hold %+v", r.PartialApply, hold)
	}
}

// An agent that is stopped gives its plan back; an apply it was stopped in has failed.
func TestAgentIsStopped(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.start(w.startRun("shop"))
	must[run.AttemptStatus](t)(w.take(w.agents[0]).report(engine.Report{Outcome: "cancelled", Class: "cancelled"}))
	w.wantStatus(r.ID, run.Planning)
	w.take(w.agents[1]).planned()
	w.wantStatus(r.ID, run.Applying)
	must[run.AttemptStatus](t)(w.take(w.agents[0]).report(engine.Report{Outcome: "cancelled", Class: "cancelled", PartialApply: true}))
	if r = w.wantStatus(r.ID, run.Failed); r.Class != run.ClassCancelled || !r.PartialApply {
		t.Errorf("an apply that was stopped with its agent: class %s, partial %t", r.Class, r.PartialApply)
	}
	if _, ok := w.claim(w.agents[1]); ok {
		t.Error("the stopped apply is in the queue again")
	}
}

func TestCancelInEachStatus(t *testing.T) {
	cancel := func(w *runWorld, r run.Run) run.Run {
		return must[engine.RunView](w.t)(w.engine.CancelRun(w.t.Context(), w.alice, r.ID)).Run
	}
	offered := func(w *runWorld) engine.Offer {
		o, ok := w.claim(w.agents[0])
		if !ok {
			w.t.Fatal("no task")
		}
		return o
	}
	atOnce := map[string]func(w *runWorld) run.Run{
		"queued": func(w *runWorld) run.Run {
			w.planTo(w.startRun("asks"), oneChange())
			return w.start(w.startRun("asks"))
		},
		"planning, not offered": func(w *runWorld) run.Run { return w.start(w.startRun("shop")) },
		"planning, offered": func(w *runWorld) run.Run {
			r := w.start(w.startRun("shop"))
			offered(w)
			return r
		},
		"awaiting approval":     func(w *runWorld) run.Run { return w.planTo(w.startRun("asks"), oneChange()) },
		"applying, not offered": func(w *runWorld) run.Run { return w.planTo(w.startRun("shop"), oneChange()) },
		"applying, offered": func(w *runWorld) run.Run {
			r := w.planTo(w.startRun("shop"), oneChange())
			offered(w)
			return r
		},
		"planning, its agent lost": func(w *runWorld) run.Run {
			r := w.start(w.startRun("shop"))
			w.take(w.agents[0])
			w.pass(longSilence)
			return r
		},
	}
	for name, begin := range atOnce {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *runWorld) {
				w.t = t
				w.putStack(engine.PutStack{Name: "shop", Hold: true})
				w.putStack(engine.PutStack{Name: "asks", Approval: run.Always, Hold: true})
				r := begin(w)
				got := cancel(w, r)
				if got.Status != run.Cancelled || got.Class != run.ClassCancelled || got.EndedAt.IsZero() {
					t.Fatalf("cancelled, the run is %s, class %s", got.Status, got.Class)
				}
				if name != "queued" { // its state belongs to the run ahead
					w.checkEnded(w.run(r.ID))
				}
				cancel(w, r) // again
				if n := len(w.audited(r.ID)); n != 2 {
					t.Errorf("the run has %d audit records, want its start and one cancel", n)
				}
				for _, a := range w.view(r.ID).Attempts {
					if !a.Status.Final() {
						t.Errorf("an attempt is still %s", a.Status)
					}
				}
				if name != "queued" {
					if _, ok := w.claim(w.agents[1]); ok {
						t.Error("a task of the cancelled run was offered")
					}
				}
			})
		})
	}
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.planTo(w.startRun("shop"), noChange())
	_, err := w.engine.CancelRun(t.Context(), w.alice, r.ID)
	wantCode(t, err, fault.Conflict, "run_ended")
	_, err = w.engine.CancelRun(t.Context(), w.bob, r.ID)
	wantCode(t, err, fault.Forbidden, "forbidden")
}

// R14: a run whose agent is at work is cancelling until the agent has said how it ended, and keeps its token, lock and
// hold until then.
func TestR14CancelWhileAnAgentIsAtWork(t *testing.T) {
	for outcome, want := range map[string]run.Status{"cancelled": run.Cancelled, "failed": run.Failed, "succeeded": run.Succeeded} {
		t.Run("apply "+outcome, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *runWorld) {
				w.t = t
				w.putStack(engine.PutStack{Name: "shop", Hold: true})
				r := w.planTo(w.startRun("shop"), oneChange())
				k := w.take(w.agents[0])
				if order := k.beat("apply"); order != engine.OrderContinue {
					t.Fatalf("before the cancel the agent is told %q", order)
				}
				got := must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID)).Run
				if got.Status != run.Cancelling || !got.EndedAt.IsZero() {
					t.Fatalf("the run is %s", got.Status)
				}
				for range 2 {
					if order := k.beat("apply"); order != engine.OrderCancel {
						t.Errorf("the agent is told %q, want cancel", order)
					}
				}
				if hold := w.state("shop.main").Hold; hold == nil || hold.Run != r.ID {
					t.Errorf("the hold went with the cancel: %+v", hold)
				}
				w.pass(time.Minute) // it keeps its provider busy
				k.beat("apply")
				w.ok(k.save())
				must[run.AttemptStatus](t)(k.report(engine.Report{Outcome: outcome, Class: "cancelled", PartialApply: outcome != "succeeded"}))
				end := w.wantStatus(r.ID, want)
				if end.PartialApply != (outcome != "succeeded") {
					t.Errorf("partial = %t", end.PartialApply)
				}
				w.checkEnded(end)
			})
		})
	}
	t.Run("plan", func(t *testing.T) {
		for _, outcome := range []string{"cancelled", "succeeded"} {
			w := newRunWorld(t, openSQLite(t))
			w.putStack(engine.PutStack{Name: "shop"})
			r := w.start(w.startRun("shop"))
			k := w.take(w.agents[0])
			must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID))
			w.wantStatus(r.ID, run.Cancelling)
			w.ok(k.deliverPlan())
			must[run.AttemptStatus](t)(k.report(engine.Report{Outcome: outcome, Class: "cancelled"}))
			w.checkEnded(w.wantStatus(r.ID, run.Cancelled))
		}
	})
	t.Run("lost", func(t *testing.T) {
		for kind, want := range map[run.TaskKind]run.Status{run.TaskPlan: run.Cancelled, run.TaskApply: run.Failed} {
			w := newRunWorld(t, openSQLite(t))
			w.putStack(engine.PutStack{Name: "shop"})
			r := w.start(w.startRun("shop"))
			if kind == run.TaskApply {
				w.take(w.agents[0]).planned()
			}
			w.take(w.agents[0])
			must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID))
			w.pass(longSilence)
			w.wantStatus(r.ID, want)
		}
	})
}

// Silence counts only while this server was there to hear.
func TestSilenceWhileTheServerWasDown(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	w.clock.move(time.Hour)
	w.restart()
	w.sweep()
	w.pass(100 * time.Second)
	if a := w.view(r.ID).Attempts[0]; a.Status != run.AttemptAccepted {
		t.Fatalf("an hour during which the server was down made the attempt %s", a.Status)
	}
	k.beat("plan")
	// The same where the process slept, or could not reach its database.
	w.clock.move(time.Hour)
	w.sweep()
	w.sweep()
	if a := w.view(r.ID).Attempts[0]; a.Status != run.AttemptAccepted {
		t.Fatalf("an hour without a sweep made the attempt %s", a.Status)
	}
	w.pass(longSilence)
	if a := w.view(r.ID).Attempts[0]; a.Status != run.AttemptLost {
		t.Errorf("after three minutes of silence that the server was up for the attempt is %s", a.Status)
	}
}

// afterView runs what happens just after the store was looked at.
type afterView struct {
	engine.Store
	then func()
}

func (a *afterView) View(ctx context.Context, fn func(engine.Tx) error) error {
	err := a.Store.View(ctx, fn)
	if then := a.then; then != nil {
		a.then = nil
		then()
	}
	return err
}

// A heartbeat that comes while the sweep is about to give its attempt up is heard.
func TestHeartbeatJustInTime(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	looked := &afterView{Store: w.store}
	sweeper := engine.New(w.withStore(looked))
	w.ok(sweeper.Sweep(t.Context())) // it is up from the beginning
	for range 10 {
		w.clock.move(20 * time.Second)
		if w.clock.now.Sub(k.work.Attempt.AcceptedAt) > 2*time.Minute {
			looked.then = func() { k.beat("plan") }
		}
		w.ok(sweeper.Sweep(t.Context()))
	}
	if a := w.view(r.ID).Attempts[0]; a.Status != run.AttemptAccepted {
		t.Errorf("the attempt is %s, want it to go on", a.Status)
	}
}

// R17: heartbeats keep an attempt alive, whatever else it does or does not do.
func TestR17HeartbeatsKeepAnAttemptAlive(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.planTo(w.startRun("shop"), oneChange())
	k := w.take(w.agents[0])
	for range 60 {
		w.pass(20 * time.Second)
		order, err := w.engine.Heartbeat(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Heartbeat{Stage: "apply", Progress: "3 of 7 resources", Draining: true})
		if err != nil || order != engine.OrderContinue {
			t.Fatalf("heartbeat = %q, %v", order, err)
		}
	}
	a := w.view(r.ID).Attempts[1]
	if a.Status != run.AttemptAccepted || a.Stage != "apply" || a.Progress != "3 of 7 resources" {
		t.Errorf("after 20 minutes the attempt is %s, stage %q, progress %q", a.Status, a.Stage, a.Progress)
	}
	w.ok(w.store.View(t.Context(), func(tx engine.Tx) error {
		agent, err := tx.Agent(t.Context(), w.org, k.agent.ID)
		if err == nil && !agent.Draining {
			t.Error("the agent does not show as draining")
		}
		return err
	}))
	w.ok(k.save())
	k.succeed()
	w.wantStatus(r.ID, run.Succeeded)
}

// X08: who an agent is its token says. Another agent's work is unknown to it, whatever ids it sends.
func TestX08AnotherAgentsWork(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop"})
		r := w.start(w.startRun("shop"))
		o, _ := w.claim(w.agents[0])
		thief := w.agents[1]
		steal := func(name string, task, attempt string, who access.Actor) {
			for what, try := range map[string]func() error{
				"accept":    func() error { _, err := w.engine.Accept(t.Context(), who, task, attempt); return err },
				"source":    func() error { _, _, err := w.engine.TaskSource(t.Context(), who, task, attempt); return err },
				"plan file": func() error { _, _, err := w.engine.TaskPlanFile(t.Context(), who, task, attempt); return err },
				"put plan file": func() error {
					_, err := w.engine.PutPlanFile(t.Context(), who, task, attempt, strings.NewReader("evil"))
					return err
				},
				"plan": func() error {
					k := &worker{w: w, agent: who, view: noChange(), plan: "evil"}
					in := engine.PlanMade{Digest: "sha256:" + sum("evil"), Tool: "tofu", Version: "1", View: []byte(`{"format":1}`)}
					return w.engine.TakePlan(t.Context(), k.agent, task, attempt, in)
				},
				"heartbeat": func() error {
					_, err := w.engine.Heartbeat(t.Context(), who, task, attempt, engine.Heartbeat{Stage: "plan"})
					return err
				},
				"logs": func() error {
					_, err := w.engine.AppendLogs(t.Context(), who, task, attempt, []run.LogChunk{{Text: "evil"}})
					return err
				},
				"report": func() error {
					_, err := w.engine.Report(t.Context(), who, task, attempt, engine.Report{Outcome: "succeeded"})
					return err
				},
			} {
				err := try()
				if !fault.Is(err, fault.NotFound) || fault.Code(err) != "task_not_found" {
					t.Errorf("%s, %s: %v, want task_not_found", name, what, err)
				}
			}
		}
		steal("offered", o.Task, o.Attempt, thief)
		k := w.accept(w.agents[0], o)
		steal("accepted", o.Task, o.Attempt, thief)
		steal("accepted, by the task alone", o.Task, "", thief)
		steal("no such attempt", o.Task, "att_none", w.agents[0])
		steal("no such task", "tsk_none", o.Attempt, w.agents[0])
		steal("no such task, by the task alone", "tsk_none", "", w.agents[0])
		other := must[access.Actor](t)(w.stranger())
		w.addAccount(other, testAccount)
		steal("another organization", o.Task, o.Attempt, w.addAgent(other, "one", testAccount))
		_, _, err := w.engine.Claim(t.Context(), w.alice, engine.Claim{})
		wantCode(t, err, fault.Forbidden, "forbidden")
		k.planned()
		w.wantStatus(r.ID, run.Applying)
	})
}

// X06: an attempt's token opens its own state and nothing else, and ends with the report.
func TestX06AttemptsToken(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	w.personWrites("other.main", 1)
	w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	if _, err := w.engine.ReadState(t.Context(), k.token, "other.main"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("reading another state: %v, want forbidden", err)
	}
	// A repeated accept gives a fresh token for the same attempt, and the earlier one ends.
	again := w.accept(k.agent, engine.Offer{Task: k.work.Task.ID, Attempt: k.work.Attempt.ID})
	if again.work.Attempt.ID != k.work.Attempt.ID || again.work.Token.Equal(k.work.Token) {
		t.Errorf("the repeated accept gave attempt %s, the same token %t", again.work.Attempt.ID, again.work.Token.Equal(k.work.Token))
	}
	if a := must[access.Actor](t)(w.engine.Authenticate(t.Context(), k.work.Token)); !a.TokenDead {
		t.Error("the earlier token still works")
	}
	again.planned()
	if a := must[access.Actor](t)(w.engine.Authenticate(t.Context(), again.work.Token)); !a.TokenDead {
		t.Error("the token works after the report")
	}
	_, err := w.engine.Accept(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID)
	wantCode(t, err, fault.Conflict, "attempt_over")
}

// L12: the token lives for the step's timeout and a margin, and never longer than a day.
func TestL12TokenLife(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	life := func() time.Duration {
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		var stored access.Token
		w.ok(w.store.View(t.Context(), func(tx engine.Tx) error {
			c, err := tx.Credential(t.Context(), access.Hash(k.work.Token).Hex())
			stored = c.Token
			return err
		}))
		must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID))
		must[run.AttemptStatus](t)(k.report(engine.Report{Outcome: "cancelled"}))
		return stored.ExpiresAt.Sub(stored.CreatedAt)
	}
	if got := life(); got != 75*time.Minute {
		t.Errorf("with a timeout of 45 minutes a token lives %s, want 75 minutes", got)
	}
	w.config.Limits.StepTimeout = 48 * time.Hour
	w.restart()
	if got := life(); got != 24*time.Hour {
		t.Errorf("with a timeout of two days a token lives %s, want a day", got)
	}
}

func TestPlanDeliveryRefusals(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	deliver := func(change func(*engine.PlanMade)) error {
		in := k.made()
		change(&in)
		return w.engine.TakePlan(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, in)
	}
	put := func(text string) error {
		_, err := w.engine.PutPlanFile(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, strings.NewReader(text))
		return err
	}
	wantCode(t, deliver(func(*engine.PlanMade) {}), fault.Conflict, "plan_file_missing")
	w.ok(put("a first try"))
	wantCode(t, deliver(func(*engine.PlanMade) {}), fault.Unprocessable, "plan_digest_mismatch")
	w.ok(put(k.plan)) // takes its place
	for name, change := range map[string]func(*engine.PlanMade){
		"digest": func(in *engine.PlanMade) { in.Digest = strings.TrimPrefix(in.Digest, "sha256:") },
		"digest case": func(in *engine.PlanMade) {
			in.Digest = "sha256:" + strings.ToUpper(strings.TrimPrefix(in.Digest, "sha256:"))
		},
		"lock file":   func(in *engine.PlanMade) { in.LockFile = "abc" },
		"config":      func(in *engine.PlanMade) { in.ConfigHash = "abc" },
		"base":        func(in *engine.PlanMade) { in.BaseSHA256 = "sha256:abc" },
		"tool":        func(in *engine.PlanMade) { in.Tool = "pulumi" },
		"version":     func(in *engine.PlanMade) { in.Version = "" },
		"view":        func(in *engine.PlanMade) { in.View = []byte(`{`) },
		"no view":     func(in *engine.PlanMade) { in.View = nil },
		"view's form": func(in *engine.PlanMade) { in.View = []byte(`{"format":99}`) },
		"view's plan": func(in *engine.PlanMade) { in.View = []byte(`{"format":1,"digest":"sha256:other"}`) },
	} {
		err := deliver(change)
		if !fault.Is(err, fault.Unprocessable) || fault.Code(err) != "invalid_plan" {
			t.Errorf("a wrong %s: %v, want invalid_plan", name, err)
		}
	}
	w.ok(deliver(func(*engine.PlanMade) {}))
	wantCode(t, put("another one"), fault.Conflict, "plan_delivered")
	w.ok(put(k.plan))
	big := strings.NewReader(strings.Repeat("x", 8<<20+1))
	_, err := w.engine.PutPlanFile(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, big)
	wantCode(t, err, fault.TooLarge, "too_large")
	k.succeed()
	r = w.wantStatus(r.ID, run.AwaitingApproval)
	if err := put(k.plan); !fault.Is(err, fault.Conflict) {
		t.Errorf("a plan file after the report: %v, want it refused", err)
	}
	// Nothing but the plan that waits is kept, and an apply delivers none.
	must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
	k = w.take(w.agents[0])
	wantCode(t, put(k.plan), fault.Conflict, "not_a_plan")
}

// What was uploaded and never used is swept.
func TestStagedObjectsAreSwept(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.ok(w.store.Update(t.Context(), func(tx engine.Tx) error {
			return tx.PutChunk(t.Context(), "obj_left", 0, []byte("left over"), w.clock.Now())
		}))
		read := func() error {
			return w.store.View(t.Context(), func(tx engine.Tx) error {
				_, err := tx.Chunks(t.Context(), "obj_left", 0, 1)
				return err
			})
		}
		w.clock.move(50 * time.Minute)
		w.ok(w.engine.Housekeep(t.Context()))
		w.ok(read())
		w.clock.move(11 * time.Minute)
		w.ok(w.engine.Housekeep(t.Context()))
		if err := read(); !fault.Is(err, fault.NotFound) {
			t.Errorf("after an hour the staged chunk: %v, want it gone", err)
		}
	})
}
