// Package engine is the use cases: what people, agents and the clock ask of Holdfast, each as one transaction on
// the stored rows. It decides with the rules (state, run, access, …), stores through the interfaces it declares,
// and knows no SQL and no HTTP.
package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/state"
)

// Keys wraps and unwraps data keys. A data key is bound to the organization and to what it seals, so a wrapped
// key moved to another row opens nothing.
type Keys interface {
	// NewDataKey makes a data key of 32 bytes and its wrapped form. Unavailable where the key service is away.
	NewDataKey(ctx context.Context, org, binding string) (key, wrapped []byte, by state.Key, err error)
	// OpenDataKey unwraps. It fails with one error that names the key where that key is missing or wrong.
	OpenDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error)
	// RewrapDataKey moves a wrapped data key to the key that NewDataKey wraps with; the data key stays what it is.
	RewrapDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error)
	// Ready is nil when data keys can be made and opened.
	Ready(ctx context.Context) error
}

// Config is what an Engine is made of. All fields are required, but Keys, Chain, AuditKeys and those of Blobs.
type Config struct {
	Store Store
	Blobs Blobs // for what is large; nil: it is in the database
	// BlobsReadOnly puts what is large into the database nevertheless, and removes nothing from Blobs.
	BlobsReadOnly bool
	Keys          Keys         // nil where the settings name none: what has to be sealed is refused then
	Chain         *audit.Chain // nil: OpenAuditKey has to follow
	// AuditKeys are derived from platform keys. The first becomes the key of the audit chains where none is stored yet,
	// without one a random key does; all of them check records that they may have linked.
	AuditKeys [][]byte
	Limits    Limits
	Now       func() time.Time
	Log       *slog.Logger
}

// Limits are the settings that bound what is taken and kept.
type Limits struct {
	StateMaxBytes    int64         // HOLDFAST_TF_STATE_MAX_BYTES
	KeepVersions     int           // HOLDFAST_TF_STATE_KEEP_VERSIONS
	DeletedKeep      time.Duration // HOLDFAST_TF_STATE_DELETED_KEEP_DAYS
	RunEndGrace      time.Duration // HOLDFAST_TF_STATE_RUN_END_GRACE_SECONDS
	HeartbeatTimeout time.Duration // HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS
	StepTimeout      time.Duration // HOLDFAST_TOFU_TIMEOUT_MINUTES
	PlanMaxAge       time.Duration // HOLDFAST_PLAN_MAX_AGE_HOURS; 0: plans do not age
	SourceMaxBytes   int64         // of a packed source
	PlanMaxBytes     int64         // of a plan file
}

// Engine carries out the use cases. It holds nothing that the store does not: any number of engines work on one store.
type Engine struct {
	store   Store
	blobs   Blobs // nil without an object store
	keys    Keys
	chain   atomic.Pointer[audit.Chain] // nil until its key is open
	derived [][]byte                    // AuditKeys
	limits  Limits
	now     func() time.Time
	log     *slog.Logger

	blobsReadOnly bool

	sealing *sealing // buffers and (de)compressors, kept for reuse
	refused refusals
	up      uptime
	claims  claimGates

	examining chan struct{} // one for each document that is looked into
}

// New makes an Engine.
func New(c Config) *Engine {
	e := &Engine{
		store: c.Store, blobs: c.Blobs, blobsReadOnly: c.BlobsReadOnly, keys: c.Keys, derived: c.AuditKeys,
		limits: c.Limits, now: c.Now, log: c.Log, sealing: newSealing(), examining: make(chan struct{}, examinations),
	}
	if e.keys == nil {
		e.keys = noKeys{}
	}
	e.chain.Store(c.Chain)
	return e
}

// Limits are the limits the engine was made with.
func (e *Engine) Limits() Limits { return e.limits }

// record appends an audit record in the transaction of the change it tells of. data is marshalled to an object
// and must hold no secrets; nil is the empty object.
func (e *Engine) record(ctx context.Context, tx Tx, a access.Actor, action, object string, data any) error {
	raw := json.RawMessage("{}")
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("encode the audit record of %s: %w", action, err)
		}
		raw = b
	}
	chain, err := e.auditChain()
	if err != nil {
		return err
	}
	tail, err := tx.AuditTail(ctx, a.Org)
	if err != nil {
		return fmt.Errorf("read the end of the audit chain: %w", err)
	}
	r := chain.Link(tail, audit.Record{
		Org: a.Org, At: e.now(), ActorKind: string(a.Kind), ActorID: a.ID, ActorName: a.Name,
		Token: a.Token, Action: action, Object: object, Data: raw, RequestID: a.RequestID,
	})
	if err := tx.AppendAudit(ctx, r); err != nil {
		return fmt.Errorf("append to the audit chain: %w", err)
	}
	return nil
}
