package engine

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
)

// AddAccount adds an account, enabled.
func (e *Engine) AddAccount(ctx context.Context, actor access.Actor, name string) (acc access.Account, err error) {
	if err := actor.Allow(access.AccountWrite); err != nil {
		return acc, err
	}
	if err := access.CheckAccountName(name); err != nil {
		return acc, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		acc = access.Account{ID: id.New(id.Account, e.now()), Org: actor.Org, Name: name, Enabled: true, CreatedAt: e.now()}
		if err := tx.CreateAccount(ctx, acc); fault.Is(err, fault.Conflict) {
			return fault.New(fault.Conflict, "account_exists", "The organization has the account %s already.", name)
		} else if err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "account.create", acc.ID, map[string]any{"name": name})
	})
	return acc, err
}

// Accounts lists the organization's accounts.
func (e *Engine) Accounts(ctx context.Context, actor access.Actor, p Page) (items []access.Account, next string, err error) {
	if err := actor.Allow(access.AccountRead); err != nil {
		return nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		items, next, err = tx.Accounts(ctx, actor.Org, p)
		return err
	})
	return items, next, err
}

// EnableAccount enables or disables an account. A disabled one takes no new run and issues no agent.
func (e *Engine) EnableAccount(ctx context.Context, actor access.Actor, name string, enabled bool) (acc access.Account, err error) {
	if err := actor.Allow(access.AccountWrite); err != nil {
		return acc, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		acc, err = tx.Account(ctx, actor.Org, name)
		switch {
		case fault.Is(err, fault.NotFound):
			return fault.New(fault.NotFound, "account_not_found", "The organization has no such account.").WithHint("GET /api/accounts lists them.")
		case err != nil:
			return err
		case acc.Enabled == enabled:
			return nil
		}
		acc.Enabled = enabled
		if err := tx.SetAccountEnabled(ctx, acc.ID, enabled); err != nil {
			return err
		}
		action := "account.disable"
		if enabled {
			action = "account.enable"
		}
		return e.record(ctx, tx, actor, action, acc.ID, map[string]any{"name": name})
	})
	return acc, err
}
