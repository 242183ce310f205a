package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store"
)

func events(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r, other := w.newRun(), w.newRun()
	var want []run.Event
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for _, r := range []run.Run{r, other} {
			if err := tx.CreateRun(ctx, r); err != nil {
				return err
			}
		}
		for i := range 5 {
			e := run.Event{Run: r.ID, At: after(i), Level: "INFO", Type: "run.planned", Phase: "plan", Component: "web", Text: "é", By: "ann"}
			seq, err := tx.AppendEvent(ctx, e)
			if err != nil {
				return err
			}
			e.Seq = seq
			want = append(want, e)
		}
		seq, err := tx.AppendEvent(ctx, run.Event{Run: other.ID})
		same(t, "the first number of another run", seq, int64(1))
		return err
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Events(ctx, r.ID, 0, 100)
		same(t, "all", got, want)
		if err != nil {
			return err
		}
		got, err = tx.Events(ctx, r.ID, 2, 2)
		same(t, "two after the second", got, want[2:4])
		return err
	})
	// Storing the run must not move its numbers back.
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.UpdateRun(ctx, r); err != nil {
			return err
		}
		seq, err := tx.AppendEvent(ctx, run.Event{Run: r.ID})
		same(t, "the next number", seq, int64(6))
		return err
	})
	refused(t, s, fault.NotFound, "an event of no run", func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.AppendEvent(ctx, run.Event{Run: "run_none"})
		return err
	})
}

func eventsWithoutGaps(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r := w.newRun()
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	const n = 60
	noErrors(t, together(t, n, func(i int) error {
		if i%4 == 3 { // whose number is given to another one
			_ = s.Update(t.Context(), func(tx engine.Tx) error {
				_, err := tx.AppendEvent(t.Context(), run.Event{Run: r.ID})
				if err == nil {
					err = context.Canceled
				}
				return err
			})
			return nil
		}
		return s.Update(t.Context(), func(tx engine.Tx) error {
			_, err := tx.AppendEvent(t.Context(), run.Event{Run: r.ID})
			return err
		})
	}))
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Events(ctx, r.ID, 0, 1000)
		for i, e := range got {
			if e.Seq != int64(i+1) {
				t.Fatalf("event %d has number %d", i+1, e.Seq)
			}
		}
		same(t, "events", len(got), n*3/4)
		return err
	})
}

func chunk(attempt string, seq int64) run.LogChunk {
	return run.LogChunk{Attempt: attempt, Seq: seq, Stage: "plan", At: after(int(seq)), Text: "line\n"}
}

func logs(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	_, k := w.withTask(t, s)
	a, b := w.newAttempt(k, 1), w.newAttempt(k, 2)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateAttempt(ctx, a); err != nil {
			return err
		}
		return tx.CreateAttempt(ctx, b)
	})
	appendLog := func(chunks ...run.LogChunk) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.AppendLog(ctx, chunks) })
	}
	appendLog()
	appendLog(chunk(a.ID, 0), chunk(a.ID, 1))
	appendLog(chunk(a.ID, 0), chunk(a.ID, 1), chunk(a.ID, 2), chunk(b.ID, 0)) // repeats, and goes on
	refused(t, s, fault.Conflict, "a gap", func(ctx context.Context, tx engine.Tx) error {
		return tx.AppendLog(ctx, []run.LogChunk{chunk(a.ID, 3), chunk(a.ID, 5)})
	})
	refused(t, s, fault.NotFound, "a log of no attempt", func(ctx context.Context, tx engine.Tx) error {
		return tx.AppendLog(ctx, []run.LogChunk{chunk("att_none", 0)})
	})
	a.Stage = "apply" // read before the log was stored
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAttempt(ctx, a) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Logs(ctx, a.ID, -1, 100)
		same(t, "all", got, []run.LogChunk{chunk(a.ID, 0), chunk(a.ID, 1), chunk(a.ID, 2)})
		if err != nil {
			return err
		}
		got, err = tx.Logs(ctx, a.ID, 0, 1)
		same(t, "one after the first", got, []run.LogChunk{chunk(a.ID, 1)})
		stored, e := tx.Attempt(ctx, a.ID)
		a.NextLog, a.LogBytes = 3, 15
		same(t, "its attempt", stored, a)
		if err == nil {
			err = e
		}
		return err
	})
}

// concurrentLogs: an agent whose answer was lost sends the same again, maybe while the first is still running.
func concurrentLogs(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	_, k := w.withTask(t, s)
	a := w.newAttempt(k, 1)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateAttempt(ctx, a) })
	for round := range int64(5) {
		noErrors(t, together(t, 16, func(int) error {
			return s.Update(t.Context(), func(tx engine.Tx) error {
				return tx.AppendLog(t.Context(), []run.LogChunk{chunk(a.ID, 2*round), chunk(a.ID, 2*round+1)})
			})
		}))
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Logs(ctx, a.ID, -1, 100)
		same(t, "chunks", len(got), 10)
		stored, e := tx.Attempt(ctx, a.ID)
		same(t, "bytes", stored.LogBytes, int64(50))
		if err == nil {
			err = e
		}
		return err
	})
}
