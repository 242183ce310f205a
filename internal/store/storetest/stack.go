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

func stacks(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	want := w.stack
	r := w.newRun()
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	want.Production, want.Approval, want.Hold, want.UpdatedAt, want.LastRun = false, run.Never, false, after(1), r.ID
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		given := want
		given.ID, given.CreatedAt, given.LastRun = id.New(id.Stack, now), after(1), "run_other"
		got, err := tx.PutStack(ctx, given)
		same(t, "as stored", got, want)
		return err
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Stack(ctx, w.org.ID, w.stack.Name)
		same(t, "stack", got, want)
		_, missing := tx.Stack(ctx, "org_other", w.stack.Name)
		wantKind(t, "a stack of another organization", missing, fault.NotFound)
		return err
	})
	for _, name := range []string{"Shop_2", "warehouse"} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			more := w.stack
			more.ID, more.Name = id.New(id.Stack, now), name
			_, err := tx.PutStack(ctx, more)
			return err
		})
	}
	list := func(query string) (got []string) {
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got = names(all(t, 1, func(p engine.Page) ([]run.Stack, string, error) { return tx.Stacks(ctx, w.org.ID, query, p) }),
				func(s run.Stack) string { return s.Name })
			return nil
		})
		return got
	}
	same(t, "all", list(""), []string{"Shop_2", "shop", "warehouse"})
	same(t, "found", list("SHOP"), []string{"Shop_2", "shop"})
	same(t, "found by a character that LIKE would take for any", list("p_"), []string{"Shop_2"})

	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteStack(ctx, w.stack.ID, after(2)) })
	same(t, "after a deletion", list(""), []string{"Shop_2", "warehouse"})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Stack(ctx, w.org.ID, w.stack.Name)
		wantKind(t, "a deleted stack", err, fault.NotFound)
		return nil
	})
	refused(t, s, fault.NotFound, "deleting it again", func(ctx context.Context, tx engine.Tx) error {
		return tx.DeleteStack(ctx, w.stack.ID, after(3))
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		again := w.stack
		again.ID = id.New(id.Stack, now)
		got, err := tx.PutStack(ctx, again)
		same(t, "a stack of a deleted one's name", got, again)
		return err
	})
}
