package store

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store/db"
)

// PutStack keeps the id, the time of making and the newest run of a stack that is there.
func (t *tx) PutStack(ctx context.Context, s run.Stack) (run.Stack, error) {
	row, err := t.q.PutStack(ctx, db.PutStackParams{
		ID: s.ID, Org: s.Org, Name: s.Name, Account: s.Account, Production: s.Production, Approval: string(s.Approval),
		Hold: s.Hold, CreatedAt: micros(s.CreatedAt), UpdatedAt: micros(s.UpdatedAt),
	})
	if err != nil {
		return run.Stack{}, t.err("storing", "stack", err)
	}
	return stack(row)
}

// Stack gives no deleted one.
func (t *tx) Stack(ctx context.Context, org, name string) (run.Stack, error) {
	row, err := t.q.Stack(ctx, org, name)
	if err != nil {
		return run.Stack{}, t.err("reading", "stack", err)
	}
	return stack(row)
}

func (t *tx) Stacks(ctx context.Context, org, query string, p engine.Page) ([]run.Stack, string, error) {
	g, err := pages("stacks", 1, p)
	if err != nil {
		return nil, "", err
	}
	like, err := pattern(query)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.Stacks(ctx, db.StacksParams{Org: org, After: g.text(0, ""), Pattern: like, Count: g.count()})
	if err != nil {
		return nil, "", t.err("listing", "stack", err)
	}
	return page(g, rows, stack, func(r db.Stack) []string { return []string{r.Name} })
}

func (t *tx) DeleteStack(ctx context.Context, id string, at time.Time) error {
	n, err := t.q.DeleteStack(ctx, micros(at), id)
	return t.one("deleting", "stack", n, err)
}

func stack(r db.Stack) (run.Stack, error) {
	return run.Stack{
		ID: r.ID, Org: r.Org, Name: r.Name, Account: r.Account, Production: r.Production, Approval: run.Policy(r.Approval),
		Hold: r.Hold, CreatedAt: moment(r.CreatedAt), UpdatedAt: moment(r.UpdatedAt), DeletedAt: moment(r.DeletedAt),
		LastRun: r.LastRun,
	}, nil
}
