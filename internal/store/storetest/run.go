package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store"
)

func planned(r run.Run, name string) run.Component {
	return run.Component{
		Run: r.ID, Name: name, StateName: "shop." + name, StateID: "sta_1",
		Source: run.Source{Object: "obj_1", SHA256: "aa", Size: 100}, Inputs: json.RawMessage(`{"b": 1,  "a": 1e3}`),
		Action: "update", Status: run.ComponentPlanned, Message: "fine", Outputs: json.RawMessage(`{"x": {"value": "é"}}`),
		Plan: &run.Plan{
			Digest: "sha256:aa", Object: "obj_2", View: json.RawMessage(`{"big": true}`), Tool: "tofu", Version: "1.12.6",
			LockFile: "bb", ConfigHash: "cc", BaseSHA256: "dd", BaseSerial: 1 << 63, Add: 1, Change: 2, Destroy: 3, Replace: 4,
			Import: 5, Move: 6, Forget: 7, Outputs: 8, HasChanges: true, Risk: "high",
		},
	}
}

func runs(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r := w.newRun()
	r.Production, r.Hold = true, true
	r.Components = []run.Component{
		{Run: r.ID, Name: "web", StateName: "shop.web", Status: run.ComponentPending, Inputs: json.RawMessage(`{}`)},
		{Run: r.ID, Name: "db", StateName: "shop.db", Status: run.ComponentPending},
	}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	read := func() run.Run {
		t.Helper()
		var got run.Run
		view(t, s, func(ctx context.Context, tx engine.Tx) (err error) {
			got, err = tx.Run(ctx, w.org.ID, r.ID)
			return err
		})
		return got
	}
	same(t, "as created", read(), r)
	r.Status, r.Risk, r.PlanDigest, r.EndedAt = run.Failed, "high", "sha256:ff", after(9)
	r.Class, r.PartialApply, r.Message, r.CancelAsked, r.WaitsFor = run.Infrastructure, true, "no disk", true, "run_0"
	r.Approval = run.Approval{
		Policy: run.Always, Required: true, Reason: "production", Status: run.ApprovalGiven, Digest: "sha256:ff", By: "usr_1",
		ByName: "bob", At: after(5),
	}
	r.Components[0], r.Components[1] = planned(r, "web"), planned(r, "db")
	r.Components[1].Plan.View = nil
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateRun(ctx, r) })
	same(t, "as updated", read(), r)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.RunForUpdate(ctx, r.ID)
		same(t, "for update", got, r)
		if err != nil {
			return err
		}
		got, err = tx.Run(ctx, "", r.ID)
		same(t, "of any organization", got, r)
		_, missing := tx.Run(ctx, "org_other", r.ID)
		wantKind(t, "a run of another organization", missing, fault.NotFound)
		_, missing = tx.RunForUpdate(ctx, "run_none")
		wantKind(t, "no run", missing, fault.NotFound)
		return err
	})
	none := r
	none.ID = "run_none"
	refused(t, s, fault.NotFound, "storing no run", func(ctx context.Context, tx engine.Tx) error { return tx.UpdateRun(ctx, none) })
	none.Stack = "stk_none"
	refused(t, s, fault.NotFound, "a run of no stack", func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, none) })
}

// changedComponentsOnly is seen from beside: PostgreSQL lets two transactions write different rows at once, and
// both databases keep what an update was not told of.
func changedComponentsOnly(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r := w.newRun()
	r.Components = []run.Component{planned(r, "a"), planned(r, "b")}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	before := r
	before.Components = slices.Clone(r.Components)
	change := func(c run.Component) {
		t.Helper()
		r.Components = []run.Component{before.Components[0], c}
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateRun(ctx, r) })
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.Run(ctx, w.org.ID, r.ID)
			same(t, "run", got, r)
			return err
		})
	}
	c := planned(r, "b")
	c.Message = "changed"
	change(c)
	c.Plan.View = json.RawMessage(`{"big": false}`)
	change(c)
	c.Plan.Destroy++
	change(c)
	c.Outputs = nil
	change(c)
	c.Plan = nil
	change(c)
}

func listRuns(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	other := w.stack
	other.ID, other.Name = id.New(id.Stack, now), "Bank"
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.PutStack(ctx, other)
		return err
	})
	var ids []string
	statuses := []run.Status{run.Queued, run.Succeeded, run.AwaitingApproval, run.Failed, run.Planning, run.Succeeded}
	for i, status := range statuses {
		r := w.newRun()
		r.ID, r.Status = id.New(id.Run, after(i)), status
		if i%2 == 1 {
			r.Stack, r.StackName = other.ID, other.Name
		}
		r.Components = []run.Component{planned(r, "web")}
		ids = append(ids, r.ID)
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	}
	list := func(f engine.RunFilter) string {
		f.Org = w.org.ID
		var got []string
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			for _, r := range all(t, 2, func(p engine.Page) ([]run.Run, string, error) { return tx.Runs(ctx, f, p) }) {
				got = append(got, fmt.Sprint(slices.Index(ids, r.ID)))
				if len(r.Components) != 1 || r.Components[0].Plan.Destroy != 3 || r.Components[0].Plan.View != nil || r.Components[0].Outputs != nil {
					t.Errorf("components in a list = %+v, want one, without view and outputs", r.Components)
				}
			}
			return nil
		})
		return strings.Join(got, " ")
	}
	for want, f := range map[string]engine.RunFilter{
		"5 4 3 2 1 0": {},
		"5 3 1":       {StackID: other.ID},
		"5 1":         {StackID: other.ID, Statuses: []run.Status{run.Succeeded}},
		"4 2 0":       {Statuses: []run.Status{run.Queued, run.Planning, run.AwaitingApproval}},
		"2":           {StackID: w.stack.ID, Statuses: []run.Status{run.AwaitingApproval}},
		"5 2 1":       {Statuses: []run.Status{run.Succeeded, run.AwaitingApproval}},
		"5  3 1":      {Query: "bANK"},
		"3":           {Query: strings.ToUpper(ids[3])},
		"":            {Query: "%"},
	} {
		same(t, fmt.Sprintf("runs by %+v", f), list(f), strings.ReplaceAll(want, "  ", " "))
	}
	var open []string
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		after := ""
		for {
			more, err := tx.OpenRuns(ctx, after, 2)
			if err != nil || len(more) == 0 {
				return err
			}
			open = append(open, more...)
			after = more[len(more)-1]
		}
	})
	same(t, "open runs", open, []string{ids[0], ids[2], ids[4]})
}

func turns(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	// The ids do not sort by the order of making: so it is with servers whose clocks differ.
	var made []run.Run
	for i, kind := range []run.Kind{run.Preview, run.Deploy, run.Destroy, run.Preview} {
		r := w.newRun()
		r.ID, r.Kind = id.New(id.Run, after(-i)), kind
		made = append(made, r)
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	}
	wantAhead := func(want ...string) {
		t.Helper()
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got := []string{}
			for _, r := range made {
				ahead, err := tx.RunAhead(ctx, w.stack.ID, r.ID)
				if err != nil {
					return err
				}
				got = append(got, ahead)
			}
			same(t, "runs ahead", got, want)
			stack, err := tx.Stack(ctx, w.org.ID, w.stack.Name)
			same(t, "newest run", stack.LastRun, made[3].ID)
			return err
		})
	}
	wantAhead("", "", made[1].ID, made[1].ID)
	made[1].Status = run.Succeeded
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateRun(ctx, made[1]) })
	wantAhead("", "", "", made[2].ID)
}

func runKeys(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	r, again := w.newRun(), w.newRun()
	r.Key, again.Key = "ci-17", "ci-17"
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, r) })
	refused(t, s, fault.Conflict, "a taken key", func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, again) })
	for range 2 { // without one there is nothing to be taken
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateRun(ctx, w.newRun()) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.RunByKey(ctx, w.stack.ID, "ci-17")
		same(t, "run by key", got, r.ID)
		full, e := tx.Run(ctx, "", r.ID)
		same(t, "its key", full.Key, "ci-17")
		for _, key := range []string{"ci-18", "CI-17", ""} {
			_, missing := tx.RunByKey(ctx, w.stack.ID, key)
			wantKind(t, "no run of key "+key, missing, fault.NotFound)
		}
		if err == nil {
			err = e
		}
		return err
	})
}
