package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// Nothing that was under way when the backup was made goes on by itself; what waits for a person still does.
func TestAfterRestoreNothingGoesOnByItself(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		stack := func(name string) {
			w.putStack(engine.PutStack{Name: name, Hold: true, Approval: run.Always})
		}
		for _, name := range []string{"waiting", "planning", "offered", "lost", "ready"} {
			stack(name)
		}
		waiting := w.planTo(w.startRun("waiting"), oneReplace())
		w.wantStatus(waiting.ID, run.AwaitingApproval)
		// Approved, and an agent applies; another run is behind it.
		lost := w.planTo(w.startRun("lost"), oneChange())
		must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, lost.ID, lost.PlanDigest))
		applying := w.take(w.agents[0])
		w.ok(w.engine.LockState(t.Context(), applying.token, applying.work.State, state.LockInfo{ID: "tofu-lock"}))
		behind := w.start(w.startRun("lost"))
		planning := w.start(w.startRun("planning"))
		w.take(w.agents[0])
		offered := w.start(w.startRun("offered"))
		if _, found := w.claim(w.agents[1]); !found {
			t.Fatal("no task to offer")
		}
		w.ok(w.engine.LockState(t.Context(), w.alice, "by-hand", state.LockInfo{ID: "alices"}))
		// Approved, and nobody applies yet.
		ready := w.planTo(w.startRun("ready"), oneChange())
		must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, ready.ID, ready.PlanDigest))
		w.wantStatus(ready.ID, run.Applying)

		w.restart()
		r := engine.Restored{Backup: "bak_1", TakenAt: w.clock.Now()}
		report := must[engine.RestoreReport](t)(w.engine.AfterRestore(t.Context(), r))

		if got := w.wantStatus(lost.ID, run.Failed); got.Class != run.ClassLost || !got.PartialApply {
			t.Errorf("the apply that was at work ended as %s, partial %t, want lost and maybe partial", got.Class, got.PartialApply)
		}
		if got := w.wantStatus(ready.ID, run.Discarded); !got.PartialApply || !strings.Contains(got.Message, "restored") {
			t.Errorf("the approved apply ended with partial %t, %q; nobody knows whether it was done after the backup", got.PartialApply, got.Message)
		}
		w.wantStatus(behind.ID, run.Cancelled)
		w.wantStatus(planning.ID, run.Discarded)
		w.wantStatus(offered.ID, run.Discarded)
		if report.AttemptsLost != 2 || len(report.Ended) != 5 || len(report.Waiting) != 1 || report.Waiting[0].ID != waiting.ID {
			t.Errorf("the report has %d attempts lost, %d runs ended, %d waiting; want 2, 5 and the one that waits", report.AttemptsLost, len(report.Ended), len(report.Waiting))
		}
		var locked []string
		for _, s := range report.Locked {
			locked = append(locked, s.Name+" "+s.Lock.Info.ID)
		}
		if want := []string{"by-hand alices", applying.work.State + " tofu-lock"}; !slices.Equal(locked, want) {
			t.Errorf("locked are %q, want %q: a tool may still run", locked, want)
		}
		if len(report.Held) != 1 || report.Held[0].Hold.Run != waiting.ID {
			t.Errorf("held are %+v, want the state of the run that waits", report.Held)
		}
		for _, agent := range w.agents {
			if o, found := w.claim(agent); found {
				t.Errorf("agent %s is offered task %s", agent.Name, o.Task)
			}
		}
		if got := w.audited("bak_1"); !slices.Equal(got, []string{"admin.restored"}) {
			t.Errorf("the audit log has %q of the backup", got)
		}
		checkAttemptsLock(w, applying)
		again := must[engine.RestoreReport](t)(w.engine.AfterRestore(t.Context(), r))
		if again.AttemptsLost != 0 || len(again.Ended) != 0 || len(again.Waiting) != 1 || len(w.audited("bak_1")) != 1 {
			t.Errorf("again: %d lost, %d ended, %d waiting, %d records", again.AttemptsLost, len(again.Ended), len(again.Waiting), len(w.audited("bak_1")))
		}

		// The one that waits is as it was: the plan that was approved is what is applied.
		must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, waiting.ID, waiting.PlanDigest))
		w.take(w.agents[0]).applied()
		w.wantStatus(waiting.ID, run.Succeeded)
		w.checkEnded(w.run(waiting.ID))
		verdict := must[engine.AuditVerdict](t)(w.engine.VerifyAudit(t.Context(), w.alice, report.Chains[0].Anchor))
		if verdict.BrokenAt != 0 || report.Names[0] != engine.DefaultOrganization {
			t.Errorf("the audit log of %s is broken at %d: %s", report.Names[0], verdict.BrokenAt, verdict.Reason)
		}
	})
}

// checkAttemptsLock sees that the lock of a lost apply has its grace, and no more.
func checkAttemptsLock(w *runWorld, k *worker) {
	w.t.Helper()
	take := func() error {
		return w.engine.LockState(w.t.Context(), w.alice, k.work.State, state.LockInfo{ID: "alice-too"})
	}
	if err := take(); err == nil {
		w.t.Error("the lock of an apply that may still run was given to another one at once")
	}
	w.clock.move(11 * time.Minute)
	w.ok(take())
	w.ok(w.engine.UnlockState(w.t.Context(), w.alice, k.work.State, engine.UnlockRequest{ID: "alice-too"}))
}

// A restore record is needed of every organization, the ones without runs too.
func TestAfterRestoreIsRecordedInEachOrganization(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		if _, err := w.stranger(); err != nil {
			t.Fatal(err)
		}
		report := must[engine.RestoreReport](t)(w.engine.AfterRestore(t.Context(), engine.Restored{Backup: "bak_2"}))
		if want := []string{engine.DefaultOrganization, "others"}; !slices.Equal(report.Names, want) || len(report.Chains) != 2 {
			t.Errorf("recorded in %q, want %q", report.Names, want)
		}
	})
}
