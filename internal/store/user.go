package store

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateOrganization(ctx context.Context, o access.Organization) error {
	return t.err("creating", "organization", t.q.CreateOrganization(ctx, o.ID, o.Name, micros(o.CreatedAt)))
}

func (t *tx) Organization(ctx context.Context, name string) (access.Organization, error) {
	row, err := t.q.Organization(ctx, name)
	if err != nil {
		return access.Organization{}, t.err("reading", "organization", err)
	}
	return organization(row)
}

func (t *tx) OrganizationByID(ctx context.Context, id string) (access.Organization, error) {
	row, err := t.q.OrganizationByID(ctx, id)
	if err != nil {
		return access.Organization{}, t.err("reading", "organization", err)
	}
	return organization(row)
}

func (t *tx) Organizations(ctx context.Context, p engine.Page) ([]access.Organization, string, error) {
	g, err := pages("organizations", 1, p)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.Organizations(ctx, g.text(0, ""), g.count())
	if err != nil {
		return nil, "", t.err("listing", "organization", err)
	}
	return page(g, rows, organization, func(r db.Organization) []string { return []string{r.Name} })
}

func organization(r db.Organization) (access.Organization, error) {
	return access.Organization{ID: r.ID, Name: r.Name, CreatedAt: moment(r.CreatedAt)}, nil
}

func (t *tx) CreateUser(ctx context.Context, u access.UserRecord) error {
	return t.err("creating", "user", t.q.CreateUser(ctx, db.CreateUserParams{
		ID: u.ID, Org: u.Org, Name: u.Name, Service: u.Service, Role: string(u.Role), PlatformAdmin: u.PlatformAdmin,
		CreatedAt: micros(u.CreatedAt), DisabledAt: micros(u.DisabledAt),
	}))
}

func (t *tx) User(ctx context.Context, org, id string) (access.UserRecord, error) {
	row, err := t.q.User(ctx, id, org)
	if err != nil {
		return access.UserRecord{}, t.err("reading", "user", err)
	}
	return user(row)
}

func (t *tx) UserByID(ctx context.Context, id string) (access.UserRecord, error) {
	row, err := t.q.UserByID(ctx, id)
	if err != nil {
		return access.UserRecord{}, t.err("reading", "user", err)
	}
	return user(row)
}

func (t *tx) UpdateUser(ctx context.Context, u access.UserRecord) error {
	n, err := t.q.UpdateUser(ctx, db.UpdateUserParams{
		Name: u.Name, Service: u.Service, Role: string(u.Role), PlatformAdmin: u.PlatformAdmin,
		DisabledAt: micros(u.DisabledAt), ID: u.ID, Org: u.Org,
	})
	return t.one("storing", "user", n, err)
}

// Users lists by name.
func (t *tx) Users(ctx context.Context, org string, p engine.Page) ([]access.UserRecord, string, error) {
	g, err := pages("users", 1, p)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.Users(ctx, org, g.text(0, ""), g.count())
	if err != nil {
		return nil, "", t.err("listing", "user", err)
	}
	return page(g, rows, user, func(r db.User) []string { return []string{r.Name} })
}

func user(r db.User) (access.UserRecord, error) {
	return access.UserRecord{
		ID: r.ID, Org: r.Org, Name: r.Name, Service: r.Service, Role: access.Role(r.Role), PlatformAdmin: r.PlatformAdmin,
		CreatedAt: moment(r.CreatedAt), DisabledAt: moment(r.DisabledAt),
	}, nil
}
