package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

func newLock(holder string) *state.Lock {
	return &state.Lock{
		Key:     id.New(id.Lock, now),
		Info:    state.LockInfo{ID: "client's", Operation: "OperationTypeApply", Who: "ann@host", Version: "1.12.6", Created: "2026-01-01T00:00:00Z"},
		Holder:  state.Holder{Kind: "user", ID: holder, Name: "ann", Token: "tok_1"},
		TakenAt: after(1),
	}
}

func newVersion(s state.State, number int64) state.Version {
	return state.Version{
		ID: id.New(id.Write, now), StateID: s.ID, Number: number, Serial: state.Serial{N: math.MaxUint64, Known: true},
		Lineage: "line", Size: 12, SHA256: "aa", MD5: "bb", Source: state.SourceWrite, Encrypted: true, Terraform: "1.12.6",
		Key: state.Key{Kind: "platform", Name: "k1", Version: "1"}, CreatedAt: after(2),
		By: state.Holder{Kind: "attempt", ID: "att_1", Name: "ann", Run: "run_1", Task: "tsk_1", Attempt: "att_1"}, LockID: "client's",
	}
}

func readState(t testing.TB, s *store.Store, org, name string) (got state.State, err error) {
	t.Helper()
	err = s.View(t.Context(), func(tx engine.Tx) error {
		var err error
		got, err = tx.State(t.Context(), org, name)
		return err
	})
	return got, err
}

func states(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, st) })
	refused(t, s, fault.Conflict, "a taken name", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateState(ctx, w.newState("net"))
	})
	got, err := readState(t, s, w.org.ID, "net")
	same(t, "an empty state", got, st)
	if err != nil {
		t.Fatal(err)
	}
	v := newVersion(st, 1)
	st.Versions, st.Head, st.Lock = 1, &v, newLock(w.user.ID)
	st.Hold, st.UpdatedAt, st.DeletedAt = &state.Hold{Run: "run_1", Since: after(3)}, after(4), after(5)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.PutVersion(ctx, v); err != nil {
			return err
		}
		return tx.UpdateState(ctx, st)
	})
	for what, read := range map[string]func(context.Context, engine.Tx) (state.State, error){
		"by name": func(ctx context.Context, tx engine.Tx) (state.State, error) { return tx.State(ctx, w.org.ID, "net") },
		"by id":   func(ctx context.Context, tx engine.Tx) (state.State, error) { return tx.StateByID(ctx, st.ID) },
		"for update": func(ctx context.Context, tx engine.Tx) (state.State, error) {
			return tx.StateForUpdate(ctx, w.org.ID, "net")
		},
	} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := read(ctx, tx)
			same(t, what, got, st)
			return err
		})
	}
	st.Lock, st.Hold, st.DeletedAt = nil, nil, time.Time{}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateState(ctx, st) })
	got, err = readState(t, s, w.org.ID, "net")
	same(t, "unlocked", got, st)
	if err != nil {
		t.Fatal(err)
	}
	for what, name := range map[string]string{"no name": "none", "a name in other case": "NET"} {
		_, err = readState(t, s, w.org.ID, name)
		wantKind(t, what, err, fault.NotFound)
		refused(t, s, fault.NotFound, what+", for update", func(ctx context.Context, tx engine.Tx) error {
			_, err := tx.StateForUpdate(ctx, w.org.ID, name)
			return err
		})
	}
	_, err = readState(t, s, "org_other", "net")
	wantKind(t, "a state of another organization", err, fault.NotFound)
	st.ID = "sta_none"
	refused(t, s, fault.NotFound, "storing no state", func(ctx context.Context, tx engine.Tx) error { return tx.UpdateState(ctx, st) })
}

func listStates(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	var live []string
	for i := range 12 {
		st := w.newState(fmt.Sprintf("s%02d", (i*5)%12))
		switch i {
		case 3:
			st.Lock = newLock(w.user.ID)
		case 4:
			st.Hold = &state.Hold{Run: "run_1", Since: now}
		case 5:
			st.DeletedAt = now
		}
		if i != 5 {
			live = append(live, st.Name)
		}
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			if err := tx.CreateState(ctx, st); err != nil || i != 6 && i != 7 {
				return err
			}
			v := newVersion(st, 1)
			v.Encrypted = i == 6
			if err := tx.PutVersion(ctx, v); err != nil {
				return err
			}
			st.Versions, st.Head = 1, &v
			return tx.UpdateState(ctx, st)
		})
	}
	slices.Sort(live)
	list := func(f engine.StateFilter, limit int) []string {
		f.Org = w.org.ID
		var got []string
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got = names(all(t, limit, func(p engine.Page) ([]state.State, string, error) { return tx.States(ctx, f, p) }),
				func(s state.State) string { return s.Name })
			return nil
		})
		return got
	}
	same(t, "all", list(engine.StateFilter{}, 5), live)
	same(t, "all, in whole pages", list(engine.StateFilter{}, 11), live)
	same(t, "locked", list(engine.StateFilter{Locked: true}, 5), []string{"s03"})
	same(t, "held", list(engine.StateFilter{Held: true}, 5), []string{"s08"})
	same(t, "stale, of which the store knows that they are locked", list(engine.StateFilter{Stale: true}, 5), []string{"s03"})
	same(t, "encrypted by the client", list(engine.StateFilter{Encrypted: true}, 5), []string{"s06"})
	same(t, "locked and encrypted", list(engine.StateFilter{Locked: true, Encrypted: true}, 5), []string{})
	same(t, "deleted", list(engine.StateFilter{Deleted: true}, 5), []string{"s01"})
	same(t, "of another organization", func() []string {
		var got []state.State
		view(t, s, func(ctx context.Context, tx engine.Tx) (err error) {
			got, _, err = tx.States(ctx, engine.StateFilter{Org: "org_other"}, engine.Page{Limit: 5})
			return err
		})
		return names(got, func(s state.State) string { return s.Name })
	}(), []string{})

	// A name made before the place that was read to, or after it, moves nothing.
	var next string
	view(t, s, func(ctx context.Context, tx engine.Tx) (err error) {
		_, next, err = tx.States(ctx, engine.StateFilter{Org: w.org.ID}, engine.Page{Limit: 4})
		return err
	})
	for _, name := range []string{"a", "s04x"} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, w.newState(name)) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, _, err := tx.States(ctx, engine.StateFilter{Org: w.org.ID}, engine.Page{Limit: 3, Cursor: next})
		same(t, "the page after inserts", names(got, func(s state.State) string { return s.Name }), []string{"s04x", "s05", "s06"})
		return err
	})
}

// oneLockWinner: many want the lock of one state, each reading before it writes, as the engine does.
func oneLockWinner(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, w.newState("net")) })
	for round := range 5 {
		var winners []string
		keys := make([]string, 32)
		noErrors(t, together(t, len(keys), func(i int) error {
			var key string
			err := s.Update(t.Context(), func(tx engine.Tx) error {
				key = ""
				st, err := tx.StateForUpdate(t.Context(), w.org.ID, "net")
				if err != nil || st.Lock != nil {
					return err
				}
				st.Lock = newLock(fmt.Sprint(i))
				key = st.Lock.Key
				return tx.UpdateState(t.Context(), st)
			})
			keys[i] = key
			return err
		}))
		for _, key := range keys {
			if key != "" {
				winners = append(winners, key)
			}
		}
		got, err := readState(t, s, w.org.ID, "net")
		if err != nil || len(winners) != 1 || got.Lock == nil || got.Lock.Key != winners[0] {
			t.Fatalf("round %d: winners %v, stored lock %v, error %v; want one winner, and its lock", round, winners, got.Lock, err)
		}
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			got.Lock = nil
			return tx.UpdateState(ctx, got)
		})
	}
}

func purgeState(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st, kept := w.newState("net"), w.newState("kept")
	var objects []string
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for _, one := range []state.State{st, kept} {
			if err := tx.CreateState(ctx, one); err != nil {
				return err
			}
			for n := range int64(2) {
				v := newVersion(one, n+1)
				objects = append(objects, v.ID)
				if err := tx.PutVersion(ctx, v); err != nil {
					return err
				}
				if err := tx.PutChunk(ctx, v.ID, 0, []byte("x"), now); err != nil {
					return err
				}
				if err := tx.AttachObject(ctx, engine.Object{ID: v.ID, Kind: "state", Chunks: 1}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := s.Update(t.Context(), func(tx engine.Tx) error { return tx.PurgeState(t.Context(), st.ID) }); err == nil {
		t.Error("a state was purged that has versions")
	}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for n := range int64(2) {
			if err := tx.DeleteVersion(ctx, st.ID, n+1); err != nil {
				return err
			}
		}
		return tx.PurgeState(ctx, st.ID)
	})
	_, err := readState(t, s, w.org.ID, "net")
	wantKind(t, "a purged state", err, fault.NotFound)
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		for i, object := range objects {
			_, err := tx.Object(ctx, object)
			_, chunk := tx.Chunks(ctx, object, 0, 1)
			if gone := i < 2; fault.Is(err, fault.NotFound) != gone || fault.Is(chunk, fault.NotFound) != gone {
				t.Errorf("object %d: %v, its chunk: %v; want both gone: %t", i, err, chunk, gone)
			}
		}
		return nil
	})
	refused(t, s, fault.NotFound, "purging no state", func(ctx context.Context, tx engine.Tx) error { return tx.PurgeState(ctx, st.ID) })
}

// danglingHead: a head that cannot be read is a failure, never an empty state.
func danglingHead(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	v := newVersion(st, 3)
	st.Head, st.Versions = &v, 3
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, st) })
	if got, err := readState(t, s, w.org.ID, "net"); err == nil {
		t.Errorf("a state whose head is not stored = %+v, want an error", got)
	}
}
