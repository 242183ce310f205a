package client

import (
	"context"
	"net/url"
	"strconv"

	"holdfast.dev/holdfast/internal/api"
)

// ResourceFilter narrows a list of resources.
type ResourceFilter struct {
	Query string // part of the address or the provider
	Type  string
}

func (f ResourceFilter) query() url.Values { return filter("q", f.Query, "type", f.Type) }

// Resources searches the current documents of all states, by address.
func (c *Client) Resources(ctx context.Context, f ResourceFilter, page Page) (api.List[api.Resource], error) {
	return list[api.Resource](ctx, c, path("state-resources"), f.query(), page)
}

// StateResources lists one page of the resources of a state, by address.
func (c *Client) StateResources(ctx context.Context, name string, f ResourceFilter, page Page) (api.StateResources, error) {
	var out api.StateResources
	err := c.get(ctx, path("tf-states", name, "resources"), page.into(f.query()), &out)
	return out, err
}

// StateOutputs are the outputs of a state's current document, without sensitive values.
func (c *Client) StateOutputs(ctx context.Context, name string) (api.StateOutputs, error) {
	var out api.StateOutputs
	err := c.get(ctx, path("tf-states", name, "outputs"), nil, &out)
	return out, err
}

// StateResource is one resource of a state's current document with its values, without sensitive ones.
func (c *Client) StateResource(ctx context.Context, name, address string) (api.ResourceDetail, error) {
	var out api.ResourceDetail
	err := c.get(ctx, path("tf-states", name, "resource"), filter("address", address), &out)
	return out, err
}

// DiffState compares two versions of a state. to is 0 for the current one, from for the one before the other.
func (c *Client) DiffState(ctx context.Context, name string, from, to int64) (api.StateDiff, error) {
	var out api.StateDiff
	err := c.get(ctx, path("tf-states", name, "diff"), filter("from", number(from), "to", number(to)), &out)
	return out, err
}

// number is how a query says a number; 0 is left out.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
