package store

import (
	"context"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) ObjectKeys(ctx context.Context, after string, limit int) ([]engine.Object, error) {
	rows, err := t.q.ObjectKeys(ctx, after, int32(limit))
	if err != nil {
		return nil, t.err("listing", "key", err)
	}
	var objects []engine.Object
	for _, r := range rows {
		objects = append(objects, engine.Object{
			ID: r.ID, Org: r.Org, Kind: r.Kind,
			Key: state.Key{Kind: r.KeyKind, Name: r.KeyName, Version: r.KeyVersion}, Wrapped: present(r.Wrapped),
		})
	}
	return objects, nil
}

// RewrapObject changes the version first, as a save that replaces it does, so that the two do not wait for each other.
func (t *tx) RewrapObject(ctx context.Context, o engine.Object, by state.Key, wrapped []byte) error {
	if err := t.q.RewrapVersion(ctx, db.RewrapVersionParams{KeyKind: by.Kind, KeyName: by.Name, KeyVersion: by.Version, ID: o.ID}); err != nil {
		return t.err("rewrapping", "object", err)
	}
	n, err := t.q.RewrapObject(ctx, db.RewrapObjectParams{
		KeyKind: by.Kind, KeyName: by.Name, KeyVersion: by.Version, Wrapped: wrapped,
		ID: o.ID, Before: o.Wrapped,
	})
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "object_changed", "The object %s was deleted or wrapped anew meanwhile.", o.ID)
	}
	return t.err("rewrapping", "object", err)
}

func (t *tx) KeyUses(ctx context.Context) ([]engine.KeyUse, error) {
	rows, err := t.q.KeyUses(ctx)
	if err != nil {
		return nil, t.err("counting", "key", err)
	}
	var uses []engine.KeyUse
	for _, r := range rows {
		uses = append(uses, engine.KeyUse{Key: state.Key{Kind: r.KeyKind, Name: r.KeyName, Version: r.KeyVersion}, Objects: r.Objects})
	}
	return uses, nil
}
