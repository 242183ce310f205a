package api

import (
	"encoding/json"
	"time"
)

// Stack is a set of components deployed together into one account.
type Stack struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Account    string     `json:"account" doc:"Name of the account."`
	Production bool       `json:"production"`
	Approval   string     `json:"approval" enum:"always,high_risk,never"`
	Hold       bool       `json:"hold"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	LastRun    *RunListed `json:"last_run"`
}

// PutStack creates a stack or stores its new settings: PUT /api/stacks/{stack}.
type PutStack struct {
	Account    string `json:"account" minLength:"1" maxLength:"128"`
	Production bool   `json:"production,omitempty"`
	Approval   string `json:"approval,omitempty" enum:"always,high_risk,never," doc:"Default: high_risk in production, never elsewhere."`
	Hold       bool   `json:"hold,omitempty"`
}

// Source is a packed configuration: POST /api/sources with the archive as the body (application/zstd).
type Source struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// StartRun starts a run: POST /api/stacks/{stack}/runs.
type StartRun struct {
	Kind       string           `json:"kind,omitempty" enum:"deploy,destroy,preview," doc:"Default deploy."`
	Approval   string           `json:"approval,omitempty" enum:"always,high_risk,never," doc:"Overrides the stack's, only to be stricter."`
	Components []StartComponent `json:"components" minItems:"1" maxItems:"1"`
	// Key makes a repeat of the same request answer with the run it started the first time.
	Key string `json:"key,omitempty" maxLength:"64" doc:"A text of the client's choosing; a repeat with it answers the same run."`
}

// StartComponent is one component of a run to start.
type StartComponent struct {
	Name      string          `json:"name" minLength:"1" maxLength:"64"`
	Source    string          `json:"source" doc:"Id that POST /api/sources answered."`
	StateName string          `json:"state_name,omitempty" doc:"Default: <stack>.<component>."`
	Inputs    json.RawMessage `json:"inputs,omitempty" doc:"An object from variable to value."`
}

// RunListed is a run in a list.
type RunListed struct {
	ID           string     `json:"id"`
	Stack        string     `json:"stack"`
	Kind         string     `json:"kind" enum:"deploy,destroy,preview"`
	Status       string     `json:"status" enum:"queued,planning,awaiting_approval,applying,verifying,cancelling,succeeded,failed,rejected,cancelled,discarded"`
	Risk         string     `json:"risk" enum:"none,low,high," doc:"Empty before the plan."`
	PlanDigest   string     `json:"plan_digest"`
	Approval     Approval   `json:"approval"`
	Production   bool       `json:"production"`
	CreatedBy    Person     `json:"created_by"`
	CreatedAt    time.Time  `json:"created_at"`
	EndedAt      *time.Time `json:"ended_at"`
	Class        string     `json:"class" enum:"configuration,infrastructure,cancelled,refused,lost,"`
	PartialApply bool       `json:"partial_apply" doc:"Something may have been left half-made."`
	Message      string     `json:"message"`
	Totals       Counts     `json:"totals" doc:"Sums over the components."`
}

// Run is one change to a stack.
type Run struct {
	RunListed
	Account    string         `json:"account"`
	Hold       bool           `json:"hold"`
	WaitsFor   string         `json:"waits_for,omitempty" doc:"Id of the run ahead of it on the same stack."`
	Components []RunComponent `json:"components" nullable:"false"`
	Attempts   []Attempt      `json:"attempts" nullable:"false"`
}

// Person is who caused something.
type Person struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Approval is what was said of a run's plan.
type Approval struct {
	Required bool       `json:"required"`
	Policy   string     `json:"policy" enum:"always,high_risk,never"`
	Reason   string     `json:"reason"`
	Status   string     `json:"status" enum:"pending,approved,rejected,skipped,void,"`
	Digest   string     `json:"digest" doc:"The plan digest that was approved."`
	By       string     `json:"by"`
	At       *time.Time `json:"at"`
}

// Counts are how many objects a plan adds, changes and so on. Replaced objects count in Replace alone; what is
// destroyed in all is Destroy + Replace.
type Counts struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Destroy int `json:"destroy"`
	Replace int `json:"replace"`
	Import  int `json:"import"`
	Move    int `json:"move"`
	Forget  int `json:"forget"`
	Outputs int `json:"outputs"`
}

// RunComponent is one component of a run.
type RunComponent struct {
	Name    string          `json:"name"`
	State   string          `json:"state" doc:"Name of its managed state."`
	Action  string          `json:"action" enum:"create,update,delete,none,"`
	Status  string          `json:"status" enum:"pending,planning,planned,applying,done,failed,skipped"`
	Plan    *ComponentPlan  `json:"plan"`
	Task    string          `json:"task" doc:"Id of its newest task."`
	Message string          `json:"message"`
	Source  ComponentSource `json:"source"`
	Outputs json.RawMessage `json:"outputs" doc:"Name to {value, type, sensitive}; sensitive values are left out."`
}

// ComponentSource is what a component was started from.
type ComponentSource struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ComponentPlan is what a component's plan would do.
type ComponentPlan struct {
	Counts
	Digest      string `json:"digest"`
	Changes     bool   `json:"changes" doc:"Whether anything at all would change."`
	Risk        string `json:"risk" enum:"none,low,high"`
	Tool        string `json:"tool"`
	ToolVersion string `json:"tool_version"`
	BaseSHA256  string `json:"base_sha256" doc:"Of the state it was planned on."`
	BaseSerial  uint64 `json:"base_serial"`
}

// RunPlan is the reduced plans of a run: GET /api/runs/{id}/plan. The view is the document of package plan.
type RunPlan struct {
	PlanDigest string          `json:"plan_digest"`
	Components []ComponentView `json:"components" nullable:"false"`
}

// ComponentView is one component's reduced plan.
type ComponentView struct {
	Name   string          `json:"name"`
	Digest string          `json:"digest"`
	View   json.RawMessage `json:"view"`
}

// Attempt is one execution of a task.
type Attempt struct {
	ID          string     `json:"id"`
	Task        string     `json:"task"`
	Component   string     `json:"component"`
	Kind        string     `json:"kind" enum:"plan,apply"`
	Number      int        `json:"number"`
	Agent       string     `json:"agent" doc:"Name of the agent."`
	Status      string     `json:"status" enum:"offered,accepted,cancelling,succeeded,failed,cancelled,lost,superseded"`
	Stage       string     `json:"stage"`
	Progress    string     `json:"progress"`
	OfferedAt   *time.Time `json:"offered_at"`
	AcceptedAt  *time.Time `json:"accepted_at"`
	HeartbeatAt *time.Time `json:"heartbeat_at"`
	EndedAt     *time.Time `json:"ended_at"`
	Class       string     `json:"class"`
	Message     string     `json:"message"`
	// Stages is empty until the attempt has reported.
	Stages []StageTime `json:"stages" nullable:"false" doc:"How long each stage took, as the agent reported."`
}

// Event is one line of a run's history: GET /api/runs/{id}/events, as a list or, with Accept: text/event-stream,
// live (event id = seq, so Last-Event-ID resumes; event "run" tells that the run itself changed).
type Event struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Level     string    `json:"level" enum:"INFO,WARN,ERROR"`
	Type      string    `json:"type"`
	Phase     string    `json:"phase"`
	Component string    `json:"component"`
	Text      string    `json:"text"`
	By        string    `json:"by"`
}

// LogChunk is a piece of a log: GET /api/runs/{id}/logs?attempt=&after= answers a list of them in order; with
// Accept: text/plain the text alone, and with follow=true it goes on until the run ends.
type LogChunk struct {
	Attempt   string    `json:"attempt"`
	Component string    `json:"component"`
	Kind      string    `json:"kind"`
	Seq       int64     `json:"seq"`
	Stage     string    `json:"stage"`
	At        time.Time `json:"at"`
	Text      string    `json:"text"`
}

// Approve names the plan that the approver saw.
type Approve struct {
	PlanDigest string `json:"plan_digest" minLength:"1" maxLength:"128"`
}

// Reject says why, for the record.
type Reject struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}
