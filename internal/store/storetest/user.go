package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/store"
)

func organizations(t *testing.T, s *store.Store) {
	for _, name := range []string{"c", "a", "b"} {
		o := access.Organization{ID: id.New(id.Organization, now), Name: name, CreatedAt: now}
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateOrganization(ctx, o) })
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.Organization(ctx, name)
			same(t, "by name", got, o)
			if err != nil {
				return err
			}
			got, err = tx.OrganizationByID(ctx, o.ID)
			same(t, "by id", got, o)
			return err
		})
	}
	refused(t, s, fault.Conflict, "a taken name", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateOrganization(ctx, access.Organization{ID: "org_x", Name: "a"})
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got := all(t, 2, func(p engine.Page) ([]access.Organization, string, error) { return tx.Organizations(ctx, p) })
		same(t, "list", names(got, func(o access.Organization) string { return o.Name }), []string{"a", "b", "c"})
		_, err := tx.Organization(ctx, "A")
		wantKind(t, "a name in other case", err, fault.NotFound)
		_, err = tx.OrganizationByID(ctx, "org_none")
		wantKind(t, "a missing id", err, fault.NotFound)
		return nil
	})
}

func users(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	u := access.UserRecord{ID: id.New(id.User, now), Org: w.org.ID, Name: "ci", Service: true, Role: access.Operator, CreatedAt: now}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateUser(ctx, u) })
	refused(t, s, fault.Conflict, "a taken name", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateUser(ctx, access.UserRecord{ID: "usr_x", Org: w.org.ID, Name: "ci"})
	})
	u.Role, u.PlatformAdmin, u.DisabledAt = access.Viewer, true, after(1)
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateUser(ctx, u) })
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.User(ctx, w.org.ID, u.ID)
		same(t, "user", got, u)
		if err != nil {
			return err
		}
		got, err = tx.UserByID(ctx, u.ID)
		same(t, "user by id", got, u)
		_, missing := tx.User(ctx, "org_other", u.ID)
		wantKind(t, "a user of another organization", missing, fault.NotFound)
		return err
	})
	u.Org = "org_other"
	refused(t, s, fault.NotFound, "storing a user of another organization", func(ctx context.Context, tx engine.Tx) error {
		return tx.UpdateUser(ctx, u)
	})
}
