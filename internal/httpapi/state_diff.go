package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/state"
)

type diffInput struct {
	StateName
	From int64 `query:"from" minimum:"0" doc:"Number of a version; the one before the other, where it is left out."`
	To   int64 `query:"to" minimum:"0" doc:"Number of a version; the current one, where it is left out."`
}

// mountStateDiff mounts what is read of documents without giving them out.
func (a *API) mountStateDiff() {
	const path = "/api/tf-states/{name}"
	tags := []string{"state"}
	route(a, huma.Operation{
		OperationID: "diff-state", Method: http.MethodGet, Path: path + "/diff", Tags: tags,
		Summary: "What differs between two versions, by resource, without sensitive values",
	},
		access.StateRead, func(ctx context.Context, actor access.Actor, in *diffInput) (*one[api.StateDiff], error) {
			d, err := a.engine.DiffState(ctx, actor, in.Name, in.From, in.To)
			return oneOf(showDiff(d), err)
		})
	route(a, huma.Operation{
		OperationID: "list-state-outputs", Method: http.MethodGet, Path: path + "/outputs", Tags: tags,
		Summary: "The outputs of the current version, without sensitive values",
	},
		access.StateRead, func(ctx context.Context, actor access.Actor, in *StateName) (*one[api.StateOutputs], error) {
			o, err := a.engine.StateOutputs(ctx, actor, in.Name)
			out := api.StateOutputs{Version: o.Version, Unreadable: o.Unreadable, Items: []api.StateOutput{}, More: o.More}
			for _, v := range o.Outputs {
				out.Items = append(out.Items, api.StateOutput{Name: v.Name, Type: value(v.Type), Value: value(v.Value), Sensitive: v.Sensitive, Cut: v.Cut})
			}
			return oneOf(out, err)
		})
	route(a, huma.Operation{
		OperationID: "get-state-resource", Method: http.MethodGet, Path: path + "/resource", Tags: tags,
		Summary: "One resource of the current version with its values, without sensitive ones",
	},
		access.StateRead, func(ctx context.Context, actor access.Actor, in *resourceInput) (*one[api.ResourceDetail], error) {
			d, err := a.engine.StateResource(ctx, actor, in.Name, in.Address)
			return oneOf(showResourceDetail(in.Name, d), err)
		})
}

// value is JSON that the engine gives as text; left out where it is empty.
func value(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func showDiff(d engine.StateDiff) api.StateDiff {
	out := api.StateDiff{
		From: d.From.Number, To: d.To.Number, SerialFrom: serialOf(d.From.Serial), SerialTo: serialOf(d.To.Serial), LineageChanged: d.LineageChanged,
		Unreadable: d.Unreadable, Resources: []api.ResourceChange{}, Outputs: []api.OutputChange{}, Unchanged: d.Unchanged, More: d.More,
	}
	for _, c := range d.Changes {
		out.Resources = append(out.Resources, api.ResourceChange{
			Address: c.Address, Type: c.Type, Provider: c.Provider, Action: string(c.Action), Deposed: c.Deposed,
			Attributes: showChanges(c.Attributes), AttributesMore: c.LeftOut, About: showChanges(c.About),
		})
	}
	for _, o := range d.Outputs {
		out.Outputs = append(out.Outputs, api.OutputChange{
			Name: o.Name, Action: string(o.Action), Before: value(o.Before), After: value(o.After), Sensitive: o.Sensitive, Cut: o.Cut,
		})
	}
	return out
}

func showChanges(list []plan.Attribute) []api.AttributeChange {
	out := []api.AttributeChange{}
	for _, a := range list {
		out = append(out, api.AttributeChange{Path: a.Path, Before: value(a.Before), After: value(a.After), Sensitive: a.Sensitive, Cut: a.Cut})
	}
	return out
}

func showResourceDetail(name string, d engine.ResourceDetail) api.ResourceDetail {
	out := api.ResourceDetail{
		Resource: showResource(engine.StateResource{State: name, Resource: d.Resource}), Version: d.Version, Unreadable: d.Unreadable,
		Details: []api.ResourceInstance{}, More: d.More,
	}
	for _, i := range d.Details {
		out.Details = append(out.Details, showInstance(i))
	}
	return out
}

func showInstance(i state.Instance) api.ResourceInstance {
	out := api.ResourceInstance{Address: i.Address, Deposed: i.Deposed, Status: i.Status, Attributes: []api.StateValue{}, AttributesMore: i.LeftOut}
	for _, a := range i.Attributes {
		out.Attributes = append(out.Attributes, api.StateValue{Path: a.Path, Value: value(a.After), Sensitive: a.Sensitive, Cut: a.Cut})
	}
	return out
}
