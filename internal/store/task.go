package store

import (
	"context"

	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateTask(ctx context.Context, k run.Task) error {
	return t.err("creating", "task", t.q.CreateTask(ctx, db.CreateTaskParams{
		ID: k.ID, Org: k.Org, Run: k.Run, Component: k.Component, Account: k.Account, Kind: string(k.Kind),
		Status: string(k.Status), Attempts: int64(k.Attempts), CreatedAt: micros(k.CreatedAt), EndedAt: micros(k.EndedAt),
	}))
}

func (t *tx) Task(ctx context.Context, id string) (run.Task, error) {
	row, err := t.q.Task(ctx, id)
	if err != nil {
		return run.Task{}, t.err("reading", "task", err)
	}
	return task(row)
}

func (t *tx) TaskForUpdate(ctx context.Context, id string) (run.Task, error) {
	if err := t.lock(ctx, "task", "SELECT id FROM tasks WHERE id = $1", id); err != nil {
		return run.Task{}, err
	}
	k, err := t.Task(ctx, id)
	if err == nil {
		t.lockedRow(id, 0)
	}
	return k, err
}

// UpdateTask stores the status, the number of attempts and the end; the rest of a task never changes.
func (t *tx) UpdateTask(ctx context.Context, k run.Task) error {
	n, err := t.changing(k.ID, "storing", "task").UpdateTask(ctx, db.UpdateTaskParams{
		Status: string(k.Status), Attempts: int64(k.Attempts), EndedAt: micros(k.EndedAt), ID: k.ID,
	})
	return t.one("storing", "task", n, err)
}

func (t *tx) Tasks(ctx context.Context, runID string) ([]run.Task, error) {
	rows, err := t.q.Tasks(ctx, runID)
	if err != nil {
		return nil, t.err("listing", "task", err)
	}
	return each(rows, task)
}

// NextTask keeps other transactions from the task until this one ends. It is NotFound where none is ready.
func (t *tx) NextTask(ctx context.Context, account string) (run.Task, error) {
	const oldest = `SELECT id FROM tasks WHERE account = $1 AND status = 'ready' ORDER BY created_at, place, id LIMIT 1`
	var id string
	if err := t.QueryRowContext(ctx, oldest+t.store.d.Claim, account).Scan(&id); err != nil {
		return run.Task{}, t.err("claiming", "task", err)
	}
	return t.Task(ctx, id)
}

func task(r db.Task) (run.Task, error) {
	return run.Task{
		ID: r.ID, Org: r.Org, Run: r.Run, Component: r.Component, Account: r.Account, Kind: run.TaskKind(r.Kind),
		Status: run.TaskStatus(r.Status), Attempts: int(r.Attempts), CreatedAt: moment(r.CreatedAt), EndedAt: moment(r.EndedAt),
	}, nil
}
