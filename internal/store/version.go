package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strconv"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

// PutVersion is a Conflict where the number is taken by a version that cannot change any more.
func (t *tx) PutVersion(ctx context.Context, v state.Version) error {
	by, err := encode(v.By)
	if err != nil {
		return err
	}
	row := db.AddVersionParams{
		ID: v.ID, StateID: v.StateID, Number: v.Number, Serial: int64(v.Serial.N), SerialKnown: v.Serial.Known,
		Lineage: v.Lineage, Size: v.Size, SHA256: v.SHA256, MD5: v.MD5, Source: string(v.Source), Encrypted: v.Encrypted,
		Quarantined: v.Quarantined, Terraform: v.Terraform, KeyKind: v.Key.Kind, KeyName: v.Key.Name,
		KeyVersion: v.Key.Version, CreatedAt: micros(v.CreatedAt), MadeBy: by, LockKey: v.LockKey, LockID: v.LockID,
	}
	// A state that is locked counts its versions: a number beyond them is free.
	if versions, locked := t.mine[v.StateID]; locked && v.Number > versions {
		t.mine[v.StateID] = v.Number
		return t.afterwards("storing", "version").AddVersion(ctx, row)
	} else if locked {
		return t.replaceVersion(ctx, row)
	}
	inserted, err := t.q.InsertVersion(ctx, db.InsertVersionParams(row))
	if err != nil || inserted == 1 {
		return t.err("storing", "version", err)
	}
	return t.replaceVersion(ctx, row)
}

func (t *tx) replaceVersion(ctx context.Context, v db.AddVersionParams) error {
	before, err := t.q.OpenVersion(ctx, v.StateID, v.Number, v.LockKey)
	if err != nil {
		if err := t.err("replacing", "version", err); !fault.Is(err, fault.NotFound) {
			return err
		}
		return t.err("replacing", "version", fault.New(fault.Conflict, "version_fixed",
			"Version %d is stored, and the lock it was written under has ended. It cannot change any more.", v.Number))
	}
	if err := t.afterwards("replacing", "version").ReplaceVersion(ctx, db.ReplaceVersionParams{
		ID: v.ID, Serial: v.Serial, SerialKnown: v.SerialKnown, Lineage: v.Lineage, Size: v.Size, SHA256: v.SHA256,
		MD5: v.MD5, Source: v.Source, Encrypted: v.Encrypted, Quarantined: v.Quarantined, Terraform: v.Terraform,
		KeyKind: v.KeyKind, KeyName: v.KeyName, KeyVersion: v.KeyVersion, CreatedAt: v.CreatedAt, MadeBy: v.MadeBy,
		LockID: v.LockID, StateID: v.StateID, Number: v.Number,
	}); err != nil || before.ID == v.ID {
		return err
	}
	return t.dropObject(ctx, before)
}

func (t *tx) Version(ctx context.Context, stateID string, number int64) (state.Version, error) {
	row, err := t.q.Version(ctx, stateID, number)
	if err != nil {
		return state.Version{}, t.err("reading", "version", err)
	}
	return version(row)
}

func (t *tx) Versions(ctx context.Context, stateID string, onlyQuarantined bool, p engine.Page) ([]state.Version, string, error) {
	g, err := pages("versions", 1, p)
	if err != nil {
		return nil, "", err
	}
	before, err := g.number(math.MaxInt64)
	if err != nil {
		return nil, "", err
	}
	list := t.q.Versions
	if onlyQuarantined {
		list = t.q.QuarantinedVersions
	}
	rows, err := list(ctx, stateID, before, g.count())
	if err != nil {
		return nil, "", t.err("listing", "version", err)
	}
	return page(g, rows, version, func(r db.Version) []string { return []string{strconv.FormatInt(r.Number, 10)} })
}

func (t *tx) VersionBefore(ctx context.Context, stateID string, number int64) (int64, error) {
	before, err := t.q.VersionBefore(ctx, stateID, number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return before, t.err("reading", "version", err)
}

// DeleteVersion deletes the version's object with it. It is nil where there is no such version: a sweep may be
// repeated.
func (t *tx) DeleteVersion(ctx context.Context, stateID string, number int64) error {
	id, err := t.q.DeleteVersion(ctx, stateID, number)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return t.err("deleting", "version", err)
	}
	return t.DeleteObject(ctx, id)
}

func (t *tx) DropBeyond(ctx context.Context, stateID string, keep, limit int) error {
	old, err := t.q.VersionsBeyond(ctx, stateID, int32(keep), int32(limit))
	if err != nil {
		return t.err("listing", "version", err)
	}
	for _, v := range old {
		if err := t.afterwards("dropping", "version").DropVersion(ctx, stateID, v.Number); err != nil {
			return err
		}
		o := db.OpenVersionRow{ID: v.ID, Chunks: v.Chunks, Place: v.Place, Org: v.Org, Kind: v.Kind}
		if err := t.dropObject(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func version(r db.Version) (state.Version, error) {
	v := state.Version{
		ID: r.ID, StateID: r.StateID, Number: r.Number, Serial: state.Serial{N: uint64(r.Serial), Known: r.SerialKnown},
		Lineage: r.Lineage, Size: r.Size, SHA256: r.SHA256, MD5: r.MD5, Source: state.Source(r.Source),
		Encrypted: r.Encrypted, Quarantined: r.Quarantined, Terraform: r.Terraform,
		Key:       state.Key{Kind: r.KeyKind, Name: r.KeyName, Version: r.KeyVersion},
		CreatedAt: moment(r.CreatedAt), LockKey: r.LockKey, LockID: r.LockID,
	}
	return v, decode(r.MadeBy, &v.By)
}
