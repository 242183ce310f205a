package engine

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
)

// DefaultOrganization is the organization that the first start makes.
const DefaultOrganization = "default"

const (
	bootstrapped = "bootstrapped" // the setting that holds the first administrator's id
	firstAdmin   = "admin"        // the first administrator's name
)

// Bootstrap sets the installation up at its first start: the organization and its first administrator. Until somebody
// has signed in it gives the administrator the token, or without one makes a one-time link, whose code it returns;
// from then on it does nothing. So a link that was lost is replaced by the next start, and a token left in the
// settings is no way in once it was revoked.
func (e *Engine) Bootstrap(ctx context.Context, token redact.Secret) (redact.Secret, error) {
	code, err := e.bootstrap(ctx, token)
	if fault.Is(err, fault.Conflict) {
		return e.bootstrap(ctx, token) // another server started at the same moment and was first
	}
	return code, err
}

func (e *Engine) bootstrap(ctx context.Context, token redact.Secret) (code redact.Secret, err error) {
	err = e.store.Update(ctx, func(tx Tx) error {
		code = redact.Secret{}
		admin, err := e.firstAdministrator(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.Setting(ctx, firstSignIn); !fault.Is(err, fault.NotFound) {
			return err
		}
		if token.IsZero() {
			code, err = e.newLink(ctx, tx, admin)
			return err
		}
		// It is of a person's making and has no end: it is there to make the first real users with, and then to be revoked.
		t := access.Token{ID: id.New(id.Token, e.now()), Org: admin.Org, Name: "bootstrap", Hash: access.Hash(token).Hex(), User: admin.ID, CreatedAt: e.now()}
		if err := tx.CreateToken(ctx, t); err != nil {
			return err
		}
		if err := tx.SetSettingOnce(ctx, firstSignIn, admin.ID); err != nil {
			return err
		}
		return e.record(ctx, tx, bootstrapActor(admin.Org), "token.create", t.ID, map[string]any{"name": t.Name, "user": admin.ID})
	})
	return code, err
}

func bootstrapActor(org string) access.Actor {
	return access.Actor{Kind: access.System, Org: org, Name: "bootstrap"}
}

// firstAdministrator is the administrator that the first start made, or makes it.
func (e *Engine) firstAdministrator(ctx context.Context, tx Tx) (access.UserRecord, error) {
	known, err := tx.Setting(ctx, bootstrapped)
	if err == nil {
		return tx.UserByID(ctx, known)
	}
	if !fault.Is(err, fault.NotFound) {
		return access.UserRecord{}, err
	}
	now := e.now()
	o := access.Organization{ID: id.New(id.Organization, now), Name: DefaultOrganization, CreatedAt: now}
	u := access.UserRecord{ID: id.New(id.User, now), Org: o.ID, Name: firstAdmin, Role: access.Admin, PlatformAdmin: true, CreatedAt: now}
	// The setting first: of two servers that start together, one has a Conflict here.
	if err := tx.SetSettingOnce(ctx, bootstrapped, u.ID); err != nil {
		return u, err
	}
	if err := tx.CreateOrganization(ctx, o); err != nil {
		return u, err
	}
	if err := tx.CreateUser(ctx, u); err != nil {
		return u, err
	}
	return u, e.record(ctx, tx, bootstrapActor(o.ID), "organization.create", o.ID, map[string]any{"name": o.Name, "administrator": u.ID})
}
