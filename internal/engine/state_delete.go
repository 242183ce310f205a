package engine

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// StateImport is a document that is to become a state.
type StateImport struct {
	StateWrite
	// ReplaceDeleted purges a deleted state of that name, which could still be restored; it needs StateManage then.
	ReplaceDeleted bool
}

// ImportState makes a state of a document that comes from elsewhere. It never changes what is there: a name with a
// document is a Conflict, and so is that of a deleted state, unless the import is to replace it.
func (e *Engine) ImportState(ctx context.Context, a access.Actor, name string, in StateImport) (v state.Version, err error) {
	defer func() { e.logRefusal(ctx, a, "import", name, "", err) }()
	if err := stateAccess(a, access.StateWrite, name); err != nil {
		return v, err
	}
	if err := e.needKey(); err != nil {
		return v, err
	}
	o, doc, err := e.sealDocument(ctx, a.Org, in.StateWrite)
	if err != nil {
		return v, err
	}
	if err = e.freeName(ctx, a, name, in.ReplaceDeleted); err == nil {
		err = e.changeState(ctx, a, name, true, func(tx Tx, s state.State, by sender) error {
			if s.Versions > 0 {
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
			return e.putHead(ctx, tx, a, s, o, v, doc.Inventory, "state.import", 0)
		})
	}
	if err != nil {
		e.discardObject(ctx, o, err)
	}
	return v, err
}

// freeName refuses the name of a deleted state, or with replace purges that state. What is being purged already is
// purged to its end.
func (e *Engine) freeName(ctx context.Context, a access.Actor, name string, replace bool) error {
	var purging string
	err := e.changeState(ctx, a, name, false, func(tx Tx, s state.State, _ sender) error {
		purging = ""
		switch {
		case s.DeletedAt.IsZero():
			return nil
		case s.Purged():
			purging = s.ID
			return nil
		case !replace:
			return fault.New(fault.Conflict, "name_deleted", "A deleted state of the name %s can still be restored; an import in its place would end that.", name).
				WithHint("Choose another name, restore it, or say that the import is to replace it (holdfast state import --replace-deleted), which needs tf_state:manage.")
		}
		if err := a.Allow(access.StateManage); err != nil {
			return err
		}
		purging = s.ID
		return e.beginPurge(ctx, tx, a, s)
	})
	switch {
	case fault.Code(err) == "state_not_found":
		return nil
	case err != nil || purging == "":
		return err
	}
	return e.purgeRest(ctx, a.Org, name, purging)
}

// DeleteState deletes a state, which can be restored for a time, or with purge its bytes and keys at once, those of a
// deleted one too. Whoever holds a lock or the state stands against it. Deleting twice is no error.
func (e *Engine) DeleteState(ctx context.Context, a access.Actor, name string, purge bool) (err error) {
	defer func() { e.logRefusal(ctx, a, "delete", name, "", err) }()
	if err := stateAccess(a, access.StateManage, name); err != nil {
		return err
	}
	var purging string
	err = e.changeState(ctx, a, name, false, func(tx Tx, s state.State, by sender) error {
		purging = ""
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
			purging = s.ID
			return e.beginPurge(ctx, tx, a, s)
		}
		s.Lock, s.DeletedAt = nil, e.now()
		if err := tx.UpdateState(ctx, s); err != nil {
			return err
		}
		if err := tx.SetResources(ctx, s.Org, s.ID, nil, state.List{}); err != nil {
			return err
		}
		return e.record(ctx, tx, a, "state.delete", name, deletedRecord{s.ID, s.Versions})
	})
	if err != nil || purging == "" {
		return err
	}
	return e.purgeRest(ctx, a.Org, name, purging)
}

// deletedRecord is what the audit log says of a state that goes or comes back.
type deletedRecord struct {
	State    string `json:"state"`
	Versions int64  `json:"versions"`
}

// RestoreState brings a deleted state back as it was. Repeating it is no error.
func (e *Engine) RestoreState(ctx context.Context, a access.Actor, name string) (StateView, error) {
	if err := stateAccess(a, access.StateManage, name); err != nil {
		return StateView{}, err
	}
	stateID := ""
	err := e.changeState(ctx, a, name, false, func(tx Tx, s state.State, _ sender) error {
		stateID = s.ID
		switch {
		case s.DeletedAt.IsZero():
			return nil
		case s.Purged():
			return state.Present(s)
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
	if err := e.listState(ctx, stateID); err != nil {
		e.log.InfoContext(ctx, "the resources of a restored state are left to the housekeeping", "state", name, "error", err)
	}
	return e.State(ctx, a, name)
}
