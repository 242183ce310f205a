// Package run holds the life of a run, of its tasks and of their attempts: pure state machines, and the rules of
// approval. The engine stores what they decide.
package run

import (
	"encoding/json"
	"time"
)

// Kind is what a run is for.
type Kind string

// The kinds of run.
const (
	Deploy  Kind = "deploy"
	Destroy Kind = "destroy"
	Preview Kind = "preview" // plans, never asks, never applies
)

// Status is where a run is.
type Status string

// The statuses of a run. The last five are final.
const (
	Queued           Status = "queued"
	Planning         Status = "planning"
	AwaitingApproval Status = "awaiting_approval"
	Applying         Status = "applying"
	Verifying        Status = "verifying"
	Cancelling       Status = "cancelling"
	Succeeded        Status = "succeeded"
	Failed           Status = "failed"
	Rejected         Status = "rejected"
	Cancelled        Status = "cancelled"
	Discarded        Status = "discarded" // its plans went stale
)

// Final reports whether nothing can happen to the run any more.
func (s Status) Final() bool {
	switch s {
	case Succeeded, Failed, Rejected, Cancelled, Discarded:
		return true
	}
	return false
}

// Class says whose failure it was.
type Class string

// The classes of an end that was no success.
const (
	Configuration  Class = "configuration"
	Infrastructure Class = "infrastructure"
	ClassCancelled Class = "cancelled"
	Refused        Class = "refused"
	ClassLost      Class = "lost"
)

// Policy is when a stack's runs need a person's approval.
type Policy string

// The policies.
const (
	Always   Policy = "always"
	HighRisk Policy = "high_risk"
	Never    Policy = "never"
)

// ApprovalStatus is where a run's approval is.
type ApprovalStatus string

// The statuses of an approval.
const (
	ApprovalNone     ApprovalStatus = ""        // nothing planned yet
	ApprovalPending  ApprovalStatus = "pending" // required and waited for
	ApprovalGiven    ApprovalStatus = "approved"
	ApprovalRejected ApprovalStatus = "rejected"
	ApprovalSkipped  ApprovalStatus = "skipped" // not required; the reason says why
	ApprovalVoid     ApprovalStatus = "void"    // given, but what it named has changed
)

// Approval is what a person, or the policy, said about a run's plan.
type Approval struct {
	Policy   Policy // the run's own: the stack's, or always where up asked for it
	Required bool
	Reason   string
	Status   ApprovalStatus
	Digest   string // the plan digest it names
	By       string // user id
	ByName   string
	At       time.Time
}

// Person is who caused something.
type Person struct {
	Kind string `json:"kind"` // user or system
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Run is one change to a stack. What it was started with is frozen in it: source, inputs, settings.
type Run struct {
	ID, Org, Stack string // Stack is the id
	Key            string // of the client's choosing, so that a repeated start finds this run; "" without one
	StackName      string
	Account        string // account id, frozen from the stack
	Kind           Kind
	Status         Status
	Risk           string // none, low or high; "" before the plan
	PlanDigest     string // "sha256:…" over every component's plan, source, inputs, lock file and base state
	Approval       Approval
	Production     bool
	Hold           bool
	CreatedBy      Person
	CreatedAt      time.Time
	EndedAt        time.Time
	Class          Class
	PartialApply   bool
	Message        string
	CancelAsked    bool
	WaitsFor       string // id of the run that is ahead of it on the same stack
	Components     []Component
}

// Component is the component of that name; nil without one.
func (r *Run) Component(name string) *Component {
	for i := range r.Components {
		if r.Components[i].Name == name {
			return &r.Components[i]
		}
	}
	return nil
}

// Component is one component of a run.
type Component struct {
	Run, Name string
	StateName string
	StateID   string // "" before the state exists
	Source    Source
	Inputs    json.RawMessage // frozen; an object from variable name to value
	Action    string          // create, update, delete, none; "" before the plan
	Status    ComponentStatus
	Plan      *Plan // nil before the plan
	Message   string
	Outputs   json.RawMessage // name -> {value, type, sensitive}; sensitive values left out
}

// Planned reports whether the component has a whole plan, and not only its file.
func (c Component) Planned() bool { return c.Plan != nil && len(c.Plan.View) > 0 }

// ComponentStatus is where one component of a run is.
type ComponentStatus string

// The statuses of a component within a run.
const (
	ComponentPending  ComponentStatus = "pending"
	ComponentPlanning ComponentStatus = "planning"
	ComponentPlanned  ComponentStatus = "planned"
	ComponentApplying ComponentStatus = "applying"
	ComponentDone     ComponentStatus = "done"
	ComponentFailed   ComponentStatus = "failed"
	ComponentSkipped  ComponentStatus = "skipped"
)

// Source is the packed configuration a component was started with.
type Source struct {
	Object string // id of the sealed object
	SHA256 string // hex, of the archive
	Size   int64
}

// Plan is what one component's plan is and was made from.
type Plan struct {
	Digest     string // "sha256:…" of the plan file
	Object     string // id of the sealed plan file; "" once used and deleted
	View       json.RawMessage
	Tool       string // tofu or terraform
	Version    string // the exact version the apply needs
	LockFile   string // hex SHA-256 of the provider lock file, "" without one
	ConfigHash string // hex SHA-256 of the generated root configuration
	BaseSHA256 string // hex SHA-256 of the state it was planned on; "" where there was none
	BaseSerial uint64

	Add, Change, Destroy, Replace, Import, Move, Forget, Outputs int
	HasChanges                                                   bool
	Risk                                                         string
}

// TaskKind is what a task has an agent do.
type TaskKind string

// The kinds of task.
const (
	TaskPlan  TaskKind = "plan"
	TaskApply TaskKind = "apply"
)

// TaskStatus is where a task is.
type TaskStatus string

// The statuses of a task. The last three are final.
const (
	TaskReady     TaskStatus = "ready"   // can be claimed
	TaskOffered   TaskStatus = "offered" // told to an agent, which has not accepted yet
	TaskRunning   TaskStatus = "running"
	TaskDone      TaskStatus = "done"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

// Final reports whether the task is over.
func (s TaskStatus) Final() bool {
	return s == TaskDone || s == TaskFailed || s == TaskCancelled
}

// Task is one component's work.
type Task struct {
	ID, Org, Run, Component string
	Account                 string
	Kind                    TaskKind
	Status                  TaskStatus
	Attempts                int // how many were made
	CreatedAt, EndedAt      time.Time
}

// AttemptStatus is where an attempt is.
type AttemptStatus string

// The statuses of an attempt. The last five are final.
const (
	AttemptOffered    AttemptStatus = "offered"
	AttemptAccepted   AttemptStatus = "accepted"
	AttemptCancelling AttemptStatus = "cancelling"
	AttemptSucceeded  AttemptStatus = "succeeded"
	AttemptFailed     AttemptStatus = "failed"
	AttemptCancelled  AttemptStatus = "cancelled"
	AttemptLost       AttemptStatus = "lost"
	AttemptSuperseded AttemptStatus = "superseded"
)

// Final reports whether the attempt is over.
func (s AttemptStatus) Final() bool {
	switch s {
	case AttemptSucceeded, AttemptFailed, AttemptCancelled, AttemptLost, AttemptSuperseded:
		return true
	}
	return false
}

// Attempt is one execution of a task by one agent.
type Attempt struct {
	ID, Org, Task, Run, Component string
	TaskKind                      TaskKind
	Number                        int // from 1
	Agent                         string
	AgentName                     string
	Status                        AttemptStatus
	Stage                         string // prepare, init, validate, plan, apply, outputs
	Progress                      string // "3 of 7 resources", for people
	OfferedAt                     time.Time
	AcceptedAt                    time.Time
	HeartbeatAt                   time.Time
	EndedAt                       time.Time
	Class                         Class
	Message                       string
	PartialApply                  bool
	Report                        json.RawMessage // as reported; repeating it is idempotent
	NextLog                       int64           // number of the next log chunk that is not stored yet
	LogBytes                      int64           // bytes of the log text stored so far
}

// Event is one line of a run's history.
type Event struct {
	Seq       int64 // rises within the run
	Run       string
	At        time.Time
	Level     string // INFO, WARN, ERROR
	Type      string // run.planned, run.approved, task.accepted, …
	Phase     string // plan, approval, apply, …
	Component string
	Text      string
	By        string // name of the person, where one caused it
}

// LogChunk is a piece of an attempt's log, scrubbed.
type LogChunk struct {
	Attempt string
	Seq     int64 // from 0, without gaps; a lost chunk is stored as one that says so
	Stage   string
	At      time.Time
	Text    string
}

// Stack is a set of components deployed together into one account.
type Stack struct {
	ID, Org, Name string
	Account       string // account id
	Production    bool
	Approval      Policy
	Hold          bool
	CreatedAt     time.Time
	UpdatedAt     time.Time
	DeletedAt     time.Time
	LastRun       string // id of the newest run; "" without one
}
