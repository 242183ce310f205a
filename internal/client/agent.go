package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// Agents lists agents, of all accounts or of one.
func (c *Client) Agents(ctx context.Context, account string, page Page) (api.List[api.Agent], error) {
	return list[api.Agent](ctx, c, path("provisioning", "agents"), filter("account", account), page)
}

// IssueAgent makes an agent and its token, which is shown this once. It is not repeated: a lost answer leaves an
// agent whose token nobody knows, to be revoked.
func (c *Client) IssueAgent(ctx context.Context, in api.IssueAgent) (api.IssuedAgent, error) {
	var out api.IssuedAgent
	err := c.call(ctx, request{method: http.MethodPost, path: path("provisioning", "agents"), document: in}, &out)
	return out, err
}

// RevokeAgent ends an agent's token.
func (c *Client) RevokeAgent(ctx context.Context, id string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("provisioning", "agents", id), repeatable: true}, nil)
}
