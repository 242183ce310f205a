package link

import (
	"encoding/json"
	"fmt"

	"holdfast.dev/holdfast/internal/redact"
)

// Protocol is the number of this protocol. Broker and worker of one release are installed together, so a difference
// is a mistake of the installation and both refuse it.
const Protocol = 1

// The files of an attempt that both sides know by name, in the attempt's directory.
const (
	WorkerSocket  = "worker.sock"   // in the work directory: where the worker waits for the broker
	StateSocket   = "state.sock"    // the broker's relay of the attempt's state
	SourceArchive = "source.packed" // the packed source, as the server gave it
	PlanFile      = "saved.plan"    // written by the worker of a plan, by the broker for an apply
	ModuleDir     = "module"        // where the source is unpacked and the tool runs
	ErroredState  = "errored.tfstate"
)

// The stages of an attempt.
const (
	StagePrepare  = "prepare"
	StageInit     = "init"
	StageValidate = "validate"
	StagePlan     = "plan"
	StageApply    = "apply"
	StageOutputs  = "outputs"
	StageReport   = "report" // the broker's: delivering log, plan and report
)

// Message is one thing said: exactly one field is set.
type Message struct {
	// From the worker.
	Hello   *Hello   `json:"hello,omitempty"`
	Stage   *Stage   `json:"stage,omitempty"`
	Log     *Log     `json:"log,omitempty"`
	Ask     *Ask     `json:"ask,omitempty"`
	Planned *Planned `json:"planned,omitempty"`
	Result  *Result  `json:"result,omitempty"`
	Cleaned *Cleaned `json:"cleaned,omitempty"`

	// From the broker.
	Begin  *Begin  `json:"begin,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Cancel *Cancel `json:"cancel,omitempty"`
	Clean  *Clean  `json:"clean,omitempty"`
}

// Hello is the worker's first word: it is alone, and this is what it can do.
type Hello struct {
	Protocol     int      `json:"protocol"`
	Tool         string   `json:"tool"` // tofu or terraform
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities"`
}

// Stage says which stage runs, or how far it is.
type Stage struct {
	Stage    string `json:"stage"`
	Progress string `json:"progress,omitempty"`
}

// Log is scrubbed text of a stage.
type Log struct {
	Stage string `json:"stage"`
	Text  string `json:"text"`
}

// Ask wants one answered heartbeat. The answer is Answer.
type Ask struct{}

// Planned is a plan that was made; its file stands in the attempt's directory.
type Planned struct {
	Digest     string          `json:"digest"` // sha256:…
	Tool       string          `json:"tool"`
	Version    string          `json:"version"`
	LockFile   string          `json:"lock_file"` // hex SHA-256 of the provider lock file; empty without one
	ConfigHash string          `json:"config_hash"`
	View       json.RawMessage `json:"view"`
}

// Outcomes of an attempt.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// Classes of an end that was no success: whose doing it was.
const (
	ClassConfiguration  = "configuration"
	ClassInfrastructure = "infrastructure"
	ClassCancelled      = "cancelled"
	ClassRefused        = "refused"
	ClassLost           = "lost"
)

// Result is how the work ended. Nothing but Cleaned comes after it.
type Result struct {
	Outcome      string          `json:"outcome"`
	Class        string          `json:"class,omitempty"`
	Message      string          `json:"message,omitempty"`
	PartialApply bool            `json:"partial_apply,omitempty"`
	Outputs      json.RawMessage `json:"outputs,omitempty"` // name to {value, type, sensitive}; sensitive values left out
	Stages       []StageTime     `json:"stages,omitempty"`
	Applied      *Applied        `json:"applied,omitempty"`
}

// StageTime is how long a stage took, and how much of it a process of the tool ran. Milliseconds.
type StageTime struct {
	Stage        string `json:"stage"`
	Milliseconds int64  `json:"milliseconds"`
	Tool         int64  `json:"tool_milliseconds"`
}

// Applied counts what an apply did. A replaced object counts in Replace alone.
type Applied struct {
	Add, Change, Destroy, Replace, Import, Forget int
}

// Begin is the work of one attempt.
type Begin struct {
	Attempt        string          `json:"attempt"` // also the name of its directory
	Apply          bool            `json:"apply"`   // apply Plan, instead of making one
	Destroy        bool            `json:"destroy"` // of a plan
	ReadOnly       bool            `json:"read_only"`
	SourceSHA256   string          `json:"source_sha256"`
	SourceMaxBytes int64           `json:"source_max_bytes"`
	Inputs         json.RawMessage `json:"inputs"`
	Sensitive      []string        `json:"sensitive"`
	Plan           *Approved       `json:"plan,omitempty"`
	TimeoutSeconds int             `json:"timeout_seconds"` // of one command
	LogLineBytes   int             `json:"log_line_bytes"`
	User           string          `json:"user"`
	Password       redact.Secret   `json:"-"` // opens the relay of this attempt's state, and nothing else
}

type beginOnWire struct {
	begin
	Password string `json:"password"`
}

type begin Begin

// MarshalJSON sends the password, which a redact.Secret alone would not.
func (b Begin) MarshalJSON() ([]byte, error) {
	return json.Marshal(beginOnWire{begin(b), b.Password.Reveal()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Begin) UnmarshalJSON(data []byte) error {
	var w beginOnWire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*b = Begin(w.begin)
	b.Password = redact.NewSecret(w.Password)
	return nil
}

// Approved is what an approval permits.
type Approved struct {
	Digest     string          `json:"digest"`
	Tool       string          `json:"tool"`
	Version    string          `json:"version"`
	LockFile   string          `json:"lock_file"`
	ConfigHash string          `json:"config_hash"`
	View       json.RawMessage `json:"view"`
}

// Answer is what the server said to an asked heartbeat.
type Answer struct {
	Go bool `json:"go"`
}

// Cancel ends the work: no new step, one interrupt for the tool, its grace, then the end of everything.
type Cancel struct {
	Reason string `json:"reason"`
}

// Reasons of a Cancel.
const (
	ReasonAsked      = "cancelled"  // somebody asked for it
	ReasonDrain      = "drain"      // the agent is being stopped
	ReasonSuperseded = "superseded" // another attempt has the task
	ReasonRevoked    = "revoked"    // the agent's token is not accepted any more
)

// Clean makes the worker remove what is its own in an attempt's directory. It says Cleaned.
type Clean struct {
	Attempt string `json:"attempt"`
}

// Cleaned is the answer to Clean.
type Cleaned struct{}

// kinds counts the fields that are set.
func (m *Message) kinds() int {
	n := 0
	for _, set := range [...]bool{
		m.Hello != nil, m.Stage != nil, m.Log != nil, m.Ask != nil, m.Planned != nil, m.Result != nil, m.Cleaned != nil,
		m.Begin != nil, m.Answer != nil, m.Cancel != nil, m.Clean != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

func decode(body []byte) (Message, error) {
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if n := m.kinds(); n != 1 {
		return Message{}, fmt.Errorf("%w: it says %d things, exactly 1 is allowed", ErrFrame, n)
	}
	return m, nil
}
