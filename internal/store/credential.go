package store

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) Credential(ctx context.Context, hash string) (engine.Credential, error) {
	r, err := t.q.Credential(ctx, hash)
	if err != nil {
		return engine.Credential{}, t.err("reading", "token", err)
	}
	k, err := token(r.Token)
	return engine.Credential{Token: k, Owner: engine.Owner{
		ID: r.Owner, Name: r.OwnerName, Role: access.Role(r.Role), PlatformAdmin: r.PlatformAdmin, DisabledAt: moment(r.DisabledAt),
		Account: r.Account, Run: r.Run, Task: r.Task,
	}, Allocation: allocation(r.Allocation)}, err
}

func (t *tx) CreateToken(ctx context.Context, k access.Token) error {
	return t.err("creating", "token", t.q.CreateToken(ctx, db.CreateTokenParams{
		ID: k.ID, Org: k.Org, Name: k.Name, Hash: k.Hash, UserID: k.User, Agent: k.AgentID, Attempt: k.AttemptID,
		StateID: k.State, ReadOnly: k.ReadOnly, CreatedAt: micros(k.CreatedAt), ExpiresAt: micros(k.ExpiresAt),
		RevokedAt: micros(k.RevokedAt), LastUsedAt: micros(k.LastUsedAt),
	}))
}

func (t *tx) Token(ctx context.Context, org, id string) (access.Token, error) {
	row, err := t.q.Token(ctx, id, org)
	if err != nil {
		return access.Token{}, t.err("reading", "token", err)
	}
	return token(row)
}

// RevokeToken leaves the time of an earlier revocation as it is.
func (t *tx) RevokeToken(ctx context.Context, id string, at time.Time) error {
	n, err := t.q.RevokeToken(ctx, micros(at), id)
	return t.one("revoking", "token", n, err)
}

func (t *tx) EndTokens(ctx context.Context, agent, attempt string, at time.Time) error {
	if agent != "" {
		if err := t.q.EndAgentTokens(ctx, micros(at), agent); err != nil {
			return t.err("ending", "token", err)
		}
	}
	if attempt == "" {
		return nil
	}
	return t.err("ending", "token", t.q.EndAttemptTokens(ctx, micros(at), attempt))
}

// TouchToken never moves the time back.
func (t *tx) TouchToken(ctx context.Context, id string, at time.Time) error {
	return t.err("touching", "token", t.q.TouchToken(ctx, micros(at), id))
}

func (t *tx) Tokens(ctx context.Context, org, user string, p engine.Page) ([]access.Token, string, error) {
	g, err := pages("tokens", 1, p)
	if err != nil {
		return nil, "", err
	}
	var rows []db.Token
	if user == "" {
		rows, err = t.q.Tokens(ctx, org, g.text(0, last), g.count())
	} else {
		rows, err = t.q.TokensOfUser(ctx, db.TokensOfUserParams{UserID: user, Org: org, Before: g.text(0, last), Count: g.count()})
	}
	if err != nil {
		return nil, "", t.err("listing", "token", err)
	}
	return page(g, rows, token, func(r db.Token) []string { return []string{r.ID} })
}

func token(r db.Token) (access.Token, error) {
	return access.Token{
		ID: r.ID, Org: r.Org, Name: r.Name, Hash: r.Hash, User: r.UserID, AgentID: r.Agent, AttemptID: r.Attempt,
		State: r.StateID, ReadOnly: r.ReadOnly, CreatedAt: moment(r.CreatedAt), ExpiresAt: moment(r.ExpiresAt),
		RevokedAt: moment(r.RevokedAt), LastUsedAt: moment(r.LastUsedAt),
	}, nil
}
