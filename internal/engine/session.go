package engine

import (
	"context"
	"crypto/rand"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// How long a browser stays signed in, and how long a link that signs in waits to be used.
const (
	SessionLife = 12 * time.Hour
	LinkLife    = 24 * time.Hour
)

// firstSignIn is the setting that says that somebody has signed in with a link.
const firstSignIn = "first_sign_in"

// NewSession is a session just made. Value is what its cookie holds, shown to nobody else.
type NewSession struct {
	Value   redact.Secret
	Actor   access.Actor
	Expires time.Time
}

// SignIn makes a session from a personal token or from the code of a one-time link, which is used up. Exactly one of
// them is to be given.
func (e *Engine) SignIn(ctx context.Context, token, code redact.Secret, requestID string) (NewSession, error) {
	switch {
	case token.IsZero() == code.IsZero():
		return NewSession{}, fault.New(fault.Invalid, "invalid_request", "Signing in takes either a token or a code.")
	case !token.IsZero():
		return e.signInByToken(ctx, token, requestID)
	}
	return e.signInByCode(ctx, code, requestID)
}

func (e *Engine) signInByToken(ctx context.Context, token redact.Secret, requestID string) (NewSession, error) {
	actor, err := e.Authenticate(ctx, token)
	switch {
	case err != nil:
		return NewSession{}, err
	case actor.Kind != access.User:
		return NewSession{}, fault.New(fault.Forbidden, "forbidden", "Only a person's token signs in, and this is a token of kind %s.", actor.Kind)
	}
	actor.RequestID = requestID
	var s NewSession
	err = e.store.Update(ctx, func(tx Tx) error {
		u, err := tx.User(ctx, actor.Org, actor.ID)
		if err != nil {
			return err
		}
		s, err = e.startSession(ctx, tx, u, actor, "token")
		return err
	})
	return s, err
}

func (e *Engine) signInByCode(ctx context.Context, code redact.Secret, requestID string) (NewSession, error) {
	var s NewSession
	err := e.store.Update(ctx, func(tx Tx) error {
		link, err := tx.UseSignInLink(ctx, access.Hash(code).Hex(), e.now())
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Unauthenticated, "link_unusable", "The sign-in link was used before, has expired, or was never given out.").
				WithHint("Ask an administrator for a new link.")
		}
		if err != nil {
			return err
		}
		u, err := tx.UserByID(ctx, link.User)
		if err != nil {
			return err
		}
		changed, err := tx.Allocation(ctx, u.Org)
		if err != nil {
			return err
		}
		actor, err := userActor(access.Actor{Org: u.Org, Allocation: changed, RequestID: requestID}, u)
		if err != nil {
			return err
		}
		if err := settle(ctx, tx, firstSignIn, u.ID); err != nil {
			return err
		}
		s, err = e.startSession(ctx, tx, u, actor, "link")
		return err
	})
	return s, err
}

// settle keeps a setting that may be there already.
func settle(ctx context.Context, tx Tx, key, value string) error {
	if _, err := tx.Setting(ctx, key); !fault.Is(err, fault.NotFound) {
		return err
	}
	return tx.SetSettingOnce(ctx, key, value)
}

func (e *Engine) startSession(ctx context.Context, tx Tx, u access.UserRecord, actor access.Actor, by string) (NewSession, error) {
	if u.Service {
		return NewSession{}, fault.New(fault.Forbidden, "service_user", "%s is a service user; service users have tokens and do not sign in.", u.Name)
	}
	now := e.now()
	value := redact.NewSecret(rand.Text() + rand.Text())
	row := access.Session{Hash: access.Hash(value).Hex(), User: u.ID, Org: u.Org, CreatedAt: now, ExpiresAt: now.Add(SessionLife)}
	if err := tx.SweepSessions(ctx, now); err != nil {
		return NewSession{}, err
	}
	if err := tx.CreateSession(ctx, row); err != nil {
		return NewSession{}, err
	}
	actor.Token = sessionID(row.Hash)
	if err := e.record(ctx, tx, actor, "session.start", u.ID, map[string]string{"by": by}); err != nil {
		return NewSession{}, err
	}
	return NewSession{Value: value, Actor: actor, Expires: row.ExpiresAt}, nil
}

// sessionID names a session in the audit log: enough of its hash to tell it from others, too little to be of use.
func sessionID(hash string) string { return "session-" + hash[:16] }

// SessionActor makes the actor that a session's cookie stands for.
func (e *Engine) SessionActor(ctx context.Context, value redact.Secret) (access.Actor, error) {
	hash := access.Hash(value).Hex()
	var s access.Session
	var u access.UserRecord
	var changed access.Allocation
	err := e.store.Look(ctx, func(tx Tx) (err error) {
		s, u, changed, err = tx.Session(ctx, hash)
		return err
	})
	if fault.Is(err, fault.NotFound) || err == nil && !e.now().Before(s.ExpiresAt) {
		return access.Actor{}, fault.New(fault.Unauthenticated, "session_ended", "The session has ended.").WithHint("Sign in again.")
	}
	if err != nil {
		return access.Actor{}, err
	}
	return userActor(access.Actor{Org: s.Org, Token: sessionID(hash), Allocation: changed}, u)
}

// SignOut ends a session.
func (e *Engine) SignOut(ctx context.Context, actor access.Actor, value redact.Secret) error {
	return e.store.Update(ctx, func(tx Tx) error {
		if err := tx.DeleteSession(ctx, access.Hash(value).Hex()); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "session.end", actor.ID, nil)
	})
}

// OrganizationName is the name of the actor's organization.
func (e *Engine) OrganizationName(ctx context.Context, actor access.Actor) (string, error) {
	var o access.Organization
	err := e.store.View(ctx, func(tx Tx) (err error) {
		o, err = tx.OrganizationByID(ctx, actor.Org)
		return err
	})
	return o.Name, err
}

// newLink makes a link that signs u in once; only its code is given, and only here.
func (e *Engine) newLink(ctx context.Context, tx Tx, u access.UserRecord) (redact.Secret, error) {
	code := redact.NewSecret(rand.Text() + rand.Text())
	err := tx.CreateSignInLink(ctx, access.SignInLink{Hash: access.Hash(code).Hex(), User: u.ID, ExpiresAt: e.now().Add(LinkLife)})
	return code, err
}
