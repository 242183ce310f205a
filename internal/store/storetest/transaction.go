package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
)

func hasSetting(t *testing.T, s *store.Store, key string) bool {
	t.Helper()
	err := s.View(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Setting(t.Context(), key)
		return err
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		t.Fatalf("setting %s: %v", key, err)
	}
	return err == nil
}

func put(ctx context.Context, s *store.Store, key string) error {
	return s.Update(ctx, func(tx engine.Tx) error { return tx.SetSettingOnce(ctx, key, "x") })
}

func rollsBackAnError(t *testing.T, s *store.Store) {
	boom := errors.New("boom")
	err := s.Update(t.Context(), func(tx engine.Tx) error {
		if err := tx.SetSettingOnce(t.Context(), "a", "1"); err != nil {
			t.Errorf("set: %v", err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("update = %v, want the function's own error", err)
	}
	if hasSetting(t, s, "a") {
		t.Error("the setting of a failed update is there")
	}
	if err := put(t.Context(), s, "a"); err != nil {
		t.Errorf("the update after it: %v", err)
	}
}

func rollsBackAPanic(t *testing.T, s *store.Store) {
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
		}()
		_ = s.Update(t.Context(), func(tx engine.Tx) error {
			_ = tx.SetSettingOnce(t.Context(), "a", "1")
			panic("boom")
		})
	}()
	if hasSetting(t, s, "a") {
		t.Error("the setting of a panicked update is there")
	}
	if err := put(t.Context(), s, "a"); err != nil {
		t.Errorf("the update after it: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.View(t.Context(), func(engine.Tx) error { panic("boom") })
	}()
	if !hasSetting(t, s, "a") {
		t.Error("a view after one that panicked does not see the setting")
	}
}

func rollsBackAnEndedGoroutine(t *testing.T, s *store.Store) {
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = s.Update(t.Context(), func(tx engine.Tx) error {
			_ = tx.SetSettingOnce(t.Context(), "a", "1")
			runtime.Goexit() // what t.Fatal does
			return nil
		})
	})
	ended.Wait()
	if hasSetting(t, s, "a") {
		t.Error("the setting of an ended goroutine is there")
	}
	if err := put(t.Context(), s, "a"); err != nil {
		t.Errorf("the update after it: %v", err)
	}
}

// failsForGood: PostgreSQL ends a transaction with its first failed statement, so SQLite has to.
func failsForGood(t *testing.T, s *store.Store) {
	if err := put(t.Context(), s, "taken"); err != nil {
		t.Fatal(err)
	}
	err := s.Update(t.Context(), func(tx engine.Tx) error {
		if err := tx.SetSettingOnce(t.Context(), "before", "1"); err != nil {
			t.Errorf("set: %v", err)
		}
		wantKind(t, "a taken key", tx.SetSettingOnce(t.Context(), "taken", "1"), fault.Conflict)
		wantKind(t, "a write after it", tx.SetSettingOnce(t.Context(), "after", "1"), fault.Conflict)
		_, err := tx.Setting(t.Context(), "taken")
		wantKind(t, "a read after it", err, fault.Conflict)
		return nil
	})
	wantKind(t, "the update whose function went on", err, fault.Conflict)
	for _, key := range []string{"before", "after"} {
		if hasSetting(t, s, key) {
			t.Errorf("setting %s of a failed update is there", key)
		}
	}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Setting(ctx, "missing")
		wantKind(t, "a missing key", err, fault.NotFound)
		return tx.SetSettingOnce(ctx, "after", "1") // what is not there has not failed
	})
}

// lateFailuresUndoAll: a write whose answer nobody waits for fails later, and everything with it.
func lateFailuresUndoAll(t *testing.T, s *store.Store) {
	o := engine.Object{ID: "obj_taken", Org: "org", Kind: "plan", Wrapped: []byte("w"), Inline: []byte("x"), CreatedAt: now}
	attach := func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) }
	update(t, s, attach)
	for name, after := range map[string]func(context.Context, engine.Tx) error{
		"commit": func(context.Context, engine.Tx) error { return nil },
		"read": func(ctx context.Context, tx engine.Tx) error {
			_, err := tx.Object(ctx, o.ID)
			return err
		},
		"write": func(ctx context.Context, tx engine.Tx) error { return tx.SetSettingOnce(ctx, "after", "1") },
	} {
		refused(t, s, fault.Conflict, "an object attached twice, and then a "+name, func(ctx context.Context, tx engine.Tx) error {
			if err := tx.SetSettingOnce(ctx, "before", "1"); err != nil {
				return err
			}
			if err := attach(ctx, tx); err != nil {
				return err
			}
			return after(ctx, tx)
		})
	}
	for _, key := range []string{"before", "after"} {
		if hasSetting(t, s, key) {
			t.Errorf("setting %s of a failed update is there", key)
		}
	}
}

func readsSeeWhatWasWritten(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	st := w.newState("net")
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, st) })
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		locked, err := tx.StateForUpdate(ctx, st.Org, st.Name)
		if err != nil {
			return err
		}
		for _, who := range []string{"usr_a", "usr_b"} {
			locked.Lock = newLock(who)
			if err := tx.UpdateState(ctx, locked); err != nil {
				return err
			}
			got, err := tx.State(ctx, st.Org, st.Name)
			if err != nil {
				return err
			}
			same(t, "the lock's holder", got.Lock.Holder.ID, who)
		}
		return nil
	})
	refused(t, s, fault.NotFound, "storing a state that was purged", func(ctx context.Context, tx engine.Tx) error {
		locked, err := tx.StateForUpdate(ctx, st.Org, st.Name)
		if err != nil {
			return err
		}
		if err := tx.PurgeState(ctx, st.ID); err != nil {
			return err
		}
		return tx.UpdateState(ctx, locked)
	})
}

func isNothingAfterItsEnd(t *testing.T, s *store.Store) {
	var kept engine.Tx
	update(t, s, func(_ context.Context, tx engine.Tx) error {
		kept = tx
		return nil
	})
	if err := kept.SetSettingOnce(t.Context(), "late", "1"); err == nil {
		t.Error("a write after the end of its transaction: nil, want an error")
	}
	if hasSetting(t, s, "late") {
		t.Error("a write after the end of its transaction happened")
	}
}

func doesNotRunForAnEndedContext(t *testing.T, s *store.Store) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Update(ended, func(engine.Tx) error {
		t.Error("the function ran")
		return nil
	})
	wantKind(t, "an update for an ended context", err, fault.Unavailable)
	err = s.View(ended, func(engine.Tx) error {
		t.Error("the function ran")
		return nil
	})
	wantKind(t, "a view for an ended context", err, fault.Unavailable)

	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = s.Update(ending, func(tx engine.Tx) error {
		if err := tx.SetSettingOnce(ending, "a", "1"); err != nil {
			t.Errorf("set: %v", err)
		}
		cancel()
		return tx.SetSettingOnce(ending, "b", "1")
	})
	wantKind(t, "an update whose context ended", err, fault.Unavailable)
	if hasSetting(t, s, "a") {
		t.Error("what was written before the context ended is there")
	}
	if err := put(t.Context(), s, "a"); err != nil {
		t.Errorf("the update after it: %v", err)
	}

	ending, cancel = context.WithCancel(t.Context())
	defer cancel()
	err = s.Update(ending, func(tx engine.Tx) error {
		err := tx.SetSettingOnce(ending, "c", "1")
		cancel()
		for range 10_000 { // until the transaction has ended by itself, where one does
			if err != nil {
				break
			}
			_, err = tx.Setting(context.WithoutCancel(ending), "c")
		}
		return err
	})
	wantKind(t, "an update that was rolled back because its context ended", err, fault.Unavailable)
	if hasSetting(t, s, "c") {
		t.Error("what was written before the transaction ended is there")
	}
}

func viewSeesOneSnapshot(t *testing.T, s *store.Store) {
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Setting(ctx, "a")
		wantKind(t, "before the write", err, fault.NotFound)
		if err := put(ctx, s, "a"); err != nil {
			t.Fatalf("a write beside a view: %v", err)
		}
		_, err = tx.Setting(ctx, "a")
		wantKind(t, "after the write, in the same view", err, fault.NotFound)
		return nil
	})
	if !hasSetting(t, s, "a") {
		t.Error("a later view does not see the write")
	}
}

func viewDoesNotWrite(t *testing.T, s *store.Store) {
	err := s.View(t.Context(), func(tx engine.Tx) error { return tx.SetSettingOnce(t.Context(), "a", "1") })
	if err == nil {
		t.Error("a write in a view: nil, want an error")
	}
	if err := s.View(t.Context(), func(tx engine.Tx) error { return tx.Notify(t.Context(), "topic") }); err == nil {
		t.Error("a notification in a view: nil, want an error")
	}
	if hasSetting(t, s, "a") {
		t.Error("a view has written")
	}
}

func lookIsOneStatement(t *testing.T, s *store.Store) {
	if err := put(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	look := func(fn func(tx engine.Tx) error) error { return s.Look(t.Context(), fn) }
	if err := look(func(tx engine.Tx) error { _, err := tx.Setting(t.Context(), "a"); return err }); err != nil {
		t.Errorf("a look: %v", err)
	}
	err := look(func(tx engine.Tx) error { _, err := tx.Setting(t.Context(), "none"); return err })
	wantKind(t, "a look for what is not there", err, fault.NotFound)
	if err := look(func(tx engine.Tx) error {
		_, _ = tx.Setting(t.Context(), "a")
		_, err := tx.Setting(t.Context(), "a")
		return err
	}); err == nil {
		t.Error("two statements in a look: nil, want an error")
	}
	if err := look(func(tx engine.Tx) error { return tx.SetSettingOnce(t.Context(), "b", "1") }); err == nil {
		t.Error("a write in a look: nil, want an error")
	}
	if hasSetting(t, s, "b") {
		t.Error("a look has written")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Look(ended, func(tx engine.Tx) error { _, err := tx.Setting(ended, "a"); return err }); err == nil {
		t.Error("a look for a context that has ended: nil, want an error")
	}
}

func concurrentUpdatesAllHappen(t *testing.T, s *store.Store) {
	const n = 200
	noErrors(t, together(t, n, func(i int) error { return put(t.Context(), s, fmt.Sprint(i)) }))
	for i := range n {
		if !hasSetting(t, s, fmt.Sprint(i)) {
			t.Errorf("setting %d was acknowledged and is not there", i)
		}
	}
}

// failuresStayAlone: updates that share a commit must not share each other's failures.
func failuresStayAlone(t *testing.T, s *store.Store) {
	if err := put(t.Context(), s, "taken"); err != nil {
		t.Fatal(err)
	}
	const n = 200
	boom := errors.New("boom")
	errs := together(t, n, func(i int) (err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer func() {
			if got := recover(); got != nil {
				err = boom
			}
		}()
		return s.Update(ctx, func(tx engine.Tx) error {
			if err := tx.SetSettingOnce(ctx, fmt.Sprint(i), "x"); err != nil {
				return err
			}
			switch i % 5 {
			case 1:
				return boom
			case 2:
				panic(boom)
			case 3:
				return tx.SetSettingOnce(ctx, "taken", "x")
			case 4:
				cancel()
			}
			return nil
		})
	})
	for i, err := range errs {
		if there := hasSetting(t, s, fmt.Sprint(i)); there != (i%5 == 0) || (err == nil) != (i%5 == 0) {
			t.Errorf("update %d: error %v, stored %t; want both to be as for its own fate only", i, err, there)
		}
	}
}

func notifiesAfterTheCommit(t *testing.T, s *store.Store) {
	signals, stop := s.Subscribe("runs")
	defer stop()
	others, stopOthers := s.Subscribe("others")
	defer stopOthers()
	_ = s.Update(t.Context(), func(tx engine.Tx) error {
		_ = tx.Notify(t.Context(), "runs")
		return errors.New("boom")
	})
	// Signals come in the order of commits: when this one is here, one before it would be.
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.Notify(ctx, "others") })
	select {
	case <-others:
	case <-time.After(wait):
		t.Fatal("no signal after the commit")
	}
	select {
	case <-signals:
		t.Error("a rolled back update has notified")
	default:
	}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.Notify(ctx, "runs"); err != nil {
			return err
		}
		if err := tx.Notify(ctx, "runs"); err != nil {
			return err
		}
		select {
		case <-signals:
			t.Error("notified before the commit")
		default:
		}
		return nil
	})
	select {
	case <-signals:
	case <-time.After(wait):
		t.Fatal("no signal after the commit")
	}
	stop()
	stop()
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.Notify(ctx, "runs") })
}

func readyWhileOpen(t *testing.T, s *store.Store) {
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("ready = %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close = %v, want nil", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	wantKind(t, "ready after close", s.Ready(ctx), fault.Unavailable)
	wantKind(t, "update after close", put(ctx, s, "a"), fault.Unavailable)
	wantKind(t, "view after close", s.View(ctx, func(tx engine.Tx) error {
		_, err := tx.Setting(ctx, "a")
		return err
	}), fault.Unavailable)
}
