package engine

import (
	"context"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
)

// ImportState makes a state of a document that comes from elsewhere. It never changes what is there: a name with a
// document is a Conflict. A deleted state of that name is purged.
func (e *Engine) ImportState(ctx context.Context, a access.Actor, name string, w StateWrite) (v state.Version, err error) {
	defer func() { e.logRefusal(ctx, a, "import", name, "", err) }()
	if err := stateAccess(a, access.StateWrite, name); err != nil {
		return v, err
	}
	o, doc, err := e.sealDocument(ctx, a.Org, w)
	if err != nil {
		return v, err
	}
	err = e.changeState(ctx, a, name, true, func(tx Tx, s state.State, by sender) error {
		if !s.DeletedAt.IsZero() {
			if s, err = e.recreate(ctx, tx, a, s); err != nil {
				return err
			}
		}
		if s.Head != nil || s.Versions > 0 {
			return fault.New(fault.Conflict, "state_exists", "There is a state %s already; an import changes none.", name).
				WithHint("Choose another name, or delete the state first. To store a newer document in it, push it: holdfast state push.")
		}
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		if err := state.MayChange(s, by.Sender, life.Dead); err != nil {
			return err
		}
		if life.Dead {
			s.Lock = nil
		}
		v = newVersion(s, by, o, doc)
		v.Source = state.SourceImport
		return e.putHead(ctx, tx, a, s, o, v, "state.import", 0)
	})
	if err != nil {
		e.discardObject(ctx, o, err)
	}
	return v, err
}

// recreate purges a deleted state and makes an empty one of its name.
func (e *Engine) recreate(ctx context.Context, tx Tx, a access.Actor, s state.State) (state.State, error) {
	if err := e.purge(ctx, tx, a, s); err != nil {
		return s, err
	}
	now := e.now()
	s = state.State{ID: id.New(id.State, now), Org: s.Org, Name: s.Name, CreatedAt: now, UpdatedAt: now}
	return s, tx.CreateState(ctx, s)
}

// DeleteState deletes a state, which can be restored for a time, or with purge its bytes and keys at once, those of a
// deleted one too. Whoever holds a lock or the state stands against it. Repeating it is no error.
func (e *Engine) DeleteState(ctx context.Context, a access.Actor, name string, purge bool) (err error) {
	defer func() { e.logRefusal(ctx, a, "delete", name, "", err) }()
	if err := stateAccess(a, access.StateManage, name); err != nil {
		return err
	}
	return e.changeState(ctx, a, name, false, func(tx Tx, s state.State, by sender) error {
		gone := !s.DeletedAt.IsZero()
		if gone && !purge {
			return nil
		}
		if !gone {
			life, err := e.lockLife(ctx, tx, s)
			if err != nil {
				return err
			}
			if err := state.MayChange(s, by.Sender, life.Dead); err != nil {
				return err
			}
		}
		if purge {
			return e.purge(ctx, tx, a, s)
		}
		s.Lock, s.DeletedAt = nil, e.now()
		if err := tx.UpdateState(ctx, s); err != nil {
			return err
		}
		return e.record(ctx, tx, a, "state.delete", name, deletedRecord{s.ID, s.Versions})
	})
}

// deletedRecord is what the audit log says of a state that goes or comes back.
type deletedRecord struct {
	State    string `json:"state"`
	Versions int64  `json:"versions"`
}

func (e *Engine) purge(ctx context.Context, tx Tx, a access.Actor, s state.State) error {
	if err := tx.PurgeState(ctx, s.ID); err != nil {
		return err
	}
	return e.record(ctx, tx, a, "state.purge", s.Name, deletedRecord{s.ID, s.Versions})
}

// RestoreState brings a deleted state back as it was. Repeating it is no error.
func (e *Engine) RestoreState(ctx context.Context, a access.Actor, name string) (StateView, error) {
	if err := stateAccess(a, access.StateManage, name); err != nil {
		return StateView{}, err
	}
	err := e.changeState(ctx, a, name, false, func(tx Tx, s state.State, _ sender) error {
		if s.DeletedAt.IsZero() {
			return nil
		}
		s.DeletedAt = time.Time{}
		if err := tx.UpdateState(ctx, s); err != nil {
			return err
		}
		return e.record(ctx, tx, a, "state.restore", name, deletedRecord{s.ID, s.Versions})
	})
	if err != nil {
		return StateView{}, err
	}
	return e.State(ctx, a, name)
}

// sweepDeleted purges the states that were deleted longer ago than they are kept, a page of each organization at a
// time.
func (e *Engine) sweepDeleted(ctx context.Context) error {
	before := e.now().Add(-e.limits.DeletedKeep)
	for cursor := ""; ; {
		var orgs []access.Organization
		err := e.store.View(ctx, func(tx Tx) (err error) {
			orgs, cursor, err = tx.Organizations(ctx, Page{Limit: 100, Cursor: cursor})
			return err
		})
		if err != nil {
			return fmt.Errorf("list organizations to purge deleted states: %w", err)
		}
		for _, o := range orgs {
			if err := e.sweepDeletedOf(ctx, o.ID, before); err != nil {
				return err
			}
		}
		if cursor == "" {
			return nil
		}
	}
}

func (e *Engine) sweepDeletedOf(ctx context.Context, org string, before time.Time) error {
	var due []state.State
	err := e.store.View(ctx, func(tx Tx) error {
		due = due[:0]
		deleted, _, err := tx.States(ctx, StateFilter{Org: org, Deleted: true}, Page{Limit: 500})
		for _, s := range deleted {
			if s.DeletedAt.Before(before) {
				due = append(due, s)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list deleted states: %w", err)
	}
	system := access.Actor{Kind: access.System, Org: org, ID: "sweep", Name: "retention"}
	for _, d := range due {
		err := e.store.Update(ctx, func(tx Tx) error {
			s, err := tx.StateForUpdate(ctx, org, d.Name)
			if fault.Is(err, fault.NotFound) || err == nil && (s.ID != d.ID || s.DeletedAt.IsZero() || !s.DeletedAt.Before(before)) {
				return nil // purged, restored or made anew meanwhile
			}
			if err != nil {
				return err
			}
			return e.purge(ctx, tx, system, s)
		})
		if err != nil {
			return fmt.Errorf("purge the deleted state %s: %w", d.Name, err)
		}
	}
	return nil
}
