package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// lateLogs is how long after an attempt's end chunks of its log are still taken.
const lateLogs = 15 * time.Minute

// maxLogChunks bounds the chunks of one attempt's log, however small they are.
const maxLogChunks = 100_000

// Marks that stand in a log for what was cut out of it.
const (
	chunkCut = "\n[the server cut this piece of the log: it was longer than is taken]\n"
	logCut   = "\n[the server stores no more of this log: it is longer than is kept; the work goes on]\n"
)

// AppendLogs stores chunks of an attempt's log, numbered from 0 without gaps. It answers the number of the first chunk
// that is not stored yet: chunks after a gap are not, and have to be sent again from there. Repeated ones are ignored.
// Beyond LogTotalBytes the log is cut with a mark, and further chunks are acknowledged and dropped. A Conflict
// (log_closed, attempt_over) is final: nothing more is taken.
func (e *Engine) AppendLogs(ctx context.Context, actor access.Actor, task, attempt string, chunks []run.LogChunk) (next int64, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return 0, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		a, err := ownAttempt(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		if a, err = tx.AttemptForUpdate(ctx, a.ID); err != nil {
			return err
		}
		if err := e.logOpen(ctx, tx, a); err != nil {
			return err
		}
		var keep []run.LogChunk
		if keep, next = fitting(a, chunks); len(keep) == 0 {
			return nil
		}
		if err := tx.AppendLog(ctx, keep); err != nil {
			return fmt.Errorf("append to the log of attempt %s: %w", a.ID, err)
		}
		return tx.Notify(ctx, logTopic(a.Run))
	})
	return next, err
}

func (e *Engine) logOpen(ctx context.Context, tx Tx, a run.Attempt) error {
	switch a.Status {
	case run.AttemptSucceeded, run.AttemptFailed, run.AttemptCancelled:
		if e.now().Sub(a.EndedAt) > lateLogs {
			return fault.New(fault.Conflict, "log_closed", "The attempt ended more than %s ago; nothing more of its log is taken.", lateLogs).
				WithHint("Drop what is left.")
		}
		return nil
	case run.AttemptOffered, run.AttemptAccepted, run.AttemptCancelling, run.AttemptLost, run.AttemptSuperseded:
	}
	return open(ctx, tx, a)
}

// fitting is the chunks that come next in the attempt's log, cut to what is kept of it, and the number after them.
func fitting(a run.Attempt, chunks []run.LogChunk) (keep []run.LogChunk, next int64) {
	next = a.NextLog
	room := int(LogTotalBytes - a.LogBytes)
	if room <= 0 || next >= maxLogChunks {
		for _, c := range chunks {
			next = max(next, c.Seq+1) // acknowledged and dropped
		}
		return nil, next
	}
	for _, c := range chunks {
		if c.Seq != next {
			continue // stored before, or after a gap
		}
		next++
		if room <= 0 || next > maxLogChunks {
			continue
		}
		c.Attempt, c.Stage, c.Text = a.ID, clean(c.Stage, 40), fit(c.Text, LogChunkBytes, chunkCut)
		if len(c.Text) >= room || next == maxLogChunks {
			c.Text = fit(c.Text, min(room, LogChunkBytes)-len(logCut), "") + logCut
			// A character that did not fit leaves a little room; filled up, the log is known to be at its end.
			c.Text += strings.Repeat("\n", min(max(room-len(c.Text), 0), utf8.UTFMax))
		}
		room -= len(c.Text)
		keep = append(keep, c)
	}
	return keep, next
}

// fit is text with at most limit bytes, the mark at its end where it was cut.
func fit(text string, limit int, mark string) string {
	whole := clean(text, 3*len(text)) // cleaning may lengthen it
	if len(whole) <= limit {
		return whole
	}
	return clean(whole, max(limit-len(mark), 0)) + mark
}

// LogPart is a chunk with what its attempt did.
type LogPart struct {
	run.LogChunk
	Component string
	Kind      run.TaskKind
}

// Logs lists chunks of one attempt of the run after seq (-1 for all), at most limit.
func (e *Engine) Logs(ctx context.Context, actor access.Actor, runID, attempt string, after int64, limit int) (parts []LogPart, err error) {
	if err := actor.Allow(access.RunRead); err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		parts = parts[:0]
		a, err := tx.Attempt(ctx, attempt)
		if fault.Is(err, fault.NotFound) || err == nil && (a.Run != runID || a.Org != actor.Org) {
			return fault.New(fault.NotFound, "attempt_not_found", "The run has no such attempt.")
		}
		if err != nil {
			return err
		}
		chunks, err := tx.Logs(ctx, attempt, after, limit)
		for _, c := range chunks {
			parts = append(parts, LogPart{LogChunk: c, Component: a.Component, Kind: a.TaskKind})
		}
		return err
	})
	return parts, err
}
