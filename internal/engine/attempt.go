package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Report is how an attempt ended, as its agent says. It is kept with the attempt.
type Report struct {
	Outcome      string          `json:"outcome"` // succeeded, failed or cancelled
	Class        string          `json:"class,omitempty"`
	Message      string          `json:"message,omitempty"`
	PartialApply bool            `json:"partial_apply,omitempty"`
	StateUnsaved bool            `json:"state_unsaved,omitempty"`
	Outputs      json.RawMessage `json:"outputs,omitempty"`
	Stages       []StageTime     `json:"stages,omitempty"`
	Applied      json.RawMessage `json:"applied,omitempty"`
}

// StageTime is how long a stage took, and how long a tofu process ran in it.
type StageTime struct {
	Stage        string `json:"stage"`
	Milliseconds int64  `json:"milliseconds"`
	Tool         int64  `json:"tool_milliseconds"`
}

// Stages is how long the attempt's stages took; empty before its report.
func Stages(a run.Attempt) []StageTime {
	var kept Report
	if json.Unmarshal(a.Report, &kept) != nil { // nothing is reported yet
		return nil
	}
	return kept.Stages
}

// maxMessageBytes bounds an attempt's message.
const maxMessageBytes = 4000

// job is an attempt with what it belongs to, read for update in the order that everybody keeps: run, task, attempt.
type job struct {
	run     run.Run
	task    run.Task
	attempt run.Attempt
	warned  string // what the log is to be told of, once it is true
}

// ownAttempt is the agent's own attempt of the task, not for update; attempt "" is its newest one. Another agent's is
// as unknown as one that never was.
func ownAttempt(ctx context.Context, tx Tx, actor access.Actor, task, attempt string) (run.Attempt, error) {
	unknown := fault.New(fault.NotFound, "task_not_found", "There is no such task, or it is not this agent's.")
	if attempt != "" {
		a, err := tx.Attempt(ctx, attempt)
		if fault.Is(err, fault.NotFound) || err == nil && (a.Task != task || a.Agent != actor.ID || a.Org != actor.Org) {
			return run.Attempt{}, unknown
		}
		return a, err
	}
	t, err := tx.Task(ctx, task)
	if fault.Is(err, fault.NotFound) || err == nil && t.Org != actor.Org {
		return run.Attempt{}, unknown
	}
	if err != nil {
		return run.Attempt{}, err
	}
	attempts, err := tx.Attempts(ctx, t.Run, t.ID)
	if err != nil {
		return run.Attempt{}, err
	}
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].Agent == actor.ID {
			return attempts[i], nil
		}
	}
	return run.Attempt{}, unknown
}

// ownJob is ownAttempt for update.
func ownJob(ctx context.Context, tx Tx, actor access.Actor, task, attempt string) (job, error) {
	a, err := ownAttempt(ctx, tx, actor, task, attempt)
	if err != nil {
		return job{}, err
	}
	return jobOf(ctx, tx, a)
}

func jobOf(ctx context.Context, tx Tx, a run.Attempt) (j job, err error) {
	if j.run, err = tx.RunForUpdate(ctx, a.Run); err != nil {
		return j, err
	}
	if j.task, err = tx.TaskForUpdate(ctx, a.Task); err != nil {
		return j, err
	}
	j.attempt, err = tx.AttemptForUpdate(ctx, a.ID)
	return j, err
}

// open is nil where what the attempt delivers is still taken: it is at work, or it was lost and no other one was
// accepted since.
func open(ctx context.Context, tx Tx, a run.Attempt) error {
	switch a.Status {
	case run.AttemptAccepted, run.AttemptCancelling:
		return nil
	case run.AttemptOffered:
		return fault.New(fault.Conflict, "attempt_not_accepted", "The attempt was not accepted yet.").WithHint("Accept it first.")
	case run.AttemptLost:
		gone, err := replaced(ctx, tx, a)
		if err != nil || !gone {
			return err
		}
	case run.AttemptSucceeded, run.AttemptFailed, run.AttemptCancelled, run.AttemptSuperseded:
	}
	return over(a)
}

// over is the refusal of whatever comes for an attempt that is over. It is final: repeating it does not help.
func over(a run.Attempt) error {
	return fault.New(fault.Conflict, "attempt_over", "The attempt is over: it is %s, and another one may have taken its place.", a.Status).
		WithHint("Drop what belongs to it.")
}

// replaced reports whether another attempt of the task was accepted after this one.
func replaced(ctx context.Context, tx Tx, a run.Attempt) (bool, error) {
	attempts, err := tx.Attempts(ctx, a.Run, a.Task)
	if err != nil {
		return false, err
	}
	for _, other := range attempts {
		if other.Number > a.Number && !other.AcceptedAt.IsZero() {
			return true, nil
		}
	}
	return false, nil
}

// Report takes how an attempt ended. Repeating it changes nothing: the first report counts. One of a lost attempt
// corrects what was concluded from its silence, unless another attempt was accepted since.
func (e *Engine) Report(ctx context.Context, actor access.Actor, task, attempt string, in Report) (status run.AttemptStatus, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return "", err
	}
	if err := in.check(); err != nil {
		return "", err
	}
	var after run.Run
	err = e.store.Update(ctx, func(tx Tx) error {
		j, err := ownJob(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		after = j.run
		if status = j.attempt.Status; len(j.attempt.Report) > 0 {
			return nil
		}
		if err := open(ctx, tx, j.attempt); err != nil {
			return err
		}
		if err := e.report(ctx, tx, actor, &j, in); err != nil {
			return err
		}
		status, after = j.attempt.Status, j.run
		return nil
	})
	if err == nil && after.Status.Final() {
		e.beginNext(ctx, after)
	}
	return status, err
}

func (in *Report) check() error {
	switch in.Outcome {
	case "succeeded", "failed", "cancelled":
	default:
		return fault.New(fault.Unprocessable, "invalid_outcome", "There is no outcome %q.", in.Outcome).WithHint("Use succeeded, failed or cancelled.")
	}
	in.Message = clean(in.Message, maxMessageBytes)
	if in.Outcome == "succeeded" {
		in.Class = ""
		return nil
	}
	switch c := run.Class(in.Class); c {
	case run.Configuration, run.Infrastructure, run.ClassCancelled, run.Refused, run.ClassLost:
	default:
		in.Class = string(run.Infrastructure)
		if in.Outcome == "cancelled" {
			in.Class = string(run.ClassCancelled)
		}
	}
	return nil
}

// report stores the outcome and takes the run on.
func (e *Engine) report(ctx context.Context, tx Tx, actor access.Actor, j *job, in Report) error {
	c := j.run.Component(j.attempt.Component)
	if c == nil {
		return fmt.Errorf("run %s has no component %s", j.run.ID, j.attempt.Component)
	}
	if in.Outcome == "succeeded" && j.task.Kind == run.TaskPlan && !c.Planned() {
		in.Outcome, in.Class, in.Message = "failed", string(run.Infrastructure), "the agent said it had planned, but delivered no plan"
	}
	late := j.attempt.Status == run.AttemptLost
	if err := e.endAttempt(ctx, tx, j, in); err != nil {
		return err
	}
	if !late || lateCounts(j, in) {
		c.Message = in.Message
		if in.Outcome == "succeeded" {
			c.Outputs = publicOutputs(in.Outputs)
		}
		if err := tx.UpdateRun(ctx, j.run); err != nil {
			return err
		}
	}
	if err := e.tell(ctx, tx, &j.run, reportEvent(j, in, late)); err != nil {
		return err
	}
	var err error
	if late {
		err = e.lateReport(ctx, tx, j, in)
	} else if err = e.endTask(ctx, tx, j, in); err == nil {
		err = e.advance(ctx, tx, &j.run)
	}
	if err != nil {
		return err
	}
	return e.record(ctx, tx, actor, "task.report", j.task.ID, map[string]any{
		"run": j.run.ID, "attempt": j.attempt.ID, "outcome": in.Outcome,
		"class": in.Class, "partial_apply": in.PartialApply, "late": late,
	})
}

// endAttempt stores the report and ends what the attempt was given: its token and its lock.
func (e *Engine) endAttempt(ctx context.Context, tx Tx, j *job, in Report) error {
	a := &j.attempt
	trigger := map[string]run.AttemptTrigger{"succeeded": run.AttemptSucceed, "failed": run.AttemptFail, "cancelled": run.AttemptStop}[in.Outcome]
	next, err := a.Status.On(trigger)
	if err != nil {
		return fmt.Errorf("attempt %s: %w", a.ID, err)
	}
	kept, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the report of attempt %s: %w", a.ID, err)
	}
	a.Status, a.EndedAt, a.Report = next, e.now(), kept
	a.Class, a.Message, a.PartialApply = run.Class(in.Class), in.Message, in.PartialApply
	if err := tx.UpdateAttempt(ctx, *a); err != nil {
		return err
	}
	return e.disarm(ctx, tx, *a)
}

// endTask moves the task by the report of the attempt that was at work on it.
func (e *Engine) endTask(ctx context.Context, tx Tx, j *job, in Report) error {
	switch {
	case in.Outcome == "succeeded":
		return e.moveTask(ctx, tx, &j.task, run.TaskFinish)
	case in.Outcome == "failed":
		return e.moveTask(ctx, tx, &j.task, run.TaskFail)
	case j.run.CancelAsked:
		return e.moveTask(ctx, tx, &j.task, run.TaskStop)
	}
	// Nobody asked for it: the agent was stopped.
	again, err := e.retry(ctx, tx, &j.run, &j.task)
	if err == nil && again {
		err = e.tell(ctx, tx, &j.run, happened{
			level: warning, kind: "task.requeued", phase: phasePlan, component: j.task.Component,
			text: j.task.Component + ": its agent was stopped; waiting for another one",
		})
	}
	return err
}

// lateCounts reports whether the report of a lost attempt still changes what becomes of the run: it may spare a plan
// its repetition, and it says what really became of an apply.
func lateCounts(j *job, in Report) bool {
	if j.task.Kind == run.TaskPlan {
		return (j.task.Status == run.TaskReady || j.task.Status == run.TaskOffered) && in.Outcome != "cancelled"
	}
	return j.task.Status == run.TaskFailed && j.run.Status == run.Failed && j.run.Class == run.ClassLost
}

// lateReport takes the report of a lost attempt. Where the run has gone another way it stays with the attempt.
func (e *Engine) lateReport(ctx context.Context, tx Tx, j *job, in Report) error {
	if !lateCounts(j, in) {
		return nil
	}
	if err := e.dropOffers(ctx, tx, j); err != nil {
		return err
	}
	trigger := run.TaskAmend
	if in.Outcome == "succeeded" {
		trigger = run.TaskLate
	}
	if err := e.moveTask(ctx, tx, &j.task, trigger); err != nil {
		return err
	}
	if j.task.Kind == run.TaskApply {
		return e.correct(ctx, tx, j, in)
	}
	return e.advance(ctx, tx, &j.run)
}

func (e *Engine) dropOffers(ctx context.Context, tx Tx, j *job) error {
	attempts, err := tx.Attempts(ctx, j.run.ID, j.task.ID)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.Status == run.AttemptOffered {
			if err := e.supersede(ctx, tx, a.ID, "the attempt before it reported after all"); err != nil {
				return err
			}
		}
	}
	return nil
}

// correct makes the run's end say what its lost apply really did.
func (e *Engine) correct(ctx context.Context, tx Tx, j *job, in Report) error {
	r, c := &j.run, j.run.Component(j.task.Component)
	r.Class, r.Message, r.PartialApply = run.Class(in.Class), in.Message, in.PartialApply
	level := warning
	if in.Outcome == "succeeded" {
		if err := e.move(r, run.Correct); err != nil {
			return err
		}
		r.Message, r.PartialApply, c.Status = "the apply was taken for lost and reported later", false, run.ComponentDone
		level = info
	}
	if err := tx.UpdateRun(ctx, *r); err != nil {
		return err
	}
	h := endEvent(r)
	h.level, h.kind, h.text = level, "run.corrected", "the lost apply has reported: "+h.text
	return e.tell(ctx, tx, r, h)
}

func reportEvent(j *job, in Report, late bool) happened {
	h := happened{
		level: info, kind: "task." + in.Outcome, phase: string(j.task.Kind), component: j.task.Component,
		text: fmt.Sprintf("%s: %s %s", j.task.Component, j.task.Kind, in.Outcome),
	}
	if in.Outcome != "succeeded" {
		h.level = failure
		if in.Outcome == "cancelled" {
			h.level = warning
		}
		h.text += fmt.Sprintf(" (%s)", in.Class)
		if in.Message != "" {
			h.text += ": " + in.Message
		}
	}
	if in.StateUnsaved {
		h.level = failure
		h.text += "; the state could not be saved and has to be recovered"
	}
	if late {
		h.text += "; reported after it was taken for lost"
	}
	return h
}

// publicOutputs drops the values of sensitive outputs, should an agent have sent them, and whatever is no object of
// outputs.
func publicOutputs(raw json.RawMessage) json.RawMessage {
	var outputs map[string]*struct {
		Value     json.RawMessage `json:"value,omitempty"`
		Type      json.RawMessage `json:"type,omitempty"`
		Sensitive bool            `json:"sensitive"`
	}
	if json.Unmarshal(raw, &outputs) != nil || outputs == nil {
		return nil
	}
	for name, o := range outputs {
		switch {
		case o == nil:
			delete(outputs, name)
		case o.Sensitive:
			o.Value = nil
		}
	}
	out, err := json.Marshal(outputs)
	if err != nil {
		return nil
	}
	return out
}

// lose ends an attempt that has shown no sign of life since before. It changes nothing where there was one meanwhile.
func (e *Engine) lose(ctx context.Context, attempt string, before time.Time) error {
	var after run.Run
	err := e.store.Update(ctx, func(tx Tx) error {
		after = run.Run{}
		a, err := tx.Attempt(ctx, attempt)
		if err != nil {
			return err
		}
		j, err := jobOf(ctx, tx, a)
		if err != nil {
			return err
		}
		if j.attempt.Status.Final() || j.attempt.Status == run.AttemptOffered || !lastSign(j.attempt).Before(before) {
			return nil
		}
		err = e.loseJob(ctx, tx, &j)
		after = j.run
		return err
	})
	if err == nil && after.Status.Final() {
		e.beginNext(ctx, after)
	}
	return err
}

func lastSign(a run.Attempt) time.Time {
	last := a.OfferedAt
	for _, t := range []time.Time{a.AcceptedAt, a.HeartbeatAt} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func (e *Engine) loseJob(ctx context.Context, tx Tx, j *job) error {
	a := &j.attempt
	var err error
	if a.Status, err = a.Status.On(run.AttemptLose); err != nil {
		return fmt.Errorf("attempt %s: %w", a.ID, err)
	}
	a.EndedAt, a.Class = e.now(), run.ClassLost
	a.Message = fmt.Sprintf("%s: the agent %s was not heard of since %s", a.Component, a.AgentName, lastSign(*a).UTC().Format(time.RFC3339))
	a.PartialApply = a.TaskKind == run.TaskApply // nobody knows, so it may
	if err := tx.UpdateAttempt(ctx, *a); err != nil {
		return err
	}
	again, err := e.retry(ctx, tx, &j.run, &j.task)
	if err != nil {
		return err
	}
	text := a.Message
	if again {
		text += "; waiting for another agent"
	}
	err = e.tell(ctx, tx, &j.run, happened{level: warning, kind: "task.lost", phase: string(j.task.Kind), component: a.Component, text: text})
	if err != nil {
		return err
	}
	return e.advance(ctx, tx, &j.run)
}
