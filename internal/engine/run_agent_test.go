package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

// worker is what an agent does with one attempt, one step at a time, each repeated while the server is away.
type worker struct {
	w     *runWorld
	agent access.Actor
	work  engine.Work
	token access.Actor // of the attempt
	view  plan.View    // what it will plan
	plan  string       // the plan file it will make
	doc   string       // the state it will save in an apply
}

// again repeats what failed because the server was away, as agents do.
func again(do func() error) error {
	for range 5 {
		if err := do(); !fault.Is(err, fault.Unavailable) {
			return err
		}
	}
	return do()
}

// claim takes what there is now.
func (w *runWorld) claim(agent access.Actor) (engine.Offer, bool) {
	w.t.Helper()
	var o engine.Offer
	var found bool
	w.ok(again(func() (err error) {
		o, found, err = w.engine.Claim(w.t.Context(), agent, engine.Claim{})
		return err
	}))
	return o, found
}

// take claims and accepts what has to be there.
func (w *runWorld) take(agent access.Actor) *worker {
	w.t.Helper()
	o, ok := w.claim(agent)
	if !ok {
		w.t.Fatalf("agent %s found no task", agent.Name)
	}
	return w.accept(agent, o)
}

func (w *runWorld) accept(agent access.Actor, o engine.Offer) *worker {
	w.t.Helper()
	k := &worker{w: w, agent: agent, view: oneChange(), plan: "plan file", doc: document(1, "applied")}
	w.ok(again(func() (err error) {
		k.work, err = w.engine.Accept(w.t.Context(), agent, o.Task, o.Attempt)
		return err
	}))
	k.token = must[access.Actor](w.t)(w.engine.Authenticate(w.t.Context(), k.work.Token))
	return k
}

func oneChange() plan.View {
	return plan.View{Format: plan.Format, ToolVersion: "1.12.6", Counts: plan.Counts{Change: 1}, Changes: []plan.Change{{Address: "terraform_data.a", Class: plan.Update, Actions: []string{"update"}}}}
}

func noChange() plan.View { return plan.View{Format: plan.Format, ToolVersion: "1.12.6"} }

func oneReplace() plan.View {
	return plan.View{
		Format: plan.Format, ToolVersion: "1.12.6", Counts: plan.Counts{Replace: 1},
		Changes: []plan.Change{{Address: "aws_lb_target_group.route[0]", Class: plan.Replace, Actions: []string{"delete", "create"}}},
	}
}

func (k *worker) ctx() context.Context { return k.w.t.Context() }

// base is the hash of the state document that the tool would read.
func (k *worker) base() string {
	c, err := k.w.engine.ReadState(k.ctx(), k.token, k.work.State)
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	k.w.ok(err)
	doc := must[[]byte](k.w.t)(io.ReadAll(c.Body))
	k.w.ok(c.Body.Close())
	return sum(string(doc))
}

// lockForPlan is what a deploy's plan does with its state.
func (k *worker) lockForPlan() {
	k.w.t.Helper()
	if !k.work.ReadOnly {
		k.w.ok(again(func() error {
			return writeState(k.ctx(), k.w.engine, k.token, k.work.State, "lock-"+k.work.Attempt.ID, "", engine.UnlockRequest{ID: "lock-" + k.work.Attempt.ID})
		}))
	}
}

// deliverPlan is what an agent does once tofu has planned.
func (k *worker) deliverPlan() error {
	if err := again(func() error {
		_, err := k.w.engine.PutPlanFile(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, bytes.NewReader([]byte(k.plan)))
		return err
	}); err != nil {
		return err
	}
	return again(func() error {
		return k.w.engine.TakePlan(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, k.made())
	})
}

func (k *worker) made() engine.PlanMade {
	view, err := json.Marshal(k.view)
	k.w.ok(err)
	return engine.PlanMade{
		Digest: "sha256:" + sum(k.plan), Tool: "tofu", Version: "1.12.6", LockFile: sum("lock file"), ConfigHash: sum("config"),
		BaseSHA256: k.base(), View: view,
	}
}

func (k *worker) report(in engine.Report) (status run.AttemptStatus, err error) {
	err = again(func() error {
		status, err = k.w.engine.Report(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, in)
		return err
	})
	return status, err
}

func (k *worker) succeed() {
	k.w.t.Helper()
	status, err := k.report(engine.Report{Outcome: "succeeded", Outputs: json.RawMessage(`{"url":{"value":"http://a","type":"string","sensitive":false},"key":{"value":"s3cr3t","type":"string","sensitive":true}}`)})
	if k.w.ok(err); status != run.AttemptSucceeded {
		k.w.t.Fatalf("after the report the attempt is %s, want succeeded", status)
	}
}

func (k *worker) beat(stage string) string {
	k.w.t.Helper()
	var order string
	k.w.ok(again(func() (err error) {
		order, err = k.w.engine.Heartbeat(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Heartbeat{Stage: stage})
		return err
	}))
	return order
}

// planned plans a whole plan task.
func (k *worker) planned() {
	k.w.t.Helper()
	if k.work.Task.Kind != run.TaskPlan {
		k.w.t.Fatalf("the task is to %s, want a plan", k.work.Task.Kind)
	}
	k.fetch(k.w.engine.TaskSource, k.work.Component.Source.SHA256)
	k.lockForPlan()
	k.w.ok(k.deliverPlan())
	k.succeed()
}

// fetch reads bytes and compares their hash.
func (k *worker) fetch(open func(context.Context, access.Actor, string, string) (engine.Object, io.ReadCloser, error), want string) {
	k.w.t.Helper()
	_, body, err := open(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID)
	k.w.ok(err)
	got := must[[]byte](k.w.t)(io.ReadAll(body))
	k.w.ok(body.Close())
	if sum(string(got)) != want {
		k.w.t.Fatalf("fetched bytes with hash %s, want %s", sum(string(got)), want)
	}
}

// applied applies a whole apply task.
func (k *worker) applied() {
	k.w.t.Helper()
	k.fetch(k.w.engine.TaskPlanFile, sum(k.plan))
	if order := k.beat("apply"); order != engine.OrderContinue {
		k.w.t.Fatalf("the heartbeat before the apply was answered %q", order)
	}
	k.w.ok(k.save())
	k.succeed()
}

// save is what tofu does with the state during an apply.
func (k *worker) save() error {
	lock := "lock-" + k.work.Attempt.ID
	return again(func() error {
		return writeState(k.ctx(), k.w.engine, k.token, k.work.State, lock, k.doc, engine.UnlockRequest{ID: lock})
	})
}

// planTo starts a run of the stack and plans it.
func (w *runWorld) planTo(in engine.StartRun, view plan.View) run.Run {
	w.t.Helper()
	r := w.start(in)
	k := w.take(w.agents[0])
	k.view = view
	k.planned()
	return w.run(r.ID)
}

// texts are the run's events, as people read them.
func (w *runWorld) texts(id string) []string {
	w.t.Helper()
	events, _, err := w.engine.Events(w.t.Context(), w.alice, id, 0, 500)
	w.ok(err)
	var out []string
	for i, e := range events {
		if e.Seq != int64(i+1) {
			w.t.Errorf("event %d has seq %d", i+1, e.Seq)
		}
		out = append(out, fmt.Sprintf("%-4s  %s", e.Level, e.Text))
	}
	return out
}

func wantText(t testing.TB, texts []string, want string) {
	t.Helper()
	for _, text := range texts {
		if text == want {
			return
		}
	}
	t.Errorf("no event %q in %q", want, texts)
}

// audited are the actions of the audit log, oldest first.
func (w *runWorld) audited(object string) []string {
	w.t.Helper()
	var out []string
	w.ok(w.store.View(w.t.Context(), func(tx engine.Tx) error {
		records, _, err := tx.Audit(w.t.Context(), engine.AuditFilter{Org: w.org, Object: object}, engine.Page{Limit: 200})
		for i := len(records) - 1; i >= 0; i-- {
			out = append(out, records[i].Action)
		}
		return err
	}))
	return out
}

const longSilence = 3 * time.Minute
