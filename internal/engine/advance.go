package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

// Advance does for one run whatever can be done now. It looks at the stored rows alone, so any server may call it at
// any time, any number of times.
func (e *Engine) Advance(ctx context.Context, runID string) error {
	_, err := e.change(ctx, "", runID, func(ctx context.Context, tx Tx, r *run.Run) error {
		return e.advance(ctx, tx, r)
	})
	return err
}

// maxSteps is more than a run can take in one go: begin, proceed, make the apply's task, end.
const maxSteps = 8

// advance takes the run on, in the transaction that changed something about it. r has been read for update and is
// kept current.
func (e *Engine) advance(ctx context.Context, tx Tx, r *run.Run) error {
	for range maxSteps {
		before := r.Status
		var err error
		switch r.Status {
		case run.Queued:
			err = e.queued(ctx, tx, r)
		case run.Planning:
			err = e.planning(ctx, tx, r)
		case run.AwaitingApproval:
			err = e.awaiting(ctx, tx, r)
		case run.Applying:
			err = e.applying(ctx, tx, r)
		case run.Cancelling:
			err = e.cancelling(ctx, tx, r)
		default:
			return nil
		}
		if err != nil {
			return fmt.Errorf("advance run %s, which is %s: %w", r.ID, before, err)
		}
		if r.Status == before {
			return nil
		}
	}
	return fmt.Errorf("run %s does not come to rest", r.ID)
}

func (e *Engine) move(r *run.Run, t run.Trigger) error {
	next, err := r.Status.On(t)
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	r.Status = next
	return nil
}

// queued begins the run when its turn has come.
func (e *Engine) queued(ctx context.Context, tx Tx, r *run.Run) error {
	if r.Kind != run.Preview {
		ahead, err := tx.RunAhead(ctx, r.Stack, r.ID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil && ahead != "" {
			return e.wait(ctx, tx, r, ahead)
		}
	}
	if err := e.move(r, run.Begin); err != nil {
		return err
	}
	r.WaitsFor = ""
	for i := range r.Components {
		r.Components[i].Status = run.ComponentPlanning
	}
	if err := tx.UpdateRun(ctx, *r); err != nil {
		return err
	}
	for _, c := range r.Components {
		if err := e.createTask(ctx, tx, r, c.Name, run.TaskPlan); err != nil {
			return err
		}
	}
	return e.tell(ctx, tx, r, happened{level: info, kind: "run.planning", phase: phasePlan, text: "waiting for an agent to plan"})
}

func (e *Engine) wait(ctx context.Context, tx Tx, r *run.Run, ahead string) error {
	if r.WaitsFor == ahead {
		return nil
	}
	r.WaitsFor = ahead
	if err := tx.UpdateRun(ctx, *r); err != nil {
		return err
	}
	return e.tell(ctx, tx, r, happened{level: info, kind: "run.waiting", phase: phaseQueue, text: "waits for run " + ahead + ", which is ahead on the same stack"})
}

// planning waits for the plan tasks and then decides about the whole.
func (e *Engine) planning(ctx context.Context, tx Tx, r *run.Run) error {
	over, err := e.tasksOver(ctx, tx, r, run.TaskPlan)
	if err != nil || !over {
		return err
	}
	return e.decide(ctx, tx, r)
}

// tasksOver reports whether every component's newest task of the kind is done. Where one has failed or was stopped,
// the run ends.
func (e *Engine) tasksOver(ctx context.Context, tx Tx, r *run.Run, kind run.TaskKind) (bool, error) {
	tasks, err := tx.Tasks(ctx, r.ID)
	if err != nil {
		return false, err
	}
	all := true
	for _, c := range r.Components {
		t, ok := newest(tasks, c.Name, kind)
		switch {
		case !ok && kind == run.TaskApply && !c.Plan.HasChanges:
		case !ok:
			all = false
		case t.Status == run.TaskFailed, t.Status == run.TaskCancelled:
			return false, e.endBy(ctx, tx, r, t)
		case t.Status != run.TaskDone:
			all = false
		}
	}
	return all, nil
}

// endBy ends the run as its task did.
func (e *Engine) endBy(ctx context.Context, tx Tx, r *run.Run, t run.Task) error {
	attempts, err := tx.Attempts(ctx, r.ID, t.ID)
	if err != nil {
		return err
	}
	end := ending{class: run.Infrastructure}
	for _, a := range attempts {
		if !a.AcceptedAt.IsZero() {
			end = endingOf(a)
		}
	}
	if c := r.Component(t.Component); c != nil {
		c.Message = end.message
	}
	trigger := run.Fail
	if t.Status == run.TaskCancelled {
		trigger = run.Stop
		end.class = run.ClassCancelled
		if end.message == "" {
			end.message = "cancelled"
		}
	}
	return e.end(ctx, tx, r, trigger, end)
}

func endingOf(a run.Attempt) ending {
	var report Report
	_ = json.Unmarshal(a.Report, &report) // there is none of a lost attempt
	return ending{class: a.Class, message: a.Message, partial: a.PartialApply, keepHold: report.StateUnsaved}
}

// decide looks at what was planned: is there anything to do, may it be done, does somebody have to approve?
func (e *Engine) decide(ctx context.Context, tx Tx, r *run.Run) (err error) {
	asked := run.Planned{Kind: r.Kind, Policy: r.Approval.Policy, Production: r.Production}
	for i := range r.Components {
		c := &r.Components[i]
		done, err := e.summarize(ctx, tx, r, c)
		if err != nil || done {
			return err
		}
		asked.Changes = asked.Changes || c.Plan.HasChanges
	}
	r.Risk = run.HighestRisk(r.Components)
	asked.Risk = r.Risk
	if r.PlanDigest, err = run.PlanDigest(*r); err != nil {
		return err
	}
	r.Approval.Required, r.Approval.Reason = asked.NeedsApproval()
	if !r.Approval.Required {
		r.Approval.Status = run.ApprovalSkipped
	}
	if r.Kind == run.Preview || !asked.Changes {
		return e.end(ctx, tx, r, run.Finish, ending{message: r.Approval.Reason})
	}
	why, err := e.moved(ctx, tx, r)
	if err != nil {
		return err
	}
	if why != "" {
		return e.discard(ctx, tx, r, why)
	}
	if !r.Approval.Required {
		err := e.tell(ctx, tx, r, happened{level: info, kind: "run.approval_skipped", phase: phaseApproval, text: "no approval needed: " + r.Approval.Reason})
		if err != nil {
			return err
		}
		return e.proceed(ctx, tx, r)
	}
	r.Approval.Status = run.ApprovalPending
	if err := e.move(r, run.Ask); err != nil {
		return err
	}
	if err := tx.UpdateRun(ctx, *r); err != nil {
		return err
	}
	return e.tell(ctx, tx, r, happened{level: info, kind: "run.awaiting_approval", phase: phaseApproval, text: "waiting for approval: " + r.Approval.Reason})
}

// summarize takes the plan's view into the component and tells it. done: the plan is not whole, and the run has
// ended by it.
func (e *Engine) summarize(ctx context.Context, tx Tx, r *run.Run, c *run.Component) (done bool, err error) {
	var view plan.View
	if err := json.Unmarshal(c.Plan.View, &view); err != nil {
		return false, fmt.Errorf("read the plan view of %s: %w", c.Name, err)
	}
	h := view.Event(c.Name)
	err = e.tell(ctx, tx, r, happened{level: h.Level, kind: "run.planned", phase: phasePlan, component: c.Name, text: h.Text})
	if err != nil {
		return false, err
	}
	if view.Errored || view.Incomplete {
		c.Message = "the plan is not whole: the tool could not plan everything"
		return true, e.end(ctx, tx, r, run.Fail, ending{class: run.Configuration, message: c.Name + ": " + c.Message})
	}
	c.Status = run.ComponentPlanned
	switch {
	case !c.Plan.HasChanges:
		c.Action = "none"
	case r.Kind == run.Destroy:
		c.Action = "delete"
	case c.Plan.BaseSHA256 == "":
		c.Action = "create"
	default:
		c.Action = "update"
	}
	return false, nil
}

// proceed starts applying. The tasks are made by the next step, from the rows.
func (e *Engine) proceed(ctx context.Context, tx Tx, r *run.Run) error {
	if err := e.move(r, run.Proceed); err != nil {
		return err
	}
	return tx.UpdateRun(ctx, *r)
}

// awaiting goes on once the plan is approved, and gives up a plan that has become too old.
func (e *Engine) awaiting(ctx context.Context, tx Tx, r *run.Run) error {
	if r.Approval.Status == run.ApprovalGiven {
		return e.proceed(ctx, tx, r)
	}
	if e.limits.PlanMaxAge <= 0 {
		return nil
	}
	tasks, err := tx.Tasks(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.Kind == run.TaskPlan && e.now().Sub(t.EndedAt) > e.limits.PlanMaxAge {
			return e.discard(ctx, tx, r, fmt.Sprintf("nobody approved it within %s", e.limits.PlanMaxAge.Round(time.Minute)))
		}
	}
	return nil
}

// applying makes the apply tasks once, and ends the run when they are over.
func (e *Engine) applying(ctx context.Context, tx Tx, r *run.Run) error {
	tasks, err := tx.Tasks(ctx, r.ID)
	if err != nil {
		return err
	}
	made := false
	for i := range r.Components {
		c := &r.Components[i]
		if _, ok := newest(tasks, c.Name, run.TaskApply); ok || !c.Plan.HasChanges {
			continue
		}
		if !made {
			why, err := e.moved(ctx, tx, r)
			if err != nil {
				return err
			}
			if why != "" {
				return e.discard(ctx, tx, r, why)
			}
		}
		made = true
		c.Status = run.ComponentApplying
		if err := e.createTask(ctx, tx, r, c.Name, run.TaskApply); err != nil {
			return err
		}
	}
	if made {
		if err := tx.UpdateRun(ctx, *r); err != nil {
			return err
		}
		return e.tell(ctx, tx, r, happened{level: info, kind: "run.applying", phase: phaseApply, text: "waiting for an agent to apply"})
	}
	over, err := e.tasksOver(ctx, tx, r, run.TaskApply)
	if err != nil || !over {
		return err
	}
	return e.end(ctx, tx, r, run.Finish, ending{})
}

// cancelling waits until no agent is at work, and then says what really happened.
func (e *Engine) cancelling(ctx context.Context, tx Tx, r *run.Run) error {
	tasks, err := tx.Tasks(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if !t.Status.Final() {
			return nil
		}
	}
	applied, wanted := 0, 0
	for _, c := range r.Components {
		if c.Plan != nil && c.Plan.HasChanges {
			wanted++
		}
		t, ok := newest(tasks, c.Name, run.TaskApply)
		switch {
		case ok && t.Status == run.TaskDone:
			applied++
		case ok:
			return e.endBy(ctx, tx, r, t)
		}
	}
	if applied > 0 && applied == wanted {
		return e.end(ctx, tx, r, run.Finish, ending{message: "the apply was done before it could be cancelled"})
	}
	return e.end(ctx, tx, r, run.Stop, ending{class: run.ClassCancelled, message: "cancelled", partial: applied > 0})
}

// ending is how a run ends.
type ending struct {
	class    run.Class
	message  string
	partial  bool
	keepHold bool // the state could not be saved: it is held until it is recovered
}

// end makes the run final, and gives up all that was kept for it: tasks nobody works on, plan files, holds.
func (e *Engine) end(ctx context.Context, tx Tx, r *run.Run, t run.Trigger, how ending) error {
	if err := e.move(r, t); err != nil {
		return err
	}
	r.EndedAt, r.Class, r.Message, r.PartialApply, r.WaitsFor = e.now(), how.class, how.message, how.partial, ""
	if (r.Status == run.Discarded || r.Status == run.Cancelled) && (r.Approval.Status == run.ApprovalPending || r.Approval.Status == run.ApprovalGiven) {
		r.Approval.Status = run.ApprovalVoid
	}
	if _, err := e.cancelTasks(ctx, tx, r); err != nil {
		return err
	}
	for i := range r.Components {
		if err := e.endComponent(ctx, tx, r, &r.Components[i], how); err != nil {
			return err
		}
	}
	if err := e.forgetLostPlans(ctx, tx, r); err != nil {
		return err
	}
	if err := tx.UpdateRun(ctx, *r); err != nil {
		return err
	}
	return e.tell(ctx, tx, r, endEvent(r))
}

func (e *Engine) endComponent(ctx context.Context, tx Tx, r *run.Run, c *run.Component, how ending) error {
	switch {
	case r.Status == run.Succeeded && r.Kind == run.Preview:
		c.Status = run.ComponentPlanned
	case r.Status == run.Succeeded:
		c.Status = run.ComponentDone
	case r.Status == run.Failed && (c.Status == run.ComponentPlanning || c.Status == run.ComponentApplying):
		c.Status = run.ComponentFailed
	case c.Status != run.ComponentDone && c.Status != run.ComponentFailed:
		c.Status = run.ComponentSkipped
	}
	if c.Plan != nil && c.Plan.Object != "" {
		if err := tx.DeleteObject(ctx, c.Plan.Object); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("delete the plan file of %s: %w", c.Name, err)
		}
		c.Plan.Object = ""
	}
	if how.keepHold || c.StateID == "" {
		return nil
	}
	// A state that is gone holds nothing.
	if err := e.endHold(ctx, tx, c.StateID, r.ID); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// endEvent tells how a run has ended.
func endEvent(r *run.Run) happened {
	h := happened{level: info, kind: "run." + string(r.Status), phase: phaseEnd, text: string(r.Status)}
	switch r.Status {
	case run.Succeeded:
	case run.Failed:
		h.level = failure
	default:
		h.level = warning
	}
	if r.Message != "" {
		h.text += ": " + r.Message
	}
	if r.PartialApply {
		h.text += " (something may have been left half-made)"
	}
	return h
}
