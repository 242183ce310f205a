package store

import (
	"context"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store/db"
)

// AppendEvent gives the event its number, which rises by one within the run in order of commits.
func (t *tx) AppendEvent(ctx context.Context, e run.Event) (int64, error) {
	seq, err := t.q.CountEvent(ctx, e.Run)
	if err != nil {
		return 0, t.err("counting the events of", "run", err)
	}
	return seq, t.afterwards("appending", "event").AppendEvent(ctx, db.AppendEventParams{
		Run: e.Run, Seq: seq, At: micros(e.At), Level: e.Level, Type: e.Type, Phase: e.Phase, Component: e.Component,
		Text: e.Text, Person: e.By,
	})
}

func (t *tx) Events(ctx context.Context, runID string, after int64, limit int) ([]run.Event, error) {
	rows, err := t.q.Events(ctx, runID, after, int32(limit))
	if err != nil {
		return nil, t.err("listing", "event", err)
	}
	return each(rows, func(r db.Event) (run.Event, error) {
		return run.Event{
			Seq: r.Seq, Run: r.Run, At: moment(r.At), Level: r.Level, Type: r.Type, Phase: r.Phase, Component: r.Component,
			Text: r.Text, By: r.Person,
		}, nil
	})
}

// AppendLog is a Conflict where a chunk is missing before one that is given.
func (t *tx) AppendLog(ctx context.Context, chunks []run.LogChunk) error {
	for len(chunks) > 0 {
		n := 1
		for n < len(chunks) && chunks[n].Attempt == chunks[0].Attempt {
			n++
		}
		if err := t.appendLog(ctx, chunks[0].Attempt, chunks[:n]); err != nil {
			return err
		}
		chunks = chunks[n:]
	}
	return nil
}

func (t *tx) appendLog(ctx context.Context, attempt string, chunks []run.LogChunk) error {
	if err := t.lockAttempt(ctx, attempt); err != nil {
		return err
	}
	next, err := t.q.NextLog(ctx, attempt)
	if err != nil {
		return t.err("reading", "attempt", err)
	}
	more := 0
	for _, c := range chunks {
		switch {
		case c.Seq < next:
			continue
		case c.Seq > next:
			return t.err("appending to", "log", fault.New(fault.Conflict, "log_gap",
				"Chunk %d of the log came, and chunk %d is not stored yet.", c.Seq, next).
				WithHint("Send the log from chunk %d on.", next))
		}
		if err := t.afterwards("appending to", "log").AppendLog(ctx, db.AppendLogParams{
			Attempt: attempt, Seq: c.Seq, Stage: c.Stage, At: micros(c.At), Text: c.Text,
		}); err != nil {
			return err
		}
		next++
		more += len(c.Text)
	}
	return t.afterwards("appending to", "log").MoveLog(ctx, next, int64(more), attempt)
}

func (t *tx) Logs(ctx context.Context, attempt string, after int64, limit int) ([]run.LogChunk, error) {
	rows, err := t.q.Logs(ctx, attempt, after, int32(limit))
	if err != nil {
		return nil, t.err("listing", "log", err)
	}
	return each(rows, func(r db.Log) (run.LogChunk, error) {
		return run.LogChunk{Attempt: r.Attempt, Seq: r.Seq, Stage: r.Stage, At: moment(r.At), Text: r.Text}, nil
	})
}
