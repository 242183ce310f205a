package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
)

func newBlob() engine.Object {
	o := newObject(0)
	o.Place = engine.PlaceBlob
	return o
}

func stageBlob(t testing.TB, s *store.Store, o engine.Object, second int) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.StageBlob(ctx, o, after(second)) })
}

// doomed lists the ids of what was doomed before the second.
func doomed(t *testing.T, s *store.Store, second int) (ids []string) {
	t.Helper()
	ids = []string{}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		objects, err := tx.DoomedBlobs(ctx, after(second), "", 100)
		for _, o := range objects {
			if o.Org != "org_x" || o.Kind != "plan" && o.Kind != "state" || o.Place != engine.PlaceBlob {
				t.Errorf("doomed: %+v, want its organization and kind", o)
			}
			ids = append(ids, o.ID)
		}
		return err
	})
	return ids
}

// sweepBlobs dooms what was staged before the second, at now.
func sweepBlobs(t *testing.T, s *store.Store, before, now, limit int) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		return tx.DoomBlobs(ctx, after(before), after(now), limit)
	})
}

func blobs(t *testing.T, s *store.Store) {
	o := newBlob()
	attach := func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) }
	refused(t, s, fault.Conflict, "attaching what was not staged", attach)
	stageBlob(t, s, o, 0)
	update(t, s, attach)
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Object(ctx, o.ID)
		same(t, "object", got, o)
		return err
	})
	refused(t, s, fault.Conflict, "touching what is attached", func(ctx context.Context, tx engine.Tx) error { return tx.TouchBlob(ctx, o.ID, now) })
	sweepBlobs(t, s, 100, 100, 10)
	same(t, "doomed of what is attached", doomed(t, s, 1000), []string{})
	for range 2 { // the second time there is nothing to do
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, o.ID) })
	}
	same(t, "doomed before a sweep has seen it", doomed(t, s, 1000), []string{})
	sweepBlobs(t, s, 0, 100, 10)
	sweepBlobs(t, s, 0, 200, 10) // counts from the first
	same(t, "doomed too short a while ago", doomed(t, s, 100), []string{})
	same(t, "doomed", doomed(t, s, 101), []string{o.ID})
	refused(t, s, fault.Conflict, "attaching what was deleted", attach)
	for range 2 {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.ForgetBlob(ctx, o.ID) })
	}
	same(t, "doomed of what is gone", doomed(t, s, 1000), []string{})
}

// dropBlobs: what was staged and then refused is doomed by the same call that drops staged chunks.
func dropBlobs(t *testing.T, s *store.Store) {
	o := newBlob()
	stageBlob(t, s, o, 0)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, o.ID) })
	sweepBlobs(t, s, 0, 1, 10)
	same(t, "doomed", doomed(t, s, 100), []string{o.ID})
}

func sweepOldBlobs(t *testing.T, s *store.Store) {
	old, older, touched, young := newBlob(), newBlob(), newBlob(), newBlob()
	stageBlob(t, s, older, 0)
	stageBlob(t, s, old, 1)
	stageBlob(t, s, touched, 2)
	stageBlob(t, s, young, 60)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.TouchBlob(ctx, touched.ID, after(70)) })
	sweepBlobs(t, s, 50, 100, 1)
	same(t, "doomed by the first sweep", doomed(t, s, 1000), []string{older.ID})
	sweepBlobs(t, s, 50, 100, 10)
	same(t, "number doomed by the second", len(doomed(t, s, 1000)), 2)
	for what, o := range map[string]engine.Object{"old": old, "older": older} {
		refused(t, s, fault.Conflict, "touching the "+what, func(ctx context.Context, tx engine.Tx) error { return tx.TouchBlob(ctx, o.ID, after(100)) })
		refused(t, s, fault.Conflict, "attaching the "+what, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	}
	for _, o := range []engine.Object{touched, young} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	}
}

// attachOrDoom: of a save that attaches and a sweep at the same time one wins, and the other sees it.
func attachOrDoom(t *testing.T, s *store.Store) {
	for range 30 {
		o := newBlob()
		stageBlob(t, s, o, 0)
		var both sync.WaitGroup
		var attached, swept error
		both.Go(func() {
			attached = s.Update(t.Context(), func(tx engine.Tx) error { return tx.AttachObject(t.Context(), o) })
		})
		both.Go(func() {
			swept = s.Update(t.Context(), func(tx engine.Tx) error { return tx.DoomBlobs(t.Context(), after(50), after(100), 10) })
		})
		both.Wait()
		if attached != nil && !fault.Is(attached, fault.Conflict) || swept != nil {
			t.Fatalf("attach: %v, sweep: %v", attached, swept)
		}
		gone := len(doomed(t, s, 1000)) > 0
		if gone == (attached == nil) {
			t.Fatalf("attached: %v, and doomed: %v", attached, gone)
		}
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			return errors.Join(tx.DeleteObject(ctx, o.ID), tx.DoomBlobs(ctx, after(0), after(1), 10), tx.ForgetBlob(ctx, o.ID))
		})
	}
}

// versionBlobs: a version that is deleted or replaced takes its bytes with it.
func versionBlobs(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	st.Lock = newLock(w.user.ID)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, st) })
	put := func(number int64) string {
		v, o := newVersion(st, number), newBlob()
		o.ID, o.Kind, v.LockKey = v.ID, "state", st.Lock.Key
		stageBlob(t, s, o, 0)
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			if err := tx.AttachObject(ctx, o); err != nil {
				return err
			}
			return tx.PutVersion(ctx, v)
		})
		return o.ID
	}
	deleted, replaced, _ := put(1), put(2), put(2)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteVersion(ctx, st.ID, 1) })
	sweepBlobs(t, s, 0, 1, 10)
	want := []string{deleted, replaced}
	slices.Sort(want)
	same(t, "doomed", doomed(t, s, 100), want)
}
