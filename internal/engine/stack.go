package engine

import (
	"context"
	"fmt"
	"io"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// PutStack is a stack's settings as somebody wants them.
type PutStack struct {
	Name       string
	Account    string // name of the account
	Production bool
	Approval   run.Policy // "": high_risk in production, never elsewhere
	Hold       bool
}

// StackView is a stack with what is told beside it.
type StackView struct {
	Stack   run.Stack
	Account string   // name of the account
	LastRun *run.Run // nil before the first
}

// PutStack creates the stack or stores its new settings. They count for runs that are started from now on.
func (e *Engine) PutStack(ctx context.Context, actor access.Actor, in PutStack) (view StackView, err error) {
	if err := actor.Allow(access.StackWrite); err != nil {
		return view, err
	}
	if err := run.CheckName("stack", in.Name); err != nil {
		return view, err
	}
	policy, err := run.StackPolicy(in.Approval, in.Production)
	if err != nil {
		return view, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		account, err := managed(ctx, tx, actor.Org, in.Account)
		if err != nil {
			return err
		}
		old, err := tx.Stack(ctx, actor.Org, in.Name)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		now := e.now()
		want := run.Stack{
			ID: id.New(id.Stack, now), Org: actor.Org, Name: in.Name, Account: account.ID, Production: in.Production,
			Approval: policy, Hold: in.Hold, CreatedAt: now, UpdatedAt: now,
		}
		if old.ID != "" && old.Account == want.Account && old.Production == want.Production && old.Approval == want.Approval && old.Hold == want.Hold {
			view, err = e.viewStack(ctx, tx, old)
			return err
		}
		stored, err := tx.PutStack(ctx, want)
		if err != nil {
			return err
		}
		if view, err = e.viewStack(ctx, tx, stored); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "stack.put", in.Name, map[string]any{
			"account": account.Name, "production": in.Production,
			"approval": policy, "hold": in.Hold, "created": old.ID == "",
		})
	})
	return view, err
}

// managed is the account by name, refused with 409 where the organization does not have it or it is disabled.
func managed(ctx context.Context, tx Tx, org, name string) (access.Account, error) {
	account, err := tx.Account(ctx, org, name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return account, err
	}
	if err != nil || !account.Enabled {
		return account, notManaged(name)
	}
	return account, nil
}

func notManaged(name string) error {
	return fault.New(fault.Conflict, "account_not_managed", "The account %s is not managed here, or it is disabled.", name).
		WithHint("An administrator adds it with `holdfast account add`, or enables it with `holdfast account enable`.")
}

func (e *Engine) viewStack(ctx context.Context, tx Tx, s run.Stack) (StackView, error) {
	v := StackView{Stack: s}
	account, err := tx.AccountByID(ctx, s.Account)
	if err != nil {
		return v, fmt.Errorf("read the account of stack %s: %w", s.Name, err)
	}
	v.Account = account.Name
	if s.LastRun == "" {
		return v, nil
	}
	r, err := tx.Run(ctx, s.Org, s.LastRun)
	if err != nil {
		return v, fmt.Errorf("read the last run of stack %s: %w", s.Name, err)
	}
	v.LastRun = &r
	return v, nil
}

// Stack gives one stack.
func (e *Engine) Stack(ctx context.Context, actor access.Actor, name string) (view StackView, err error) {
	if err := actor.Allow(access.StackRead); err != nil {
		return view, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		s, err := tx.Stack(ctx, actor.Org, name)
		if err != nil {
			return err
		}
		view, err = e.viewStack(ctx, tx, s)
		return err
	})
	return view, err
}

// Stacks lists the organization's stacks by name; query matches a part of it.
func (e *Engine) Stacks(ctx context.Context, actor access.Actor, query string, p Page) (items []StackView, next string, err error) {
	if err := actor.Allow(access.StackRead); err != nil {
		return nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		items = items[:0]
		var stacks []run.Stack
		stacks, next, err = tx.Stacks(ctx, actor.Org, query, p)
		if err != nil {
			return err
		}
		for _, s := range stacks {
			v, err := e.viewStack(ctx, tx, s)
			if err != nil {
				return err
			}
			items = append(items, v)
		}
		return nil
	})
	return items, next, err
}

// openStatuses are the statuses of a run that is not final.
func openStatuses() []run.Status {
	var open []run.Status
	for _, s := range run.Statuses() {
		if !s.Final() {
			open = append(open, s)
		}
	}
	return open
}

// DeleteStack forgets a stack whose runs have all ended and whose states hold no resources and no outputs. Its
// states stay. It is a Conflict otherwise, and also where a state's resources cannot be read: unknown is not empty.
func (e *Engine) DeleteStack(ctx context.Context, actor access.Actor, name string) error {
	if err := actor.Allow(access.StackWrite); err != nil {
		return err
	}
	var empty map[string]string // id of a state to the version that was seen to be empty
	for {
		var unread []state.State
		err := e.store.Update(ctx, func(tx Tx) error {
			s, err := tx.Stack(ctx, actor.Org, name)
			if err != nil {
				return err
			}
			if unread, err = e.deletable(ctx, tx, s, empty); err != nil || len(unread) > 0 {
				return err
			}
			if err := tx.DeleteStack(ctx, s.ID, e.now()); err != nil {
				return err
			}
			return e.record(ctx, tx, actor, "stack.delete", name, nil)
		})
		if err != nil || len(unread) == 0 {
			return err
		}
		empty = map[string]string{}
		for _, s := range unread {
			if err := e.checkEmpty(ctx, s); err != nil {
				return err
			}
			empty[s.ID] = s.Head.ID
		}
	}
}

// deletable gives the states of the stack that have to be read first; known are those that were.
func (e *Engine) deletable(ctx context.Context, tx Tx, s run.Stack, known map[string]string) ([]state.State, error) {
	open, _, err := tx.Runs(ctx, RunFilter{Org: s.Org, StackID: s.ID, Statuses: openStatuses()}, Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		return nil, fault.New(fault.Conflict, "stack_busy", "The stack %s has a run that has not ended: %s.", s.Name, open[0].ID).
			WithHint("Wait for it, or cancel it: holdfast run cancel %s", open[0].ID)
	}
	states, err := statesOf(ctx, tx, s)
	if err != nil {
		return nil, err
	}
	var unread []state.State
	for _, st := range states {
		if st.Head != nil && known[st.ID] != st.Head.ID {
			unread = append(unread, st)
		}
	}
	return unread, nil
}

// statesOf are the states that the stack's runs have used and that are not deleted.
func statesOf(ctx context.Context, tx Tx, s run.Stack) ([]state.State, error) {
	var found []state.State
	seen := map[string]bool{}
	for cursor := ""; ; {
		runs, next, err := tx.Runs(ctx, RunFilter{Org: s.Org, StackID: s.ID}, Page{Limit: 500, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			for _, c := range r.Components {
				if seen[c.StateName] {
					continue
				}
				seen[c.StateName] = true
				st, err := tx.State(ctx, s.Org, c.StateName)
				if fault.Is(err, fault.NotFound) || err == nil && !st.DeletedAt.IsZero() {
					continue
				}
				if err != nil {
					return nil, err
				}
				found = append(found, st)
			}
		}
		if next == "" {
			return found, nil
		}
		cursor = next
	}
}

// checkEmpty is nil where the state's current document lists no resources.
func (e *Engine) checkEmpty(ctx context.Context, s state.State) error {
	full := fault.New(fault.Conflict, "stack_has_resources", "The state %s still holds resources or outputs, or they cannot be read.", s.Name).
		WithHint("Destroy them first (holdfast up --destroy), or delete the state.")
	var o Object
	err := e.store.View(ctx, func(tx Tx) (err error) {
		o, err = tx.Object(ctx, s.Head.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("find the document of state %s: %w", s.Name, err)
	}
	doc, err := e.openObject(ctx, o)
	if err != nil {
		return err
	}
	defer doc.Close() //nolint:errcheck // read to its end
	scan := state.NewScanner()
	if _, err := io.Copy(scan, doc); err != nil {
		return fmt.Errorf("read the document of state %s: %w", s.Name, err)
	}
	said, err := scan.Finish()
	if err != nil {
		return fmt.Errorf("read the document of state %s: %w", s.Name, err)
	}
	if said.Encrypted || said.Resources {
		return full
	}
	return nil
}
