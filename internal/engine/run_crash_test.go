package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// crashWorld is a world whose store fails once. Whoever was asking asks again, of a server that was started anew on the
// same rows; that is all that anybody may have to do.
func crashWorld(t *testing.T, db closer) (*runWorld, *breakable) {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &breakable{Store: db}
	return worldOn(t, b), b
}

// insist repeats do, after a restart and a sweep, until the server has answered.
func (w *runWorld) insist(do func() error) {
	w.t.Helper()
	for range 3 {
		err := do()
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Unavailable) {
			w.t.Fatalf("unexpected: %v", err)
		}
		w.restart()
		w.insistentSweep()
	}
	w.t.Fatal("the server does not come back")
}

func (w *runWorld) insistentSweep() {
	w.t.Helper()
	for range 3 {
		err := w.engine.Sweep(w.t.Context())
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Unavailable) {
			w.t.Fatalf("unexpected: %v", err)
		}
	}
	w.t.Fatal("the sweep does not come through")
}

// insistentTake is take, where the answer to a claim may have been lost: its offer goes back by itself.
func (w *runWorld) insistentTake() *worker {
	w.t.Helper()
	for range 4 {
		var o engine.Offer
		var ok bool
		w.insist(func() (err error) {
			o, ok, err = w.engine.Claim(w.t.Context(), w.agents[0], engine.Claim{})
			return err
		})
		if ok {
			k := &worker{w: w, agent: w.agents[0], view: oneReplace(), plan: "plan file", doc: document(1, "applied")}
			w.insist(func() (err error) {
				k.work, err = w.engine.Accept(w.t.Context(), k.agent, o.Task, o.Attempt)
				return err
			})
			w.insist(func() (err error) {
				k.token, err = w.engine.Authenticate(w.t.Context(), k.work.Token)
				return err
			})
			return k
		}
		w.clock.move(11 * time.Second)
		w.insistentSweep()
	}
	w.t.Fatal("there is no task")
	return nil
}

// wholeRun is a run from its start to its end, with another one waiting behind it.
func wholeRun(w *runWorld) (first, second string) {
	start := func(key string) (id string) {
		in := w.startRun("shop")
		in.Key = key
		w.insist(func() error {
			v, err := w.engine.StartRun(w.t.Context(), w.alice, in)
			id = v.Run.ID
			return err
		})
		return id
	}
	first, second = start("first"), start("second")
	k := w.insistentTake()
	w.insist(func() error { return k.lockAndPlan() })
	w.insist(func() error {
		_, err := w.engine.Report(w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Report{Outcome: "succeeded"})
		return err
	})
	digest := w.run(first).PlanDigest
	w.insist(func() error {
		_, err := w.engine.Approve(w.t.Context(), w.alice, first, digest)
		return err
	})
	k = w.insistentTake()
	w.insist(func() error {
		_, err := w.engine.Heartbeat(w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Heartbeat{Stage: "apply"})
		return err
	})
	w.insist(func() error {
		_, err := w.engine.AppendLogs(w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, []run.LogChunk{{Seq: 0, Text: "applying\n"}})
		return err
	})
	k.saveInsisting()
	w.insist(func() error {
		_, err := w.engine.Report(w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Report{Outcome: "succeeded"})
		return err
	})
	return first, second
}

func (k *worker) lockAndPlan() error {
	lock := "lock-" + k.work.Attempt.ID
	if err := writeState(k.ctx(), k.w.engine, k.token, k.work.State, lock, "", engine.UnlockRequest{ID: lock}); err != nil {
		return err
	}
	return k.deliverOnce()
}

func (k *worker) deliverOnce() error {
	if _, err := k.w.engine.PutPlanFile(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, reader(k.plan)); err != nil {
		return err
	}
	return k.w.engine.TakePlan(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, k.made())
}

// saveInsisting is what tofu does with the state during an apply; it repeats each request by itself.
func (k *worker) saveInsisting() {
	k.w.t.Helper()
	lock := "lock-" + k.work.Attempt.ID
	k.w.insist(func() error {
		return k.w.engine.LockState(k.ctx(), k.token, k.work.State, state.LockInfo{ID: lock, Operation: "OperationTypeApply"})
	})
	k.w.insist(func() error {
		_, err := k.w.engine.WriteState(k.ctx(), k.token, k.work.State, engine.StateWrite{LockID: lock, Size: int64(len(k.doc)), Body: reader(k.doc)})
		return err
	})
	k.w.insist(func() error {
		return k.w.engine.UnlockState(k.ctx(), k.token, k.work.State, engine.UnlockRequest{ID: lock})
	})
}

// The server dies at every transaction in turn, once before its commit and once after it: the run ends as if nothing
// had happened.
func TestCrashAtEveryTransaction(t *testing.T) {
	onBothStores(t, func(t *testing.T, open func(testing.TB) closer, every int) {
		w, b := crashWorld(t, open(t))
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always, Hold: true})
		before := b.updates
		wholeRun(w)
		total := b.updates - before
		if total < 10 {
			t.Fatalf("a whole run took %d transactions", total)
		}
		t.Logf("a whole run takes %d transactions", total)
		for _, after := range []bool{false, true} {
			for at := 1; at <= total; at += every {
				t.Run(fmt.Sprintf("transaction %d, committed %t", at, after), func(t *testing.T) {
					w, b := crashWorld(t, open(t))
					w.putStack(engine.PutStack{Name: "shop", Approval: run.Always, Hold: true})
					b.at, b.after = b.updates+at, after
					first, second := wholeRun(w)
					w.checkWhole(first, second)
				})
			}
		}
	})
}

func onBothStores(t *testing.T, test func(t *testing.T, open func(testing.TB) closer, every int)) {
	t.Run("sqlite", func(t *testing.T) { test(t, openSQLite, 1) })
	t.Run("postgres", func(t *testing.T) { test(t, openPostgres, 4) })
}

func (w *runWorld) checkWhole(first, second string) {
	w.t.Helper()
	r := w.wantStatus(first, run.Succeeded)
	w.insistentSweep()
	if next := w.run(second); next.Status != run.Planning {
		w.t.Errorf("the run behind it is %s, want it to plan", next.Status)
	}
	if p := r.Components[0].Plan; p.Object != "" {
		w.t.Error("the plan file was kept")
	}
	s := w.state("shop.main")
	if s.Versions != 1 || s.Lock != nil || s.Hold != nil {
		w.t.Errorf("the state has %d versions, lock %+v, hold %+v", s.Versions, s.Lock, s.Hold)
	}
	accepted := map[run.TaskKind]int{}
	for _, a := range w.view(first).Attempts {
		if !a.Status.Final() {
			w.t.Errorf("an attempt is still %s", a.Status)
		}
		if !a.AcceptedAt.IsZero() {
			accepted[a.TaskKind]++
		}
	}
	if accepted[run.TaskPlan] != 1 || accepted[run.TaskApply] != 1 {
		w.t.Errorf("accepted attempts: %v, want one of each", accepted)
	}
	events, _, err := w.engine.Events(w.t.Context(), w.alice, first, 0, 500)
	w.ok(err)
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Type)
	}
	want := []string{
		"run.started", "run.planning", "task.accepted", "task.succeeded", "run.planned", "run.awaiting_approval", "run.approved",
		"run.applying", "task.accepted", "task.succeeded", "run.succeeded",
	}
	if !slices.Equal(kinds, want) {
		w.t.Errorf("events\n got %q\nwant %q", kinds, want)
	}
	if got := w.audited(first); !slices.Equal(got, []string{"run.start", "run.approve"}) {
		w.t.Errorf("audited: %q", got)
	}
}
