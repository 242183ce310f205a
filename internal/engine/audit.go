package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/fault"
)

// auditBatch is how many records are read at once for verifying and exporting.
const auditBatch = 500

// AuditVerdict is what verifying a chain found.
type AuditVerdict struct {
	Records  int64
	Unkeyed  int64  // of them, those at the beginning that were linked before there was any key: they prove nothing
	BrokenAt int64  // 0: intact
	Reason   string // why it is broken
	Anchor   string // "SEQ:HASH" of the last good record
}

// Audit lists the organization's records, newest first.
func (e *Engine) Audit(ctx context.Context, actor access.Actor, f AuditFilter, p Page) (items []audit.Record, next string, err error) {
	if err := actor.Allow(access.AuditRead); err != nil {
		return nil, "", err
	}
	f.Org = actor.Org
	err = e.store.View(ctx, func(tx Tx) error {
		items, next, err = tx.Audit(ctx, f, p)
		return err
	})
	return items, next, err
}

// VerifyAudit goes through the whole chain. anchor, "SEQ:HASH" of an earlier verdict, proves that the chain still
// holds that record, so that its end was not cut; "" leaves that out.
func (e *Engine) VerifyAudit(ctx context.Context, actor access.Actor, anchor string) (AuditVerdict, error) {
	at, hash, err := parseAnchor(anchor)
	if err != nil {
		return AuditVerdict{}, err
	}
	chain, err := e.auditChain()
	if err != nil {
		return AuditVerdict{}, err
	}
	var v AuditVerdict
	var tail audit.Record
	anchored := at == 0
	err = e.EachAudit(ctx, actor, 1, func(r audit.Record) error {
		if v.Unkeyed == tail.Seq && chain.Unkeyed(tail, r) {
			v.Unkeyed = r.Seq
		} else if err := chain.Check(tail, r); err != nil {
			return err
		}
		if r.Seq == at && r.Hash != hash {
			return fault.New(fault.Conflict, "audit_broken", "Record %d is not the one that the anchor names.", at)
		}
		anchored = anchored || r.Seq == at
		tail = r
		return nil
	})
	v.Records, v.Anchor = tail.Seq, fmt.Sprintf("%d:%s", tail.Seq, tail.Hash)
	switch {
	case fault.Code(err) == "audit_broken":
		v.BrokenAt, v.Reason = tail.Seq+1, fault.From(err).Public
	case err != nil:
		return AuditVerdict{}, err
	case !anchored:
		v.BrokenAt, v.Reason = tail.Seq+1, fmt.Sprintf("The chain ends at record %d, but the anchor names record %d: its end was cut.", tail.Seq, at)
	}
	return v, nil
}

func parseAnchor(s string) (seq int64, hash string, err error) {
	if s == "" {
		return 0, "", nil
	}
	number, hash, ok := strings.Cut(s, ":")
	seq, err = strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || seq < 1 || len(hash) != 64 {
		return 0, "", fault.New(fault.Invalid, "invalid_request", "The anchor cannot be read.").WithHint("Give it as an earlier verify printed it, SEQ:HASH.")
	}
	return seq, hash, nil
}

// EachAudit calls fn for each record from seq from on, oldest first, until fn fails. It reads in batches, so fn may
// take its time.
func (e *Engine) EachAudit(ctx context.Context, actor access.Actor, from int64, fn func(audit.Record) error) error {
	if err := actor.Allow(access.AuditRead); err != nil {
		return err
	}
	for {
		var batch []audit.Record
		err := e.store.View(ctx, func(tx Tx) (err error) {
			batch, err = tx.AuditFrom(ctx, actor.Org, from, auditBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the audit chain: %w", err)
		}
		for _, r := range batch {
			if err := fn(r); err != nil {
				return err
			}
			from = r.Seq + 1
		}
		if len(batch) < auditBatch {
			return nil
		}
	}
}
