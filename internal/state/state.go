// Package state holds the rules of managed state: names, lock documents, serial and lineage, holders, holds, and
// what a read, lock, write or unlock may do. It is pure: the engine gives it rows and a time, it gives back a
// verdict.
package state

import (
	"time"
)

// State is a named state of one organization and what it points at now.
type State struct {
	ID, Org, Name string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	DeletedAt     time.Time // zero: not deleted
	Versions      int64     // highest version number ever given; 0: nothing stored yet
	Head          *Version  // nil: nothing stored yet
	Lock          *Lock     // nil: not locked
	Hold          *Hold     // nil: not held
	List          List
}

// List says which resources of the head's document are stored beside it.
type List struct {
	Hash      string // of the Inventory; "" where none was stored yet
	Truncated bool
}

// PurgedAt is the DeletedAt of a state that is being purged: it is longer ago than anything is kept, so that whatever
// purges comes upon the state.
func PurgedAt() time.Time { return time.UnixMicro(1).UTC() }

// Purged reports whether the state is being purged: it is on its way out and comes back no more.
func (s State) Purged() bool { return s.DeletedAt.Equal(PurgedAt()) }

// Source says how a version came to be.
type Source string

// The sources of a version.
const (
	SourceWrite    Source = "write"
	SourceImport   Source = "import"
	SourceRollback Source = "rollback"
	SourceRecovery Source = "recovery"
)

// Version is one stored document of a state. While the lock that wrote it is held, later saves under that lock
// replace it; once released it never changes.
type Version struct {
	ID          string // write id (id.Write); what the sealed bytes are bound to, and the key of the stored object
	StateID     string
	Number      int64
	Serial      Serial
	Lineage     string // "" where the document has none in clear
	Size        int64  // bytes of the document
	SHA256, MD5 string // hex
	Source      Source
	Encrypted   bool // OpenTofu encrypted it before sending
	Quarantined bool
	Terraform   string // terraform_version of the document, "" where not in clear
	Key         Key
	CreatedAt   time.Time
	By          Holder
	LockKey     string // id.Lock of the taking it was written under; "" without a lock
	LockID      string // the client's id of that lock
}

// Serial is a document's serial; Known is false where the document has none in clear.
type Serial struct {
	N     uint64
	Known bool
}

// Key says which key wraps a version's data key.
type Key struct {
	Kind    string // platform or transit
	Name    string
	Version string
}

// Lock is a taken lock.
type Lock struct {
	Key     string // id.Lock: this taking, whatever id the client chose
	Info    LockInfo
	Holder  Holder
	TakenAt time.Time
}

// LockInfo is the checked lock document of a client. Fields it does not name are dropped.
type LockInfo struct {
	ID        string `json:"ID"`
	Operation string `json:"Operation"`
	Info      string `json:"Info"`
	Who       string `json:"Who"`
	Version   string `json:"Version"`
	Created   string `json:"Created"` // RFC 3339, or "" where the client sent something else
	Path      string `json:"Path"`
}

// Hold keeps a state for one run from its plan to its apply.
type Hold struct {
	Run   string
	Since time.Time
}

// ID is the hold's id, which force-unlock takes.
func (h Hold) ID() string { return "hold-" + h.Run }

// Holder is who holds a lock, or who wrote a version.
type Holder struct {
	Kind    string `json:"kind"` // user, attempt or system
	ID      string `json:"id"`   // the user's or the attempt's id
	Name    string `json:"name"`
	Run     string `json:"run,omitempty"`
	Task    string `json:"task,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	Token   string `json:"token,omitempty"` // id of the token used; not part of who the holder is
}

// Same reports whether two holders are one: a user whichever token, an attempt by its id.
func (h Holder) Same(o Holder) bool { return h.Kind == o.Kind && h.ID == o.ID }
