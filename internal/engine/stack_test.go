package engine_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

func TestPutStack(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		first := w.putStack(engine.PutStack{Name: "shop"})
		if first.Stack.Approval != run.Never || first.Account != testAccount || first.LastRun != nil {
			t.Errorf("a new stack: %+v", first)
		}
		again := w.putStack(engine.PutStack{Name: "shop"})
		if again.Stack.ID != first.Stack.ID || !again.Stack.UpdatedAt.Equal(first.Stack.UpdatedAt) {
			t.Errorf("the repeat changed the stack: %+v", again)
		}
		changed := w.putStack(engine.PutStack{Name: "shop", Production: true, Hold: true})
		if changed.Stack.ID != first.Stack.ID || changed.Stack.Approval != run.HighRisk || !changed.Stack.Hold {
			t.Errorf("the changed stack: %+v", changed)
		}
		if got := w.audited("shop"); !slices.Equal(got, []string{"stack.put", "stack.put"}) {
			t.Errorf("audited: %q, want one record for each change", got)
		}
		for name, in := range map[string]engine.PutStack{
			"invalid_name":              {Name: "a.b", Account: testAccount},
			"production_needs_approval": {Name: "new", Account: testAccount, Production: true, Approval: run.Never},
			"invalid_approval":          {Name: "new", Account: testAccount, Approval: "sometimes"},
		} {
			_, err := w.engine.PutStack(t.Context(), w.alice, in)
			if fault.Code(err) != name {
				t.Errorf("%+v: %v, want %s", in, err, name)
			}
		}
		_, err := w.engine.PutStack(t.Context(), w.bob, engine.PutStack{Name: "new", Account: testAccount})
		wantCode(t, err, fault.Forbidden, "forbidden")
		// A stack that is changed while a run waits changes nothing about the run.
		r := w.planTo(w.startRun("shop"), oneReplace())
		w.putStack(engine.PutStack{Name: "shop"})
		if got := w.wantStatus(r.ID, run.AwaitingApproval); !got.Production || got.Approval.Policy != run.HighRisk {
			t.Errorf("the run's frozen settings are %+v", got.Approval)
		}
		stacks, _, err := w.engine.Stacks(t.Context(), w.bob, "HO", engine.Page{Limit: 10})
		if w.ok(err); len(stacks) != 1 || stacks[0].LastRun == nil || stacks[0].LastRun.ID != r.ID {
			t.Errorf("the list: %+v", stacks)
		}
	})
}

// R20: a stack goes only when nothing runs and nothing is left.
func TestR20DeleteStack(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		remove := func() error { return w.engine.DeleteStack(t.Context(), w.alice, "shop") }
		w.putStack(engine.PutStack{Name: "shop"})
		running := w.start(w.startRun("shop"))
		queued := w.start(w.startRun("shop"))
		wantCode(t, remove(), fault.Conflict, "stack_busy")
		w.take(w.agents[0]).planned()
		w.take(w.agents[0]).applied()
		w.wantStatus(running.ID, run.Succeeded)
		wantCode(t, remove(), fault.Conflict, "stack_busy")
		must[engine.RunView](t)(w.engine.CancelRun(t.Context(), w.alice, queued.ID))
		wantCode(t, remove(), fault.Conflict, "stack_has_resources") // the document has an output
		in := w.startRun("shop")
		in.Kind = run.Destroy
		destroy := w.start(in)
		w.take(w.agents[0]).planned()
		k := w.take(w.agents[0])
		k.doc = `{"version":4,"terraform_version":"1.12.6","serial":2,"lineage":"l","outputs":{},"resources":[],"check_results":null}`
		k.applied()
		w.wantStatus(destroy.ID, run.Succeeded)
		if err := w.engine.DeleteStack(t.Context(), w.bob, "shop"); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a viewer's delete: %v", err)
		}
		w.ok(remove())
		wantCode(t, remove(), fault.NotFound, "stack_not_found")
		w.wantStatus(destroy.ID, run.Succeeded) // its runs can still be read
		if s := w.state("shop.main"); s.Head == nil {
			t.Error("the state went with the stack")
		}
		w.putStack(engine.PutStack{Name: "shop"}) // the name is free
	})
}

// What cannot be read is not empty.
func TestDeleteStackWithAStateThatCannotBeRead(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	w.planTo(w.startRun("shop"), noChange())
	encrypted := `{"serial":1,"lineage":"l","meta":{"k":"x"},"encrypted_data":"AAAA","encryption_version":"v0"}`
	w.ok(writeState(t.Context(), w.engine, w.alice, "shop.main", "l", encrypted, engine.UnlockRequest{ID: "l"}))
	wantCode(t, w.engine.DeleteStack(t.Context(), w.alice, "shop"), fault.Conflict, "stack_has_resources")
}

func TestUploadSource(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		content := strings.Repeat("not really an archive", 40_000) // more than is kept inline
		o := w.upload(w.alice, content)
		if want := "\x28\xb5\x2f\xfd" + content; o.SHA256 != sum(want) || o.Size != int64(len(want)) {
			t.Errorf("stored as %+v", o)
		}
		for code, body := range map[string]string{"invalid_source": "PK\x03\x04 a zip", "too_large": "\x28\xb5\x2f\xfd" + strings.Repeat("x", 1<<20)} {
			if _, err := w.engine.UploadSource(t.Context(), w.alice, strings.NewReader(body)); fault.Code(err) != code {
				t.Errorf("%q…: %v, want %s", body[:4], err, code)
			}
		}
		if _, err := w.engine.UploadSource(t.Context(), w.alice, bytes.NewReader(nil)); fault.Code(err) != "invalid_source" {
			t.Errorf("nothing: %v", err)
		}
		if _, err := w.engine.UploadSource(t.Context(), w.bob, strings.NewReader(content)); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a viewer's upload: %v", err)
		}
		// The agent gets what was uploaded.
		w.putStack(engine.PutStack{Name: "shop"})
		in := w.startRun("shop")
		in.Components[0].Source = o.ID
		w.start(in)
		k := w.take(w.agents[0])
		k.fetch(w.engine.TaskSource, o.SHA256)
		k.fetch(func(ctx context.Context, a access.Actor, task, _ string) (engine.Object, io.ReadCloser, error) {
			return w.engine.TaskSource(ctx, a, task, "") // its newest attempt of the task
		}, o.SHA256)
		if _, _, err := w.engine.TaskPlanFile(t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID); fault.Code(err) != "plan_not_found" {
			t.Errorf("a plan's plan file: %v, want plan_not_found", err)
		}
	})
}
