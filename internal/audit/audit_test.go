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
