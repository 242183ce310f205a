package store

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateAccount(ctx context.Context, a access.Account) error {
	return t.err("creating", "account", t.q.CreateAccount(ctx, db.CreateAccountParams{
		ID: a.ID, Org: a.Org, Name: a.Name, Enabled: a.Enabled, CreatedAt: micros(a.CreatedAt),
	}))
}

func (t *tx) Account(ctx context.Context, org, name string) (access.Account, error) {
	row, err := t.q.Account(ctx, org, name)
	if err != nil {
		return access.Account{}, t.err("reading", "account", err)
	}
	return account(row)
}

func (t *tx) AccountByID(ctx context.Context, id string) (access.Account, error) {
	row, err := t.q.AccountByID(ctx, id)
	if err != nil {
		return access.Account{}, t.err("reading", "account", err)
	}
	return account(row)
}

// Accounts lists by name.
func (t *tx) Accounts(ctx context.Context, org string, p engine.Page) ([]access.Account, string, error) {
	g, err := pages("accounts", 1, p)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.q.Accounts(ctx, org, g.text(0, ""), g.count())
	if err != nil {
		return nil, "", t.err("listing", "account", err)
	}
	return page(g, rows, account, func(r db.Account) []string { return []string{r.Name} })
}

func (t *tx) SetAccountEnabled(ctx context.Context, id string, enabled bool) error {
	n, err := t.q.SetAccountEnabled(ctx, enabled, id)
	return t.one("storing", "account", n, err)
}

func account(r db.Account) (access.Account, error) {
	return access.Account{ID: r.ID, Org: r.Org, Name: r.Name, Enabled: r.Enabled, CreatedAt: moment(r.CreatedAt)}, nil
}
