package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Stacks lists stacks, all or those whose name holds q.
func (c *Client) Stacks(ctx context.Context, q string, page Page) (api.List[api.Stack], error) {
	return list[api.Stack](ctx, c, path("stacks"), filter("q", q), page)
}

// Stack is one stack.
func (c *Client) Stack(ctx context.Context, name string) (api.Stack, error) {
	var out api.Stack
	err := c.get(ctx, path("stacks", name), nil, &out)
	return out, err
}

// PutStack creates a stack or stores its new settings.
func (c *Client) PutStack(ctx context.Context, name string, in api.PutStack) (api.Stack, error) {
	var out api.Stack
	err := c.call(ctx, request{method: http.MethodPut, path: path("stacks", name), document: in, repeatable: true}, &out)
	return out, err
}

// DeleteStack forgets a stack. What it deployed goes on existing.
func (c *Client) DeleteStack(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("stacks", name), repeatable: true}, nil)
}
