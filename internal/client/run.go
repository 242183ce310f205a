package client

import (
	"context"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// RunFilter narrows a list of runs. Stack is a name.
type RunFilter struct {
	Stack    string
	Query    string // part of a stack's name or of a run's id
	Statuses []string
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, f RunFilter, page Page) (api.List[api.RunListed], error) {
	query := filter("stack", f.Stack, "q", f.Query)
	for _, s := range f.Statuses {
		query.Add("status", s)
	}
	return list[api.RunListed](ctx, c, path("runs"), query, page)
}

// StartRun starts a run of a stack. It is repeatable where in.Key is set: the repeat answers the same run.
func (c *Client) StartRun(ctx context.Context, stack string, in api.StartRun) (api.Run, error) {
	var out api.Run
	err := c.call(ctx, request{method: http.MethodPost, path: path("stacks", stack, "runs"), document: in, repeatable: in.Key != ""}, &out)
	return out, err
}

// Run is one run.
func (c *Client) Run(ctx context.Context, id string) (api.Run, error) {
	var out api.Run
	err := c.get(ctx, path("runs", id), nil, &out)
	return out, err
}

// RunPlan is the reduced plans of a run.
func (c *Client) RunPlan(ctx context.Context, id string) (api.RunPlan, error) {
	var out api.RunPlan
	err := c.get(ctx, path("runs", id, "plan"), nil, &out)
	return out, err
}

// ApproveRun approves the plan of that digest and nothing else. A repeat finds it approved.
func (c *Client) ApproveRun(ctx context.Context, id, planDigest string) (api.Run, error) {
	var out api.Run
	err := c.call(ctx, request{method: http.MethodPost, path: path("runs", id, "approve"), document: api.Approve{PlanDigest: planDigest}, repeatable: true}, &out)
	return out, err
}

// RejectRun ends a run that waits for approval.
func (c *Client) RejectRun(ctx context.Context, id, reason string) (api.Run, error) {
	var out api.Run
	err := c.call(ctx, request{method: http.MethodPost, path: path("runs", id, "reject"), document: api.Reject{Reason: reason}, repeatable: true}, &out)
	return out, err
}

// CancelRun asks a run to stop. It ends later, once its agent has stopped.
func (c *Client) CancelRun(ctx context.Context, id string) (api.Run, error) {
	var out api.Run
	err := c.call(ctx, request{method: http.MethodPost, path: path("runs", id, "cancel"), repeatable: true}, &out)
	return out, err
}
