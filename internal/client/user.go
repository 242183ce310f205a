package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Users lists the organization's users.
func (c *Client) Users(ctx context.Context, page Page) (api.List[api.User], error) {
	return list[api.User](ctx, c, path("users"), nil, page)
}

// AddUser adds a user and answers the link that signs them in, once. It is not repeated.
func (c *Client) AddUser(ctx context.Context, in api.AddUser) (api.AddedUser, error) {
	var out api.AddedUser
	err := c.call(ctx, request{method: http.MethodPost, path: path("users"), document: in}, &out)
	return out, err
}

// SetUser changes a user's role, or disables and enables them.
func (c *Client) SetUser(ctx context.Context, id string, in api.SetUser) (api.User, error) {
	var out api.User
	err := c.call(ctx, request{method: http.MethodPatch, path: path("users", id), document: in, repeatable: true}, &out)
	return out, err
}

// LinkUser makes another link that signs the user in, once. It is not repeated.
func (c *Client) LinkUser(ctx context.Context, id string) (api.AddedUser, error) {
	var out api.AddedUser
	err := c.call(ctx, request{method: http.MethodPost, path: path("users", id, "sign-in-link")}, &out)
	return out, err
}
