package engine

import (
	"context"
	"fmt"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
)

// createTask makes a task that the account's agents can claim, and wakes them.
func (e *Engine) createTask(ctx context.Context, tx Tx, r *run.Run, component string, kind run.TaskKind) error {
	now := e.now()
	err := tx.CreateTask(ctx, run.Task{
		ID: id.New(id.Task, now), Org: r.Org, Run: r.ID, Component: component, Account: r.Account,
		Kind: kind, Status: run.TaskReady, CreatedAt: now,
	})
	if err != nil {
		return fmt.Errorf("create the %s task of %s: %w", kind, component, err)
	}
	return tx.Notify(ctx, tasksTopic(r.Account))
}

// newest is the component's newest task of the kind.
func newest(tasks []run.Task, component string, kind run.TaskKind) (run.Task, bool) {
	for i := len(tasks) - 1; i >= 0; i-- {
		if tasks[i].Component == component && tasks[i].Kind == kind {
			return tasks[i], true
		}
	}
	return run.Task{}, false
}

// moveTask stores the task's next status.
func (e *Engine) moveTask(ctx context.Context, tx Tx, t *run.Task, trigger run.TaskTrigger) error {
	next, err := t.Status.On(trigger)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	t.Status = next
	if next.Final() {
		t.EndedAt = e.now()
	}
	if err := tx.UpdateTask(ctx, *t); err != nil {
		return err
	}
	if next == run.TaskReady {
		return tx.Notify(ctx, tasksTopic(t.Account))
	}
	return nil
}

// cancelTasks stops the run's tasks that nobody works on yet, and has the agents told that work on one. It reports
// whether any does.
func (e *Engine) cancelTasks(ctx context.Context, tx Tx, r *run.Run) (atWork bool, err error) {
	tasks, err := tx.Tasks(ctx, r.ID)
	if err != nil {
		return false, err
	}
	for _, t := range tasks {
		if t.Status.Final() {
			continue
		}
		// Read again: an agent may be taking it at this moment.
		t, err := tx.TaskForUpdate(ctx, t.ID)
		if err != nil {
			return false, err
		}
		working, err := e.cancelTask(ctx, tx, &t)
		if err != nil {
			return false, err
		}
		atWork = atWork || working
	}
	return atWork, nil
}

func (e *Engine) cancelTask(ctx context.Context, tx Tx, t *run.Task) (atWork bool, err error) {
	if t.Status.Final() {
		return false, nil
	}
	attempts, err := tx.Attempts(ctx, t.Run, t.ID)
	if err != nil {
		return false, err
	}
	for _, a := range attempts {
		switch a.Status {
		case run.AttemptOffered:
			err = e.supersede(ctx, tx, a.ID, "not wanted any more")
		case run.AttemptAccepted:
			atWork = true
			err = e.askToStop(ctx, tx, a.ID)
		case run.AttemptCancelling:
			atWork = true
		}
		if err != nil {
			return false, err
		}
	}
	if atWork {
		return true, nil
	}
	return false, e.moveTask(ctx, tx, t, run.TaskStop)
}

// supersede ends an attempt that was offered and not accepted.
func (e *Engine) supersede(ctx context.Context, tx Tx, attempt, why string) error {
	return e.moveAttempt(ctx, tx, attempt, run.AttemptSupersede, func(a *run.Attempt) { a.Message = why })
}

func (e *Engine) askToStop(ctx context.Context, tx Tx, attempt string) error {
	return e.moveAttempt(ctx, tx, attempt, run.AttemptCancel, func(*run.Attempt) {})
}

// moveAttempt reads the attempt for update and stores its next status, with what set says of it.
func (e *Engine) moveAttempt(ctx context.Context, tx Tx, attempt string, trigger run.AttemptTrigger, set func(*run.Attempt)) error {
	a, err := tx.AttemptForUpdate(ctx, attempt)
	if err != nil {
		return err
	}
	if a.Status, err = a.Status.On(trigger); err != nil {
		return fmt.Errorf("attempt %s: %w", a.ID, err)
	}
	if a.Status.Final() {
		a.EndedAt = e.now()
	}
	set(&a)
	return tx.UpdateAttempt(ctx, a)
}

// returnOffer puts back a task whose offer was not accepted. It changes nothing where it was, meanwhile.
func (e *Engine) returnOffer(ctx context.Context, attempt, why string) error {
	return e.store.Update(ctx, func(tx Tx) error {
		a, err := tx.Attempt(ctx, attempt)
		if err != nil {
			return err
		}
		t, err := tx.TaskForUpdate(ctx, a.Task)
		if err != nil {
			return err
		}
		if a, err = tx.AttemptForUpdate(ctx, attempt); err != nil {
			return err
		}
		if a.Status != run.AttemptOffered || t.Status != run.TaskOffered {
			return nil
		}
		if err := e.supersede(ctx, tx, attempt, why); err != nil {
			return err
		}
		return e.moveTask(ctx, tx, &t, run.TaskReturn)
	})
}

// maxTries is how many attempts of a plan may be lost, or stopped with their agent, before the run gives up.
const maxTries = 3

// retry puts a plan task back into the queue after its attempt was lost or stopped with its agent, as often as
// maxTries allows; beyond that, and always for an apply, the task has failed. again says which.
func (e *Engine) retry(ctx context.Context, tx Tx, r *run.Run, t *run.Task) (again bool, err error) {
	if r.CancelAsked && t.Kind == run.TaskPlan {
		return false, e.moveTask(ctx, tx, t, run.TaskStop)
	}
	if t.Kind != run.TaskPlan {
		return false, e.moveTask(ctx, tx, t, run.TaskFail)
	}
	attempts, err := tx.Attempts(ctx, r.ID, t.ID)
	if err != nil {
		return false, err
	}
	tries := 0
	for _, a := range attempts {
		if a.Status == run.AttemptLost || a.Status == run.AttemptCancelled {
			tries++
		}
	}
	if tries >= maxTries {
		return false, e.moveTask(ctx, tx, t, run.TaskFail)
	}
	return true, e.moveTask(ctx, tx, t, run.TaskRequeue)
}

// forgetLostPlans ends what lost plan attempts of an ended run could still do: their tokens, and locks they may have
// left. A lost apply's are kept: its save is worth taking, and its lock has a grace.
func (e *Engine) forgetLostPlans(ctx context.Context, tx Tx, r *run.Run) error {
	attempts, err := tx.Attempts(ctx, r.ID, "")
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.TaskKind == run.TaskPlan && a.Status == run.AttemptLost {
			if err := e.disarm(ctx, tx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// disarm ends the attempt's token and frees the lock it may have left.
func (e *Engine) disarm(ctx context.Context, tx Tx, a run.Attempt) error {
	if err := tx.EndTokens(ctx, "", a.ID, e.now()); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("end the token of attempt %s: %w", a.ID, err)
	}
	if err := e.releaseAttemptLock(ctx, tx, a); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
