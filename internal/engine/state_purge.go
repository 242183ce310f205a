package engine

import (
	"context"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// Bounds of one transaction of a purge. The version that passes the bytes is its last.
const (
	purgeVersions = 100
	purgeBytes    = 64 << 20 // of documents
)

// beginPurge makes s a state that is being purged: nothing reads, restores or lists it any more. What it consists of is
// deleted in steps, by purgeRest; a crash between them leaves it to the sweep.
func (e *Engine) beginPurge(ctx context.Context, tx Tx, a access.Actor, s state.State) error {
	if s.Purged() {
		return nil
	}
	versions := s.Versions
	s.Lock, s.Hold, s.Head, s.DeletedAt = nil, nil, nil, state.PurgedAt()
	if err := tx.UpdateState(ctx, s); err != nil {
		return err
	}
	if err := tx.SetResources(ctx, s.Org, s.ID, nil, state.List{}); err != nil {
		return err
	}
	return e.record(ctx, tx, a, "state.purge", s.Name, deletedRecord{s.ID, versions})
}

// purgeRest deletes what is left of a state that is being purged, and then its row. It may be begun again at any time,
// by several at once.
func (e *Engine) purgeRest(ctx context.Context, org, name, stateID string) error {
	for done := false; !done; {
		err := e.store.Update(ctx, func(tx Tx) (err error) {
			s, err := tx.StateForUpdate(ctx, org, name)
			if fault.Is(err, fault.NotFound) || err == nil && s.ID != stateID {
				done = true // somebody else was faster
				return nil
			}
			if err == nil {
				done, err = purgeStep(ctx, tx, stateID)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("purge the deleted state %s: %w", name, err)
		}
	}
	return nil
}

// purgeStep deletes some versions with their bytes, and the state once it has none; done is that it is gone.
func purgeStep(ctx context.Context, tx Tx, stateID string) (done bool, err error) {
	versions, _, err := tx.Versions(ctx, stateID, false, Page{Limit: purgeVersions})
	if err != nil {
		return false, err
	}
	if len(versions) == 0 {
		return true, tx.PurgeState(ctx, stateID)
	}
	var size int64
	for _, v := range versions {
		if err := tx.DeleteVersion(ctx, stateID, v.Number); err != nil {
			return false, err
		}
		if size += v.Size; size >= purgeBytes {
			break
		}
	}
	return false, nil
}

// sweepDeleted purges the states that were deleted longer ago than they are kept, and what a crash left of others.
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
	for cursor := ""; ; {
		var deleted []state.State
		err := e.store.View(ctx, func(tx Tx) (err error) {
			deleted, cursor, err = tx.States(ctx, StateFilter{Org: org, Deleted: true}, Page{Limit: 100, Cursor: cursor})
			return err
		})
		if err != nil {
			return fmt.Errorf("list deleted states: %w", err)
		}
		for _, d := range deleted {
			if !d.DeletedAt.Before(before) {
				continue
			}
			if err := e.purgeDue(ctx, d); err != nil {
				return err
			}
		}
		if cursor == "" {
			return nil
		}
	}
}

// purgeDue purges d, unless it was restored, deleted anew or replaced since it was read.
func (e *Engine) purgeDue(ctx context.Context, d state.State) error {
	due := false
	err := e.store.Update(ctx, func(tx Tx) error {
		due = false
		s, err := tx.StateForUpdate(ctx, d.Org, d.Name)
		if fault.Is(err, fault.NotFound) || err == nil && (s.ID != d.ID || !s.DeletedAt.Equal(d.DeletedAt)) {
			return nil
		}
		if err != nil {
			return err
		}
		due = true
		return e.beginPurge(ctx, tx, access.Actor{Kind: access.System, Org: d.Org, ID: "sweep", Name: "retention"}, s)
	})
	if err != nil {
		return fmt.Errorf("purge the deleted state %s: %w", d.Name, err)
	}
	if !due {
		return nil
	}
	return e.purgeRest(ctx, d.Org, d.Name, d.ID)
}
