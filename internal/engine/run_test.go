package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

func TestRunFromStartToEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Production: true, Hold: true})
		r := w.planTo(w.startRun("shop"), oneReplace())
		if r.Status != run.AwaitingApproval || r.Risk != run.RiskHigh || !r.Approval.Required || r.Approval.Status != run.ApprovalPending {
			t.Fatalf("after its plan the run is %s, risk %s, approval %+v, want it to wait for an approval", r.Status, r.Risk, r.Approval)
		}
		if c := r.Components[0]; c.StateName != "shop.main" || c.Plan.Replace != 1 || c.Plan.Digest != "sha256:"+sum("plan file") || c.Action != "create" {
			t.Errorf("component = %+v, plan = %+v", c, *c.Plan)
		}
		if hold := w.state("shop.main").Hold; hold == nil || hold.Run != r.ID {
			t.Errorf("hold = %+v, want the run's", hold)
		}
		if _, ok := w.claim(w.agents[0]); ok {
			t.Error("a task was offered before the approval")
		}
		v := must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
		if v.Run.Status != run.Applying || v.Run.Approval.ByName != w.alice.Name || v.Run.Approval.Digest != r.PlanDigest {
			t.Fatalf("after the approval: %s, %+v", v.Run.Status, v.Run.Approval)
		}
		k := w.take(w.agents[1])
		if k.work.Task.Kind != run.TaskApply || k.work.Component.Plan.Digest != "sha256:"+sum("plan file") || k.work.State != "shop.main" {
			t.Fatalf("the work order: %+v", k.work)
		}
		k.applied()
		r = w.wantStatus(r.ID, run.Succeeded)
		if r.Class != "" || r.PartialApply || r.EndedAt.IsZero() || r.Components[0].Status != run.ComponentDone {
			t.Errorf("the run ended as %+v", r)
		}
		w.checkEnded(r)
		w.checkOutputs(r)
		texts := w.texts(r.ID)
		wantText(t, texts, "WARN  [phase:plan] main: 1 to add, 0 to change, 1 to destroy; replace aws_lb_target_group.route[0]")
		wantText(t, texts, "INFO  [phase:approval] "+w.alice.Name+" approved "+r.PlanDigest)
		wantText(t, texts, "INFO  [phase:end] succeeded")
		if got := w.audited(r.ID); !slices.Equal(got, []string{"run.start", "run.approve"}) {
			t.Errorf("audited of the run: %q", got)
		}
		if got := w.audited(k.work.Task.ID); !slices.Equal(got, []string{"task.accept", "task.report"}) {
			t.Errorf("audited of the apply task: %q", got)
		}
	})
}

// checkEnded looks for what an ended run must not leave behind.
func (w *runWorld) checkEnded(r run.Run) {
	w.t.Helper()
	if s := w.state(r.Components[0].StateName); s.Hold != nil || s.Lock != nil {
		w.t.Errorf("the ended run %s left the hold %+v, the lock %+v", r.ID, s.Hold, s.Lock)
	}
	w.ok(w.store.View(w.t.Context(), func(tx engine.Tx) error {
		tasks, err := tx.Tasks(w.t.Context(), r.ID)
		for _, task := range tasks {
			if !task.Status.Final() || task.EndedAt.IsZero() {
				w.t.Errorf("the ended run %s (%s) left a task %s", r.ID, r.Status, task.Status)
			}
		}
		return err
	}))
	if p := r.Components[0].Plan; p != nil && p.Object != "" {
		w.t.Errorf("the ended run %s kept its plan file %s", r.ID, p.Object)
	}
}

func (w *runWorld) checkOutputs(r run.Run) {
	w.t.Helper()
	raw := string(r.Components[0].Outputs)
	if strings.Contains(raw, "s3cr3t") {
		w.t.Errorf("a sensitive output was kept: %s", raw)
	}
	var outputs map[string]struct {
		Value     any
		Sensitive bool
	}
	w.ok(json.Unmarshal([]byte(raw), &outputs))
	if outputs["url"].Value != "http://a" || !outputs["key"].Sensitive || outputs["key"].Value != nil {
		w.t.Errorf("outputs = %s", raw)
	}
}

func TestPlanFileIsGoneOnceTheRunHasEnded(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	for name, end := range map[string]func(r run.Run){
		"rejected":  func(r run.Run) { must[engine.RunView](t)(w.engine.Reject(t.Context(), w.alice, r.ID, "no")) },
		"cancelled": func(r run.Run) { must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID)) },
		"failed": func(r run.Run) {
			must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
			must[run.AttemptStatus](t)(w.take(w.agents[0]).report(engine.Report{Outcome: "failed", Class: "infrastructure", PartialApply: true}))
		},
		"succeeded": func(r run.Run) {
			must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
			w.take(w.agents[0]).applied()
		},
	} {
		r := w.planTo(w.startRun("shop"), oneChange())
		object := r.Components[0].Plan.Object
		if object == "" {
			t.Fatalf("%s: the run that waits has no plan file", name)
		}
		end(r)
		w.wantStatus(r.ID, run.Status(name))
		err := w.store.View(t.Context(), func(tx engine.Tx) error {
			_, err := tx.Object(t.Context(), object)
			return err
		})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: reading the plan file's object: %v, want it gone", name, err)
		}
	}
}

func TestNoChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always, Hold: true})
		r := w.planTo(w.startRun("shop"), noChange())
		if r.Status != run.Succeeded || r.Approval.Status != run.ApprovalSkipped || r.Approval.Reason != "no changes" || r.Approval.Required {
			t.Errorf("a plan without changes left the run %s, approval %+v", r.Status, r.Approval)
		}
		if c := r.Components[0]; c.Action != "none" || c.Status != run.ComponentDone || r.Risk != run.RiskNone {
			t.Errorf("component %s %s, risk %s", c.Action, c.Status, r.Risk)
		}
		w.checkEnded(r)
		wantText(t, w.texts(r.ID), "INFO  [phase:plan] main: 0 to add, 0 to change, 0 to destroy")
		if _, ok := w.claim(w.agents[0]); ok {
			t.Error("there is still something to do")
		}
	})
}

// R07: plans that change the state alone are no empty plans.
func TestR07StateOnlyPlansAreApplied(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	for what, set := range map[string]func(*plan.View){
		"move":    func(v *plan.View) { v.Move = 1 },
		"import":  func(v *plan.View) { v.Import = 1 },
		"forget":  func(v *plan.View) { v.Forget = 1 },
		"outputs": func(v *plan.View) { v.Outputs = 1 },
	} {
		view := noChange()
		set(&view)
		r := w.planTo(w.startRun("shop"), view)
		if r.Status != run.AwaitingApproval || r.Components[0].Action == "none" {
			t.Errorf("%s alone: the run is %s, action %s, want it to wait for approval", what, r.Status, r.Components[0].Action)
		}
		must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, r.ID))
	}
}

func TestApprovalSkipped(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Production: true})
	r := w.planTo(w.startRun("shop"), oneChange())
	if r.Status != run.Applying || r.Approval.Status != run.ApprovalSkipped || r.Approval.Reason != run.ReasonHarmless {
		t.Fatalf("a harmless plan left the run %s, approval %+v", r.Status, r.Approval)
	}
	w.take(w.agents[0]).applied()
	w.wantStatus(r.ID, run.Succeeded)
	wantText(t, w.texts(r.ID), "INFO  [phase:approval] no approval needed: nothing is destroyed or replaced")
	// With the run's own, stricter policy the same plan asks.
	in := w.startRun("shop")
	in.Approval = run.Always
	r = w.planTo(in, oneChange())
	if r.Status != run.AwaitingApproval {
		t.Errorf("with the policy always the run is %s", r.Status)
	}
	// And a laxer one is refused.
	in.Approval = run.Never
	_, err := w.engine.StartRun(t.Context(), w.alice, in)
	wantCode(t, err, fault.Unprocessable, "approval_too_lax")
}

func TestPreview(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always, Hold: true})
		first := w.planTo(w.startRun("shop"), oneChange()) // waits for approval
		in := w.startRun("shop")
		in.Kind = run.Preview
		preview := w.start(in)
		if preview.Status != run.Planning || preview.WaitsFor != "" {
			t.Fatalf("the preview is %s and waits for %q, want it to plan beside", preview.Status, preview.WaitsFor)
		}
		k := w.take(w.agents[1])
		if !k.work.ReadOnly || k.work.Run.ID != preview.ID {
			t.Fatalf("the preview's work may write: %+v", k.work)
		}
		err := writeState(t.Context(), w.engine, k.token, k.work.State, "x", document(1, "evil"), engine.UnlockRequest{ID: "x"})
		if err == nil {
			t.Error("a preview's token could write the state")
		}
		k.view = oneReplace()
		k.planned()
		preview = w.wantStatus(preview.ID, run.Succeeded)
		if preview.Approval.Status != run.ApprovalSkipped || preview.Components[0].Plan.Replace != 1 {
			t.Errorf("the preview ended with %+v", preview.Approval)
		}
		w.wantStatus(first.ID, run.AwaitingApproval)
		if hold := w.state("shop.main").Hold; hold == nil || hold.Run != first.ID {
			t.Errorf("the preview's end took the other run's hold: %+v", hold)
		}
	})
}

func TestDestroy(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	in := w.startRun("shop")
	in.Kind, in.Approval = run.Destroy, run.HighRisk
	view := noChange()
	view.Destroy = 2
	r := w.planTo(in, view)
	if r.Status != run.AwaitingApproval || r.Components[0].Action != "delete" {
		t.Errorf("the destroy run is %s, action %s", r.Status, r.Components[0].Action)
	}
}

func TestRunsOfAStackWaitInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		first := w.planTo(w.startRun("shop"), oneChange())
		second, third := w.start(w.startRun("shop")), w.start(w.startRun("shop"))
		for _, r := range []run.Run{second, third} {
			if r.Status != run.Queued || r.WaitsFor != first.ID {
				t.Fatalf("run %s is %s and waits for %q, want it to wait for %s", r.ID, r.Status, r.WaitsFor, first.ID)
			}
		}
		if _, ok := w.claim(w.agents[0]); ok {
			t.Fatal("a waiting run was offered")
		}
		must[engine.RunView](t)(w.engine.Reject(t.Context(), w.alice, first.ID, ""))
		if r := w.run(second.ID); r.Status != run.Planning || r.WaitsFor != "" {
			t.Fatalf("after the first run the second is %s and waits for %q", r.Status, r.WaitsFor)
		}
		if r := w.run(third.ID); r.Status != run.Queued || r.WaitsFor != second.ID {
			t.Fatalf("the third is %s and waits for %q, want %s", r.Status, r.WaitsFor, second.ID)
		}
		must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, second.ID))
		w.wantStatus(second.ID, run.Cancelled)
		w.wantStatus(third.ID, run.Planning)
	})
}

func TestStartRunIsIdempotentByKey(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop"})
		w.putStack(engine.PutStack{Name: "other"})
		in := w.startRun("shop")
		in.Key = "k1"
		first := w.start(in)
		if again := w.start(in); again.ID != first.ID {
			t.Errorf("the repeat started %s, want %s", again.ID, first.ID)
		}
		in.Key = "k2"
		if other := w.start(in); other.ID == first.ID {
			t.Error("another key answered the first run")
		}
		elsewhere := w.startRun("other")
		elsewhere.Key = "k1"
		if other := w.start(elsewhere); other.ID == first.ID {
			t.Error("another stack's run was answered")
		}
		if got := w.audited(first.ID); !slices.Equal(got, []string{"run.start"}) {
			t.Errorf("audited: %q", got)
		}
	})
}

// Many repeats of one request at once start one run.
func TestStartRunAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop"})
		in := w.startRun("shop")
		in.Key = "once"
		ids := make(chan string, 8)
		for range cap(ids) {
			go func() {
				v, err := w.engine.StartRun(t.Context(), w.alice, in)
				if err != nil {
					t.Error(err)
				}
				ids <- v.Run.ID
			}()
		}
		first := <-ids
		for range cap(ids) - 1 {
			if other := <-ids; other != first {
				t.Errorf("a repeat started %s beside %s", other, first)
			}
		}
	})
}

func TestStartRunRefusals(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	other := must[access.Actor](t)(w.stranger())
	foreign := w.upload(other, "foreign")
	for name, c := range map[string]struct {
		change func(*engine.StartRun)
		kind   fault.Kind
		code   string
	}{
		"unknown stack":     {func(in *engine.StartRun) { in.Stack = "nope" }, fault.NotFound, "stack_not_found"},
		"unknown kind":      {func(in *engine.StartRun) { in.Kind = "drift" }, fault.Invalid, "invalid_kind"},
		"no component":      {func(in *engine.StartRun) { in.Components = nil }, fault.Invalid, "invalid_components"},
		"component's name":  {func(in *engine.StartRun) { in.Components[0].Name = "a.b" }, fault.Invalid, "invalid_name"},
		"state's name":      {func(in *engine.StartRun) { in.Components[0].StateName = "../x" }, fault.Invalid, "invalid_name"},
		"inputs are a list": {func(in *engine.StartRun) { in.Components[0].Inputs = json.RawMessage(`[]`) }, fault.Invalid, "invalid_inputs"},
		"inputs are null":   {func(in *engine.StartRun) { in.Components[0].Inputs = json.RawMessage(`null`) }, fault.Invalid, "invalid_inputs"},
		"inputs are too large": {func(in *engine.StartRun) {
			in.Components[0].Inputs = json.RawMessage(`{"a":"` + strings.Repeat("x", 600<<10) + `"}`)
		}, fault.TooLarge, "inputs_too_large"},
		"unknown source":          {func(in *engine.StartRun) { in.Components[0].Source = "obj_none" }, fault.NotFound, "source_not_found"},
		"X25 another's source":    {func(in *engine.StartRun) { in.Components[0].Source = foreign.ID }, fault.NotFound, "source_not_found"},
		"no policy":               {func(in *engine.StartRun) { in.Approval = "sometimes" }, fault.Unprocessable, "invalid_approval"},
		"a state that is deleted": {func(in *engine.StartRun) { in.Components[0].StateName = "deleted" }, fault.Conflict, "state_deleted"},
	} {
		if name == "a state that is deleted" {
			w.personWrites("deleted", 1)
			w.update(w.deleteState("deleted"))
		}
		in := w.startRun("shop")
		c.change(&in)
		_, err := w.engine.StartRun(t.Context(), w.alice, in)
		if t.Run(name, func(t *testing.T) { wantCode(t, err, c.kind, c.code) }); t.Failed() {
			continue
		}
	}
	_, err := w.engine.StartRun(t.Context(), w.bob, w.startRun("shop"))
	wantCode(t, err, fault.Forbidden, "forbidden")
	must[access.Account](t)(w.engine.EnableAccount(t.Context(), w.alice, testAccount, false))
	_, err = w.engine.StartRun(t.Context(), w.alice, w.startRun("shop"))
	wantCode(t, err, fault.Conflict, "account_not_managed")
	_, err = w.engine.PutStack(t.Context(), w.alice, engine.PutStack{Name: "new", Account: testAccount})
	wantCode(t, err, fault.Conflict, "account_not_managed")
	_, err = w.engine.PutStack(t.Context(), w.alice, engine.PutStack{Name: "new", Account: "nobody's"})
	wantCode(t, err, fault.Conflict, "account_not_managed")
	runs, _, err := w.engine.Runs(t.Context(), w.alice, "shop", engine.RunFilter{}, engine.Page{Limit: 10})
	if w.ok(err); len(runs) != 0 {
		t.Errorf("the refusals left %d runs", len(runs))
	}
}

// X25: what belongs to another organization is as unknown as what never was.
func TestX25RunsOfOthers(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.planTo(w.startRun("shop"), oneChange())
	eve := must[access.Actor](t)(w.stranger())
	attempt := w.view(r.ID).Attempts[0]
	for what, try := range map[string]func() error{
		"run":     func() error { _, err := w.engine.Run(t.Context(), eve, r.ID); return err },
		"events":  func() error { _, _, err := w.engine.Events(t.Context(), eve, r.ID, 0, 10); return err },
		"logs":    func() error { _, err := w.engine.Logs(t.Context(), eve, r.ID, attempt.ID, -1, 10); return err },
		"approve": func() error { _, err := w.engine.Approve(t.Context(), eve, r.ID, r.PlanDigest); return err },
		"reject":  func() error { _, err := w.engine.Reject(t.Context(), eve, r.ID, ""); return err },
		"cancel":  func() error { _, err := w.engine.CancelRun(t.Context(), eve, r.ID); return err },
		"stack":   func() error { _, err := w.engine.Stack(t.Context(), eve, "shop"); return err },
		"delete":  func() error { return w.engine.DeleteStack(t.Context(), eve, "shop") },
		"runs": func() error {
			_, _, err := w.engine.Runs(t.Context(), eve, "shop", engine.RunFilter{}, engine.Page{Limit: 10})
			return err
		},
	} {
		if err := try(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of another organization: %v, want not found", what, err)
		}
	}
	runs, _, err := w.engine.Runs(t.Context(), eve, "", engine.RunFilter{}, engine.Page{Limit: 10})
	if w.ok(err); len(runs) != 0 {
		t.Errorf("another organization sees %d runs", len(runs))
	}
	w.wantStatus(r.ID, run.AwaitingApproval)
}
