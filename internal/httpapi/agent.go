package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

type agentsInput struct {
	Paging
	Account string `query:"account" maxLength:"128" doc:"Only those of the account of this name."`
}

type issueAgentInput struct {
	Body api.IssueAgent
}

func (a *API) mountAgent() {
	route(a, huma.Operation{OperationID: "list-agents", Method: http.MethodGet, Path: "/api/provisioning/agents", Tags: []string{"agents"}, Summary: "List agents"},
		access.AgentRead, func(ctx context.Context, actor access.Actor, in *agentsInput) (*list[api.Agent], error) {
			rows, next, err := a.engine.Agents(ctx, actor, in.Account, in.page())
			return listOf(rows, next, err, showAgent)
		})
	route(a, huma.Operation{
		OperationID: "issue-agent", Method: http.MethodPost, Path: "/api/provisioning/agents", Tags: []string{"agents"}, DefaultStatus: http.StatusCreated,
		Summary: "Issue an agent's token", Description: "The account has to be managed and enabled. The token is shown once.",
	},
		access.AgentWrite, func(ctx context.Context, actor access.Actor, in *issueAgentInput) (*one[api.IssuedAgent], error) {
			g, token, err := a.engine.IssueAgent(ctx, actor, in.Body.Name, in.Body.AccountID)
			return oneOf(api.IssuedAgent{Agent: showAgent(g), Token: token.Reveal()}, err)
		})
	route(a, huma.Operation{
		OperationID: "revoke-agent", Method: http.MethodDelete, Path: "/api/provisioning/agents/{id}", Tags: []string{"agents"},
		Summary: "Revoke an agent; its tokens stop at once",
	},
		access.AgentWrite, func(ctx context.Context, actor access.Actor, in *ByID) (*struct{}, error) {
			return nil, a.engine.RevokeAgent(ctx, actor, in.ID)
		})
}

func showAgent(g engine.ListedAgent) api.Agent {
	capabilities := g.Capabilities
	if capabilities == nil {
		capabilities = []string{}
	}
	return api.Agent{
		ID: g.ID, Name: g.Name, Account: g.AccountName, Status: g.Status, Version: g.Version, Capabilities: capabilities,
		CreatedAt: g.CreatedAt.UTC(), LastSeenAt: api.Time(g.LastSeenAt), RevokedAt: api.Time(g.RevokedAt),
	}
}
