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
	var c engine.Credential
	if c.Token, err = token(r.Token); err != nil {
		return engine.Credential{}, err
	}
	if r.UserID != "" {
		u, err := user(userOf(r))
		if err != nil {
			return engine.Credential{}, err
		}
		c.User = &u
	}
	if r.AgentID != "" {
		g, err := agent(agentOf(r))
		if err != nil {
			return engine.Credential{}, err
		}
		c.Agent = &g
		c.Account = &access.Account{
			ID: r.AccountID, Org: r.AccountOrg, Name: r.AccountName, Enabled: r.AccountEnabled,
			CreatedAt: moment(r.AccountCreatedAt),
		}
	}
	if r.AttemptID != "" {
		a, err := attempt(attemptOf(r))
		if err != nil {
			return engine.Credential{}, err
		}
		c.Attempt = &a
	}
	return c, nil
}

func userOf(r db.CredentialRow) db.User {
	return db.User{
		ID: r.UserID, Org: r.UserOrg, Name: r.UserName, Service: r.UserService, Role: r.UserRole,
		PlatformAdmin: r.UserPlatformAdmin, CreatedAt: r.UserCreatedAt, DisabledAt: r.UserDisabledAt,
	}
}

func agentOf(r db.CredentialRow) db.Agent {
	return db.Agent{
		ID: r.AgentID, Org: r.AgentOrg, Account: r.AgentAccount, Name: r.AgentName, Version: r.AgentVersion,
		Capabilities: r.AgentCapabilities, SealingKey: r.AgentSealingKey, CreatedAt: r.AgentCreatedAt,
		RegisteredAt: r.AgentRegisteredAt, LastSeenAt: r.AgentLastSeenAt, Draining: r.AgentDraining,
		RevokedAt: r.AgentRevokedAt,
	}
}

func attemptOf(r db.CredentialRow) db.Attempt {
	return db.Attempt{
		ID: r.AttemptID, Org: r.AttemptOrg, Task: r.AttemptTask, Run: r.AttemptRun, Place: r.AttemptPlace,
		Component: r.AttemptComponent, TaskKind: r.AttemptTaskKind, Number: r.AttemptNumber, Agent: r.AttemptAgent,
		AgentName: r.AttemptAgentName, Status: r.AttemptStatus, Final: r.AttemptFinal, SignAt: r.AttemptSignAt,
		Stage: r.AttemptStage, Progress: r.AttemptProgress, OfferedAt: r.AttemptOfferedAt,
		AcceptedAt: r.AttemptAcceptedAt, HeartbeatAt: r.AttemptHeartbeatAt, EndedAt: r.AttemptEndedAt,
		Class: r.AttemptClass, Message: r.AttemptMessage, PartialApply: r.AttemptPartialApply,
		Report: r.AttemptReport, NextLog: r.AttemptNextLog, LogBytes: r.AttemptLogBytes,
	}
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
