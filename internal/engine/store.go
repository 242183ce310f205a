package engine

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// Store is what the engine needs of a database. Its errors are faults: NotFound where one row was asked for and
// is not there, Conflict where a unique name is taken, Unavailable where a repeat may work, NoSpace on a full disk.
type Store interface {
	// View runs fn on a consistent snapshot. fn must not write.
	View(ctx context.Context, fn func(Tx) error) error
	// Look is a View of one statement, which costs a third of one: there is nothing to keep a snapshot for. A second
	// statement fails.
	Look(ctx context.Context, fn func(Tx) error) error
	// Update runs fn in one transaction: all of it is durable when Update returns nil, none of it otherwise. fn
	// may run more than once (serialization failures, a shared commit that was rolled back), so it must not touch
	// anything outside the transaction except variables that it sets anew each time.
	Update(ctx context.Context, fn func(Tx) error) error
	// Subscribe tells of Notify calls for topic that were committed, on this server or another one. The channel
	// holds one signal; signals may be merged, never lost. stop ends it.
	Subscribe(topic string) (signals <-chan struct{}, stop func())
	// Ready is nil when the database answers and its schema is current.
	Ready(ctx context.Context) error
}

// Tx is one transaction.
type Tx interface {
	StateTx
	VersionTx
	ResourceTx
	ObjectTx
	BlobTx
	KeyTx
	RunTx
	HistoryTx
	TaskTx
	AttemptTx
	StackTx
	AccountTx
	AgentTx
	UserTx
	CredentialTx
	PermissionTx
	SessionTx
	AuditTx
	SettingTx
	// Notify tells the subscribers of topic, once this transaction is committed.
	Notify(ctx context.Context, topic string) error
}

// Page asks for part of a list. Limit is 1 to 500; Cursor is what the last answer gave as next, "" for the start.
type Page struct {
	Limit  int
	Cursor string
}

// StateFilter narrows a list of states. Query matches a part of the name, as bytes, without regard to ASCII case.
type StateFilter struct {
	Org    string
	Query  string
	Locked bool // only those with a lock
	Held   bool // only those with a hold
	// Stale is only those whose lock's holder is not known to live. The engine finds out; the store lists the locked.
	Stale     bool
	Encrypted bool // only those whose current document the client encrypted
	Deleted   bool // the deleted ones instead of the others
}

// StateTx is the states themselves, their locks and holds.
type StateTx interface {
	// State reads a state with its head, lock and hold in one round trip, deleted ones too.
	State(ctx context.Context, org, name string) (state.State, error)
	// StateForUpdate is State, and keeps other transactions from changing the state until this one ends.
	StateForUpdate(ctx context.Context, org, name string) (state.State, error)
	StateByID(ctx context.Context, id string) (state.State, error)
	// CreateState is a Conflict where the organization has the name already.
	CreateState(ctx context.Context, s state.State) error
	// UpdateState stores what s says of its lock, hold, deletion, version counter and head. The head's version
	// must have been put before.
	UpdateState(ctx context.Context, s state.State) error
	// States lists by name, bytewise.
	States(ctx context.Context, f StateFilter, p Page) (items []state.State, next string, err error)
	// PurgeState removes a state that has no versions any more.
	PurgeState(ctx context.Context, id string) error
}

// VersionTx is the versions of states.
type VersionTx interface {
	// PutVersion inserts v, or replaces the version with v's number whose lock is still held; the replaced
	// version's object is deleted in the same transaction.
	PutVersion(ctx context.Context, v state.Version) error
	Version(ctx context.Context, stateID string, number int64) (state.Version, error)
	// Versions lists newest first.
	Versions(ctx context.Context, stateID string, onlyQuarantined bool, p Page) (items []state.Version, next string, err error)
	// VersionBefore is the number of the newest version before this one that is not quarantined; 0 without one.
	VersionBefore(ctx context.Context, stateID string, number int64) (int64, error)
	DeleteVersion(ctx context.Context, stateID string, number int64) error
	// DropBeyond deletes versions older than the newest keep, and their objects: at most limit of them, oldest first,
	// never the head or a quarantined one.
	DropBeyond(ctx context.Context, stateID string, keep, limit int) error
}

// ResourceTx is the resources of states' current documents, by name.
type ResourceTx interface {
	// SetResources makes rs, which are sorted by address, what is stored of the state, and list what the state says of
	// them; the zero List with none is for a state that is to have no list.
	SetResources(ctx context.Context, org, stateID string, rs []state.Resource, list state.List) error
	// Resources lists by address and state.
	Resources(ctx context.Context, f ResourceFilter, p Page) (items []StateResource, next string, err error)
	// UnlistedStates are ids of states with a document and without a list, those after the given one.
	UnlistedStates(ctx context.Context, after string, limit int) ([]string, error)
}

// Object is sealed bytes: a state's document, a packed source, a plan file.
type Object struct {
	ID, Org   string
	Kind      string // state, source, plan
	Key       state.Key
	Wrapped   []byte // the data key, wrapped
	Size      int64  // of the plain bytes
	Sealed    int64  // of the stored bytes
	SHA256    string // hex, of the plain bytes
	MD5       string // hex, of the plain bytes
	Inline    []byte // the stored bytes, where they are few; else nil
	Chunks    int    // how many hold them, where Place is PlaceDatabase
	Place     string // of bytes that are not inline
	CreatedAt time.Time
}

// The places of an object's bytes. What is stored by the second is found by the settings of the object store as they are
// now: a bucket may be moved.
const (
	PlaceDatabase = ""
	PlaceBlob     = "blob"
)

// Head is the current document of a state.
type Head struct {
	State  string // id
	Number int64  // of the version
	Object Object
}

// ObjectTx is sealed bytes. Large ones are staged as chunks in transactions of their own before the one that
// attaches them; what was staged and never attached is swept by age.
type ObjectTx interface {
	// PutChunk stages one chunk (at most 256 KiB) of an object that is not attached yet.
	PutChunk(ctx context.Context, object string, seq int, data []byte, now time.Time) error
	// AttachObject stores the object's row; from then on it is kept until deleted.
	AttachObject(ctx context.Context, o Object) error
	Object(ctx context.Context, id string) (Object, error)
	// Head reads the current document of a state by one statement. It is NotFound wherever there is none, for whatever
	// reason, also where the state is deleted.
	Head(ctx context.Context, org, name string) (Head, error)
	// Chunks are n chunks from seq on. It is NotFound where one of them is missing.
	Chunks(ctx context.Context, object string, seq, n int) ([][]byte, error)
	DeleteObject(ctx context.Context, id string) error
	// SweepStaged deletes chunks staged before t whose object was never attached, at most limit; it says how many.
	SweepStaged(ctx context.Context, before time.Time, limit int) (int, error)
}

// BlobTx is what is in the object store without an object that refers to it: not yet, or not any more. What is there is
// never found by looking: a copy of the database that was given the same bucket would take for garbage what the database
// itself has stored since.
type BlobTx interface {
	// StageBlob notes that o's bytes are about to be written there; AttachObject wants them noted.
	StageBlob(ctx context.Context, o Object, now time.Time) error
	// TouchBlob notes that they are still being written. It is a Conflict where they were given up.
	TouchBlob(ctx context.Context, object string, now time.Time) error
	// DoomBlobs gives up what was staged or touched last before t, at most limit: nothing can attach it any more. From
	// now on counts how long anything was doomed.
	DoomBlobs(ctx context.Context, before, now time.Time, limit int) error
	// DoomedBlobs lists what was doomed before t, by id, after the given one: its id, organization and kind alone.
	DoomedBlobs(ctx context.Context, before time.Time, after string, limit int) ([]Object, error)
	// ForgetBlob is told that the bytes of what was doomed are gone.
	ForgetBlob(ctx context.Context, object string) error
}

// KeyUse is how many objects' data keys are wrapped with a key.
type KeyUse struct {
	Key     state.Key
	Objects int64
}

// KeyTx is the wrapped data keys of objects.
type KeyTx interface {
	// ObjectKeys lists objects by id, those after the given one: their id, organization, kind, key and wrapped data key
	// alone.
	ObjectKeys(ctx context.Context, after string, limit int) ([]Object, error)
	// RewrapObject stores another wrapping of o's data key, for the version with its bytes too. It is a Conflict where
	// the object is gone, or its data key is not wrapped as o says any more; the transaction then has to be given up.
	RewrapObject(ctx context.Context, o Object, by state.Key, wrapped []byte) error
	// KeyUses counts all objects by key, in order of kind, name and version.
	KeyUses(ctx context.Context) ([]KeyUse, error)
}

// RunFilter narrows a list of runs. Query matches a part of the stack's name or the run's id.
type RunFilter struct {
	Org      string
	StackID  string
	Statuses []run.Status
	Query    string
}

// RunTx is runs with their components.
type RunTx interface {
	// CreateRun is a Conflict where the stack has a run with the same Key already, unless that is "".
	CreateRun(ctx context.Context, r run.Run) error
	// RunByKey is the id of the stack's run that was started with the key; NotFound without one.
	RunByKey(ctx context.Context, stackID, key string) (string, error)
	Run(ctx context.Context, org, id string) (run.Run, error) // org "" for the engine's own steps
	RunForUpdate(ctx context.Context, id string) (run.Run, error)
	// UpdateRun stores the run's row and those components whose content differs from what is stored.
	UpdateRun(ctx context.Context, r run.Run) error
	// Runs lists newest first, without components' views and outputs.
	Runs(ctx context.Context, f RunFilter, p Page) (items []run.Run, next string, err error)
	// OpenRuns are the ids of runs that are not final, oldest first, at most limit, after the id given.
	OpenRuns(ctx context.Context, after string, limit int) ([]string, error)
	// RunAhead is the id of the oldest run of the stack before this one that changes state and is not final; ""
	// without one.
	RunAhead(ctx context.Context, stackID, runID string) (string, error)
}

// HistoryTx is what happened: events of runs and logs of attempts.
type HistoryTx interface {
	AppendEvent(ctx context.Context, e run.Event) (seq int64, err error)
	// Events lists those after seq, in order.
	Events(ctx context.Context, runID string, after int64, limit int) ([]run.Event, error)
	// AppendLog stores chunks from the attempt's NextLog on; ones before it were stored already and are ignored. It
	// moves the attempt's NextLog and LogBytes, which UpdateAttempt leaves alone.
	AppendLog(ctx context.Context, chunks []run.LogChunk) error
	// Logs lists the chunks of one attempt after seq (-1 for all), in order.
	Logs(ctx context.Context, attempt string, after int64, limit int) ([]run.LogChunk, error)
}

// TaskTx is tasks.
type TaskTx interface {
	CreateTask(ctx context.Context, t run.Task) error
	Task(ctx context.Context, id string) (run.Task, error)
	TaskForUpdate(ctx context.Context, id string) (run.Task, error)
	UpdateTask(ctx context.Context, t run.Task) error
	// Tasks lists a run's tasks in order of making.
	Tasks(ctx context.Context, runID string) ([]run.Task, error)
	// NextTask is the oldest ready task of the account, skipping ones that another transaction is taking.
	NextTask(ctx context.Context, account string) (run.Task, error)
}

// AttemptTx is attempts.
type AttemptTx interface {
	CreateAttempt(ctx context.Context, a run.Attempt) error
	Attempt(ctx context.Context, id string) (run.Attempt, error)
	AttemptForUpdate(ctx context.Context, id string) (run.Attempt, error)
	UpdateAttempt(ctx context.Context, a run.Attempt) error
	// Attempts lists a task's attempts, or a run's where taskID is "", in order of making.
	Attempts(ctx context.Context, runID, taskID string) ([]run.Attempt, error)
	// StaleAttempts are ids of attempts that are not final, whose last sign of life (offer, acceptance or
	// heartbeat) is before t.
	StaleAttempts(ctx context.Context, before time.Time, limit int) ([]string, error)
}

// StackTx is stacks.
type StackTx interface {
	// PutStack creates the stack or stores its new settings, by organization and name; it returns it as stored.
	PutStack(ctx context.Context, s run.Stack) (run.Stack, error)
	Stack(ctx context.Context, org, name string) (run.Stack, error)
	// Stacks lists by name.
	Stacks(ctx context.Context, org, query string, p Page) (items []run.Stack, next string, err error)
	DeleteStack(ctx context.Context, id string, at time.Time) error
}

// AccountTx is accounts.
type AccountTx interface {
	CreateAccount(ctx context.Context, a access.Account) error
	Account(ctx context.Context, org, name string) (access.Account, error)
	AccountByID(ctx context.Context, id string) (access.Account, error)
	Accounts(ctx context.Context, org string, p Page) (items []access.Account, next string, err error)
	SetAccountEnabled(ctx context.Context, id string, enabled bool) error
}

// AgentTx is agents.
type AgentTx interface {
	CreateAgent(ctx context.Context, a access.AgentRecord) error
	Agent(ctx context.Context, org, id string) (access.AgentRecord, error)
	// UpdateAgent stores a. An agent that is revoked stays so, whatever a says.
	UpdateAgent(ctx context.Context, a access.AgentRecord) error
	Agents(ctx context.Context, org string, p Page) (items []access.AgentRecord, next string, err error)
}

// UserTx is organizations and users.
type UserTx interface {
	CreateOrganization(ctx context.Context, o access.Organization) error
	Organizations(ctx context.Context, p Page) (items []access.Organization, next string, err error)
	Organization(ctx context.Context, name string) (access.Organization, error)
	OrganizationByID(ctx context.Context, id string) (access.Organization, error)
	CreateUser(ctx context.Context, u access.UserRecord) error
	User(ctx context.Context, org, id string) (access.UserRecord, error)
	// UserByID is for what the engine itself has the id from, such as a sign-in link.
	UserByID(ctx context.Context, id string) (access.UserRecord, error)
	UpdateUser(ctx context.Context, u access.UserRecord) error
	Users(ctx context.Context, org string, p Page) (items []access.UserRecord, next string, err error)
}

// Credential is a token with all else that an actor is made of, from one statement.
type Credential struct {
	Token      access.Token
	Owner      Owner
	Allocation access.Allocation // of the token's organization
}

// Owner is whose a token is: a user, an agent or an attempt, as the token says.
type Owner struct {
	ID            string // "" where there is none any more
	Name          string // of an attempt, its agent's
	Role          access.Role
	PlatformAdmin bool
	DisabledAt    time.Time // of a user
	Account       string    // id, of an agent
	Run, Task     string    // of an attempt
}

// CredentialTx is tokens.
type CredentialTx interface {
	Credential(ctx context.Context, hash string) (Credential, error)
	CreateToken(ctx context.Context, t access.Token) error
	Token(ctx context.Context, org, id string) (access.Token, error)
	RevokeToken(ctx context.Context, id string, at time.Time) error
	// EndTokens revokes the tokens of an agent or of an attempt.
	EndTokens(ctx context.Context, agent, attempt string, at time.Time) error
	TouchToken(ctx context.Context, id string, at time.Time) error
	// Tokens lists a user's tokens, or where user is "" all personal ones of the organization, newest first.
	Tokens(ctx context.Context, org, user string, p Page) (items []access.Token, next string, err error)
}

// PermissionTx is what administrators change of the roles' permissions.
type PermissionTx interface {
	// Allocation is nil where nothing was changed.
	Allocation(ctx context.Context, org string) (access.Allocation, error)
	// Allocate gives p to r, in place of what it was given to before.
	Allocate(ctx context.Context, org string, p access.Permission, r access.Role) error
}

// SessionTx is signed-in browsers and the links that sign them in.
type SessionTx interface {
	CreateSession(ctx context.Context, s access.Session) error
	// Session gives the session, its user, and the allocation of its organization.
	Session(ctx context.Context, hash string) (access.Session, access.UserRecord, access.Allocation, error)
	DeleteSession(ctx context.Context, hash string) error
	SweepSessions(ctx context.Context, before time.Time) error
	CreateSignInLink(ctx context.Context, l access.SignInLink) error
	// UseSignInLink marks the link used and gives it; NotFound where it was used, ended or never was.
	UseSignInLink(ctx context.Context, hash string, now time.Time) (access.SignInLink, error)
}

// AuditFilter narrows the audit log.
type AuditFilter struct {
	Org    string
	Action string // exact, or a prefix ending in "."
	Actor  string // id
	Object string // exact name or id
}

// AuditTx is the audit chain.
type AuditTx interface {
	// AuditTail is the last record of the organization's chain and keeps others from appending until the
	// transaction ends; a zero record where the chain is empty.
	AuditTail(ctx context.Context, org string) (audit.Record, error)
	AppendAudit(ctx context.Context, r audit.Record) error
	// Audit lists newest first.
	Audit(ctx context.Context, f AuditFilter, p Page) (items []audit.Record, next string, err error)
	// AuditFrom lists from seq on, in order of seq, for verifying and exporting.
	AuditFrom(ctx context.Context, org string, seq int64, limit int) ([]audit.Record, error)
}

// SettingTx is facts about the installation itself, such as that it was bootstrapped.
type SettingTx interface {
	Setting(ctx context.Context, key string) (string, error) // NotFound without one
	// SetSettingOnce is a Conflict where the key has a value.
	SetSettingOnce(ctx context.Context, key, value string) error
}
