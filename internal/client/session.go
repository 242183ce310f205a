package client

import (
	"context"

	"holdfast.dev/holdfast/internal/api"
)

// Whoami says who the token stands for.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	var out api.Whoami
	err := c.get(ctx, path("whoami"), nil, &out)
	return out, err
}
