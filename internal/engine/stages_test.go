package engine_test

import (
	"slices"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
)

func TestStagesAreThoseOfTheReport(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop"})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	w.ok(k.deliverPlan())
	if got := engine.Stages(w.view(r.ID).Attempts[0]); len(got) != 0 {
		t.Errorf("Stages before the report = %v, want none", got)
	}
	want := []engine.StageTime{{Stage: "init", Milliseconds: 90, Tool: 80}, {Stage: "plan", Milliseconds: 300, Tool: 250}}
	if _, err := k.report(engine.Report{Outcome: "succeeded", Stages: want}); err != nil {
		t.Fatal(err)
	}
	if got := engine.Stages(w.view(r.ID).Attempts[0]); !slices.Equal(got, want) {
		t.Errorf("Stages = %v, want %v", got, want)
	}
}
