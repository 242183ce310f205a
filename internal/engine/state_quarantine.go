package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

const (
	// maxQuarantined is how many quarantined versions one state keeps.
	maxQuarantined = 20
	// recentVersions is how far back a repeated write is looked for.
	recentVersions = 20
	// recentForced is how many forced releases of a state are looked at to recognise a holder's late save.
	recentForced = 5
)

// refuseWrite is what becomes of a write that the rules refuse with err. It may have been stored before, under a lock
// that others have followed since: then it is no refusal. The bytes of the lock's holder, or of who held it until it
// was forced, are kept as a quarantined version. The last error is the transaction's, and nil where refusal is to be
// answered after a commit.
func (e *Engine) refuseWrite(ctx context.Context, tx Tx, a access.Actor, s state.State, by sender, w state.Write, o Object,
	keep bool, refusal error,
) (v state.Version, stored bool, answer, err error) {
	kind := fault.From(refusal).Kind
	if kind != fault.Conflict && kind != fault.Locked {
		return v, false, refusal, refusal
	}
	recent, _, err := tx.Versions(ctx, s.ID, false, Page{Limit: recentVersions})
	if err != nil {
		return v, false, nil, fmt.Errorf("look for an earlier copy of the write: %w", err)
	}
	for _, old := range recent {
		if w.LockID != "" && old.LockID == w.LockID && old.By.Same(by.Holder) && old.SHA256 == w.SHA256 && !old.Quarantined {
			return old, false, nil, nil
		}
	}
	v = newVersion(s, by, o, w.Document)
	v.Source, v.Quarantined = state.SourceWrite, true
	switch {
	case keep && s.Lock != nil:
		v.LockKey, v.LockID = s.Lock.Key, s.Lock.Info.ID
	case keep:
		v.LockKey, v.LockID = s.Head.LockKey, s.Head.LockID
	case w.LockID != "":
		if v.LockKey, err = forcedLock(ctx, tx, s, by.Holder, w.LockID); err != nil {
			return v, false, nil, err
		}
		v.LockID = w.LockID
	}
	if !keep && v.LockKey == "" {
		return state.Version{}, false, refusal, refusal
	}
	if err := e.quarantine(ctx, tx, a, s, o, v); err != nil {
		return v, false, nil, err
	}
	f := fault.From(refusal)
	kept := fault.Wrap(f.Err, fault.Conflict, f.Code, "%s The document is kept as the quarantined version %d.", f.Public, v.Number).
		WithHint("Compare it (holdfast state versions %s), and make it current if it is what is true.", s.Name)
	return v, true, kept, nil
}

// forcedLock is the key of the lock with this id that the holder had until it was forced away; "" where there was
// none.
func forcedLock(ctx context.Context, tx Tx, s state.State, h state.Holder, lockID string) (string, error) {
	records, _, err := tx.Audit(ctx, AuditFilter{Org: s.Org, Action: forceAction, Object: s.Name}, Page{Limit: recentForced})
	if err != nil {
		return "", fmt.Errorf("look for a forced release: %w", err)
	}
	for _, r := range records {
		var was forcedRecord
		if err := json.Unmarshal(r.Data, &was); err != nil {
			return "", fmt.Errorf("read audit record %d: %w", r.Seq, err)
		}
		if was.LockID == lockID && was.Holder.Same(h) {
			return was.LockKey, nil
		}
	}
	return "", nil
}

// quarantine keeps v aside: one per lock, the newest; the oldest is dropped where there are too many.
func (e *Engine) quarantine(ctx context.Context, tx Tx, a access.Actor, s state.State, o Object, v state.Version) error {
	aside, _, err := tx.Versions(ctx, s.ID, true, Page{Limit: maxQuarantined + 1})
	if err != nil {
		return fmt.Errorf("list the quarantined versions: %w", err)
	}
	left := 0
	for _, old := range aside { // newest first
		sameLock := v.LockKey != "" && old.LockKey == v.LockKey
		if !sameLock {
			left++
		}
		if !sameLock && left < maxQuarantined {
			continue
		}
		if err := tx.DeleteVersion(ctx, s.ID, old.Number); err != nil {
			return fmt.Errorf("drop the quarantined version %d: %w", old.Number, err)
		}
		if sameLock {
			continue // the same lock's newer save takes its place
		}
		if err := e.record(ctx, tx, a, "state.quarantine_drop", s.Name, auditVersion(old)); err != nil {
			return err
		}
	}
	if err := tx.AttachObject(ctx, o); err != nil {
		return err
	}
	if err := tx.PutVersion(ctx, v); err != nil {
		return err
	}
	s.Versions = v.Number
	if err := tx.UpdateState(ctx, s); err != nil {
		return err
	}
	return e.record(ctx, tx, a, "state.quarantine", s.Name, auditVersion(v))
}

// unsaved is whether a save under the present lock was refused or could not be delivered. It matters for the hold
// alone, so only an unlock that would end it pays for the look.
func (e *Engine) unsaved(ctx context.Context, tx Tx, s state.State, by sender, told bool) (bool, error) {
	if told || !by.Apply || s.Hold == nil || s.Lock == nil {
		return told, nil
	}
	aside, _, err := tx.Versions(ctx, s.ID, true, Page{Limit: maxQuarantined})
	if err != nil {
		return false, fmt.Errorf("list the quarantined versions: %w", err)
	}
	for _, v := range aside {
		if v.LockKey == s.Lock.Key {
			return true, nil
		}
	}
	return false, nil
}
