package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Accounts lists the organization's accounts.
func (c *Client) Accounts(ctx context.Context, page Page) (api.List[api.Account], error) {
	return list[api.Account](ctx, c, path("accounts"), nil, page)
}

// AddAccount adds an account. A repeat after a lost answer is refused as a conflict, so it is not repeated.
func (c *Client) AddAccount(ctx context.Context, in api.AddAccount) (api.Account, error) {
	var out api.Account
	err := c.call(ctx, request{method: http.MethodPost, path: path("accounts"), document: in}, &out)
	return out, err
}

// SetAccount enables or disables an account.
func (c *Client) SetAccount(ctx context.Context, name string, in api.SetAccount) (api.Account, error) {
	var out api.Account
	err := c.call(ctx, request{method: http.MethodPatch, path: path("accounts", name), document: in, repeatable: true}, &out)
	return out, err
}
