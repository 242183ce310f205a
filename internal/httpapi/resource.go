package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

// ResourceQuery is what narrows a list of resources; inputs embed it. It is exported because huma passes over embedded
// types that are not.
type ResourceQuery struct {
	Query string `query:"q" maxLength:"256" doc:"A part of the address or of the provider."`
	Type  string `query:"type" maxLength:"256" doc:"Only resources of this type."`
}

func (q ResourceQuery) filter() engine.ResourceFilter {
	return engine.ResourceFilter{Query: q.Query, Type: q.Type}
}

type resourcesInput struct {
	Paging
	ResourceQuery
	State string `query:"state" maxLength:"128" doc:"Only resources of this state."`
}

type stateResourcesInput struct {
	StateName
	Paging
	ResourceQuery
}

type resourceInput struct {
	StateName
	Address string `query:"address" required:"true" minLength:"1" maxLength:"1024" doc:"As a list of resources says it: without the index of an instance."`
}

// mountResource mounts what is in the current documents of states.
func (a *API) mountResource() {
	tags := []string{"state"}
	route(a, huma.Operation{
		OperationID: "search-state-resources", Method: http.MethodGet, Path: "/api/state-resources", Tags: tags,
		Summary: "Search the resources of all states, by address",
	},
		access.StateList, func(ctx context.Context, actor access.Actor, in *resourcesInput) (*list[api.Resource], error) {
			if in.State != "" {
				l, err := a.engine.StateResources(ctx, actor, in.State, in.filter(), in.page())
				return listOf(l.Items, l.Next, err, showResource)
			}
			rows, next, err := a.engine.Resources(ctx, actor, in.filter(), in.page())
			return listOf(rows, next, err, showResource)
		})
	route(a, huma.Operation{
		OperationID: "list-state-resources", Method: http.MethodGet, Path: "/api/tf-states/{name}/resources", Tags: tags,
		Summary: "List the resources of a state, by address",
	},
		access.StateList, func(ctx context.Context, actor access.Actor, in *stateResourcesInput) (*one[api.StateResources], error) {
			l, err := a.engine.StateResources(ctx, actor, in.Name, in.filter(), in.page())
			out := api.StateResources{Items: []api.Resource{}, Next: l.Next, Unreadable: l.Unreadable, Truncated: l.Truncated, Pending: l.Pending}
			for _, r := range l.Items {
				out.Items = append(out.Items, showResource(r))
			}
			return oneOf(out, err)
		})
}

func showResource(r engine.StateResource) api.Resource {
	return api.Resource{
		State: r.State, Address: r.Address, Module: r.Module, Mode: r.Mode, Type: r.Type, Name: r.Name, Provider: r.Provider, Instances: r.Instances,
	}
}
