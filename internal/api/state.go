package api

import "time"

// UnsavedHeader goes with an unlock whose sender could not deliver a save before it: the run's hold then stays until
// the state is recovered.
const UnsavedHeader = "Holdfast-Unsaved"

// State is a managed state.
type State struct {
	Name            string     `json:"name"`
	Version         int64      `json:"version" doc:"Number of the current version; 0 before the first write."`
	Serial          *uint64    `json:"serial" doc:"Null where the document has none in clear."`
	Lineage         string     `json:"lineage"`
	Size            int64      `json:"size" doc:"Bytes of the current document."`
	SHA256          string     `json:"sha256"`
	CreatedAt       time.Time  `json:"created_at"`
	UpdatedAt       time.Time  `json:"updated_at"`
	UpdatedBy       *Holder    `json:"updated_by"`
	ClientEncrypted bool       `json:"client_encrypted"`
	DeletedAt       *time.Time `json:"deleted_at"`
	RestorableUntil *time.Time `json:"restorable_until" doc:"Of a deleted state: when its bytes and keys go; null where they are going now."`
	Lock            *Lock      `json:"lock"`
	Hold            *Hold      `json:"hold"`
}

// Lock is a state's lock.
type Lock struct {
	ID        string    `json:"id" doc:"The client's id of the lock."`
	Operation string    `json:"operation"`
	Info      string    `json:"info"`
	Who       string    `json:"who"`
	Version   string    `json:"version" doc:"Version of the client's tool."`
	Created   string    `json:"created" doc:"As the client said, RFC 3339 or empty."`
	Path      string    `json:"path"`
	TakenAt   time.Time `json:"taken_at" doc:"By the server's clock."`
	Holder    Holder    `json:"holder"`
	Unlock    string    `json:"unlock" doc:"The command that releases it by force."`
}

// LockDocument is the lock as tofu and terraform write and read it.
type LockDocument struct {
	ID        string `json:"ID" minLength:"1" maxLength:"255"`
	Operation string `json:"Operation,omitempty"`
	Info      string `json:"Info,omitempty"`
	Who       string `json:"Who,omitempty"`
	Version   string `json:"Version,omitempty"`
	Created   string `json:"Created,omitempty" doc:"RFC 3339; anything else is dropped."`
	Path      string `json:"Path,omitempty"`
}

// Holder is who holds a lock or wrote a version.
type Holder struct {
	Kind     string     `json:"kind" enum:"user,attempt,system"`
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Run      string     `json:"run,omitempty"`
	Task     string     `json:"task,omitempty"`
	Attempt  string     `json:"attempt,omitempty"`
	Alive    string     `json:"alive" enum:"yes,no,unknown" doc:"Whether the holder still lives."`
	Evidence string     `json:"evidence,omitempty" doc:"What that is concluded from."`
	LastSeen *time.Time `json:"last_seen"`
}

// Hold keeps a state for one run.
type Hold struct {
	ID    string    `json:"id" doc:"hold-<run id>"`
	Run   string    `json:"run"`
	Since time.Time `json:"since"`
}

// StateVersion is one stored document of a state.
type StateVersion struct {
	Version         int64     `json:"version"`
	Serial          *uint64   `json:"serial"`
	Lineage         string    `json:"lineage"`
	Size            int64     `json:"size"`
	SHA256          string    `json:"sha256"`
	Source          string    `json:"source" enum:"write,import,rollback,recovery"`
	Quarantined     bool      `json:"quarantined"`
	Current         bool      `json:"current"`
	ToolVersion     string    `json:"tool_version"`
	CreatedAt       time.Time `json:"created_at"`
	CreatedBy       Holder    `json:"created_by"`
	Key             Key       `json:"key"`
	ClientEncrypted bool      `json:"client_encrypted"`
	LockID          string    `json:"lock_id"`
}

// PickVersion names a version of a state.
type PickVersion struct {
	Version int64 `json:"version" minimum:"1"`
}

// ForceUnlock releases a lock or ends a hold that is somebody else's.
type ForceUnlock struct {
	ID     string `json:"id,omitempty" maxLength:"255" doc:"Of the lock or the hold; another one is left alone. Without it, whatever lock and hold there is."`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for the audit log."`
}

// Key says which key wraps a document's data key.
type Key struct {
	Kind    string `json:"kind" enum:"platform,transit"`
	Name    string `json:"name"`
	Version string `json:"version"`
}
