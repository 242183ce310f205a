package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

func numbers(versions []state.Version) []int64 {
	out := []int64{}
	for _, v := range versions {
		out = append(out, v.Number)
	}
	return out
}

func withVersions(t *testing.T, s *store.Store, n int64, quarantined ...int64) (world, state.State) {
	t.Helper()
	w := newWorld(t, s)
	st := w.newState("net")
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateState(ctx, st); err != nil {
			return err
		}
		for i := range n {
			v := newVersion(st, i+1)
			for _, q := range quarantined {
				v.Quarantined = v.Quarantined || q == v.Number
			}
			if err := tx.PutVersion(ctx, v); err != nil {
				return err
			}
			if !v.Quarantined {
				st.Head = &v
			}
			st.Versions = v.Number
		}
		return tx.UpdateState(ctx, st)
	})
	return w, st
}

func versions(t *testing.T, s *store.Store) {
	_, st := withVersions(t, s, 7, 2, 5)
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Version(ctx, st.ID, st.Head.Number)
		same(t, "version", got, *st.Head)
		if err != nil {
			return err
		}
		list := func(quarantined bool) []int64 {
			return numbers(all(t, 2, func(p engine.Page) ([]state.Version, string, error) { return tx.Versions(ctx, st.ID, quarantined, p) }))
		}
		same(t, "all", list(false), []int64{7, 6, 5, 4, 3, 2, 1})
		same(t, "quarantined", list(true), []int64{5, 2})
		_, missing := tx.Version(ctx, st.ID, 8)
		wantKind(t, "no version", missing, fault.NotFound)
		return nil
	})
	v := newVersion(st, 8)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.PutVersion(ctx, v); err != nil {
			return err
		}
		return tx.AttachObject(ctx, engine.Object{ID: v.ID, Kind: "state", Inline: []byte("x")})
	})
	for range 2 { // the second time there is nothing to do
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteVersion(ctx, st.ID, 8) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Version(ctx, st.ID, 8)
		wantKind(t, "a deleted version", err, fault.NotFound)
		_, err = tx.Object(ctx, v.ID)
		wantKind(t, "its object", err, fault.NotFound)
		return nil
	})
}

func replaceVersion(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	st.Lock = newLock(w.user.ID)
	put := func(ctx context.Context, tx engine.Tx, v state.Version) error {
		if err := tx.PutVersion(ctx, v); err != nil {
			return err
		}
		return tx.AttachObject(ctx, engine.Object{ID: v.ID, Kind: "state", Inline: []byte(v.ID)})
	}
	first, second := newVersion(st, 1), newVersion(st, 1)
	first.LockKey, second.LockKey = st.Lock.Key, st.Lock.Key
	second.Serial, second.Lineage, second.Encrypted = state.Serial{}, "other", false
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateState(ctx, st); err != nil {
			return err
		}
		return put(ctx, tx, first)
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return put(ctx, tx, second) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Version(ctx, st.ID, 1)
		same(t, "the replaced version", got, second)
		_, gone := tx.Object(ctx, first.ID)
		wantKind(t, "the object of what was replaced", gone, fault.NotFound)
		if _, err := tx.Object(ctx, second.ID); err != nil {
			t.Errorf("the object of what replaces it: %v", err)
		}
		return err
	})
	// The same row once more keeps its object.
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.PutVersion(ctx, second) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Object(ctx, second.ID)
		return err
	})

	third := newVersion(st, 1)
	third.LockKey = newLock("usr_other").Key
	refused(t, s, fault.Conflict, "replacing another lock's version", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutVersion(ctx, third)
	})
	third.LockKey = ""
	refused(t, s, fault.Conflict, "replacing it without a lock", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutVersion(ctx, third)
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		released := st
		released.Lock = nil
		return tx.UpdateState(ctx, released)
	})
	third.LockKey = second.LockKey
	refused(t, s, fault.Conflict, "replacing a version whose lock was released", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutVersion(ctx, third)
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Version(ctx, st.ID, 1)
		same(t, "the version after what was refused", got, second)
		return err
	})
}

func versionsBeyond(t *testing.T, s *store.Store) {
	_, st := withVersions(t, s, 10, 2, 9)
	// An old version is made current again, and is kept as the head whatever its age.
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		head := newVersion(st, 3)
		st.Head = &head
		return tx.UpdateState(ctx, st)
	})
	for number, want := range map[int64]int64{1: 0, 2: 1, 3: 1, 4: 3, 10: 8, 11: 10, 99: 10} {
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.VersionBefore(ctx, st.ID, number)
			same(t, fmt.Sprint("the version before ", number), got, want)
			return err
		})
	}
	left := []int64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, c := range []struct {
		keep, limit int
		dropped     []int64
	}{
		{100, 100, nil},
		{8, 100, nil},
		{7, 1, []int64{1}},
		{3, 2, []int64{4, 5}}, // 10, 8 and 7 are the newest that are not quarantined
		{3, 100, []int64{6}},
		{0, 100, []int64{7, 8, 10}},
	} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DropBeyond(ctx, st.ID, c.keep, c.limit) })
		left = slices.DeleteFunc(left, func(n int64) bool { return slices.Contains(c.dropped, n) })
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			versions, _, err := tx.Versions(ctx, st.ID, false, engine.Page{Limit: 100})
			same(t, fmt.Sprintf("left beyond the newest %d, at most %d dropped", c.keep, c.limit), numbers(versions), left)
			return err
		})
	}
}
