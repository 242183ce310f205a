package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/run"
)

// StackPath names a stack in the path.
type StackPath struct {
	Stack string `path:"stack" maxLength:"128"`
}

type putStackInput struct {
	StackPath
	Body api.PutStack
}

type listStacksInput struct {
	Paging
	Query string `query:"q" maxLength:"128" doc:"A part of the stack's name."`
}

func (a *API) mountStack() {
	route(a, huma.Operation{OperationID: "list-stacks", Method: http.MethodGet, Path: "/api/stacks", Tags: []string{"stacks"}, Summary: "List stacks by name"},
		access.StackRead, func(ctx context.Context, actor access.Actor, in *listStacksInput) (*list[api.Stack], error) {
			rows, next, err := a.engine.Stacks(ctx, actor, in.Query, in.page())
			return listOf(rows, next, err, showStack)
		})
	route(a, huma.Operation{OperationID: "get-stack", Method: http.MethodGet, Path: "/api/stacks/{stack}", Tags: []string{"stacks"}, Summary: "Show a stack"},
		access.StackRead, func(ctx context.Context, actor access.Actor, in *StackPath) (*one[api.Stack], error) {
			v, err := a.engine.Stack(ctx, actor, in.Stack)
			return oneOf(showStack(v), err)
		})
	route(a, huma.Operation{
		OperationID: "put-stack", Method: http.MethodPut, Path: "/api/stacks/{stack}", Tags: []string{"stacks"},
		Summary: "Create a stack, or store its new settings", Description: "The settings count for runs that are started from now on.",
	},
		access.StackWrite, func(ctx context.Context, actor access.Actor, in *putStackInput) (*one[api.Stack], error) {
			v, err := a.engine.PutStack(ctx, actor, engine.PutStack{
				Name: in.Stack, Account: in.Body.Account, Production: in.Body.Production,
				Approval: run.Policy(in.Body.Approval), Hold: in.Body.Hold,
			})
			return oneOf(showStack(v), err)
		})
	route(a, huma.Operation{
		OperationID: "delete-stack", Method: http.MethodDelete, Path: "/api/stacks/{stack}", Tags: []string{"stacks"},
		Summary: "Forget a stack", Description: "Refused while a run of it has not ended, and while a state of it holds resources. Its states stay.",
	},
		access.StackWrite, func(ctx context.Context, actor access.Actor, in *StackPath) (*struct{}, error) {
			return nil, a.engine.DeleteStack(ctx, actor, in.Stack)
		})
}

func showStack(v engine.StackView) api.Stack {
	s := v.Stack
	out := api.Stack{
		ID: s.ID, Name: s.Name, Account: v.Account, Production: s.Production, Approval: string(s.Approval), Hold: s.Hold,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	if v.LastRun != nil {
		listed := showListedRun(*v.LastRun)
		out.LastRun = &listed
	}
	return out
}
