package storetest

import (
	"context"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/store"
)

func agents(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	second := access.AgentRecord{ID: id.New(id.Agent, now), Org: w.org.ID, Account: w.account.ID, Name: w.agent.Name, CreatedAt: now}
	create := func(ctx context.Context, tx engine.Tx) error { return tx.CreateAgent(ctx, second) }
	refused(t, s, fault.Conflict, "a taken name", create)

	a := w.agent
	a.Version, a.Capabilities, a.SealingKey = "2.0.0", []string{"container"}, "other"
	a.RegisteredAt, a.LastSeenAt, a.Draining, a.RevokedAt = after(1), after(2), true, after(3)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAgent(ctx, a) })
	update(t, s, create) // the name is free again
	again := a
	again.RevokedAt, again.LastSeenAt = time.Time{}, after(9)
	a.LastSeenAt = after(9)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAgent(ctx, again) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Agent(ctx, w.org.ID, a.ID)
		same(t, "a revoked agent, stored as one that is not", got, a)
		list := all(t, 1, func(p engine.Page) ([]access.AgentRecord, string, error) { return tx.Agents(ctx, w.org.ID, p) })
		if len(list) != 2 || list[0].Name != a.Name || list[1].Name != a.Name || list[0].ID == list[1].ID {
			t.Errorf("list = %v, want both agents of the name", list)
		}
		_, missing := tx.Agent(ctx, "org_other", a.ID)
		wantKind(t, "an agent of another organization", missing, fault.NotFound)
		return err
	})
	a.ID = "agt_none"
	refused(t, s, fault.NotFound, "storing no agent", func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAgent(ctx, a) })
}
