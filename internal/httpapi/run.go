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

// RunPath names a run in the path.
type RunPath struct {
	ID string `path:"id" maxLength:"64"`
}

type startRunInput struct {
	StackPath
	Body api.StartRun
}

// RunQuery narrows a list of runs.
type RunQuery struct {
	Paging
	Status []string `query:"status,explode" enum:"queued,planning,awaiting_approval,applying,verifying,cancelling,succeeded,failed,rejected,cancelled,discarded" doc:"May be given several times."`
	Query  string   `query:"q" maxLength:"128" doc:"A part of the stack's name or of the run's id."`
}

func (in RunQuery) filter() engine.RunFilter {
	f := engine.RunFilter{Query: in.Query}
	for _, s := range in.Status {
		f.Statuses = append(f.Statuses, run.Status(s))
	}
	return f
}

type listAllRunsInput struct {
	RunQuery
	Stack string `query:"stack" maxLength:"128" doc:"Name of a stack."`
}

type listStackRunsInput struct {
	RunQuery
	StackPath
}

type approveInput struct {
	RunPath
	Body api.Approve
}

type rejectInput struct {
	RunPath
	Body *api.Reject
}

func (a *API) mountRun() {
	tags := []string{"runs"}
	route(a, huma.Operation{OperationID: "list-runs", Method: http.MethodGet, Path: "/api/runs", Tags: tags, Summary: "List runs, newest first"},
		access.RunRead, func(ctx context.Context, actor access.Actor, in *listAllRunsInput) (*list[api.RunListed], error) {
			rows, next, err := a.engine.Runs(ctx, actor, in.Stack, in.filter(), in.page())
			return listOf(rows, next, err, showListedRun)
		})
	route(a, huma.Operation{OperationID: "list-stack-runs", Method: http.MethodGet, Path: "/api/stacks/{stack}/runs", Tags: tags, Summary: "List a stack's runs, newest first"},
		access.RunRead, func(ctx context.Context, actor access.Actor, in *listStackRunsInput) (*list[api.RunListed], error) {
			rows, next, err := a.engine.Runs(ctx, actor, in.Stack, in.filter(), in.page())
			return listOf(rows, next, err, showListedRun)
		})
	route(a, huma.Operation{
		OperationID: "start-run", Method: http.MethodPost, Path: "/api/stacks/{stack}/runs", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Start a run", Description: "A repeat with the same key answers the run that the first one started.",
	},
		access.RunStart, func(ctx context.Context, actor access.Actor, in *startRunInput) (*one[api.Run], error) {
			v, err := a.engine.StartRun(ctx, actor, in.start())
			return oneOf(showRun(v), err)
		})
	route(a, huma.Operation{OperationID: "get-run", Method: http.MethodGet, Path: "/api/runs/{id}", Tags: tags, Summary: "Show a run"},
		access.RunRead, func(ctx context.Context, actor access.Actor, in *RunPath) (*one[api.Run], error) {
			v, err := a.engine.Run(ctx, actor, in.ID)
			return oneOf(showRun(v), err)
		})
	route(a, huma.Operation{OperationID: "get-run-plan", Method: http.MethodGet, Path: "/api/runs/{id}/plan", Tags: tags, Summary: "Show what a run would change"},
		access.RunRead, func(ctx context.Context, actor access.Actor, in *RunPath) (*one[api.RunPlan], error) {
			v, err := a.engine.Run(ctx, actor, in.ID)
			return oneOf(showRunPlan(v.Run), err)
		})
	a.mountRunDecisions(tags)
	a.mountEvent()
	a.mountLog()
	a.mountSource()
}

func (a *API) mountRunDecisions(tags []string) {
	route(a, huma.Operation{
		OperationID: "approve-run", Method: http.MethodPost, Path: "/api/runs/{id}/approve", Tags: tags,
		Summary: "Approve a plan", Description: "Names the plan digest that the approver saw: 409 plan_changed where it is not the current one.",
	},
		access.RunApprove, func(ctx context.Context, actor access.Actor, in *approveInput) (*one[api.Run], error) {
			v, err := a.engine.Approve(ctx, actor, in.ID, in.Body.PlanDigest)
			return oneOf(showRun(v), err)
		})
	route(a, huma.Operation{OperationID: "reject-run", Method: http.MethodPost, Path: "/api/runs/{id}/reject", Tags: tags, Summary: "Reject a plan"},
		access.RunApprove, func(ctx context.Context, actor access.Actor, in *rejectInput) (*one[api.Run], error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			v, err := a.engine.Reject(ctx, actor, in.ID, reason)
			return oneOf(showRun(v), err)
		})
	route(a, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: "/api/runs/{id}/cancel", Tags: tags,
		Summary: "Cancel a run", Description: "At once where no agent is at work; else the run is cancelling until its agent has stopped.",
	},
		access.RunStart, func(ctx context.Context, actor access.Actor, in *RunPath) (*one[api.Run], error) {
			v, err := a.engine.CancelRun(ctx, actor, in.ID)
			return oneOf(showRun(v), err)
		})
}

func (in *startRunInput) start() engine.StartRun {
	out := engine.StartRun{Stack: in.Stack, Kind: run.Kind(in.Body.Kind), Approval: run.Policy(in.Body.Approval), Key: in.Body.Key}
	for _, c := range in.Body.Components {
		out.Components = append(out.Components, engine.StartComponent{Name: c.Name, Source: c.Source, StateName: c.StateName, Inputs: c.Inputs})
	}
	return out
}

func showListedRun(r run.Run) api.RunListed {
	out := api.RunListed{
		ID: r.ID, Stack: r.StackName, Kind: string(r.Kind), Status: string(r.Status), Risk: r.Risk, PlanDigest: r.PlanDigest,
		Approval: showApproval(r.Approval), Production: r.Production, CreatedBy: api.Person(r.CreatedBy), CreatedAt: r.CreatedAt.UTC(),
		EndedAt: api.Time(r.EndedAt), Class: string(r.Class), PartialApply: r.PartialApply, Message: r.Message,
	}
	for _, c := range r.Components {
		if c.Plan == nil {
			continue
		}
		n := countsOf(*c.Plan)
		out.Totals.Add += n.Add
		out.Totals.Change += n.Change
		out.Totals.Destroy += n.Destroy
		out.Totals.Replace += n.Replace
		out.Totals.Import += n.Import
		out.Totals.Move += n.Move
		out.Totals.Forget += n.Forget
		out.Totals.Outputs += n.Outputs
	}
	return out
}

func showApproval(p run.Approval) api.Approval {
	return api.Approval{
		Required: p.Required, Policy: string(p.Policy), Reason: p.Reason, Status: string(p.Status), Digest: p.Digest,
		By: p.ByName, At: api.Time(p.At),
	}
}

func countsOf(p run.Plan) api.Counts {
	return api.Counts{Add: p.Add, Change: p.Change, Destroy: p.Destroy, Replace: p.Replace, Import: p.Import, Move: p.Move, Forget: p.Forget, Outputs: p.Outputs}
}

func showRun(v engine.RunView) api.Run {
	out := api.Run{
		RunListed: showListedRun(v.Run), Account: v.Account, Hold: v.Run.Hold, WaitsFor: v.Run.WaitsFor,
		Components: make([]api.RunComponent, 0, len(v.Run.Components)), Attempts: make([]api.Attempt, 0, len(v.Attempts)),
	}
	for _, c := range v.Run.Components {
		out.Components = append(out.Components, showComponent(c, v.Tasks[c.Name]))
	}
	for _, t := range v.Attempts {
		out.Attempts = append(out.Attempts, showAttempt(t))
	}
	return out
}

func showComponent(c run.Component, task string) api.RunComponent {
	out := api.RunComponent{
		Name: c.Name, State: c.StateName, Action: c.Action, Status: string(c.Status), Task: task, Message: c.Message,
		Source: api.ComponentSource{SHA256: c.Source.SHA256, Size: c.Source.Size}, Outputs: c.Outputs,
	}
	if c.Planned() {
		p := *c.Plan
		out.Plan = &api.ComponentPlan{
			Counts: countsOf(p), Digest: p.Digest, Changes: p.HasChanges, Risk: p.Risk, Tool: p.Tool, ToolVersion: p.Version,
			BaseSHA256: p.BaseSHA256, BaseSerial: p.BaseSerial,
		}
	}
	return out
}

func showRunPlan(r run.Run) api.RunPlan {
	out := api.RunPlan{PlanDigest: r.PlanDigest, Components: []api.ComponentView{}}
	for _, c := range r.Components {
		if c.Planned() {
			out.Components = append(out.Components, api.ComponentView{Name: c.Name, Digest: c.Plan.Digest, View: c.Plan.View})
		}
	}
	return out
}

func showAttempt(t run.Attempt) api.Attempt {
	out := api.Attempt{
		ID: t.ID, Task: t.Task, Component: t.Component, Kind: string(t.TaskKind), Number: t.Number, Agent: t.AgentName,
		Status: string(t.Status), Stage: t.Stage, Progress: t.Progress, OfferedAt: api.Time(t.OfferedAt), AcceptedAt: api.Time(t.AcceptedAt),
		HeartbeatAt: api.Time(t.HeartbeatAt), EndedAt: api.Time(t.EndedAt), Class: string(t.Class), Message: t.Message, Stages: []api.StageTime{},
	}
	for _, s := range engine.Stages(t) {
		out.Stages = append(out.Stages, api.StageTime(s))
	}
	return out
}
