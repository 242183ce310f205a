package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) AuditTail(ctx context.Context, org string) (audit.Record, error) {
	if tail, ok := t.session.Notes()[tailNote+org].(audit.Record); ok && t.failed == nil {
		return tail, nil
	}
	if lock := t.store.d.ChainLock; lock != "" {
		// A row could not be locked before the chain has one.
		if err := t.later(ctx, "locking", "audit log", lock, chainNumber(org)); err != nil {
			return audit.Record{}, err
		}
	}
	row, err := t.q.AuditTail(ctx, org)
	if err := t.err("reading", "audit log", err); err != nil {
		if fault.Is(err, fault.NotFound) {
			return audit.Record{}, nil
		}
		return audit.Record{}, err
	}
	tail, err := record(row)
	if err == nil && t.writes {
		t.session.Notes()[tailNote+org] = tail
	}
	return tail, err
}

// tailNote is where the end of an organization's chain is noted: from then on the chain is this transaction's.
const tailNote = "audit tail of "

// chainNumber names an organization's chain among the database's advisory locks. Should two share one, they wait
// for each other and nothing else.
func chainNumber(org string) int64 {
	sum := sha256.Sum256([]byte("holdfast audit " + org))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (t *tx) AppendAudit(ctx context.Context, r audit.Record) error {
	err := t.afterwards("appending to", "audit log").AppendAudit(ctx, db.AppendAuditParams{
		Org: r.Org, Seq: r.Seq, At: micros(r.At), ActorKind: r.ActorKind, ActorID: r.ActorID, ActorName: r.ActorName,
		Token: r.Token, Action: r.Action, Object: r.Object, Data: string(r.Data), RequestID: r.RequestID, Hash: r.Hash,
	})
	notes := t.session.Notes()
	if _, noted := notes[tailNote+r.Org]; noted && err == nil {
		r.At = moment(micros(r.At)) // as it would be read
		notes[tailNote+r.Org] = r
	}
	return err
}

func (t *tx) Audit(ctx context.Context, f engine.AuditFilter, p engine.Page) ([]audit.Record, string, error) {
	g, err := pages("audit", 1, p)
	if err != nil {
		return nil, "", err
	}
	before, err := g.number(math.MaxInt64)
	if err != nil {
		return nil, "", err
	}
	action, prefix := f.Action, ""
	if strings.HasSuffix(f.Action, ".") {
		action, prefix = "", f.Action
	}
	var rows []db.Audit
	if f.Object == "" {
		rows, err = t.q.Audit(ctx, db.AuditParams{
			Org: f.Org, Before: before, Action: action, Prefix: prefix, Actor: f.Actor, Count: g.count(),
		})
	} else {
		rows, err = t.q.AuditOfObject(ctx, db.AuditOfObjectParams{
			Org: f.Org, Object: f.Object, Before: before, Action: action, Prefix: prefix, Actor: f.Actor, Count: g.count(),
		})
	}
	if err != nil {
		return nil, "", t.err("listing", "audit log", err)
	}
	return page(g, rows, record, func(r db.Audit) []string { return []string{strconv.FormatInt(r.Seq, 10)} })
}

func (t *tx) AuditFrom(ctx context.Context, org string, seq int64, limit int) ([]audit.Record, error) {
	rows, err := t.q.AuditFrom(ctx, org, seq, int32(limit))
	if err != nil {
		return nil, t.err("listing", "audit log", err)
	}
	return each(rows, record)
}

func record(r db.Audit) (audit.Record, error) {
	return audit.Record{
		Org: r.Org, Seq: r.Seq, At: moment(r.At), ActorKind: r.ActorKind, ActorID: r.ActorID, ActorName: r.ActorName,
		Token: r.Token, Action: r.Action, Object: r.Object, Data: raw(r.Data), RequestID: r.RequestID, Hash: r.Hash,
	}, nil
}
