package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

// People, agents and two servers' sweeps at once, on the same runs: nothing fails but for what others have done
// before, every run ends, and each was applied at most once.
func TestEverybodyAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		ctx, cancel := context.WithTimeout(t.Context(), 3*waitLimit)
		defer cancel()
		const stacks, runsEach = 3, 4
		var ids []string
		for s := range stacks {
			name := fmt.Sprintf("stack-%d", s)
			w.putStack(engine.PutStack{Name: name, Approval: run.Always, Hold: s%2 == 0})
			for range runsEach {
				ids = append(ids, w.start(w.startRun(name)).ID)
			}
		}
		stop, others := context.WithCancel(ctx)
		var g sync.WaitGroup
		for i := range 4 {
			agent := w.addAgent(w.alice, fmt.Sprintf("racer-%d", i), testAccount)
			g.Go(func() { w.workUntil(stop, t, agent) })
		}
		for server := range 2 {
			e := engine.New(w.config)
			g.Go(func() {
				for stop.Err() == nil {
					fair(stop, t, "sweep", e.Sweep(stop))
					for i, id := range ids {
						decideAtOnce(stop, t, e, w.alice, id, (i+server)%5 == 0)
					}
				}
			})
		}
		for !w.allEnded(ctx, t, ids) {
			if ctx.Err() != nil {
				t.Error("not every run came to an end")
				break
			}
		}
		others()
		g.Wait()
		ends := map[run.Status]int{}
		for _, id := range ids {
			applies := 0
			ends[w.run(id).Status]++
			for _, a := range w.view(id).Attempts {
				if a.TaskKind == run.TaskApply && !a.AcceptedAt.IsZero() {
					applies++
				}
			}
			if r := w.run(id); applies > 1 || r.Status == run.Succeeded && applies != 1 {
				t.Errorf("run %s is %s and was applied %d times", id, r.Status, applies)
			}
		}
		if ends[run.Succeeded] < len(ids)/2 {
			t.Errorf("the runs ended as %v, want most to succeed", ends)
		}
	})
}

// fair fails the test for what is no rightful refusal.
func fair(ctx context.Context, t *testing.T, what string, err error) bool {
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	switch fault.From(err).Kind {
	case fault.Conflict, fault.NotFound, fault.Locked, fault.Unprocessable, fault.Unauthenticated:
		return false
	}
	t.Errorf("%s: %v", what, err)
	return false
}

func decideAtOnce(ctx context.Context, t *testing.T, e *engine.Engine, who access.Actor, id string, cancel bool) {
	v, err := e.Run(ctx, who, id)
	if !fair(ctx, t, "read", err) || v.Run.Status.Final() {
		return
	}
	if cancel && v.Run.Status == run.Applying {
		_, err := e.CancelRun(ctx, who, id)
		fair(ctx, t, "cancel", err)
		return
	}
	if v.Run.Status == run.AwaitingApproval {
		_, err := e.Approve(ctx, who, id, v.Run.PlanDigest)
		fair(ctx, t, "approve", err)
	}
}

// workUntil is an agent that does all it is given.
func (w *runWorld) workUntil(ctx context.Context, t *testing.T, agent access.Actor) {
	for ctx.Err() == nil {
		o, ok, err := w.engine.Claim(ctx, agent, engine.Claim{Wait: time.Second})
		if !fair(ctx, t, "claim", err) || !ok {
			continue
		}
		work, err := w.engine.Accept(ctx, agent, o.Task, o.Attempt)
		if !fair(ctx, t, "accept", err) {
			continue
		}
		token, err := w.engine.Authenticate(ctx, work.Token)
		if !fair(ctx, t, "authenticate", err) {
			continue
		}
		k := &worker{w: w, agent: agent, work: work, token: token, view: oneChange(), plan: "plan " + work.Attempt.ID}
		outcome := "succeeded"
		_, err = w.engine.Heartbeat(ctx, agent, work.Task.ID, work.Attempt.ID, engine.Heartbeat{Stage: string(work.Task.Kind)})
		fair(ctx, t, "heartbeat", err)
		if work.Task.Kind == run.TaskPlan {
			fair(ctx, t, "lock for the plan", writeState(ctx, w.engine, token, work.State, "plan-"+work.Attempt.ID, "", engine.UnlockRequest{ID: "plan-" + work.Attempt.ID}))
			fair(ctx, t, "deliver", k.deliverAtOnce(ctx))
		} else if !fair(ctx, t, "save", writeState(ctx, w.engine, token, work.State, "apply-"+work.Attempt.ID,
			document(int(w.clock.Now().UnixMilli()%1e9), work.Attempt.ID), engine.UnlockRequest{ID: "apply-" + work.Attempt.ID})) {
			outcome = "failed"
		}
		_, err = w.engine.Report(ctx, agent, work.Task.ID, work.Attempt.ID, engine.Report{Outcome: outcome})
		fair(ctx, t, "report", err)
	}
}

func (k *worker) deliverAtOnce(ctx context.Context) error {
	s, err := k.w.engine.State(ctx, k.w.alice, k.work.State)
	if err != nil {
		return err
	}
	base := ""
	if s.Head != nil {
		base = s.Head.SHA256
	}
	if _, err := k.w.engine.PutPlanFile(ctx, k.agent, k.work.Task.ID, k.work.Attempt.ID, reader(k.plan)); err != nil {
		return err
	}
	view := []byte(fmt.Sprintf(`{"format":%d,"change":1}`, plan.Format))
	return k.w.engine.TakePlan(ctx, k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.PlanMade{Digest: "sha256:" + sum(k.plan), Tool: "tofu", Version: "1", BaseSHA256: base, View: view})
}

func (w *runWorld) allEnded(ctx context.Context, t *testing.T, ids []string) bool {
	for _, id := range ids {
		v, err := w.engine.Run(ctx, w.alice, id)
		if !fair(ctx, t, "read", err) || !v.Run.Status.Final() {
			return false
		}
	}
	return true
}
