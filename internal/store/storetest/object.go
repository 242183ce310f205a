package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

func newObject(chunks int) engine.Object {
	return engine.Object{
		ID: id.New(id.Object, now), Org: "org_x", Kind: "plan", Key: state.Key{Kind: "transit", Name: "acme", Version: "3"},
		Wrapped: []byte("wrapped"), Size: 10, Sealed: 20, SHA256: "aa", MD5: "bb", Chunks: chunks, CreatedAt: now,
	}
}

func stage(t testing.TB, s *store.Store, object string, seq, second int) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		return tx.PutChunk(ctx, object, seq, fmt.Appendf(nil, "%s %d", object, seq), after(second))
	})
}

func objects(t *testing.T, s *store.Store) {
	o := newObject(0)
	o.Inline = []byte{0, 1, 2, 255}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Object(ctx, o.ID)
		same(t, "object", got, o)
		return err
	})
	refused(t, s, fault.Conflict, "attaching it again", func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	for range 2 { // the second time there is nothing to do
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, o.ID) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Object(ctx, o.ID)
		wantKind(t, "a deleted object", err, fault.NotFound)
		_, err = tx.Chunks(ctx, o.ID, 0, 1)
		wantKind(t, "a chunk of it", err, fault.NotFound)
		return nil
	})
}

func staging(t *testing.T, s *store.Store) {
	o := newObject(3)
	attach := func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) }
	refused(t, s, fault.Conflict, "attaching an object without its chunks", attach)
	for _, seq := range []int{0, 2, 2} { // a repeated one is stored once
		stage(t, s, o.ID, seq, 0)
	}
	refused(t, s, fault.Conflict, "attaching an object with a chunk missing", attach)
	stage(t, s, o.ID, 1, 0)
	update(t, s, attach)
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Object(ctx, o.ID)
		same(t, "object", got, o)
		data, chunks := tx.Chunks(ctx, o.ID, 0, 3)
		same(t, "chunks", string(bytes.Join(data, []byte(", "))), fmt.Sprintf("%[1]s 0, %[1]s 1, %[1]s 2", o.ID))
		last, one := tx.Chunks(ctx, o.ID, 2, 1)
		same(t, "the last chunk", string(bytes.Join(last, nil)), o.ID+" 2")
		_, missing := tx.Chunks(ctx, o.ID, 2, 2)
		wantKind(t, "a chunk after the last", missing, fault.NotFound)
		return errors.Join(err, chunks, one)
	})
	refused(t, s, fault.Conflict, "a chunk of an attached object", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutChunk(ctx, o.ID, 0, []byte("other"), now)
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, o.ID) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Chunks(ctx, o.ID, 0, 1)
		wantKind(t, "a chunk of a deleted object", err, fault.NotFound)
		return nil
	})
}

func sweepStaged(t *testing.T, s *store.Store) {
	kept, old, busy, young := newObject(2), newObject(5), newObject(2), newObject(1)
	stage(t, s, kept.ID, 0, 0)
	stage(t, s, kept.ID, 1, 0)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, kept) })
	for seq := range 5 {
		stage(t, s, old.ID, seq, seq)
	}
	stage(t, s, busy.ID, 0, 0)
	stage(t, s, busy.ID, 1, 100) // still being sent
	stage(t, s, young.ID, 0, 100)
	sweep := func() (n int) {
		update(t, s, func(ctx context.Context, tx engine.Tx) (err error) {
			n, err = tx.SweepStaged(ctx, after(50), 3)
			return err
		})
		return n
	}
	same(t, "chunks swept, three calls", []int{sweep(), sweep(), sweep()}, []int{3, 2, 0})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		for seq := range 5 {
			_, err := tx.Chunks(ctx, old.ID, seq, 1)
			wantKind(t, "a swept chunk", err, fault.NotFound)
		}
		for _, o := range []engine.Object{kept, busy, young} {
			for seq := range o.Chunks {
				if _, err := tx.Chunks(ctx, o.ID, seq, 1); err != nil {
					t.Errorf("chunk %d of what is not swept: %v", seq, err)
				}
			}
		}
		return nil
	})
	refused(t, s, fault.Conflict, "attaching what was swept", func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, old) })
}

// heads: a document that can be read is found by one statement; wherever something is missing, nothing is.
func heads(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	v := newVersion(st, 3)
	o := newObject(0)
	o.ID, o.Inline = v.ID, []byte("sealed")
	head := func(org, name string) (h engine.Head, err error) {
		err = s.Look(t.Context(), func(tx engine.Tx) (err error) {
			h, err = tx.Head(t.Context(), org, name)
			return err
		})
		return h, err
	}
	missing := func(what string) {
		t.Helper()
		_, err := head(w.org.ID, "net")
		wantKind(t, what, err, fault.NotFound)
	}
	missing("no state")
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, st) })
	missing("an empty state")
	st.Head, st.Versions = &v, 3
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateState(ctx, st) })
	missing("a head without its version")
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.PutVersion(ctx, v) })
	missing("a version without its object")
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	got, err := head(w.org.ID, "net")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "head", got, engine.Head{State: st.ID, Number: 3, Object: o})
	_, err = head("org_other", "net")
	wantKind(t, "a state of another organization", err, fault.NotFound)
	older := newVersion(st, 2)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.PutVersion(ctx, older) })
	if got, err = head(w.org.ID, "net"); err != nil || got.Number != 3 {
		t.Errorf("the head beside an older version = %d, %v, want 3", got.Number, err)
	}
	st.DeletedAt = after(1)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateState(ctx, st) })
	missing("a deleted state")
}
