package store

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateAgent(ctx context.Context, a access.AgentRecord) error {
	capabilities, err := encode(a.Capabilities)
	if err != nil {
		return err
	}
	return t.err("creating", "agent", t.q.CreateAgent(ctx, db.CreateAgentParams{
		ID: a.ID, Org: a.Org, Account: a.Account, Name: a.Name, Version: a.Version, Capabilities: capabilities,
		SealingKey: a.SealingKey, CreatedAt: micros(a.CreatedAt), RegisteredAt: micros(a.RegisteredAt),
		LastSeenAt: micros(a.LastSeenAt), Draining: a.Draining, RevokedAt: micros(a.RevokedAt),
	}))
}

func (t *tx) Agent(ctx context.Context, org, id string) (access.AgentRecord, error) {
	row, err := t.q.Agent(ctx, id, org)
	if err != nil {
		return access.AgentRecord{}, t.err("reading", "agent", err)
	}
	return agent(row)
}

func (t *tx) UpdateAgent(ctx context.Context, a access.AgentRecord) error {
	capabilities, err := encode(a.Capabilities)
	if err != nil {
		return err
	}
	n, err := t.q.UpdateAgent(ctx, db.UpdateAgentParams{
		Name: a.Name, Version: a.Version, Capabilities: capabilities, SealingKey: a.SealingKey,
		RegisteredAt: micros(a.RegisteredAt), LastSeenAt: micros(a.LastSeenAt), Draining: a.Draining,
		RevokedAt: micros(a.RevokedAt), ID: a.ID, Org: a.Org,
	})
	return t.one("storing", "agent", n, err)
}

// Agents lists by name; agents of one name, all but one of them revoked, by id.
func (t *tx) Agents(ctx context.Context, org string, p engine.Page) ([]access.AgentRecord, string, error) {
	g, err := pages("agents", 2, p)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.Agents(ctx, db.AgentsParams{
		Org: org, AfterName: g.text(0, ""), AfterID: g.text(1, ""), Count: g.count(),
	})
	if err != nil {
		return nil, "", t.err("listing", "agent", err)
	}
	return page(g, rows, agent, func(r db.Agent) []string { return []string{r.Name, r.ID} })
}

func agent(r db.Agent) (access.AgentRecord, error) {
	a := access.AgentRecord{
		ID: r.ID, Org: r.Org, Account: r.Account, Name: r.Name, Version: r.Version, SealingKey: r.SealingKey,
		CreatedAt: moment(r.CreatedAt), RegisteredAt: moment(r.RegisteredAt), LastSeenAt: moment(r.LastSeenAt),
		Draining: r.Draining, RevokedAt: moment(r.RevokedAt),
	}
	return a, decode(r.Capabilities, &a.Capabilities)
}
