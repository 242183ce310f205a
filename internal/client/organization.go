package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Organizations lists the tenants, for platform administrators.
func (c *Client) Organizations(ctx context.Context, page Page) (api.List[api.Organization], error) {
	return list[api.Organization](ctx, c, path("organizations"), nil, page)
}

// AddOrganization adds a tenant, for platform administrators. It is not repeated.
func (c *Client) AddOrganization(ctx context.Context, in api.AddOrganization) (api.Organization, error) {
	var out api.Organization
	err := c.call(ctx, request{method: http.MethodPost, path: path("organizations"), document: in}, &out)
	return out, err
}
