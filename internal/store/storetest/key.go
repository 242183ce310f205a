package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

// keys moves a version's object and one of no version to another key, and leaves everything else as it was.
func keys(t *testing.T, s *store.Store) {
	_, st := withVersions(t, s, 2)
	plan, doc := newObject(0), newObject(0)
	plan.Inline, doc.Inline = []byte{1}, []byte{2}
	doc.ID, doc.Kind = st.Head.ID, "state"
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.AttachObject(ctx, plan); err != nil {
			return err
		}
		return tx.AttachObject(ctx, doc)
	})
	key, wrapped := state.Key{Kind: "platform", Name: "0a0b0c0d", Version: "1"}, []byte("another")
	for _, o := range []engine.Object{plan, doc} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.RewrapObject(ctx, o, key, wrapped) })
		refused(t, s, fault.Conflict, "rewrapping what was rewrapped meanwhile", func(ctx context.Context, tx engine.Tx) error {
			return tx.RewrapObject(ctx, o, state.Key{Kind: "x", Name: "y", Version: "z"}, []byte("third"))
		})
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		for _, o := range []engine.Object{plan, doc} {
			got, err := tx.Object(ctx, o.ID)
			if err != nil {
				return err
			}
			o.Key, o.Wrapped = key, wrapped
			same(t, "the object", got, o)
		}
		moved, err := tx.Version(ctx, st.ID, st.Head.Number)
		if err != nil {
			return err
		}
		want := *st.Head
		want.Key = key
		same(t, "its version", moved, want)
		other, err := tx.Version(ctx, st.ID, 1)
		same(t, "the other version's key is as it was", other.Key != key, true)
		if err != nil {
			return err
		}
		uses, err := tx.KeyUses(ctx)
		same(t, "uses", uses, []engine.KeyUse{{Key: key, Objects: 2}})
		return err
	})
	listKeys(t, s, plan.ID, doc.ID)
}

// listKeys goes through all objects one by one.
func listKeys(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		seen := map[string]bool{}
		for after := ""; ; {
			page, err := tx.ObjectKeys(ctx, after, 1)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			after = page[0].ID
			seen[after] = true
			same(t, "a listed object's wrapped key", page[0].Wrapped, []byte("another"))
		}
		for _, id := range want {
			same(t, "listed: "+id, seen[id], true)
		}
		same(t, "listed", len(seen), len(want))
		return nil
	})
}
