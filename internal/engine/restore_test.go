package engine_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
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
		verdict := must[engine.AuditVerdict](t)(w.engine.VerifyAudit(t.Context(), w.alice, report.Organizations[0].Anchor))
		if verdict.BrokenAt != 0 || report.Organizations[0].Name != engine.DefaultOrganization {
			t.Errorf("the audit log of %s is broken at %d: %s", report.Organizations[0].Name, verdict.BrokenAt, verdict.Reason)
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
		var names []string
		for _, o := range report.Organizations {
			names = append(names, o.Name)
		}
		if want := []string{engine.DefaultOrganization, "others"}; !slices.Equal(names, want) {
			t.Errorf("recorded in %q, want %q", names, want)
		}
	})
}

// A run that waited for its approval when the backup was made is approved and applied on another database: the plan file,
// the source and the state's head came along, byte for byte.
func TestRestoredRunIsApproved(t *testing.T) {
	for name, c := range map[string]struct {
		from func(testing.TB) closer
		to   func(testing.TB) (attach, open func() (*store.Store, error))
	}{
		"sqlite to postgres": {openSQLite, func(t testing.TB) (attach, open func() (*store.Store, error)) {
			o := postgres.Options{URL: pgtest.New(t), Logger: slog.New(slog.DiscardHandler)}
			return func() (*store.Store, error) { return postgres.Attach(t.Context(), o) }, func() (*store.Store, error) { return postgres.Open(t.Context(), o) }
		}},
		"postgres to sqlite": {openPostgres, func(t testing.TB) (attach, open func() (*store.Store, error)) {
			path := filepath.Join(t.TempDir(), "restored.db")
			return func() (*store.Store, error) { return sqlite.Attach(t.Context(), path) }, func() (*store.Store, error) { return sqlite.Open(t.Context(), path) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunWorld(t, c.from(t))
			w.personWrites("shop.main", 1)
			w.putStack(engine.PutStack{Name: "shop", Hold: true, Approval: run.Always})
			r := w.planTo(w.startRun("shop"), oneReplace())
			w.wantStatus(r.ID, run.AwaitingApproval)
			attach, open := c.to(t)
			restored := moved(t, w, attach, open)
			w.config.Store, w.store = restored, restored
			w.restart()
			report := must[engine.RestoreReport](t)(w.engine.AfterRestore(t.Context(), engine.Restored{Backup: "bak_1"}))
			if len(report.Waiting) != 1 {
				t.Fatalf("%d runs wait, want the one", len(report.Waiting))
			}
			must[engine.RunView](t)(w.engine.Approve(t.Context(), w.alice, r.ID, r.PlanDigest))
			k := w.take(w.agents[1])
			k.doc = document(2, "applied")
			k.applied()
			w.wantStatus(r.ID, run.Succeeded)
			if got := w.state("shop.main"); got.Head.Number != 2 || got.Hold != nil {
				t.Errorf("after the apply the state is at version %d, held %v", got.Head.Number, got.Hold)
			}
		})
	}
}

// moved backs the world's store up and restores it.
func moved(t *testing.T, w *runWorld, attach, open func() (*store.Store, error)) *store.Store {
	t.Helper()
	var file bytes.Buffer
	from, ok := w.store.(*store.Store)
	if !ok {
		t.Fatalf("the store is a %T", w.store)
	}
	_, _, err := from.Backup(t.Context(), store.BackupOptions{ID: "bak_1", CreatedAt: w.clock.Now(), Version: "1.2.3"}, &file)
	w.ok(err)
	whole, err := backup.Verify(bytes.NewReader(file.Bytes()), func(int64) error { return nil })
	w.ok(err)
	into := must[*store.Store](t)(attach())
	w.ok(into.Restore(t.Context(), bytes.NewReader(file.Bytes()), store.RestoreOptions{Backup: whole, Owner: "test"}))
	w.ok(into.AfterRestore(t.Context()))
	w.ok(into.Close())
	restored := must[*store.Store](t)(open())
	t.Cleanup(func() {
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	})
	return restored
}
