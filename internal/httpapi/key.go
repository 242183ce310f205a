package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

type rewrapInput struct {
	Body api.Rewrap
}

func (a *API) mountKey() {
	route(a, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/api/keys", Tags: []string{"keys"},
		Summary: "The keys that what is stored is sealed with, and how much with each", Description: "For platform administrators. A key that is not listed is not needed any more.",
	},
		access.PlatformManage, func(ctx context.Context, actor access.Actor, _ *struct{}) (*list[api.KeyUse], error) {
			uses, err := a.engine.KeyUses(ctx, actor)
			return listOf(uses, "", err, showKeyUse)
		})
	route(a, huma.Operation{
		OperationID: "rewrap-keys", Method: http.MethodPost, Path: "/api/keys/rewrap", Tags: []string{"keys"},
		Summary:     "Move what is stored to the key that seals, one step",
		Description: "For platform administrators. Call again with the answer's next as after until it is empty. Steps may be repeated, and run beside everything else.",
	},
		access.PlatformManage, func(ctx context.Context, actor access.Actor, in *rewrapInput) (*one[api.Rewrapped], error) {
			done, err := a.engine.Rewrap(ctx, actor, in.Body.After)
			return oneOf(showRewrapped(done), err)
		})
}

func showKeyUse(u engine.KeyUse) api.KeyUse {
	return api.KeyUse{Kind: u.Key.Kind, Name: u.Key.Name, Version: u.Key.Version, Objects: u.Objects}
}

func showRewrapped(r engine.Rewrapped) api.Rewrapped {
	out := api.Rewrapped{Next: r.Next, Examined: r.Examined, Moved: r.Moved, Failed: []api.RewrapFailure{}}
	for _, f := range r.Failed {
		public := fault.From(f.Err)
		out.Failed = append(out.Failed, api.RewrapFailure{
			Object: f.Object, Organization: f.Org, Kind: f.Kind, Key: showKey(f.Key),
			Code: public.Code, Detail: public.Public,
		})
	}
	return out
}

func showKey(k state.Key) api.Key { return api.Key{Kind: k.Kind, Name: k.Name, Version: k.Version} }
