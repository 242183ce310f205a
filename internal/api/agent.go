package api

import (
	"encoding/json"
	"time"
)

// The messages of /api/agent/v1. Identity is the agent's token and nothing else; no body names an agent.

// Register is POST register: what the agent is.
type Register struct {
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities" nullable:"false" doc:"E.g. executor:process, source:inline, tool:tofu@1.12.6."`
	SealingKey   string   `json:"sealing_key,omitempty"`
}

// Registered is the answer: who the agent is to the server and what it is to keep to.
type Registered struct {
	Agent         string      `json:"agent" doc:"Its id."`
	Name          string      `json:"name"`
	Account       string      `json:"account" doc:"Name of its account."`
	Policy        AgentPolicy `json:"policy"`
	VersionStatus string      `json:"version_status" enum:"current,old,unsupported"`
}

// AgentPolicy is limits the server sets.
type AgentPolicy struct {
	ClaimWaitSeconds int   `json:"claim_wait_seconds" doc:"How long a claim is held open; 30."`
	HeartbeatSeconds int   `json:"heartbeat_seconds" doc:"10."`
	LogLineBytes     int   `json:"log_line_bytes" doc:"A longer line is cut with a mark; 65536."`
	LogTotalBytes    int64 `json:"log_total_bytes" doc:"Beyond it an attempt's log is cut, the work goes on; 67108864."`
	LogChunkBytes    int   `json:"log_chunk_bytes" doc:"Most text of one chunk; 262144."`
	StateMaxBytes    int64 `json:"state_max_bytes"`
	SourceMaxBytes   int64 `json:"source_max_bytes" doc:"Of the packed archive; 104857600."`
	PlanMaxBytes     int64 `json:"plan_max_bytes" doc:"Of a plan file; 268435456."`
}

// Claim is POST claim: what the agent can take. The answer is Offer, or 204 when there was nothing in time.
type Claim struct {
	Capabilities []string `json:"capabilities" nullable:"false"`
	Draining     bool     `json:"draining,omitempty"`
	WaitSeconds  int      `json:"wait_seconds,omitempty" minimum:"0" maximum:"30"`
}

// Offer is an attempt that is the agent's once it accepts it; unaccepted it goes back after 10 seconds.
type Offer struct {
	Task    string `json:"task"`
	Attempt string `json:"attempt"`
}

// Accept is POST tasks/{id}/accept {"attempt"}; repeating it is allowed and gives a fresh token for the same
// attempt. The answer is the whole work order.
type Accept struct {
	Attempt string `json:"attempt"`
}

// Work is what an attempt is to do. It holds the only secret an attempt gets: a token for its one state.
type Work struct {
	Task      string          `json:"task"`
	Attempt   string          `json:"attempt"`
	Number    int             `json:"number"`
	Run       string          `json:"run"`
	Stack     string          `json:"stack"`
	Component string          `json:"component"`
	Kind      string          `json:"kind" enum:"plan,apply"`
	RunKind   string          `json:"run_kind" enum:"deploy,destroy,preview"`
	State     WorkState       `json:"state"`
	Source    WorkSource      `json:"source"`
	Inputs    json.RawMessage `json:"inputs"`
	Sensitive []string        `json:"sensitive" nullable:"false" doc:"Names of inputs that the template declares sensitive, as far as known."`
	Plan      *WorkPlan       `json:"plan" doc:"Of an apply: what was approved."`
	Timeout   int             `json:"timeout_seconds" doc:"Hard limit of one tofu command."`
}

// WorkState is the state of an attempt.
type WorkState struct {
	Name     string `json:"name"`
	Address  string `json:"address" doc:"Path of its document, on the server."`
	Lock     string `json:"lock" doc:"Path of its lock, on the server."`
	Token    string `json:"token" doc:"The attempt's token, as the password of Basic authentication."`
	ReadOnly bool   `json:"read_only"`
}

// WorkSource is the packed source of an attempt: GET tasks/{id}/source.
type WorkSource struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// WorkPlan is the approved plan: GET tasks/{id}/plan-file gives its bytes.
type WorkPlan struct {
	Digest     string          `json:"digest" doc:"sha256:… of the plan file."`
	Tool       string          `json:"tool"`
	Version    string          `json:"version"`
	LockFile   string          `json:"lock_file" doc:"Hex SHA-256 of the provider lock file; empty without one."`
	ConfigHash string          `json:"config_hash"`
	View       json.RawMessage `json:"view"`
}

// Heartbeat is POST tasks/{id}/heartbeat.
type Heartbeat struct {
	Attempt  string `json:"attempt"`
	Stage    string `json:"stage"`
	Progress string `json:"progress,omitempty" maxLength:"200"`
	Draining bool   `json:"draining,omitempty"`
}

// HeartbeatAnswer says whether to go on.
type HeartbeatAnswer struct {
	Order string `json:"order" enum:"continue,cancel,superseded"`
}

// AppendLogs is POST tasks/{id}/logs: chunks numbered from 0 over the whole attempt, resent until acknowledged.
type AppendLogs struct {
	Attempt string       `json:"attempt"`
	Chunks  []AttemptLog `json:"chunks" nullable:"false" maxItems:"64"`
}

// AttemptLog is one scrubbed chunk.
type AttemptLog struct {
	Seq   int64     `json:"seq"`
	Stage string    `json:"stage"`
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
}

// LogsAcknowledged says what is stored.
type LogsAcknowledged struct {
	Next int64 `json:"next" doc:"Number of the first chunk that is not stored yet."`
}

// PlanMade is POST tasks/{id}/plan, after PUT tasks/{id}/plan-file stored the file itself.
type PlanMade struct {
	Attempt    string          `json:"attempt"`
	Digest     string          `json:"digest"`
	Tool       string          `json:"tool" enum:"tofu,terraform"`
	Version    string          `json:"version"`
	LockFile   string          `json:"lock_file"`
	ConfigHash string          `json:"config_hash"`
	BaseSHA256 string          `json:"base_sha256" doc:"Hex SHA-256 of the state document that tofu read for this plan; empty where there was none."`
	View       json.RawMessage `json:"view" doc:"The reduced plan."`
}

// Report is POST tasks/{id}/report: how an attempt ended. Repeating it is allowed.
type Report struct {
	Attempt      string          `json:"attempt"`
	Outcome      string          `json:"outcome" enum:"succeeded,failed,cancelled"`
	Class        string          `json:"class,omitempty" enum:"configuration,infrastructure,cancelled,refused,lost,restored,"`
	Message      string          `json:"message,omitempty" maxLength:"4000"`
	PartialApply bool            `json:"partial_apply,omitempty"`
	StateUnsaved bool            `json:"state_unsaved,omitempty" doc:"The state could not be saved: the hold stays until it is recovered."`
	Outputs      json.RawMessage `json:"outputs,omitempty" doc:"Name to {value, type, sensitive}; sensitive values left out."`
	Stages       []StageTime     `json:"stages,omitempty"`
	Applied      *Counts         `json:"applied,omitempty" doc:"What an apply did."`
}

// StageTime is how long a stage took.
type StageTime struct {
	Stage        string `json:"stage"`
	Milliseconds int64  `json:"milliseconds"`
	Tool         int64  `json:"tool_milliseconds" doc:"Of which a tofu process ran."`
}

// Reported is the answer to a report.
type Reported struct {
	Status string `json:"status" doc:"What the attempt is now."`
}
