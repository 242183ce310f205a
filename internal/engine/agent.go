package engine

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
)

// OnlineFor is how long after its last sign of life an agent counts as online: a claim is held for 30 seconds, so an
// idle agent is heard of at least that often.
const OnlineFor = 90 * time.Second

// ListedAgent is an agent with its account's name and its status: never_seen, online, draining, offline or revoked.
type ListedAgent struct {
	access.AgentRecord
	AccountName string
	Status      string
}

// IssueAgent makes an agent of an account that is managed and enabled, and its token, which is given here and never
// again.
func (e *Engine) IssueAgent(ctx context.Context, actor access.Actor, name, account string) (a ListedAgent, token redact.Secret, err error) {
	if err := actor.Allow(access.AgentWrite); err != nil {
		return a, token, err
	}
	if err := access.CheckAgentName(name); err != nil {
		return a, token, err
	}
	if err := access.CheckAccountName(account); err != nil {
		return a, token, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		acc, err := tx.Account(ctx, actor.Org, account)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || !acc.Enabled {
			return fault.New(fault.Conflict, "account_not_managed", "The organization does not manage the account %s, or it is disabled.", account).
				WithHint("Add or enable it first: holdfast account add %s.", account)
		}
		rec := access.AgentRecord{ID: id.New(id.Agent, e.now()), Org: actor.Org, Account: acc.ID, Name: name, CreatedAt: e.now()}
		if err := tx.CreateAgent(ctx, rec); fault.Is(err, fault.Conflict) {
			return fault.New(fault.Conflict, "agent_exists", "The organization has an agent named %s already.", name).
				WithHint("Choose another name, or revoke that agent first.")
		} else if err != nil {
			return err
		}
		token = access.NewToken(access.AgentPrefix)
		t := access.Token{ID: id.New(id.Token, e.now()), Org: actor.Org, Name: name, Hash: access.Hash(token).Hex(), AgentID: rec.ID, CreatedAt: e.now()}
		if err := tx.CreateToken(ctx, t); err != nil {
			return err
		}
		a = listAgent(rec, acc.Name, e.now())
		return e.record(ctx, tx, actor, "agent.issue", rec.ID, map[string]any{"name": name, "account": account})
	})
	return a, token, err
}

// Agents lists the organization's agents, or those of the account of that name.
func (e *Engine) Agents(ctx context.Context, actor access.Actor, account string, p Page) (items []ListedAgent, next string, err error) {
	if err := actor.Allow(access.AgentRead); err != nil {
		return nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		items, next = make([]ListedAgent, 0, p.Limit), ""
		names := map[string]string{}
		for left := p; left.Limit > 0; left = (Page{Limit: p.Limit - len(items), Cursor: next}) {
			rows, after, err := tx.Agents(ctx, actor.Org, left)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if names[r.Account] == "" {
					acc, err := tx.AccountByID(ctx, r.Account)
					if err != nil {
						return err
					}
					names[r.Account] = acc.Name
				}
				if account == "" || account == names[r.Account] {
					items = append(items, listAgent(r, names[r.Account], e.now()))
				}
			}
			if next = after; next == "" {
				break
			}
		}
		return nil
	})
	return items, next, err
}

func listAgent(r access.AgentRecord, account string, now time.Time) ListedAgent {
	status := "offline"
	switch {
	case !r.RevokedAt.IsZero():
		status = "revoked"
	case r.LastSeenAt.IsZero():
		status = "never_seen"
	case now.Sub(r.LastSeenAt) > OnlineFor:
	case r.Draining:
		status = "draining"
	default:
		status = "online"
	}
	return ListedAgent{AgentRecord: r, AccountName: account, Status: status}
}

// RevokeAgent ends an agent's tokens at once. What it was doing is lost to it; the sweep takes care of that.
// Repeating it changes nothing.
func (e *Engine) RevokeAgent(ctx context.Context, actor access.Actor, agent string) error {
	if err := actor.Allow(access.AgentWrite); err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx Tx) error {
		a, err := tx.Agent(ctx, actor.Org, agent)
		switch {
		case fault.Is(err, fault.NotFound):
			return fault.New(fault.NotFound, "agent_not_found", "The organization has no such agent.").WithHint("GET /api/provisioning/agents lists them.")
		case err != nil:
			return err
		case !a.RevokedAt.IsZero():
			return nil
		}
		a.RevokedAt = e.now()
		if err := tx.UpdateAgent(ctx, a); err != nil {
			return err
		}
		if err := tx.EndTokens(ctx, a.ID, "", e.now()); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "agent.revoke", a.ID, map[string]any{"name": a.Name})
	})
}
