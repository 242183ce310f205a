package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store"
)

func tasks(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r := w.newRun()
	var want []run.Task
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateRun(ctx, r); err != nil {
			return err
		}
		for range 20 { // in one instant, so that neither time nor id tells their order
			k := w.newTask(r)
			want = append(want, k)
			if err := tx.CreateTask(ctx, k); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Tasks(ctx, r.ID)
		same(t, "in order of making", got, want)
		return err
	})
	want[0].Status, want[0].Attempts, want[0].EndedAt = run.TaskDone, 2, after(3)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateTask(ctx, want[0]) })
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Task(ctx, want[0].ID)
		same(t, "task", got, want[0])
		if err != nil {
			return err
		}
		got, err = tx.TaskForUpdate(ctx, want[0].ID)
		same(t, "for update", got, want[0])
		if err != nil {
			return err
		}
		got, err = tx.NextTask(ctx, w.account.ID)
		same(t, "the oldest that is ready", got, want[1])
		_, missing := tx.NextTask(ctx, "acc_none")
		wantKind(t, "no task of another account", missing, fault.NotFound)
		_, missing = tx.TaskForUpdate(ctx, "tsk_none")
		wantKind(t, "no task", missing, fault.NotFound)
		return err
	})
	older := w.newTask(r)
	older.CreatedAt = after(-10)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateTask(ctx, older); err != nil {
			return err
		}
		got, err := tx.NextTask(ctx, w.account.ID)
		same(t, "the oldest by time", got, older)
		return err
	})
	none := want[0]
	none.ID = id.New(id.Task, now)
	refused(t, s, fault.NotFound, "storing no task", func(ctx context.Context, tx engine.Tx) error { return tx.UpdateTask(ctx, none) })
}

// oneClaimWinner: as many agents as tasks, twice over; each task goes to one.
func oneClaimWinner(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r := w.newRun()
	const n = 16
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateRun(ctx, r); err != nil {
			return err
		}
		for range n {
			if err := tx.CreateTask(ctx, w.newTask(r)); err != nil {
				return err
			}
		}
		return nil
	})
	claimed := make([]string, 2*n)
	for i, err := range together(t, 2*n, func(i int) error {
		return s.Update(t.Context(), func(tx engine.Tx) error {
			claimed[i] = ""
			k, err := tx.NextTask(t.Context(), w.account.ID)
			if err != nil {
				return err
			}
			claimed[i] = k.ID
			k.Status = run.TaskOffered
			k.Attempts++
			if err := tx.UpdateTask(t.Context(), k); err != nil {
				return err
			}
			return tx.CreateAttempt(t.Context(), w.newAttempt(k, k.Attempts))
		})
	}) {
		if err != nil {
			wantKind(t, "a claim that found nothing", err, fault.NotFound)
			claimed[i] = ""
		}
	}
	winners := map[string]int{}
	for _, task := range claimed {
		if task != "" {
			winners[task]++
		}
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		stored, err := tx.Tasks(ctx, r.ID)
		offered := 0
		for _, k := range stored {
			if k.Status == run.TaskOffered {
				offered++
			}
			if k.Attempts > 1 || winners[k.ID] != k.Attempts {
				t.Errorf("task %s has %d attempts and %d winners, want the same and at most one", k.ID, k.Attempts, winners[k.ID])
			}
		}
		if offered != n {
			t.Errorf("%d tasks were claimed by %d agents, want %d", offered, 2*n, n)
		}
		return err
	})
}
