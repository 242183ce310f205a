package store

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateAttempt(ctx context.Context, a run.Attempt) error {
	return t.err("creating", "attempt", t.q.CreateAttempt(ctx, db.CreateAttemptParams{
		ID: a.ID, Org: a.Org, Task: a.Task, Run: a.Run, Component: a.Component, TaskKind: string(a.TaskKind),
		Number: int64(a.Number), Agent: a.Agent, AgentName: a.AgentName, Status: string(a.Status), Final: a.Status.Final(),
		SignAt: lastSign(a), Stage: a.Stage, Progress: a.Progress, OfferedAt: micros(a.OfferedAt),
		AcceptedAt: micros(a.AcceptedAt), HeartbeatAt: micros(a.HeartbeatAt), EndedAt: micros(a.EndedAt),
		Class: string(a.Class), Message: a.Message, PartialApply: a.PartialApply, Report: string(a.Report), NextLog: a.NextLog,
		LogBytes: a.LogBytes,
	}))
}

func (t *tx) Attempt(ctx context.Context, id string) (run.Attempt, error) {
	row, err := t.q.Attempt(ctx, id)
	if err != nil {
		return run.Attempt{}, t.err("reading", "attempt", err)
	}
	return attempt(row)
}

func (t *tx) AttemptForUpdate(ctx context.Context, id string) (run.Attempt, error) {
	if err := t.lockAttempt(ctx, id); err != nil {
		return run.Attempt{}, err
	}
	a, err := t.Attempt(ctx, id)
	if err == nil {
		t.lockedRow(id, 0)
	}
	return a, err
}

func (t *tx) lockAttempt(ctx context.Context, id string) error {
	return t.lock(ctx, "attempt", "SELECT id FROM attempts WHERE id = $1", id)
}

// UpdateAttempt leaves NextLog and LogBytes alone, which only AppendLog moves.
func (t *tx) UpdateAttempt(ctx context.Context, a run.Attempt) error {
	n, err := t.changing(a.ID, "storing", "attempt").UpdateAttempt(ctx, db.UpdateAttemptParams{
		Agent: a.Agent, AgentName: a.AgentName, Status: string(a.Status), Final: a.Status.Final(), SignAt: lastSign(a),
		Stage: a.Stage, Progress: a.Progress, OfferedAt: micros(a.OfferedAt), AcceptedAt: micros(a.AcceptedAt),
		HeartbeatAt: micros(a.HeartbeatAt), EndedAt: micros(a.EndedAt), Class: string(a.Class), Message: a.Message,
		PartialApply: a.PartialApply, Report: string(a.Report), ID: a.ID,
	})
	return t.one("storing", "attempt", n, err)
}

func lastSign(a run.Attempt) int64 {
	return max(micros(a.OfferedAt), micros(a.AcceptedAt), micros(a.HeartbeatAt))
}

func (t *tx) Attempts(ctx context.Context, runID, taskID string) ([]run.Attempt, error) {
	list, id := t.q.AttemptsOfTask, taskID
	if taskID == "" {
		list, id = t.q.AttemptsOfRun, runID
	}
	rows, err := list(ctx, id)
	if err != nil {
		return nil, t.err("listing", "attempt", err)
	}
	return each(rows, attempt)
}

func (t *tx) StaleAttempts(ctx context.Context, before time.Time, limit int) ([]string, error) {
	ids, err := t.q.StaleAttempts(ctx, micros(before), int32(limit))
	return ids, t.err("listing", "attempt", err)
}

func attempt(r db.Attempt) (run.Attempt, error) {
	return run.Attempt{
		ID: r.ID, Org: r.Org, Task: r.Task, Run: r.Run, Component: r.Component, TaskKind: run.TaskKind(r.TaskKind),
		Number: int(r.Number), Agent: r.Agent, AgentName: r.AgentName, Status: run.AttemptStatus(r.Status), Stage: r.Stage,
		Progress: r.Progress, OfferedAt: moment(r.OfferedAt), AcceptedAt: moment(r.AcceptedAt),
		HeartbeatAt: moment(r.HeartbeatAt), EndedAt: moment(r.EndedAt), Class: run.Class(r.Class), Message: r.Message,
		PartialApply: r.PartialApply, Report: raw(r.Report), NextLog: r.NextLog, LogBytes: r.LogBytes,
	}, nil
}
