package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
)

// tamper changes the tables behind the server's back.
func (s *states) tamper(t *testing.T, statement string, args ...any) {
	t.Helper()
	if err := s.store.Queue().GetExecutor().Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func (s *states) verify(t *testing.T, e *engine.Engine, anchor string) engine.AuditVerdict {
	t.Helper()
	v, err := e.VerifyAudit(t.Context(), s.user("eve", access.Admin), anchor)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What a verify printed proves to a later one that the end was not cut, which the chain by itself cannot.
func TestAuditAnchorFindsACutEnd(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		for i := range 3 {
			s.save(t, ann, "net", "A", doc(i+1, "l", "v"))
		}
		before := s.verify(t, s.Engine, "")
		if before.BrokenAt != 0 || before.Records != 3 || !strings.HasPrefix(before.Anchor, "3:") {
			t.Fatalf("before: %+v", before)
		}
		s.save(t, ann, "net", "A", doc(4, "l", "v"))
		if v := s.verify(t, s.Engine, before.Anchor); v.BrokenAt != 0 {
			t.Errorf("the chain grew: %+v, want it intact", v)
		}
		s.tamper(t, "DELETE FROM audit WHERE org = $1 AND seq >= 3", s.org)
		if v := s.verify(t, s.Engine, ""); v.BrokenAt != 0 || v.Records != 2 {
			t.Errorf("without the anchor: %+v, want the cut unseen", v)
		}
		if v := s.verify(t, s.Engine, before.Anchor); v.BrokenAt != 3 || !strings.Contains(v.Reason, "its end was cut") {
			t.Errorf("with the anchor: %+v, want the cut found", v)
		}
		s.save(t, ann, "net", "A", doc(5, "l", "another past"))
		if v := s.verify(t, s.Engine, before.Anchor); v.BrokenAt != 3 || !strings.Contains(v.Reason, "not the one that the anchor names") {
			t.Errorf("with the anchor, written over: %+v, want it found", v)
		}
		s.tamper(t, "UPDATE audit SET action = 'state.read' WHERE org = $1 AND seq = 2", s.org)
		if v := s.verify(t, s.Engine, ""); v.BrokenAt != 2 {
			t.Errorf("a changed record: %+v", v)
		}
	})
}

// An installation that records before it has a key says so, and takes such records at the beginning only.
func TestAuditFromBeforeTheKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		server := func(keys engine.Keys) *engine.Engine {
			e := engine.New(engine.Config{Store: s.store, Keys: keys, Limits: s.Limits(), Now: s.now, Log: slog.New(slog.DiscardHandler)})
			if err := e.OpenAuditKey(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		eve := s.user("eve", access.Admin)
		add := func(e *engine.Engine, name string) {
			if _, err := e.AddAccount(t.Context(), eve, name); err != nil {
				t.Fatal(err)
			}
		}
		without := server(nil)
		add(without, "one")
		add(without, "two")
		if v := s.verify(t, without, ""); v.BrokenAt != 0 || v.Unkeyed != 2 || v.Records != 2 {
			t.Errorf("without a key: %+v", v)
		}
		with := server(s.platform(t))
		add(with, "three")
		if v := s.verify(t, with, ""); v.BrokenAt != 0 || v.Unkeyed != 2 || v.Records != 3 {
			t.Errorf("with a key: %+v", v)
		}
		// Whoever can write the tables knows how to link without a key, and could have the rest look old.
		err := s.store.Update(t.Context(), func(tx engine.Tx) error {
			tail, err := tx.AuditTail(t.Context(), s.org)
			if err != nil {
				return err
			}
			return tx.AppendAudit(t.Context(), audit.NewUnkeyed().Link(tail, audit.Record{Org: s.org, At: s.now(), Action: "account.create"}))
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := s.verify(t, with, ""); v.BrokenAt != 4 || v.Unkeyed != 2 {
			t.Errorf("a forged record after the key came: %+v, want it found", v)
		}
		e := engine.New(engine.Config{Store: s.store, Limits: s.Limits(), Now: s.now, Log: slog.New(slog.DiscardHandler)})
		if err := e.OpenAuditKey(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the key is missing again: %v, want nothing recorded", err)
		}
	})
}

// A chain that always had a key takes no beginning without one, whatever the tables say.
func TestAuditThatAlwaysHadAKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		e := engine.New(engine.Config{Store: s.store, Keys: s.platform(t), Limits: s.Limits(), Now: s.now, Log: slog.New(slog.DiscardHandler)})
		if err := e.OpenAuditKey(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.update(t, func(ctx context.Context, tx engine.Tx) error {
			if err := tx.SetSettingOnce(ctx, "audit_unkeyed", "true"); err != nil {
				return err
			}
			return tx.AppendAudit(ctx, audit.NewUnkeyed().Link(audit.Record{}, audit.Record{Org: s.org, At: s.now(), Action: "account.create", Object: fmt.Sprint(1)}))
		})
		again := engine.New(engine.Config{Store: s.store, Keys: s.platform(t), Limits: s.Limits(), Now: s.now, Log: slog.New(slog.DiscardHandler)})
		if err := again.OpenAuditKey(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, server := range []*engine.Engine{e, again} {
			if v := s.verify(t, server, ""); v.BrokenAt != 1 || v.Unkeyed != 0 {
				t.Errorf("a forged beginning: %+v, want it found", v)
			}
		}
	})
}
