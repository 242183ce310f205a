// Package audit holds the audit chain: one HMAC chain per organization, keyed from outside the database, so that
// whoever can write the tables still cannot change, drop or reorder a record unnoticed.
package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

// Record is one thing that was done or refused.
type Record struct {
	Org       string          `json:"org"`
	Seq       int64           `json:"seq"` // from 1, without gaps
	At        time.Time       `json:"at"`  // to the microsecond
	ActorKind string          `json:"actor_kind"`
	ActorID   string          `json:"actor_id"`
	ActorName string          `json:"actor_name"`
	Token     string          `json:"token"`  // id of the token or session used
	Action    string          `json:"action"` // noun.verb, e.g. run.approve
	Object    string          `json:"object"` // what it was done to: a name or an id
	Data      json.RawMessage `json:"data"`   // an object; no secrets
	RequestID string          `json:"request_id"`
	Hash      string          `json:"hash"` // hex HMAC-SHA256
}

// Chain is the keys of the installation's chains: the first links, all of them check.
type Chain struct {
	keys         [][]byte
	afterUnkeyed bool
}

// unkeyed links records where there is no key. Everybody knows it, so they prove nothing against whoever can write the
// tables.
func unkeyed() []byte { return []byte("holdfast audit records without any key") }

// NewUnkeyed is the chain of an installation that has no key yet.
func NewUnkeyed() *Chain { return &Chain{keys: [][]byte{unkeyed()}, afterUnkeyed: true} }

// AfterUnkeyed lets the chains begin with records from before there was a key.
func (c *Chain) AfterUnkeyed() *Chain { return &Chain{keys: c.keys, afterUnkeyed: true} }

// Unkeyed reports whether r follows tail and was linked without a key, in a chain that may begin so. Once a record
// was linked with a key, none after it may be: that is for the caller to see to.
func (c *Chain) Unkeyed(tail, r Record) bool {
	return c.afterUnkeyed && (&Chain{keys: [][]byte{unkeyed()}}).Check(tail, r) == nil
}

// NewChain takes a key of 32 bytes or more, and those that linked records before it did.
func NewChain(key []byte, earlier ...[]byte) (*Chain, error) {
	c := &Chain{keys: append([][]byte{key}, earlier...)}
	for _, k := range c.keys {
		if len(k) < 32 {
			return nil, fmt.Errorf("an audit key has %d bytes, it needs 32", len(k))
		}
	}
	return c, nil
}

// Link makes r the record after tail: it sets Seq and Hash. A zero tail starts the chain.
func (c *Chain) Link(tail, r Record) Record {
	r.Seq = tail.Seq + 1
	r.At = r.At.UTC().Truncate(time.Microsecond)
	if len(r.Data) == 0 {
		r.Data = json.RawMessage("{}")
	}
	r.Hash = sum(c.keys[0], tail.Hash, r)
	return r
}

// Check is nil when r is the record after tail, unchanged.
func (c *Chain) Check(tail, r Record) error {
	switch {
	case r.Org != tail.Org && tail.Seq != 0:
		return broken(r, "it belongs to another organization than the one before it")
	case r.Seq != tail.Seq+1:
		return broken(r, fmt.Sprintf("record %d is missing", tail.Seq+1))
	case !c.linked(tail.Hash, r):
		return broken(r, "its content, or that of a record before it, was changed")
	}
	return nil
}

// linked reports whether one of the keys linked r after before.
func (c *Chain) linked(before string, r Record) bool {
	for _, key := range c.keys {
		if hmac.Equal([]byte(r.Hash), []byte(sum(key, before, r))) {
			return true
		}
	}
	return false
}

func broken(r Record, why string) error {
	return fault.New(fault.Conflict, "audit_broken", "The audit chain is broken at record %d: %s.", r.Seq, why).
		WithHint("Compare with a backup or an export of the audit log made before.")
}

// sum binds each field with its length, so that no two records share an encoding.
func sum(key []byte, before string, r Record) string {
	m := hmac.New(sha256.New, key)
	field := func(b string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		m.Write(n[:])
		m.Write([]byte(b))
	}
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(r.Seq))
	binary.BigEndian.PutUint64(n[8:], uint64(r.At.UnixMicro()))
	m.Write(n[:])
	for _, f := range []string{before, r.Org, r.ActorKind, r.ActorID, r.ActorName, r.Token, r.Action, r.Object, string(r.Data), r.RequestID} {
		field(f)
	}
	return hex.EncodeToString(m.Sum(nil))
}
