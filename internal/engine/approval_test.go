package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// R01: however often an approval and a report are repeated, one apply happens.
func TestR01OneApplyOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		r := w.planTo(w.startRun("shop"), oneChange())
		errs := make(chan error, 6)
		for range cap(errs) {
			go func() {
				_, err := w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest)
				errs <- err
			}()
		}
		for range cap(errs) {
			w.ok(<-errs)
		}
		k := w.take(w.agents[0])
		if _, ok := w.claim(w.agents[1]); ok {
			t.Fatal("a second apply was offered")
		}
		k.applied()
		for range 2 {
			must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
			k.succeed() // an agent that was restarted before it had heard the answer
		}
		w.sweep()
		for _, agent := range w.agents {
			if o, ok := w.claim(agent); ok {
				t.Errorf("after the end agent %s was offered %+v", agent.Name, o)
			}
		}
		applies := 0
		for _, a := range w.view(r.ID).Attempts {
			if a.TaskKind == run.TaskApply {
				applies++
			}
		}
		if applies != 1 {
			t.Errorf("%d applies were started, want 1", applies)
		}
		if v := w.state("shop.main").Versions; v != 1 {
			t.Errorf("the state has %d versions, want the one of the apply", v)
		}
	})
}

// R03: an approval names a plan, and is refused where that is not the current one; R04: a run keeps the inputs it was
// started with.
func TestR03ApprovalNamesAPlan(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.planTo(w.startRun("shop"), oneChange())
	_, err := w.engine.Approve(t.Context(), w.alice, r.ID, "sha256:"+sum("what an old tab showed"))
	wantCode(t, err, fault.Conflict, "plan_changed")
	if !strings.Contains(fault.From(err).Public, r.PlanDigest) {
		t.Errorf("the refusal does not name the current plan: %v", err)
	}
	_, err = w.engine.Approve(t.Context(), w.bob, r.ID, r.PlanDigest)
	wantCode(t, err, fault.Forbidden, "forbidden")
	w.wantStatus(r.ID, run.AwaitingApproval)
	// A second run with other inputs and another source changes nothing about the first one.
	later := w.startRun("shop")
	later.Components[0].Source, later.Components[0].Inputs = w.upload(w.alice, "newer").ID, json.RawMessage(`{"size":2}`)
	w.start(later)
	must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
	k := w.take(w.agents[0])
	if k.work.Run.ID != r.ID || string(k.work.Component.Inputs) != `{"size":1}` || k.work.Component.Source.Object != w.source.ID {
		t.Errorf("the apply got %s, %+v", k.work.Component.Inputs, k.work.Component.Source)
	}
}

func TestApprovalInTheWrongStatus(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.start(w.startRun("shop"))
	for _, decide := range []func() error{
		func() error { _, err := w.engine.Approve(t.Context(), w.alice, r.ID, "sha256:x"); return err },
		func() error { _, err := w.engine.Reject(t.Context(), w.alice, r.ID, ""); return err },
	} {
		wantCode(t, decide(), fault.Conflict, "not_awaiting_approval")
	}
	w.take(w.agents[0]).planned()
	rejected := must[engine.RunView](t)(w.engine.Reject(t.Context(), w.alice, r.ID, "too expensive")).Run
	if rejected.Status != run.Rejected || rejected.Message != "rejected by "+w.alice.Name+": too expensive" || rejected.Approval.Status != run.ApprovalRejected {
		t.Errorf("rejected: %+v", rejected)
	}
	must[engine.RunView](t)(w.engine.Reject(t.Context(), w.alice, r.ID, "again"))
	if again := w.run(r.ID); again.Message != rejected.Message {
		t.Errorf("the repeat changed the reason to %q", again.Message)
	}
	_, err := w.engine.Approve(t.Context(), w.alice, r.ID, rejected.PlanDigest)
	wantCode(t, err, fault.Conflict, "not_awaiting_approval")
	w.checkEnded(w.run(r.ID))
}

// tampering is a way to change what was planned, by whatever route.
type tampering struct {
	name   string
	change func(w *runWorld, r run.Run)
}

func changeRun(change func(*run.Run)) func(*runWorld, run.Run) {
	return func(w *runWorld, r run.Run) {
		w.update(func(ctx context.Context, tx engine.Tx) error {
			stored, err := tx.RunForUpdate(ctx, r.ID)
			if err != nil {
				return err
			}
			change(&stored)
			return tx.UpdateRun(ctx, stored)
		})
	}
}

// withObject copies an object's row under another id, with what change does to it.
func withObject(w *runWorld, from string, change func(*engine.Object)) string {
	var o engine.Object
	w.update(func(ctx context.Context, tx engine.Tx) (err error) {
		if o, err = tx.Object(ctx, from); err != nil {
			return err
		}
		o.ID += "x"
		change(&o)
		return tx.AttachObject(ctx, o)
	})
	return o.ID
}

func tamperings() []tampering {
	main := func(r *run.Run) *run.Component { return &r.Components[0] }
	return []tampering{
		{"the plan's object", changeRun(func(r *run.Run) { main(r).Plan.Object = "obj_other" })},
		{"the plan's digest", changeRun(func(r *run.Run) { main(r).Plan.Digest = "sha256:" + sum("other") })},
		{"the plan file and its digest", func(w *runWorld, r run.Run) {
			other := withObject(w, main(&r).Plan.Object, func(o *engine.Object) { o.SHA256 = sum("other") })
			changeRun(func(r *run.Run) { main(r).Plan.Object, main(r).Plan.Digest = other, "sha256:"+sum("other") })(w, r)
		}},
		{"the plan file is gone", func(w *runWorld, r run.Run) {
			w.update(func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, main(&r).Plan.Object) })
		}},
		{"what was shown", changeRun(func(r *run.Run) {
			main(r).Plan.View = json.RawMessage(strings.Replace(string(main(r).Plan.View), "terraform_data.a", "terraform_data.b", 1))
		})},
		{"the source", changeRun(func(r *run.Run) { main(r).Source.Object = "obj_other" })},
		{"the source's digest", changeRun(func(r *run.Run) { main(r).Source.SHA256 = sum("other") })},
		{"another source", func(w *runWorld, r run.Run) {
			o := w.upload(w.alice, "another source")
			changeRun(func(r *run.Run) { main(r).Source = run.Source{Object: o.ID, SHA256: o.SHA256, Size: o.Size} })(w, r)
		}},
		{"another source under the old digest", func(w *runWorld, r run.Run) {
			o := w.upload(w.alice, "another source")
			changeRun(func(r *run.Run) { main(r).Source.Object = o.ID })(w, r)
		}},
		{"the inputs", changeRun(func(r *run.Run) { main(r).Inputs = json.RawMessage(`{"size":3}`) })},
		{"the lock file", changeRun(func(r *run.Run) { main(r).Plan.LockFile = sum("other") })},
		{"the root configuration", changeRun(func(r *run.Run) { main(r).Plan.ConfigHash = sum("other") })},
		{"the tool", changeRun(func(r *run.Run) { main(r).Plan.Version = "1.12.7" })},
		{"the base it names", changeRun(func(r *run.Run) { main(r).Plan.BaseSHA256 = sum("other") })},
		{"the state", func(w *runWorld, _ run.Run) { w.personWrites("shop.main", 7) }},
		{"the state is deleted", func(w *runWorld, _ run.Run) { w.update(w.deleteState("shop.main")) }},
		{"the state is another one", changeRun(func(r *run.Run) { main(r).StateID = "sta_other" })},
		{"the inputs, and the run's digest with them", changeRun(func(r *run.Run) {
			main(r).Inputs = json.RawMessage(`{"size":3}`)
			r.PlanDigest, _ = run.PlanDigest(*r)
		})},
		{"inputs that cannot be read", changeRun(func(r *run.Run) { main(r).Inputs = json.RawMessage(`[1]`) })},
		{"the run's digest", changeRun(func(r *run.Run) { r.PlanDigest = "sha256:" + sum("other") })},
	}
}

// Between plan and apply, whatever is changed by whatever route, nothing is applied: seen at the approval, when the
// apply is offered, and when it is accepted.
func TestNothingMovesBetweenPlanAndApply(t *testing.T) {
	for _, c := range tamperings() {
		t.Run(c.name, func(t *testing.T) {
			t.Run("before the approval", func(t *testing.T) {
				w := newRunWorld(t, openSQLite(t))
				w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
				r := w.planTo(w.startRun("shop"), oneChange())
				c.change(w, r)
				_, err := w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest)
				if code := fault.Code(err); code != "plan_stale" && code != "plan_changed" {
					t.Errorf("the approval was answered %v, want plan_stale or plan_changed", err)
				}
				w.wantNothingToApply(r)
			})
			t.Run("before the offer", func(t *testing.T) {
				w := newRunWorld(t, openSQLite(t))
				w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
				r := w.planTo(w.startRun("shop"), oneChange())
				must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
				c.change(w, r)
				w.wantNothingToApply(r)
				w.wantDiscarded(r)
			})
			t.Run("before the accept", func(t *testing.T) {
				w := newRunWorld(t, openSQLite(t))
				w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
				r := w.planTo(w.startRun("shop"), oneChange())
				must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
				o, ok := w.claim(w.agents[0])
				if !ok {
					t.Fatal("the apply was not offered")
				}
				c.change(w, r)
				_, err := w.engine.Accept(t.Context(), w.agents[0], o.Task, o.Attempt)
				wantCode(t, err, fault.Conflict, "plan_stale")
				w.wantDiscarded(r)
				_, err = w.engine.Accept(t.Context(), w.agents[0], o.Task, o.Attempt)
				wantCode(t, err, fault.Conflict, "attempt_over")
				w.wantNothingToApply(r)
			})
		})
	}
}

func (w *runWorld) wantNothingToApply(r run.Run) {
	w.t.Helper()
	for _, agent := range w.agents {
		if o, ok := w.claim(agent); ok {
			w.t.Errorf("agent %s was offered %+v", agent.Name, o)
		}
	}
	for _, a := range w.view(r.ID).Attempts {
		if a.TaskKind == run.TaskApply && !a.AcceptedAt.IsZero() {
			w.t.Errorf("an apply was accepted: %+v", a)
		}
	}
}

func (w *runWorld) wantDiscarded(r run.Run) {
	w.t.Helper()
	r = w.wantStatus(r.ID, run.Discarded)
	if r.Approval.Status != run.ApprovalVoid || r.Message == "" || r.Class != run.Refused {
		w.t.Errorf("the discarded run has the approval %s, class %s, message %q", r.Approval.Status, r.Class, r.Message)
	}
	if texts := strings.Join(w.texts(r.ID), "\n"); !strings.Contains(texts, r.Message) {
		w.t.Errorf("no event tells why: %s", texts)
	}
}

// Bytes that were changed in the database are not handed out: the reader finds them damaged.
func TestTamperedBytesAreNotHandedOut(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		r := w.planTo(w.startRun("shop"), oneChange())
		must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
		k := w.take(w.agents[0])
		object := r.Components[0].Plan.Object
		w.update(func(ctx context.Context, tx engine.Tx) error {
			o, err := tx.Object(ctx, object)
			if err != nil {
				return err
			}
			o.Inline[len(o.Inline)-1] ^= 1
			if err := tx.DeleteObject(ctx, object); err != nil {
				return err
			}
			return tx.AttachObject(ctx, o)
		})
		_, body, err := w.engine.TaskPlanFile(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if err == nil {
			t.Error("tampered bytes of the plan file were read without an error")
		}
		// The rows may not be moved under the accepted attempt either.
		changeRun(func(r *run.Run) { r.Components[0].Source.SHA256 = sum("other") })(w, r)
		_, _, err = w.engine.TaskSource(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID)
		wantCode(t, err, fault.Conflict, "digest_mismatch")
	})
}

// The state's move is seen even where it comes after the accept: by the apply's lock.
func TestTheStateMovesAfterTheAccept(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.planTo(w.startRun("shop"), oneChange())
	must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
	k := w.take(w.agents[0])
	w.personWrites("shop.main", 9)
	k.doc = document(10, "over it")
	wantCode(t, k.save(), fault.Unprocessable, "state_moved")
	if _, err := k.report(engine.Report{Outcome: "failed", Class: "refused", Message: "the state has moved"}); err != nil {
		t.Fatal(err)
	}
	r = w.wantStatus(r.ID, run.Failed)
	if r.Class != run.Refused || r.PartialApply {
		t.Errorf("the run ended with class %s, partial %t", r.Class, r.PartialApply)
	}
}

// The state moves while the plan is made: nobody is asked to approve what would be void at once.
func TestTheStateMovesWhileItIsPlannedOn(t *testing.T) {
	for _, policy := range []run.Policy{run.Never, run.Always} {
		w := newRunWorld(t, openSQLite(t))
		w.putStack(engine.PutStack{Name: "shop", Approval: policy})
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		w.ok(k.deliverPlan())
		w.personWrites("shop.main", 3)
		k.succeed()
		r = w.wantStatus(r.ID, run.Discarded)
		if want := "the state shop.main has changed since it was planned on"; r.Message != want {
			t.Errorf("message = %q, want %q", r.Message, want)
		}
	}
}

func TestPlansAge(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.config.Limits.PlanMaxAge = 2 * time.Hour
	w.restart()
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.planTo(w.startRun("shop"), oneChange())
	w.pass(119 * time.Minute)
	w.wantStatus(r.ID, run.AwaitingApproval)
	w.pass(2 * time.Minute)
	w.wantDiscarded(r)
	// Without the setting they wait for ever.
	w.config.Limits.PlanMaxAge = 0
	w.restart()
	r = w.planTo(w.startRun("shop"), oneChange())
	w.clock.move(1000 * time.Hour)
	w.sweep()
	w.wantStatus(r.ID, run.AwaitingApproval)
}
