package store

import (
	"context"
	"fmt"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) State(ctx context.Context, org, name string) (state.State, error) {
	row, err := t.q.State(ctx, org, name)
	if err != nil {
		return state.State{}, t.err("reading", "state", err)
	}
	return stateOf(row)
}

func (t *tx) StateForUpdate(ctx context.Context, org, name string) (state.State, error) {
	if err := t.lock(ctx, "state", "SELECT id FROM states WHERE org = $1 AND name = $2", org, name); err != nil {
		return state.State{}, err
	}
	s, err := t.State(ctx, org, name)
	if err == nil {
		t.lockedRow(s.ID, s.Versions)
	}
	return s, err
}

func (t *tx) StateByID(ctx context.Context, id string) (state.State, error) {
	row, err := t.q.StateByID(ctx, id)
	if err != nil {
		return state.State{}, t.err("reading", "state", err)
	}
	return stateOf(db.StateRow(row))
}

func (t *tx) CreateState(ctx context.Context, s state.State) error {
	f, err := stateFields(s)
	if err != nil {
		return err
	}
	err = t.q.CreateState(ctx, db.CreateStateParams{
		ID: s.ID, Org: s.Org, Name: s.Name, CreatedAt: micros(s.CreatedAt), UpdatedAt: f.UpdatedAt,
		DeletedAt: f.DeletedAt, Versions: f.Versions, Head: f.Head, LockKey: f.LockKey, LockInfo: f.LockInfo,
		LockHolder: f.LockHolder, LockTakenAt: f.LockTakenAt, HoldRun: f.HoldRun, HoldSince: f.HoldSince,
	})
	if err == nil {
		t.lockedRow(s.ID, s.Versions)
	}
	return t.err("creating", "state", err)
}

func (t *tx) UpdateState(ctx context.Context, s state.State) error {
	f, err := stateFields(s)
	if err != nil {
		return err
	}
	n, err := t.changing(s.ID, "storing", "state").UpdateState(ctx, f)
	return t.one("storing", "state", n, err)
}

func stateFields(s state.State) (db.UpdateStateParams, error) {
	f := db.UpdateStateParams{
		ID: s.ID, UpdatedAt: micros(s.UpdatedAt), DeletedAt: micros(s.DeletedAt), Versions: s.Versions,
	}
	if s.Head != nil {
		f.Head = s.Head.Number
	}
	if s.Hold != nil {
		f.HoldRun, f.HoldSince = s.Hold.Run, micros(s.Hold.Since)
	}
	if s.Lock == nil {
		return f, nil
	}
	if s.Lock.Key == "" {
		return f, fmt.Errorf("the lock of state %s has no key", s.ID)
	}
	info, err := encode(s.Lock.Info)
	if err != nil {
		return f, err
	}
	holder, err := encode(s.Lock.Holder)
	f.LockKey, f.LockInfo, f.LockHolder, f.LockTakenAt = s.Lock.Key, info, holder, micros(s.Lock.TakenAt)
	return f, err
}

func (t *tx) States(ctx context.Context, f engine.StateFilter, p engine.Page) ([]state.State, string, error) {
	g, err := pages("states", 1, p)
	if err != nil {
		return nil, "", err
	}
	like, err := pattern(f.Query)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.States(ctx, db.StatesParams{
		Org: f.Org, After: g.text(0, ""), Deleted: f.Deleted, Locked: f.Locked || f.Stale, Held: f.Held, Encrypted: f.Encrypted, Pattern: like, Count: g.count(),
	})
	if err != nil {
		return nil, "", t.err("listing", "state", err)
	}
	return page(g, rows, func(r db.StatesRow) (state.State, error) { return stateOf(db.StateRow(r)) },
		func(r db.StatesRow) []string { return []string{r.State.Name} })
}

func (t *tx) PurgeState(ctx context.Context, id string) error {
	if err := t.q.DropResources(ctx, id); err != nil {
		return t.err("purging", "resource list", err)
	}
	delete(t.mine, id)
	n, err := t.q.PurgeState(ctx, id)
	return t.one("purging", "state", n, err)
}

func stateOf(r db.StateRow) (state.State, error) {
	s := state.State{
		ID: r.State.ID, Org: r.State.Org, Name: r.State.Name, CreatedAt: moment(r.State.CreatedAt),
		UpdatedAt: moment(r.State.UpdatedAt), DeletedAt: moment(r.State.DeletedAt), Versions: r.State.Versions,
		List: state.List{Hash: r.State.ResourcesHash, Truncated: r.State.ResourcesTruncated},
	}
	switch {
	case r.State.Head == 0:
	case r.ID == "":
		// Never to be taken for an empty state: the tools would plan to create everything again.
		return s, fmt.Errorf("state %s points at version %d, which is not stored", s.ID, r.State.Head)
	default:
		v, err := version(headOf(r))
		if err != nil {
			return s, err
		}
		s.Head = &v
	}
	if r.State.HoldRun != "" {
		s.Hold = &state.Hold{Run: r.State.HoldRun, Since: moment(r.State.HoldSince)}
	}
	if r.State.LockKey == "" {
		return s, nil
	}
	s.Lock = &state.Lock{Key: r.State.LockKey, TakenAt: moment(r.State.LockTakenAt)}
	if err := decode(r.State.LockInfo, &s.Lock.Info); err != nil {
		return s, err
	}
	return s, decode(r.State.LockHolder, &s.Lock.Holder)
}

func headOf(r db.StateRow) db.Version {
	return db.Version{
		ID: r.ID, StateID: r.State.ID, Number: r.State.Head, Serial: r.Serial, SerialKnown: r.SerialKnown,
		Lineage: r.Lineage, Size: r.Size, SHA256: r.SHA256, MD5: r.MD5, Source: r.Source, Encrypted: r.Encrypted,
		Quarantined: r.Quarantined, Terraform: r.Terraform, KeyKind: r.KeyKind, KeyName: r.KeyName,
		KeyVersion: r.KeyVersion, CreatedAt: r.CreatedAt, MadeBy: r.MadeBy, LockKey: r.LockKey, LockID: r.LockID,
	}
}
