package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

// planFileSum is the hex SHA-256 in a digest "sha256:…".
func planFileSum(digest string) (string, bool) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	return sum, ok && isSum(sum)
}

func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}

// PutPlanFile seals and stores the plan file of the agent's plan. Repeating it with the same bytes changes nothing;
// other bytes replace what was stored, until the plan itself was delivered.
func (e *Engine) PutPlanFile(ctx context.Context, actor access.Actor, task, attempt string, r io.Reader) (Object, error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return Object{}, err
	}
	// Before a byte is taken: is there anybody to take it for?
	err := e.store.View(ctx, func(tx Tx) error {
		a, err := ownAttempt(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		return planOpen(ctx, tx, a)
	})
	if err != nil {
		return Object{}, err
	}
	o, err := e.sealObject(ctx, actor.Org, kindPlan, r, e.limits.PlanMaxBytes)
	if err != nil {
		return Object{}, err
	}
	stored := Object{}
	err = e.store.Update(ctx, func(tx Tx) error {
		j, err := ownJob(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		if err := planOpen(ctx, tx, j.attempt); err != nil {
			return err
		}
		stored, err = keepPlanFile(ctx, tx, &j, o)
		return err
	})
	switch {
	case err != nil:
		e.discardObject(ctx, o, err)
	case stored.ID != o.ID:
		e.dropStaged(ctx, o)
	}
	return stored, err
}

// planOpen is open for an attempt that plans.
func planOpen(ctx context.Context, tx Tx, a run.Attempt) error {
	if a.TaskKind != run.TaskPlan {
		return fault.New(fault.Conflict, "not_a_plan", "The task applies; it delivers no plan.")
	}
	return open(ctx, tx, a)
}

func keepPlanFile(ctx context.Context, tx Tx, j *job, o Object) (Object, error) {
	c := j.run.Component(j.task.Component)
	if c == nil || j.run.Status != run.Planning && j.run.Status != run.Cancelling {
		return Object{}, over(j.attempt)
	}
	if c.Plan != nil {
		old, err := tx.Object(ctx, c.Plan.Object)
		switch {
		case err == nil && old.SHA256 == o.SHA256:
			return old, nil
		case err != nil && !fault.Is(err, fault.NotFound):
			return Object{}, err
		case c.Planned():
			return Object{}, fault.New(fault.Conflict, "plan_delivered", "The plan was delivered already, with another plan file.")
		}
		if err == nil {
			if err := tx.DeleteObject(ctx, old.ID); err != nil {
				return Object{}, err
			}
		}
	}
	if err := tx.AttachObject(ctx, o); err != nil {
		return Object{}, err
	}
	c.Plan = &run.Plan{Digest: "sha256:" + o.SHA256, Object: o.ID}
	return o, tx.UpdateRun(ctx, j.run)
}

// TakePlan stores what the agent has planned: the reduced plan, and what it was made from. Its digest has to be that
// of the plan file that was stored before.
func (e *Engine) TakePlan(ctx context.Context, actor access.Actor, task, attempt string, in PlanMade) error {
	if err := actor.Allow(access.AgentWork); err != nil {
		return err
	}
	view, err := in.check()
	if err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx Tx) error {
		j, err := ownJob(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		if err := planOpen(ctx, tx, j.attempt); err != nil {
			return err
		}
		c := j.run.Component(j.task.Component)
		if c == nil || c.Plan == nil {
			return fault.New(fault.Conflict, "plan_file_missing", "The plan file was not stored yet.").WithHint("PUT the plan file first.")
		}
		if c.Plan.Digest != in.Digest {
			return fault.New(fault.Unprocessable, "plan_digest_mismatch", "The plan file that is stored is %s, not %s.", c.Plan.Digest, in.Digest).
				WithHint("Send the plan file again.")
		}
		if c.Planned() {
			return nil
		}
		if j.run.Status != run.Planning && j.run.Status != run.Cancelling {
			return over(j.attempt)
		}
		s, err := tx.StateByID(ctx, c.StateID)
		if err != nil {
			return fmt.Errorf("read the state of %s: %w", c.Name, err)
		}
		fillPlan(c.Plan, in, view)
		if s.Head != nil && s.Head.SHA256 == in.BaseSHA256 {
			c.Plan.BaseSerial = s.Head.Serial.N
		}
		return tx.UpdateRun(ctx, j.run)
	})
}

func fillPlan(p *run.Plan, in PlanMade, view plan.View) {
	p.View, p.Tool, p.Version, p.LockFile, p.ConfigHash, p.BaseSHA256 = in.View, in.Tool, in.Version, in.LockFile, in.ConfigHash, in.BaseSHA256
	p.Add, p.Change, p.Destroy, p.Replace = view.Add, view.Change, view.Destroy, view.Replace
	p.Import, p.Move, p.Forget, p.Outputs = view.Import, view.Move, view.Forget, view.Counts.Outputs
	p.HasChanges, p.Risk = view.HasChanges(), string(view.Risk())
}

// check refuses a plan that is not as it should be, and reads its view.
func (in *PlanMade) check() (view plan.View, err error) {
	wrong := func(what string) error {
		return fault.New(fault.Unprocessable, "invalid_plan", "The plan's %s is not as it should be.", what)
	}
	if _, ok := planFileSum(in.Digest); !ok {
		return view, wrong("digest")
	}
	for what, sum := range map[string]string{"lock_file": in.LockFile, "config_hash": in.ConfigHash, "base_sha256": in.BaseSHA256} {
		if sum != "" && !isSum(sum) {
			return view, wrong(what)
		}
	}
	if in.Tool != "tofu" && in.Tool != "terraform" {
		return view, wrong("tool")
	}
	if in.Version == "" || len(in.Version) > 100 {
		return view, wrong("version")
	}
	if err := json.Unmarshal(in.View, &view); err != nil {
		return view, errors.Join(wrong("view"), err)
	}
	if view.Format != plan.Format || view.Digest != "" && view.Digest != in.Digest {
		return view, wrong("view")
	}
	return view, nil
}
