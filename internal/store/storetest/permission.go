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

// permissions are read in three ways, which have to agree: by themselves, with a token and with a session.
func permissions(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	other := access.Organization{ID: id.New(id.Organization, now), Name: "other", CreatedAt: now}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateOrganization(ctx, other); err != nil {
			return err
		}
		if err := tx.CreateToken(ctx, access.Token{ID: id.New(id.Token, now), Org: w.org.ID, Name: "a", Hash: "aa", User: w.user.ID, CreatedAt: now}); err != nil {
			return err
		}
		return tx.CreateSession(ctx, access.Session{Hash: "bb", User: w.user.ID, Org: w.org.ID, CreatedAt: now, ExpiresAt: after(10)})
	})
	want := func(what string, allocation access.Allocation) {
		t.Helper()
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.Allocation(ctx, w.org.ID)
			same(t, what, got, allocation)
			if err != nil {
				return err
			}
			c, err := tx.Credential(ctx, "aa")
			same(t, what+", with a token", c.Allocation, allocation)
			if err != nil {
				return err
			}
			_, _, got, err = tx.Session(ctx, "bb")
			same(t, what+", with a session", got, allocation)
			return err
		})
	}
	allocate := func(org string, p access.Permission, r access.Role) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.Allocate(ctx, org, p, r) })
	}
	want("nothing is changed", nil)
	allocate(other.ID, access.StateRead, access.Disabled)
	want("another organization has changed something", nil)
	allocate(w.org.ID, access.StateWrite, access.Admin)
	want("one is changed", access.Allocation{access.StateWrite: access.Admin})
	allocate(w.org.ID, access.StateRead, access.Viewer)
	allocate(w.org.ID, access.StateManage, access.Operator)
	allocate(w.org.ID, access.StateWrite, access.Disabled)
	want("all are changed, one twice", access.Allocation{
		access.StateRead: access.Viewer, access.StateWrite: access.Disabled, access.StateManage: access.Operator,
	})
	refused(t, s, fault.Conflict, "an organization that is not there", func(ctx context.Context, tx engine.Tx) error {
		return tx.Allocate(ctx, "org_none", access.StateRead, access.Admin)
	})
}
