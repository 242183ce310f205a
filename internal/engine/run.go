package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// maxInputBytes bounds a component's inputs, as canonical JSON.
const maxInputBytes = 512 << 10

// StartRun is a run that somebody wants.
type StartRun struct {
	Stack      string // name
	Kind       run.Kind
	Approval   run.Policy // "", or stricter than the stack's
	Key        string     // a repeat with the same key answers the same run; "" for none
	Components []StartComponent
}

// StartComponent is one component of a run to start.
type StartComponent struct {
	Name      string
	Source    string          // id of an uploaded source
	StateName string          // "" for <stack>.<component>
	Inputs    json.RawMessage // an object, or nothing
}

// RunView is a run with what is told beside it.
type RunView struct {
	Run      run.Run
	Account  string // name of the account
	Attempts []run.Attempt
	Tasks    map[string]string // component to the id of its newest task
}

// StartRun freezes what the run is started with and begins it, or queues it behind the stack's other runs.
func (e *Engine) StartRun(ctx context.Context, actor access.Actor, in StartRun) (view RunView, err error) {
	if err := actor.Allow(access.RunStart); err != nil {
		return view, err
	}
	if err := e.needKey(); err != nil {
		return view, err
	}
	in.Components = slices.Clone(in.Components) // the caller's stay as they are
	if err := in.check(); err != nil {
		return view, err
	}
	start := func() error {
		return e.store.Update(ctx, func(tx Tx) error {
			r, err := e.startRun(ctx, tx, actor, in)
			if err != nil {
				return err
			}
			view, err = viewRun(ctx, tx, r)
			return err
		})
	}
	err = start()
	if code := fault.Code(err); code == "run_exists" || code == "state_exists" {
		err = start() // the same request, or one that made the same state, came in between: now it is seen
	}
	return view, err
}

// check refuses what can be refused without looking at the store, and makes the inputs canonical.
func (in *StartRun) check() (err error) {
	if in.Kind, err = run.ParseKind(string(in.Kind)); err != nil {
		return err
	}
	if len(in.Components) != 1 {
		return fault.New(fault.Invalid, "invalid_components", "A run has exactly one component; this one has %d.", len(in.Components))
	}
	for i := range in.Components {
		c := &in.Components[i]
		if err := run.CheckName("component", c.Name); err != nil {
			return err
		}
		if c.Inputs, err = run.CanonicalObject(c.Inputs); err != nil {
			return err
		}
		if len(c.Inputs) > maxInputBytes {
			return fault.New(fault.TooLarge, "inputs_too_large", "The inputs of %s have %d bytes; %d are taken.", c.Name, len(c.Inputs), maxInputBytes)
		}
		if c.StateName == "" {
			c.StateName = in.Stack + "." + c.Name
		}
		if err := state.CheckName(c.StateName); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) startRun(ctx context.Context, tx Tx, actor access.Actor, in StartRun) (run.Run, error) {
	stack, err := tx.Stack(ctx, actor.Org, in.Stack)
	if err != nil {
		return run.Run{}, err
	}
	if in.Key != "" {
		found, err := tx.RunByKey(ctx, stack.ID, in.Key)
		if err == nil {
			return tx.Run(ctx, actor.Org, found)
		}
		if !fault.Is(err, fault.NotFound) {
			return run.Run{}, err
		}
	}
	r, err := e.frozen(ctx, tx, actor, stack, in)
	if err != nil {
		return r, err
	}
	if err := tx.CreateRun(ctx, r); err != nil {
		return r, err
	}
	err = e.tell(ctx, tx, &r, happened{
		level: info, kind: "run.started", phase: phaseQueue, by: actor.Name,
		text: fmt.Sprintf("%s started a %s run", actor.Name, r.Kind),
	})
	if err != nil {
		return r, err
	}
	if err := e.advance(ctx, tx, &r); err != nil {
		return r, err
	}
	return r, e.record(ctx, tx, actor, "run.start", r.ID, map[string]any{
		"stack": stack.Name, "kind": r.Kind, "approval": r.Approval.Policy,
		"source_sha256": r.Components[0].Source.SHA256,
	})
}

// frozen is the run with all it is started with, before it is stored.
func (e *Engine) frozen(ctx context.Context, tx Tx, actor access.Actor, stack run.Stack, in StartRun) (run.Run, error) {
	account, err := tx.AccountByID(ctx, stack.Account)
	if err != nil {
		return run.Run{}, fmt.Errorf("read the account of stack %s: %w", stack.Name, err)
	}
	if !account.Enabled {
		return run.Run{}, notManaged(account.Name)
	}
	policy, err := run.Strictest(stack.Approval, in.Approval)
	if err != nil {
		return run.Run{}, err
	}
	now := e.now()
	r := run.Run{
		ID: id.New(id.Run, now), Org: actor.Org, Stack: stack.ID, Key: in.Key, StackName: stack.Name, Account: account.ID,
		Kind: in.Kind, Status: run.Queued, Approval: run.Approval{Policy: policy}, Production: stack.Production,
		Hold: stack.Hold && in.Kind != run.Preview, CreatedBy: personOf(actor), CreatedAt: now,
	}
	for _, c := range in.Components {
		o, err := source(ctx, tx, actor.Org, c.Source)
		if err != nil {
			return r, err
		}
		s, err := e.stateFor(ctx, tx, actor.Org, c.StateName)
		if err != nil {
			return r, err
		}
		r.Components = append(r.Components, run.Component{
			Run: r.ID, Name: c.Name, StateName: s.Name, StateID: s.ID, Inputs: c.Inputs,
			Status: run.ComponentPending, Source: run.Source{Object: o.ID, SHA256: o.SHA256, Size: o.Size},
		})
	}
	return r, nil
}

// stateFor is the state by name, made where there is none yet: an attempt's token is bound to a state's id.
func (e *Engine) stateFor(ctx context.Context, tx Tx, org, name string) (state.State, error) {
	s, err := tx.State(ctx, org, name)
	switch {
	case fault.Is(err, fault.NotFound):
		now := e.now()
		s = state.State{ID: id.New(id.State, now), Org: org, Name: name, CreatedAt: now, UpdatedAt: now}
		return s, tx.CreateState(ctx, s)
	case err != nil:
		return s, err
	case !s.DeletedAt.IsZero():
		return s, fault.New(fault.Conflict, "state_deleted", "The state %s was deleted.", name).
			WithHint("Restore it, purge it, or choose another state name.")
	}
	return s, nil
}

func personOf(a access.Actor) run.Person {
	return run.Person{Kind: string(a.Kind), ID: a.ID, Name: a.Name}
}

func viewRun(ctx context.Context, tx Tx, r run.Run) (RunView, error) {
	v := RunView{Run: r, Tasks: map[string]string{}}
	account, err := tx.AccountByID(ctx, r.Account)
	if err != nil {
		return v, fmt.Errorf("read the account of run %s: %w", r.ID, err)
	}
	v.Account = account.Name
	if v.Attempts, err = tx.Attempts(ctx, r.ID, ""); err != nil {
		return v, err
	}
	tasks, err := tx.Tasks(ctx, r.ID)
	for _, t := range tasks {
		v.Tasks[t.Component] = t.ID
	}
	return v, err
}

// Run gives one run of the organization.
func (e *Engine) Run(ctx context.Context, actor access.Actor, runID string) (view RunView, err error) {
	if err := actor.Allow(access.RunRead); err != nil {
		return view, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		r, err := tx.Run(ctx, actor.Org, runID)
		if err != nil {
			return err
		}
		view, err = viewRun(ctx, tx, r)
		return err
	})
	return view, err
}

// Runs lists runs newest first, without their views and outputs. stack, where not "", is a stack's name.
func (e *Engine) Runs(ctx context.Context, actor access.Actor, stack string, f RunFilter, p Page) (items []run.Run, next string, err error) {
	if err := actor.Allow(access.RunRead); err != nil {
		return nil, "", err
	}
	f.Org = actor.Org
	err = e.store.View(ctx, func(tx Tx) error {
		if stack != "" {
			s, err := tx.Stack(ctx, actor.Org, stack)
			if err != nil {
				return err
			}
			f.StackID = s.ID
		}
		items, next, err = tx.Runs(ctx, f, p)
		return err
	})
	return items, next, err
}

// CancelRun stops a run: at once where no agent is at work, else its agents are told with their next heartbeat and
// the run is cancelling until they have stopped. Repeating it changes nothing.
func (e *Engine) CancelRun(ctx context.Context, actor access.Actor, runID string) (RunView, error) {
	if err := actor.Allow(access.RunStart); err != nil {
		return RunView{}, err
	}
	return e.change(ctx, actor.Org, runID, func(ctx context.Context, tx Tx, r *run.Run) error {
		switch {
		case r.Status == run.Cancelled, r.Status == run.Cancelling:
			return nil
		case r.Status.Final():
			return ended(r)
		}
		r.CancelAsked = true
		err := e.tell(ctx, tx, r, happened{level: warning, kind: "run.cancel_asked", phase: phaseEnd, by: actor.Name, text: actor.Name + " cancelled the run"})
		if err != nil {
			return err
		}
		was := r.Status
		if err := e.stopRun(ctx, tx, r, actor.Name); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "run.cancel", r.ID, map[string]any{"stack": r.StackName, "status": was})
	})
}

// stopRun ends the run where no agent is at work on it, else asks the agents to stop.
func (e *Engine) stopRun(ctx context.Context, tx Tx, r *run.Run, by string) error {
	atWork, err := e.cancelTasks(ctx, tx, r)
	if err != nil {
		return err
	}
	if !atWork {
		return e.end(ctx, tx, r, run.Stop, ending{class: run.ClassCancelled, message: "cancelled by " + by})
	}
	if err := e.move(r, run.AskCancel); err != nil {
		return err
	}
	return tx.UpdateRun(ctx, *r)
}

// change runs fn on the run in one transaction (an audit record comes last in it: its lock is everybody's) and gives the run as it is then. Where the run has ended by it, the
// stack's next run begins.
func (e *Engine) change(ctx context.Context, org, runID string, fn func(ctx context.Context, tx Tx, r *run.Run) error) (view RunView, err error) {
	err = e.store.Update(ctx, func(tx Tx) error {
		r, err := tx.RunForUpdate(ctx, runID)
		if err != nil {
			return err
		}
		if org != "" && r.Org != org {
			return fault.New(fault.NotFound, "run_not_found", "There is no such run.")
		}
		if err := fn(ctx, tx, &r); err != nil {
			return err
		}
		view, err = viewRun(ctx, tx, r)
		return err
	})
	if err == nil && view.Run.Status.Final() {
		e.beginNext(ctx, view.Run)
	}
	return view, err
}

// beginNextTimeout bounds what is done for the stack's next run after the one before it has ended.
const beginNextTimeout = 10 * time.Second

// beginNext advances the runs that waited for one that has ended. What fails here the sweep does.
func (e *Engine) beginNext(ctx context.Context, after run.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginNextTimeout)
	defer cancel()
	var waiting []run.Run
	err := e.store.View(ctx, func(tx Tx) (err error) {
		waiting, _, err = tx.Runs(ctx, RunFilter{Org: after.Org, StackID: after.Stack, Statuses: []run.Status{run.Queued}}, Page{Limit: 500})
		return err
	})
	for i := len(waiting) - 1; i >= 0 && err == nil; i-- {
		err = e.Advance(ctx, waiting[i].ID)
	}
	if err != nil {
		e.log.WarnContext(ctx, "the runs that wait are left to the sweep", "stack", after.Stack, "error", err)
	}
}

func ended(r *run.Run) error {
	return fault.New(fault.Conflict, "run_ended", "The run %s is %s already.", r.ID, r.Status)
}
