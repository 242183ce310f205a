package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// KeyUses lists the keys that what is stored is sealed with.
func (c *Client) KeyUses(ctx context.Context) ([]api.KeyUse, error) {
	var out api.List[api.KeyUse]
	err := c.get(ctx, path("keys"), nil, &out)
	return out.Items, err
}

// Rewrap has the server take one step of moving what is stored to the key that seals: after is "" or the Next of the
// step before.
func (c *Client) Rewrap(ctx context.Context, after string) (api.Rewrapped, error) {
	var out api.Rewrapped
	err := c.call(ctx, request{method: http.MethodPost, path: path("keys", "rewrap"), document: api.Rewrap{After: after}, repeatable: true}, &out)
	return out, err
}
