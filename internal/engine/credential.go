package engine

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// MinTokenBytes is the length below which no token can be: the bootstrap token is the only one of a person's making.
const MinTokenBytes = 32

// Authenticate makes the actor that a token stands for. Revoked and expired tokens are refused with a code of their
// own, except an attempt's: its actor is TokenDead, so that its last save can be kept aside.
func (e *Engine) Authenticate(ctx context.Context, token redact.Secret) (access.Actor, error) {
	if len(token.Reveal()) < MinTokenBytes {
		return access.Actor{}, malformed()
	}
	hash := access.Hash(token).Hex()
	var c Credential
	err := e.store.Look(ctx, func(tx Tx) (err error) {
		c, err = tx.Credential(ctx, hash)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound) && !access.WellFormed(token):
		return access.Actor{}, malformed()
	case fault.Is(err, fault.NotFound), err == nil && subtle.ConstantTimeCompare([]byte(c.Token.Hash), []byte(hash)) != 1:
		return access.Actor{}, fault.New(fault.Unauthenticated, "token_unknown", "This server does not know the token.").
			WithHint("Check that the token belongs to this server. A token that was deleted with its user is gone for good.")
	case err != nil:
		return access.Actor{}, err
	}
	return c.actor(e.now())
}

// actor applies the rules of the credential's kind.
func (c Credential) actor(now time.Time) (access.Actor, error) {
	t, owner := c.Token, c.Owner
	a := access.Actor{Org: t.Org, Token: t.ID, ID: owner.ID, Name: owner.Name, Allocation: c.Allocation}
	switch {
	case t.AttemptID != "" && owner.ID == t.AttemptID:
		a.Kind = access.Attempt
		a.Run, a.Task, a.State, a.ReadOnly = owner.Run, owner.Task, t.State, t.ReadOnly
		a.TokenDead = !t.Usable(now)
		return a, nil
	case !t.RevokedAt.IsZero():
		return access.Actor{}, fault.New(fault.Unauthenticated, "token_revoked", "The token was revoked.").WithHint("Create a new one.")
	case !t.Usable(now):
		return access.Actor{}, fault.New(fault.Unauthenticated, "token_expired", "The token expired on %s.", t.ExpiresAt.UTC().Format(time.RFC3339)).
			WithHint("Create a new one.")
	case t.AgentID != "" && owner.ID == t.AgentID:
		a.Kind, a.Account = access.Agent, owner.Account
		return a, nil
	case t.User != "" && owner.ID == t.User:
		return userActor(a, access.UserRecord{ID: owner.ID, Name: owner.Name, Role: owner.Role, PlatformAdmin: owner.PlatformAdmin, DisabledAt: owner.DisabledAt})
	}
	return access.Actor{}, fault.Wrap(errors.New("a token without its user, agent or attempt"), fault.Unauthenticated, "token_unknown",
		"This server does not know the token.")
}

func userActor(a access.Actor, u access.UserRecord) (access.Actor, error) {
	if !u.DisabledAt.IsZero() {
		return access.Actor{}, fault.New(fault.Unauthenticated, "user_disabled", "The user is disabled.").
			WithHint("Ask an administrator of the organization to enable the user again.")
	}
	a.Kind, a.ID, a.Name, a.Role, a.PlatformAdmin = access.User, u.ID, u.Name, u.Role, u.PlatformAdmin
	return a, nil
}

func malformed() error {
	return fault.New(fault.Unauthenticated, "token_malformed", "The token is not as it was given out: a character is wrong or missing.").
		WithHint("Copy the whole token again.")
}

// TouchToken notes that a token was used, for the list of tokens.
func (e *Engine) TouchToken(ctx context.Context, token string) error {
	return e.store.Update(ctx, func(tx Tx) error { return tx.TouchToken(ctx, token, e.now()) })
}

// Ready is nil when the database and the keys can be used.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.store.Ready(ctx); err != nil {
		return fault.Wrap(err, fault.Unavailable, "database_unavailable", "The database cannot be used.")
	}
	if err := e.keys.Ready(ctx); err != nil {
		if fault.Is(err, fault.Unavailable) { // it says itself what is wrong with which
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "keys_unavailable", "The encryption keys cannot be used.")
	}
	if e.blobs != nil {
		if err := e.blobs.Ready(ctx); err != nil {
			return err
		}
	}
	return e.OpenAuditKey(ctx)
}
