package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
)

func newChain(t testing.TB) *audit.Chain {
	t.Helper()
	c, err := audit.NewChain([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func appendRecord(ctx context.Context, tx engine.Tx, c *audit.Chain, r audit.Record) error {
	tail, err := tx.AuditTail(ctx, r.Org)
	if err != nil {
		return err
	}
	return tx.AppendAudit(ctx, c.Link(tail, r))
}

func verify(t testing.TB, c *audit.Chain, records []audit.Record) {
	t.Helper()
	var tail audit.Record
	for _, r := range records {
		if err := c.Check(tail, r); err != nil {
			t.Fatalf("record %d: %v", r.Seq, err)
		}
		tail = r
	}
}

func auditRecords(t *testing.T, s *store.Store) {
	c := newChain(t)
	for i, r := range []audit.Record{
		{Action: "run.approve", Object: "shop", ActorID: "usr_a"},
		{Action: "run.reject", Object: "shop", ActorID: "usr_b", Data: json.RawMessage(`{"b":  "é", "a": 1.0}`)},
		{Action: "runner.start", Object: "bank", ActorID: "usr_a"},
		{Action: "state.delete", Object: "net", ActorID: "usr_a"},
		{Action: "state.delete", Object: "Net", ActorID: "usr_a"},
	} {
		r.Org, r.At, r.ActorKind, r.ActorName, r.Token, r.RequestID = "org_a", after(i), "user", "ann", "tok_1", "req_1"
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return appendRecord(ctx, tx, c, r) })
		r.Org = "org_b"
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return appendRecord(ctx, tx, c, r) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		records, err := tx.AuditFrom(ctx, "org_a", 1, 100)
		same(t, "records", len(records), 5)
		verify(t, c, records)
		if err != nil {
			return err
		}
		some, err := tx.AuditFrom(ctx, "org_a", 3, 2)
		same(t, "two from the third", some, records[2:4])
		return err
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		tail, err := tx.AuditTail(ctx, "org_a")
		same(t, "number of the tail", tail.Seq, int64(5))
		if err != nil {
			return err
		}
		tail, err = tx.AuditTail(ctx, "org_empty")
		same(t, "tail of an empty chain", tail, audit.Record{})
		return err
	})
	for want, f := range map[string]engine.AuditFilter{
		"5 4 3 2 1": {},
		"2 1":       {Action: "run."},
		"1":         {Action: "run.approve"},
		"":          {Action: "run"},
		"5 4 3 1":   {Actor: "usr_a"},
		"4":         {Object: "net"},
		"2":         {Object: "shop", Action: "run.", Actor: "usr_b"},
	} {
		f.Org = "org_a"
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got := all(t, 2, func(p engine.Page) ([]audit.Record, string, error) { return tx.Audit(ctx, f, p) })
			same(t, fmt.Sprintf("records by %+v", f), strings.Join(names(got, func(r audit.Record) string { return fmt.Sprint(r.Seq) }), " "), want)
			return nil
		})
	}
	refused(t, s, fault.Conflict, "a taken number", func(ctx context.Context, tx engine.Tx) error {
		return tx.AppendAudit(ctx, audit.Record{Org: "org_a", Seq: 5})
	})
}

// auditWithoutGaps also starts the chain under contention: an empty chain has no row to lock.
func auditWithoutGaps(t *testing.T, s *store.Store) {
	c := newChain(t)
	const n = 96
	together(t, n, func(i int) error {
		return s.Update(t.Context(), func(tx engine.Tx) error {
			if err := appendRecord(t.Context(), tx, c, audit.Record{Org: "org_a", At: after(i), Action: "state.write"}); err != nil {
				t.Errorf("append: %v", err)
				return err
			}
			if i%3 == 2 {
				return context.Canceled
			}
			return nil
		})
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		records, err := tx.AuditFrom(ctx, "org_a", 1, 1000)
		same(t, "records", len(records), n*2/3)
		verify(t, c, records)
		return err
	})
}
