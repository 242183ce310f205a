package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Tokens lists one's own tokens or, for an administrator, everybody's in the organization.
func (c *Client) Tokens(ctx context.Context, everybody bool, page Page) (api.List[api.Token], error) {
	return list[api.Token](ctx, c, path("tokens"), filter("all", set(everybody)), page)
}

// CreateToken makes a token, which is shown this once. It is not repeated.
func (c *Client) CreateToken(ctx context.Context, in api.CreateToken) (api.CreatedToken, error) {
	var out api.CreatedToken
	err := c.call(ctx, request{method: http.MethodPost, path: path("tokens"), document: in}, &out)
	return out, err
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("tokens", id), repeatable: true}, nil)
}
