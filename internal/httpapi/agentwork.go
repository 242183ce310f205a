package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Bodies of agents that are larger than most: a batch of log chunks, a reduced plan, a report with outputs.
const (
	logsBody   = 32 << 20
	planBody   = 16 << 20
	reportBody = 8 << 20
)

// TaskPath names a task in the path.
type TaskPath struct {
	ID string `path:"id" maxLength:"64"`
}

type registerInput struct{ Body api.Register }

type claimInput struct{ Body api.Claim }

type claimOutput struct {
	Status int
	Body   *api.Offer
}

type acceptInput struct {
	TaskPath
	Body api.Accept
}

type heartbeatInput struct {
	TaskPath
	Body api.Heartbeat
}

type logsInput struct {
	TaskPath
	Body api.AppendLogs
}

type planInput struct {
	TaskPath
	Body api.PlanMade
}

type reportInput struct {
	TaskPath
	Body api.Report
}

func agentOp(id, method, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: "/api/agent/v1/" + path, Tags: []string{"agent protocol"}, Summary: summary}
}

func (a *API) mountAgentWork() {
	route(a, agentOp("agent-register", http.MethodPost, "register", "Say what the agent is"),
		access.AgentWork, func(ctx context.Context, actor access.Actor, in *registerInput) (*one[api.Registered], error) {
			out, err := a.engine.Register(ctx, actor, engine.Registration{Version: in.Body.Version, Capabilities: in.Body.Capabilities, SealingKey: in.Body.SealingKey})
			return oneOf(showRegistered(out), err)
		})
	claim := agentOp("agent-claim", http.MethodPost, "claim", "Wait for work")
	claim.Description = "The answer is an offer, or 204 when there was nothing in time. The task is the agent's only once it accepts it, within 10 seconds."
	claim.Responses = map[string]*huma.Response{"204": {Description: "Nothing in time"}}
	route(a, claim, access.AgentWork, a.claim)
	accept := agentOp("agent-accept", http.MethodPost, "tasks/{id}/accept", "Take an offer")
	accept.Description = "Repeating it gives a fresh token for the same attempt."
	route(a, accept, access.AgentWork, func(ctx context.Context, actor access.Actor, in *acceptInput) (*one[api.Work], error) {
		w, err := a.engine.Accept(ctx, actor, in.ID, in.Body.Attempt)
		return oneOf(showWork(w), err)
	})
	route(a, agentOp("agent-heartbeat", http.MethodPost, "tasks/{id}/heartbeat", "Say that the attempt lives, and hear whether to go on"),
		access.AgentWork, func(ctx context.Context, actor access.Actor, in *heartbeatInput) (*one[api.HeartbeatAnswer], error) {
			order, err := a.engine.Heartbeat(ctx, actor, in.ID, in.Body.Attempt, engine.Heartbeat{Stage: in.Body.Stage, Progress: in.Body.Progress, Draining: in.Body.Draining})
			return oneOf(api.HeartbeatAnswer{Order: order}, err)
		})
	a.mountDeliveries()
	a.mountTaskFiles()
}

// mountDeliveries is what an attempt delivers as JSON.
func (a *API) mountDeliveries() {
	logs := agentOp("agent-logs", http.MethodPost, "tasks/{id}/logs", "Deliver log chunks")
	logs.Description = "Chunks are numbered from 0 over the whole attempt. The answer is the number of the first one that is not stored: send again from there. " +
		"409 is final: nothing more is taken."
	logs.MaxBodyBytes = logsBody
	route(a, logs, access.AgentWork, func(ctx context.Context, actor access.Actor, in *logsInput) (*one[api.LogsAcknowledged], error) {
		chunks := make([]run.LogChunk, 0, len(in.Body.Chunks))
		for _, c := range in.Body.Chunks {
			chunks = append(chunks, run.LogChunk{Seq: c.Seq, Stage: c.Stage, At: c.At, Text: c.Text})
		}
		next, err := a.engine.AppendLogs(ctx, actor, in.ID, in.Body.Attempt, chunks)
		return oneOf(api.LogsAcknowledged{Next: next}, err)
	})
	plan := agentOp("agent-plan", http.MethodPost, "tasks/{id}/plan", "Deliver the reduced plan, after the plan file")
	plan.MaxBodyBytes = planBody
	route(a, plan, access.AgentWork, func(ctx context.Context, actor access.Actor, in *planInput) (*struct{}, error) {
		b := in.Body
		return nil, a.engine.TakePlan(ctx, actor, in.ID, b.Attempt, engine.PlanMade{
			Digest: b.Digest, Tool: b.Tool, Version: b.Version, LockFile: b.LockFile,
			ConfigHash: b.ConfigHash, BaseSHA256: b.BaseSHA256, View: b.View,
		})
	})
	report := agentOp("agent-report", http.MethodPost, "tasks/{id}/report", "Say how the attempt ended")
	report.MaxBodyBytes = reportBody
	route(a, report, access.AgentWork, func(ctx context.Context, actor access.Actor, in *reportInput) (*one[api.Reported], error) {
		status, err := a.engine.Report(ctx, actor, in.ID, in.Body.Attempt, reportOf(in.Body))
		return oneOf(api.Reported{Status: string(status)}, err)
	})
}

func reportOf(b api.Report) engine.Report {
	out := engine.Report{Outcome: b.Outcome, Class: b.Class, Message: b.Message, PartialApply: b.PartialApply, StateUnsaved: b.StateUnsaved, Outputs: b.Outputs}
	for _, s := range b.Stages {
		out.Stages = append(out.Stages, engine.StageTime(s))
	}
	if b.Applied != nil {
		out.Applied, _ = json.Marshal(b.Applied) // a struct of numbers
	}
	return out
}

func (a *API) claim(ctx context.Context, actor access.Actor, in *claimInput) (*claimOutput, error) {
	ctx, cancel := a.untilShutdown(ctx)
	defer cancel()
	wait := time.Duration(in.Body.WaitSeconds) * time.Second
	offer, ok, err := a.engine.Claim(ctx, actor, engine.Claim{Draining: in.Body.Draining, Wait: wait})
	if err != nil {
		return nil, err
	}
	if !ok {
		return &claimOutput{Status: http.StatusNoContent}, nil
	}
	return &claimOutput{Status: http.StatusOK, Body: &api.Offer{Task: offer.Task, Attempt: offer.Attempt}}, nil
}

func showRegistered(r engine.Registered) api.Registered {
	return api.Registered{Agent: r.Agent.ID, Name: r.Agent.Name, Account: r.Account.Name, VersionStatus: r.VersionStatus, Policy: api.AgentPolicy{
		ClaimWaitSeconds: int(engine.MaxClaimWait / time.Second), HeartbeatSeconds: int(engine.HeartbeatInterval / time.Second),
		LogLineBytes: engine.LogLineBytes, LogTotalBytes: engine.LogTotalBytes, LogChunkBytes: engine.LogChunkBytes,
		StateMaxBytes: r.Limits.StateMaxBytes, SourceMaxBytes: r.Limits.SourceMaxBytes, PlanMaxBytes: r.Limits.PlanMaxBytes,
	}}
}

func showWork(w engine.Work) api.Work {
	path := "/api/tf-states/" + w.State // a state's name needs no escaping
	out := api.Work{
		Task: w.Task.ID, Attempt: w.Attempt.ID, Number: w.Attempt.Number, Run: w.Run.ID, Stack: w.Run.StackName, Component: w.Component.Name,
		Kind: string(w.Task.Kind), RunKind: string(w.Run.Kind),
		State:  api.WorkState{Name: w.State, Address: path + "/state", Lock: path + "/lock", Token: w.Token.Reveal(), ReadOnly: w.ReadOnly},
		Source: api.WorkSource{SHA256: w.Component.Source.SHA256, Size: w.Component.Source.Size},
		Inputs: w.Component.Inputs, Sensitive: []string{}, Timeout: int(w.Timeout / time.Second),
	}
	if p := w.Component.Plan; w.Task.Kind == run.TaskApply && p != nil {
		out.Plan = &api.WorkPlan{Digest: p.Digest, Tool: p.Tool, Version: p.Version, LockFile: p.LockFile, ConfigHash: p.ConfigHash, View: p.View}
	}
	return out
}

// mountTaskFiles is what an attempt fetches and delivers as bytes. Each names its attempt in the query.
func (a *API) mountTaskFiles() {
	attempt := &huma.Param{Name: "attempt", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "The attempt; without it the agent's newest one of the task."}
	bytes := map[string]*huma.Response{"200": {Description: "The bytes", Content: binaryContent("application/octet-stream")}}
	source := huma.Operation{OperationID: "agent-source", Tags: []string{"agent protocol"}, Summary: "Fetch the packed source", Parameters: []*huma.Param{attempt}, Responses: bytes}
	a.handle(http.MethodGet, "/api/agent/v1/tasks/{id}/source", access.AgentWork, source, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		o, body, err := a.engine.TaskSource(r.Context(), actor, r.PathValue("id"), r.URL.Query().Get("attempt"))
		return send(w, o, body, err)
	})
	get := huma.Operation{OperationID: "agent-get-plan-file", Tags: []string{"agent protocol"}, Summary: "Fetch the approved plan file", Parameters: []*huma.Param{attempt}, Responses: bytes}
	a.handle(http.MethodGet, "/api/agent/v1/tasks/{id}/plan-file", access.AgentWork, get, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		o, body, err := a.engine.TaskPlanFile(r.Context(), actor, r.PathValue("id"), r.URL.Query().Get("attempt"))
		return send(w, o, body, err)
	})
	put := huma.Operation{
		OperationID: "agent-put-plan-file", Tags: []string{"agent protocol"}, Summary: "Store the plan file, before the plan", Parameters: []*huma.Param{attempt},
		RequestBody: binary("application/octet-stream"), Responses: map[string]*huma.Response{"204": {Description: "Stored"}},
	}
	a.handle(http.MethodPut, "/api/agent/v1/tasks/{id}/plan-file", access.AgentWork, put, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		if _, err := a.engine.PutPlanFile(r.Context(), actor, r.PathValue("id"), r.URL.Query().Get("attempt"), r.Body); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}, maxBody(a.engine.Limits().PlanMaxBytes))
}

// send answers a sealed object's bytes. A damaged one is found at its end at the latest: the answer is then cut, and
// is shorter than it says, so that nobody takes it for whole.
func send(w http.ResponseWriter, o engine.Object, body io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // read to its end
	first := make([]byte, 32<<10)
	n, err := io.ReadFull(body, first)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { //nolint:errorlint // ReadFull's own
		return err // nothing was answered yet: it becomes a problem
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(o.Size, 10))
	if _, err := w.Write(first[:n]); err != nil {
		return nil //nolint:nilerr // the client went away
	}
	if n < len(first) {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		if fault.From(err).Code != "internal" {
			return err
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}
