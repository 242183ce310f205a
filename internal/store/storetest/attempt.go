package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store"
)

func attempts(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r, k := w.withTask(t, s)
	other := w.newTask(r)
	a, b, c := w.newAttempt(k, 1), w.newAttempt(other, 1), w.newAttempt(k, 2)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateTask(ctx, other); err != nil {
			return err
		}
		for _, one := range []run.Attempt{a, b, c} {
			if err := tx.CreateAttempt(ctx, one); err != nil {
				return err
			}
		}
		return nil
	})
	refused(t, s, fault.Conflict, "a taken number", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateAttempt(ctx, w.newAttempt(k, 2))
	})
	a.Status, a.Stage, a.Progress, a.AcceptedAt, a.HeartbeatAt, a.EndedAt = run.AttemptLost, "apply", "3 of 7", after(1), after(2), after(3)
	a.Class, a.Message, a.PartialApply, a.Report = run.ClassLost, "gone", true, []byte(`{"outcome":  "lost"}`)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAttempt(ctx, a) })
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.AttemptForUpdate(ctx, a.ID)
		same(t, "for update", got, a)
		if err != nil {
			return err
		}
		list, err := tx.Attempts(ctx, r.ID, "")
		same(t, "of the run", list, []run.Attempt{a, b, c})
		if err != nil {
			return err
		}
		list, err = tx.Attempts(ctx, r.ID, k.ID)
		same(t, "of the task", list, []run.Attempt{a, c})
		_, missing := tx.AttemptForUpdate(ctx, "att_none")
		wantKind(t, "no attempt", missing, fault.NotFound)
		return err
	})
	a.ID = "att_none"
	refused(t, s, fault.NotFound, "storing no attempt", func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAttempt(ctx, a) })
}

func staleAttempts(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	_, k := w.withTask(t, s)
	offered, accepted, beating, over := w.newAttempt(k, 1), w.newAttempt(k, 2), w.newAttempt(k, 3), w.newAttempt(k, 4)
	accepted.AcceptedAt = after(10)
	beating.AcceptedAt, beating.HeartbeatAt = after(10), after(20)
	over.Status = run.AttemptSucceeded
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for _, a := range []run.Attempt{over, beating, accepted, offered} {
			if err := tx.CreateAttempt(ctx, a); err != nil {
				return err
			}
		}
		return nil
	})
	wantStale := func(second, limit int, want ...string) {
		t.Helper()
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.StaleAttempts(ctx, after(second), limit)
			same(t, "stale attempts", got, want)
			return err
		})
	}
	wantStale(0, 10)
	wantStale(10, 10, offered.ID)
	wantStale(20, 10, offered.ID, accepted.ID)
	wantStale(21, 10, offered.ID, accepted.ID, beating.ID)
	wantStale(21, 1, offered.ID)
	offered.HeartbeatAt, accepted.Status = after(30), run.AttemptLost
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.UpdateAttempt(ctx, offered); err != nil {
			return err
		}
		return tx.UpdateAttempt(ctx, accepted)
	})
	wantStale(21, 10, beating.ID)
}
