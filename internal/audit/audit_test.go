package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/audit"
)

func chain(t *testing.T) (*audit.Chain, []audit.Record) {
	t.Helper()
	c, err := audit.NewChain(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	var records []audit.Record
	var tail audit.Record
	for i := range 5 {
		tail = c.Link(tail, audit.Record{
			Org: "org_a", At: time.UnixMicro(int64(1000 + i)), ActorID: "usr_a", Action: "run.approve",
			Object: "run_1", Data: json.RawMessage(`{"n":1}`),
		})
		records = append(records, tail)
	}
	return c, records
}

func verify(c *audit.Chain, records []audit.Record) error {
	var tail audit.Record
	for _, r := range records {
		if err := c.Check(tail, r); err != nil {
			return err
		}
		tail = r
	}
	return nil
}

func TestChainHoldsWhenUntouched(t *testing.T) {
	c, records := chain(t)
	if err := verify(c, records); err != nil {
		t.Fatalf("verify: %v, want nil", err)
	}
}

func TestChainBreaksOnAnyChange(t *testing.T) {
	for name, change := range map[string]func([]audit.Record) []audit.Record{
		"action": func(r []audit.Record) []audit.Record { r[2].Action = "run.reject"; return r },
		"data":   func(r []audit.Record) []audit.Record { r[2].Data = json.RawMessage(`{"n":2}`); return r },
		"time":   func(r []audit.Record) []audit.Record { r[2].At = r[2].At.Add(time.Microsecond); return r },
		"actor":  func(r []audit.Record) []audit.Record { r[2].ActorID = "usr_b"; return r },
		"moved bytes between fields": func(r []audit.Record) []audit.Record {
			r[2].ActorID, r[2].ActorName = "usr_", "a"
			return r
		},
		"dropped":   func(r []audit.Record) []audit.Record { return append(r[:2], r[3:]...) },
		"reordered": func(r []audit.Record) []audit.Record { r[1], r[2] = r[2], r[1]; return r },
		"head cut":  func(r []audit.Record) []audit.Record { return r[1:] },
		"renumbered after a drop": func(r []audit.Record) []audit.Record {
			r = append(r[:2], r[3:]...)
			for i := range r {
				r[i].Seq = int64(i + 1)
			}
			return r
		},
	} {
		c, records := chain(t)
		if err := verify(c, change(records)); err == nil {
			t.Errorf("%s: verify = nil, want a broken chain", name)
		}
	}
}

func TestAnotherKeyDoesNotVerify(t *testing.T) {
	_, records := chain(t)
	other, err := audit.NewChain([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(other, records); err == nil {
		t.Error("verify with another key = nil, want a broken chain")
	}
}

// A chain may begin without a key where its key says so, and only then.
func TestChainThatBeganWithoutAKey(t *testing.T) {
	u := audit.NewUnkeyed()
	first := u.Link(audit.Record{}, audit.Record{Org: "org_a", At: time.UnixMicro(1), Action: "user.create"})
	key := []byte("0123456789abcdef0123456789abcdef")
	c, err := audit.NewChain(key)
	if err != nil {
		t.Fatal(err)
	}
	if c.Unkeyed(audit.Record{}, first) || c.Check(audit.Record{}, first) == nil {
		t.Error("a chain that always had a key takes a record without one")
	}
	after := c.AfterUnkeyed()
	if !after.Unkeyed(audit.Record{}, first) || after.Check(audit.Record{}, first) == nil {
		t.Error("a record from before the key is not told from the others")
	}
	second := after.Link(first, audit.Record{Org: "org_a", At: time.UnixMicro(2), Action: "user.create"})
	if after.Unkeyed(first, second) || after.Check(first, second) != nil {
		t.Error("the first record with a key does not follow")
	}
	for what, r := range map[string]audit.Record{
		"changed":                {Org: "org_a", Seq: 1, At: time.UnixMicro(1), Action: "user.delete", Hash: first.Hash},
		"out of order":           u.Link(audit.Record{Org: "org_a", Seq: 1, Hash: "x"}, audit.Record{Org: "org_a"}),
		"linked with a real key": second,
	} {
		if after.Unkeyed(audit.Record{}, r) {
			t.Errorf("%s: taken for a record without a key", what)
		}
	}
}
