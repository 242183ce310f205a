package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
)

// How long a personal token lives unless told otherwise, and at most.
const (
	DefaultTokenLife = 90 * 24 * time.Hour
	MaxTokenLife     = 366 * 24 * time.Hour
)

// TokenRequest asks for a token. With a role it is for a new service user of that name, which only an administrator
// may ask for; with an organization, for one there, which only a platform administrator may.
type TokenRequest struct {
	Name, Role, Organization, ExpiresIn string
}

// IssuedToken is a token just made. The token itself is given here and never again.
type IssuedToken struct {
	ID    string
	Token redact.Secret
}

// ListedToken is a token with whose it is.
type ListedToken struct {
	access.Token
	UserName string
	Role     access.Role
}

// CreateToken makes a token of the actor's own or of a new service user.
func (e *Engine) CreateToken(ctx context.Context, actor access.Actor, q TokenRequest) (IssuedToken, error) {
	life, err := tokenLife(q.ExpiresIn)
	if err != nil {
		return IssuedToken{}, err
	}
	if err := access.CheckPersonName(q.Name); err != nil {
		return IssuedToken{}, err
	}
	if q.Role == "" && q.Organization == "" {
		return e.createOwnToken(ctx, actor, q.Name, life)
	}
	role, err := access.ParseRole(q.Role)
	if err != nil {
		return IssuedToken{}, err
	}
	var made IssuedToken
	err = e.store.Update(ctx, func(tx Tx) error {
		in, err := e.organizationOf(ctx, tx, actor, q.Organization)
		if err != nil {
			return err
		}
		u := access.UserRecord{ID: id.New(id.User, e.now()), Org: in.Org, Name: q.Name, Service: true, Role: role, CreatedAt: e.now()}
		if err := tx.CreateUser(ctx, u); fault.Is(err, fault.Conflict) {
			return userTaken(q.Name)
		} else if err != nil {
			return err
		}
		if err := e.record(ctx, tx, in, "user.create", u.ID, map[string]any{"name": u.Name, "service": true, "role": role}); err != nil {
			return err
		}
		made, err = e.issueToken(ctx, tx, in, u, q.Name, life)
		return err
	})
	return made, err
}

func (e *Engine) createOwnToken(ctx context.Context, actor access.Actor, name string, life time.Duration) (IssuedToken, error) {
	if err := actor.Allow(access.TokenOwn); err != nil {
		return IssuedToken{}, err
	}
	var made IssuedToken
	err := e.store.Update(ctx, func(tx Tx) error {
		u, err := tx.User(ctx, actor.Org, actor.ID)
		if err != nil {
			return err
		}
		made, err = e.issueToken(ctx, tx, actor, u, name, life)
		return err
	})
	return made, err
}

// organizationOf is the actor as it acts in the organization of that name: its own, or, for platform administrators,
// another.
func (e *Engine) organizationOf(ctx context.Context, tx Tx, actor access.Actor, name string) (access.Actor, error) {
	if name != "" {
		if err := actor.Allow(access.PlatformManage); err != nil {
			return actor, err
		}
		o, err := tx.Organization(ctx, name)
		if fault.Is(err, fault.NotFound) {
			return actor, fault.New(fault.NotFound, "organization_not_found", "There is no organization of this name.")
		}
		if err != nil {
			return actor, err
		}
		if actor.Org != o.ID {
			actor.Org = o.ID
			return actor, nil
		}
	}
	return actor, actor.Allow(access.UserManage)
}

func (e *Engine) issueToken(ctx context.Context, tx Tx, actor access.Actor, u access.UserRecord, name string, life time.Duration) (IssuedToken, error) {
	made := IssuedToken{ID: id.New(id.Token, e.now()), Token: access.NewToken(access.PersonalPrefix)}
	t := access.Token{ID: made.ID, Org: u.Org, Name: name, Hash: access.Hash(made.Token).Hex(), User: u.ID, CreatedAt: e.now(), ExpiresAt: e.now().Add(life)}
	if err := tx.CreateToken(ctx, t); err != nil {
		return IssuedToken{}, err
	}
	err := e.record(ctx, tx, actor, "token.create", t.ID, map[string]any{"name": name, "user": u.ID, "expires_at": t.ExpiresAt.UTC()})
	return made, err
}

// tokenLife reads a duration such as 12h or 30d; "" is the default.
func tokenLife(s string) (time.Duration, error) {
	if s == "" {
		return DefaultTokenLife, nil
	}
	var life time.Duration
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, badLife()
		}
		life = time.Duration(n) * 24 * time.Hour
	} else {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, badLife()
		}
		life = d
	}
	if life < time.Minute || life > MaxTokenLife {
		return 0, badLife()
	}
	return life, nil
}

func badLife() error {
	return fault.New(fault.Invalid, "invalid_request", "A token lives from 1 minute to 366 days.").WithHint("Give expires_in as 12h or 30d.")
}

// Tokens lists the actor's tokens, newest first; with all, those of everybody in the organization, for
// administrators.
func (e *Engine) Tokens(ctx context.Context, actor access.Actor, all bool, p Page) (items []ListedToken, next string, err error) {
	user := actor.ID
	if all {
		if err := actor.Allow(access.UserManage); err != nil {
			return nil, "", err
		}
		user = ""
	}
	err = e.store.View(ctx, func(tx Tx) error {
		rows, after, err := tx.Tokens(ctx, actor.Org, user, p)
		if err != nil {
			return err
		}
		items, next = make([]ListedToken, 0, len(rows)), after
		users := map[string]access.UserRecord{}
		for _, t := range rows {
			u, ok := users[t.User]
			if !ok {
				if u, err = tx.User(ctx, actor.Org, t.User); err != nil {
					return fmt.Errorf("read the user of a token: %w", err)
				}
				users[t.User] = u
			}
			items = append(items, ListedToken{Token: t, UserName: u.Name, Role: u.Role})
		}
		return nil
	})
	return items, next, err
}

// RevokeToken ends a token of the actor's own, or for administrators anybody's in the organization. Repeating it
// changes nothing.
func (e *Engine) RevokeToken(ctx context.Context, actor access.Actor, token string) error {
	return e.store.Update(ctx, func(tx Tx) error {
		t, err := tx.Token(ctx, actor.Org, token)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || t.User == "" || t.User != actor.ID && actor.Allow(access.UserManage) != nil {
			return fault.New(fault.NotFound, "token_not_found", "There is no such token.").WithHint("GET /api/tokens lists those that you may revoke.")
		}
		if !t.RevokedAt.IsZero() {
			return nil
		}
		if err := tx.RevokeToken(ctx, t.ID, e.now()); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "token.revoke", t.ID, map[string]any{"name": t.Name, "user": t.User})
	})
}
