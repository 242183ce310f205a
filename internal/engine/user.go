package engine

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
)

// UserChange is what to change of a user; what is empty or nil stays.
type UserChange struct {
	Role     string
	Disabled *bool
}

// AddUser adds a person and makes a link that signs them in once.
func (e *Engine) AddUser(ctx context.Context, actor access.Actor, name, role string) (u access.UserRecord, code redact.Secret, err error) {
	if err := actor.Allow(access.UserManage); err != nil {
		return u, code, err
	}
	r, err := access.ParseRole(role)
	if err != nil {
		return u, code, err
	}
	if err := access.CheckPersonName(name); err != nil {
		return u, code, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		u = access.UserRecord{ID: id.New(id.User, e.now()), Org: actor.Org, Name: name, Role: r, CreatedAt: e.now()}
		if err := tx.CreateUser(ctx, u); fault.Is(err, fault.Conflict) {
			return userTaken(name)
		} else if err != nil {
			return err
		}
		if err := e.record(ctx, tx, actor, "user.create", u.ID, map[string]any{"name": name, "service": false, "role": r}); err != nil {
			return err
		}
		code, err = e.newLink(ctx, tx, u)
		return err
	})
	return u, code, err
}

func userTaken(name string) error {
	return fault.New(fault.Conflict, "user_exists", "The organization has a user named %s already.", name).
		WithHint("Choose another name. A service user's further tokens are made with a token of its own.")
}

// LinkUser makes another link that signs a person in once, for one who has lost their session or first link.
func (e *Engine) LinkUser(ctx context.Context, actor access.Actor, user string) (u access.UserRecord, code redact.Secret, err error) {
	if err := actor.Allow(access.UserManage); err != nil {
		return u, code, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		if u, err = tx.User(ctx, actor.Org, user); err != nil {
			return userMissing(err)
		}
		switch {
		case u.Service:
			return fault.New(fault.Conflict, "service_user", "%s is a service user; service users have tokens and do not sign in.", u.Name)
		case !u.DisabledAt.IsZero():
			return fault.New(fault.Conflict, "user_disabled", "The user is disabled.").WithHint("Enable the user first.")
		}
		if code, err = e.newLink(ctx, tx, u); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "user.link", u.ID, nil)
	})
	return u, code, err
}

func userMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "user_not_found", "There is no such user.").WithHint("GET /api/users lists them.")
	}
	return err
}

// Users lists the organization's users.
func (e *Engine) Users(ctx context.Context, actor access.Actor, p Page) (items []access.UserRecord, next string, err error) {
	if err := actor.Allow(access.UserRead); err != nil {
		return nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		items, next, err = tx.Users(ctx, actor.Org, p)
		return err
	})
	return items, next, err
}

// ChangeUser sets a user's role, or disables or enables them. An organization always keeps one administrator. A
// disabled user's tokens and sessions stop at once.
func (e *Engine) ChangeUser(ctx context.Context, actor access.Actor, user string, c UserChange) (u access.UserRecord, err error) {
	if err := actor.Allow(access.UserManage); err != nil {
		return u, err
	}
	var role access.Role
	if c.Role != "" {
		if role, err = access.ParseRole(c.Role); err != nil {
			return u, err
		}
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		// The end of the audit chain is the organization's lock: two administrators who demote each other at the same
		// moment come one after the other, and the second finds that it is the last.
		if _, err := tx.AuditTail(ctx, actor.Org); err != nil {
			return err
		}
		if u, err = tx.User(ctx, actor.Org, user); err != nil {
			return userMissing(err)
		}
		before := u
		if role != "" {
			u.Role = role
		}
		switch {
		case c.Disabled == nil:
		case !*c.Disabled:
			u.DisabledAt = time.Time{}
		case u.DisabledAt.IsZero():
			u.DisabledAt = e.now()
		}
		if u == before {
			return nil
		}
		if administers(before) && !administers(u) {
			if err := keepsAdmin(ctx, tx, u); err != nil {
				return err
			}
		}
		if err := tx.UpdateUser(ctx, u); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "user.change", u.ID, map[string]any{"name": u.Name, "role": u.Role, "role_before": before.Role, "disabled": !u.DisabledAt.IsZero()})
	})
	return u, err
}

func administers(u access.UserRecord) bool { return u.Role == access.Admin && u.DisabledAt.IsZero() }

// keepsAdmin refuses a change after which nobody administers the organization.
func keepsAdmin(ctx context.Context, tx Tx, changed access.UserRecord) error {
	p := Page{Limit: 500}
	for {
		users, next, err := tx.Users(ctx, changed.Org, p)
		if err != nil {
			return err
		}
		for _, u := range users {
			if u.ID != changed.ID && administers(u) {
				return nil
			}
		}
		if next == "" {
			return fault.New(fault.Conflict, "last_admin", "%s is the organization's last administrator.", changed.Name).
				WithHint("Make another user an administrator first.")
		}
		p.Cursor = next
	}
}

// AddOrganization adds a tenant, for platform administrators. It has no user yet: POST /api/tokens makes the first.
func (e *Engine) AddOrganization(ctx context.Context, actor access.Actor, name string) (o access.Organization, err error) {
	if err := actor.Allow(access.PlatformManage); err != nil {
		return o, err
	}
	if err := access.CheckOrganizationName(name); err != nil {
		return o, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		o = access.Organization{ID: id.New(id.Organization, e.now()), Name: name, CreatedAt: e.now()}
		if err := tx.CreateOrganization(ctx, o); fault.Is(err, fault.Conflict) {
			return fault.New(fault.Conflict, "organization_exists", "There is an organization of this name already.")
		} else if err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "organization.create", o.ID, map[string]any{"name": name})
	})
	return o, err
}

// Organizations lists the tenants, for platform administrators.
func (e *Engine) Organizations(ctx context.Context, actor access.Actor, p Page) (items []access.Organization, next string, err error) {
	if err := actor.Allow(access.PlatformManage); err != nil {
		return nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		items, next, err = tx.Organizations(ctx, p)
		return err
	})
	return items, next, err
}
