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

func accounts(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	a := access.Account{ID: id.New(id.Account, now), Org: w.org.ID, Name: "123456789012", Enabled: true, CreatedAt: now}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateAccount(ctx, a) })
	refused(t, s, fault.Conflict, "a taken name", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateAccount(ctx, access.Account{ID: "acc_x", Org: w.org.ID, Name: a.Name})
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.SetAccountEnabled(ctx, a.ID, false) })
	a.Enabled = false
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Account(ctx, w.org.ID, a.Name)
		same(t, "by name", got, a)
		if err != nil {
			return err
		}
		got, err = tx.AccountByID(ctx, a.ID)
		same(t, "by id", got, a)
		list := all(t, 1, func(p engine.Page) ([]access.Account, string, error) { return tx.Accounts(ctx, w.org.ID, p) })
		same(t, "list", list, []access.Account{a, w.account})
		_, missing := tx.Account(ctx, "org_other", a.Name)
		wantKind(t, "an account of another organization", missing, fault.NotFound)
		return err
	})
	refused(t, s, fault.NotFound, "enabling no account", func(ctx context.Context, tx engine.Tx) error {
		return tx.SetAccountEnabled(ctx, "acc_none", true)
	})
}
