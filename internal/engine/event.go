package engine

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/run"
)

// The levels of events.
const (
	info    = "INFO"
	warning = "WARN"
	failure = "ERROR"
)

// The phases of a run that events are told of.
const (
	phaseQueue    = "queue"
	phasePlan     = "plan"
	phaseApproval = "approval"
	phaseApply    = "apply"
	phaseEnd      = "end"
)

// runTopic is told whenever a run, its tasks or attempts, or its events change; logTopic when its logs grow;
// tasksTopic when an account's agents may find a task.
func runTopic(runID string) string       { return "run:" + runID }
func logTopic(runID string) string       { return "log:" + runID }
func tasksTopic(accountID string) string { return "tasks:" + accountID }

// happened is an event that is about to be told.
type happened struct {
	level, kind, phase, component, text, by string
}

// tell appends an event of r in the transaction of what it tells of, and wakes who watches the run.
func (e *Engine) tell(ctx context.Context, tx Tx, r *run.Run, h happened) error {
	text := h.text
	if prefix := "[phase:" + h.phase + "] "; !strings.HasPrefix(text, prefix) {
		text = prefix + text
	}
	_, err := tx.AppendEvent(ctx, run.Event{
		Run: r.ID, At: e.now(), Level: h.level, Type: h.kind, Phase: h.phase,
		Component: h.component, Text: text, By: h.by,
	})
	if err != nil {
		return fmt.Errorf("append the event %s of run %s: %w", h.kind, r.ID, err)
	}
	return tx.Notify(ctx, runTopic(r.ID))
}

// Events lists the run's events after seq, at most limit of them, and says whether the run has ended.
func (e *Engine) Events(ctx context.Context, actor access.Actor, runID string, after int64, limit int) (events []run.Event, ended bool, err error) {
	if err := actor.Allow(access.RunRead); err != nil {
		return nil, false, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		r, err := tx.Run(ctx, actor.Org, runID)
		if err != nil {
			return err
		}
		ended = r.Status.Final()
		events, err = tx.Events(ctx, runID, after, limit)
		return err
	})
	return events, ended, err
}

// WatchRun signals changes of the run, its events and its attempts until stop is called. Who may see the run is
// checked where it is read.
func (e *Engine) WatchRun(runID string) (signals <-chan struct{}, stop func()) {
	return e.store.Subscribe(runTopic(runID))
}

// WatchLogs is WatchRun for the logs of the run's attempts.
func (e *Engine) WatchLogs(runID string) (signals <-chan struct{}, stop func()) {
	return e.store.Subscribe(logTopic(runID))
}

// clean makes text from an agent fit to be stored: valid UTF-8, no NUL, at most limit bytes.
func clean(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
