package engine

import (
	"context"
	"fmt"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Approve approves the plan that the digest names, and nothing else: a Conflict plan_changed where the current plan
// is another one, plan_stale where something it was made from has changed since (the run is then discarded).
// Repeating an approval that was given changes nothing.
func (e *Engine) Approve(ctx context.Context, actor access.Actor, runID, digest string) (RunView, error) {
	if err := actor.Allow(access.RunApprove); err != nil {
		return RunView{}, err
	}
	var stale error
	view, err := e.change(ctx, actor.Org, runID, func(ctx context.Context, tx Tx, r *run.Run) error {
		stale = nil
		if r.Approval.Status == run.ApprovalGiven && r.Approval.Digest == digest {
			return nil
		}
		if err := approvable(r, digest); err != nil {
			return err
		}
		why, err := e.moved(ctx, tx, r)
		if err != nil {
			return err
		}
		if why != "" {
			stale = staleness(r, why)
			return e.discard(ctx, tx, r, why)
		}
		r.Approval.Status, r.Approval.Digest = run.ApprovalGiven, digest
		r.Approval.By, r.Approval.ByName, r.Approval.At = actor.ID, actor.Name, e.now()
		if err := tx.UpdateRun(ctx, *r); err != nil {
			return err
		}
		err = e.tell(ctx, tx, r, happened{level: info, kind: "run.approved", phase: phaseApproval, by: actor.Name, text: actor.Name + " approved " + digest})
		if err != nil {
			return err
		}
		if err := e.advance(ctx, tx, r); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "run.approve", r.ID, map[string]any{"stack": r.StackName, "plan_digest": digest, "risk": r.Risk})
	})
	if err == nil {
		err = stale
	}
	return view, err
}

// approvable is nil where the run waits for the approval of this digest.
func approvable(r *run.Run, digest string) error {
	switch {
	case r.Status == run.Discarded:
		return staleness(r, r.Message)
	case r.Status != run.AwaitingApproval:
		return fault.New(fault.Conflict, "not_awaiting_approval", "The run %s is %s; it does not wait for approval.", r.ID, r.Status)
	case digest != r.PlanDigest:
		return fault.New(fault.Conflict, "plan_changed", "That is not the current plan of run %s. The current plan is %s.", r.ID, r.PlanDigest).
			WithHint("Look at the current plan and approve that one.")
	}
	return nil
}

func staleness(r *run.Run, why string) error {
	return fault.New(fault.Conflict, "plan_stale", "The plan of run %s does not fit any more: %s. Nothing was applied.", r.ID, why).
		WithHint("Start a new run and approve its plan.")
}

// Reject ends a run that waits for approval. reason is for the record. Repeating it changes nothing.
func (e *Engine) Reject(ctx context.Context, actor access.Actor, runID, reason string) (RunView, error) {
	if err := actor.Allow(access.RunApprove); err != nil {
		return RunView{}, err
	}
	reason = clean(reason, 1000)
	return e.change(ctx, actor.Org, runID, func(ctx context.Context, tx Tx, r *run.Run) error {
		switch r.Status {
		case run.Rejected:
			return nil
		case run.AwaitingApproval:
		default:
			return fault.New(fault.Conflict, "not_awaiting_approval", "The run %s is %s; it does not wait for approval.", r.ID, r.Status)
		}
		r.Approval.Status, r.Approval.Digest = run.ApprovalRejected, r.PlanDigest
		r.Approval.By, r.Approval.ByName, r.Approval.At = actor.ID, actor.Name, e.now()
		message := "rejected by " + actor.Name
		if reason != "" {
			message += ": " + reason
		}
		err := e.tell(ctx, tx, r, happened{level: warning, kind: "run.rejected", phase: phaseApproval, by: actor.Name, text: message})
		if err != nil {
			return err
		}
		if err := e.end(ctx, tx, r, run.Reject, ending{class: run.Refused, message: message}); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "run.reject", r.ID, map[string]any{"stack": r.StackName, "plan_digest": r.PlanDigest, "reason": reason})
	})
}

// moved says what of the run's plan is not as it was planned, and approved where somebody did; "" where all is.
func (e *Engine) moved(ctx context.Context, tx Tx, r *run.Run) (string, error) {
	digest, err := run.PlanDigest(*r)
	if err != nil || digest != r.PlanDigest { // what cannot be read is not what was planned either
		return "the stored plan, sources, inputs or provider lock file were changed", nil
	}
	if r.Approval.Status == run.ApprovalGiven && r.Approval.Digest != digest {
		return "it is not the plan that was approved", nil
	}
	if r.Approval.Required && r.Status == run.Applying && r.Approval.Status != run.ApprovalGiven {
		return "nobody approved it", nil
	}
	for _, c := range r.Components {
		why, err := componentMoved(ctx, tx, r, c)
		if why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func componentMoved(ctx context.Context, tx Tx, r *run.Run, c run.Component) (string, error) {
	why, err := objectMoved(ctx, tx, r.Org, c.Source.Object, kindSource, c.Source.SHA256)
	if err != nil || why != "" {
		return prefixed(c.Name, "source", why), err
	}
	if c.Plan.HasChanges {
		digest, ok := planFileSum(c.Plan.Digest)
		if !ok {
			return fmt.Sprintf("the plan digest of %s is no digest", c.Name), nil
		}
		why, err := objectMoved(ctx, tx, r.Org, c.Plan.Object, kindPlan, digest)
		if err != nil || why != "" {
			return prefixed(c.Name, "plan file", why), err
		}
	}
	s, err := tx.StateByID(ctx, c.StateID)
	switch {
	case fault.Is(err, fault.NotFound):
		return fmt.Sprintf("the state %s is gone", c.StateName), nil
	case err != nil:
		return "", err
	case !s.DeletedAt.IsZero():
		return fmt.Sprintf("the state %s was deleted", c.StateName), nil
	}
	head := ""
	if s.Head != nil {
		head = s.Head.SHA256
	}
	if head != c.Plan.BaseSHA256 {
		return fmt.Sprintf("the state %s has changed since it was planned on", c.StateName), nil
	}
	return "", nil
}

func objectMoved(ctx context.Context, tx Tx, org, objectID, kind, sum string) (string, error) {
	o, err := tx.Object(ctx, objectID)
	switch {
	case fault.Is(err, fault.NotFound):
		return "gone", nil
	case err != nil:
		return "", err
	case o.Org != org || o.Kind != kind || o.SHA256 != sum:
		return "not the one it was planned with", nil
	}
	return "", nil
}

func prefixed(component, what, why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf("the %s of %s is %s", what, component, why)
}

// discard ends a run whose plan does not fit what is there any more.
func (e *Engine) discard(ctx context.Context, tx Tx, r *run.Run, why string) error {
	err := e.tell(ctx, tx, r, happened{
		level: warning, kind: "run.stale", phase: phaseApproval,
		text: "the plan does not fit any more: " + why + "; nothing was applied",
	})
	if err != nil {
		return err
	}
	return e.end(ctx, tx, r, run.Discard, ending{class: run.Refused, message: why})
}
