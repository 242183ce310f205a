package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Permissions lists every permission with the lowest role that has it.
func (c *Client) Permissions(ctx context.Context) ([]api.Permission, error) {
	var out api.List[api.Permission]
	err := c.get(ctx, path("permissions"), nil, &out)
	return out.Items, err
}

// SetPermission allocates a permission to a role, or disables it.
func (c *Client) SetPermission(ctx context.Context, permission string, in api.SetPermission) (api.Permission, error) {
	var out api.Permission
	err := c.call(ctx, request{method: http.MethodPatch, path: path("permissions", permission), document: in, repeatable: true}, &out)
	return out, err
}
