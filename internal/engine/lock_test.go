package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// W3, L04: verbs repeated after a lost answer do nothing again and nothing to others.
func TestL04RepeatedLockAndUnlock(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		s.mustLock(t, ann, "net", "A")
		taken := s.view(t, "net").Lock
		again := ann
		again.Token = "tok_other" // a user's holder is the user, whichever token
		s.mustLock(t, again, "net", "A")
		if now := s.view(t, "net").Lock; now.Key != taken.Key {
			t.Errorf("the repeat took the lock again: %s, then %s", taken.Key, now.Key)
		}
		s.mustUnlock(t, ann, "net", "A")
		s.mustUnlock(t, ann, "net", "A")
		s.mustLock(t, ben, "net", "B")
		wantRefused(t, "the late unlock", s.UnlockState(t.Context(), ann, "net", engine.UnlockRequest{ID: "A"}), "other_lock")
		if l := s.view(t, "net").Lock; l == nil || l.Info.ID != "B" {
			t.Errorf("the late unlock freed the newer lock: %+v", l)
		}
	})
}

// L01: the bodies of both tools' force-unlock, from an administrator, an operator, and a step of a run.
func TestL01ForceUnlock(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben, eve := s.user("ann", access.Operator), s.user("ben", access.Operator), s.user("eve", access.Admin)
		w := s.newWork(t, "net", false)
		_, attempt := w.attempt(t, run.TaskApply)
		s.mustLock(t, ann, "net", "A")
		unlock := func(a access.Actor, lockID string) error {
			return s.UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: lockID})
		}
		wantRefused(t, "(a) an operator", unlock(ben, ""), "force_needs_manage")
		wantRefused(t, "(a) a step", unlock(attempt, ""), "attempt_may_not_force")
		wantRefused(t, "(b) an operator", unlock(ben, "A"), "force_needs_manage")
		wantRefused(t, "(b) a step", unlock(attempt, "A"), "attempt_may_not_force")
		wantRefused(t, "(c) an administrator", unlock(eve, "C"), "other_lock")
		if s.view(t, "net").Lock == nil {
			t.Fatal("a refused unlock released the lock")
		}
		if err := unlock(eve, "A"); err != nil {
			t.Fatalf("(b) an administrator: %v", err)
		}
		s.mustLock(t, ann, "net", "A2")
		if err := unlock(eve, ""); err != nil {
			t.Fatalf("(a) an administrator: %v", err)
		}
		s.mustLock(t, ann, "net", "A3")
		if v, err := s.ForceUnlock(t.Context(), eve, "net", engine.UnlockRequest{Reason: "ann is on holiday"}); err != nil || v.Lock != nil {
			t.Fatalf("the action: lock %+v, %v", v.Lock, err)
		}
		if got := s.audited(t, "net"); got != "force_unlock force_unlock force_unlock" {
			t.Errorf("audited %q, want each forced release", got)
		}
		s.mustLock(t, ann, "net", "A4")
		if err := unlock(ann, "A4"); err != nil {
			t.Errorf("an unlock by the holder: %v", err)
		}
		if got := s.audited(t, "net"); strings.Count(got, "force_unlock") != 3 {
			t.Errorf("audited %q: releasing one's own lock is no force", got)
		}
	})
}

// L01: a force unlock of one's own lock is one: audited with its reason, and what the tool that had the lock saves
// later is kept. An unlock in the ordinary way is neither.
func TestL01ForceUnlockOfOnesOwnLock(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		for name, force := range map[string]func(name string) error{
			"by-route": func(name string) error {
				_, err := s.ForceUnlock(t.Context(), eve, name, engine.UnlockRequest{Reason: "the laptop is gone"})
				return err
			},
			"by-id": func(name string) error {
				return s.UnlockState(t.Context(), eve, name, engine.UnlockRequest{ID: "A", Force: true})
			},
			"by-empty": func(name string) error {
				return s.UnlockState(t.Context(), eve, name, engine.UnlockRequest{Force: true})
			},
		} {
			s.mustLock(t, eve, name, "A")
			if err := force(name); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := s.audited(t, name); got != "force_unlock" {
				t.Errorf("%s: audited %q, want the force unlock", name, got)
			}
			_, err := s.WriteState(t.Context(), eve, name, write("A", doc(1, "l", "late")))
			wantRefused(t, name+": the late save", err, "lock_lost")
			if got := s.versions(t, name); got != "q1:1" {
				t.Errorf("%s: versions %q, want the late save kept aside", name, got)
			}
		}
		records, _, err := s.Audit(t.Context(), eve, engine.AuditFilter{Action: "state.force_unlock", Object: "by-route"}, engine.Page{Limit: 1})
		if err != nil || len(records) != 1 || !strings.Contains(string(records[0].Data), "the laptop is gone") {
			t.Errorf("the reason is not in the audit log: %+v, %v", records, err)
		}
		s.mustLock(t, ann, "operator", "A")
		if err := s.UnlockState(t.Context(), ann, "operator", engine.UnlockRequest{ID: "A", Force: true}); err != nil {
			t.Errorf("one's own lock needs no permission to force: %v", err)
		}
		s.mustLock(t, ann, "ordinary", "A")
		s.mustUnlock(t, ann, "ordinary", "A")
		_, err = s.WriteState(t.Context(), ann, "ordinary", write("A", doc(1, "l", "late")))
		wantRefused(t, "a save after an ordinary unlock", err, "lock_lost")
		if audited, versions := s.audited(t, "ordinary"), s.versions(t, "ordinary"); audited != "" || versions != "" {
			t.Errorf("after an ordinary unlock: audited %q, versions %q; want nothing", audited, versions)
		}
	})
}

// A run that holds has the state from its plan's lock to its apply's unlock, and nobody else does.
func TestHoldFromPlanToApply(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", true)
		_, planner := w.attempt(t, run.TaskPlan)
		_, applier := w.attempt(t, run.TaskApply)
		w.planned(t, "")
		s.mustLock(t, planner, "net", "P")
		s.mustUnlock(t, planner, "net", "P")
		if h := s.view(t, "net").Hold; h == nil || h.Run != w.run.ID {
			t.Fatalf("after the plan: hold %+v, want the run's", h)
		}
		err := s.LockState(t.Context(), ann, "net", lockInfo("A"))
		wantRefused(t, "another's lock", err, "state_locked")
		if d, ok := fault.From(err).Detail.(state.LockInfo); !ok || d.ID != "hold-"+w.run.ID {
			t.Errorf("the conflict shows %+v, want the hold", fault.From(err).Detail)
		}
		_, err = s.WriteState(t.Context(), ann, "net", write("", doc(1, "l", "v")))
		wantRefused(t, "another's write", err, "state_locked")
		s.mustLock(t, applier, "net", "Q")
		s.mustWrite(t, applier, "net", "Q", doc(1, "l", "v"))
		s.mustUnlock(t, applier, "net", "Q")
		if h := s.view(t, "net").Hold; h != nil {
			t.Fatalf("after the apply: hold %+v", h)
		}
		s.save(t, ann, "net", "A", doc(2, "l", "v"))
	})
}

// A hold outlives the apply's own unlock when what it did was not saved.
func TestHoldStaysWhenASaveFailed(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		for name, failed := range map[string]func(a access.Actor, name string) engine.UnlockRequest{
			"refused": func(a access.Actor, name string) engine.UnlockRequest {
				_, err := s.WriteState(t.Context(), a, name, write("Q", doc(1, "another", "v")))
				wantRefused(t, "the save", err, "other_lineage")
				return engine.UnlockRequest{ID: "Q"}
			},
			"undelivered": func(access.Actor, string) engine.UnlockRequest { return engine.UnlockRequest{ID: "Q", Unsaved: true} },
		} {
			w := s.newWork(t, name, true)
			v := s.save(t, ann, name, "A", doc(1, "l", "v"))
			_, planner := w.attempt(t, run.TaskPlan)
			_, applier := w.attempt(t, run.TaskApply)
			w.planned(t, v.SHA256)
			s.mustLock(t, planner, name, "P")
			s.mustUnlock(t, planner, name, "P")
			s.mustLock(t, applier, name, "Q")
			request := failed(applier, name)
			for range 2 { // the first answer was lost
				if err := s.UnlockState(t.Context(), applier, name, request); err != nil {
					t.Fatalf("%s: unlock: %v", name, err)
				}
			}
			if got := s.view(t, name); got.Lock != nil || got.Hold == nil {
				t.Errorf("%s: lock %+v, hold %+v; want the lock released and the hold kept", name, got.Lock, got.Hold)
			}
			s.mustUnlock(t, eve, name, "hold-"+w.run.ID)
			if s.view(t, name).Hold != nil {
				t.Errorf("%s: the hold's id did not end it", name)
			}
		}
	})
}

func TestHoldEndsWithItsRunOnly(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		w := s.newWork(t, "net", true)
		_, planner := w.attempt(t, run.TaskPlan)
		s.mustLock(t, planner, "net", "P")
		end := func(runID string) {
			s.update(t, func(ctx context.Context, tx engine.Tx) error { return s.EndHold(ctx, tx, w.state.ID, runID) })
		}
		end("run_other")
		if s.view(t, "net").Hold == nil {
			t.Fatal("another run ended the hold")
		}
		end(w.run.ID)
		end(w.run.ID)
		if v := s.view(t, "net"); v.Hold != nil || v.Lock == nil {
			t.Errorf("lock %+v, hold %+v; want the hold ended and the lock left alone", v.Lock, v.Hold)
		}
	})
}

// Promise 1: the apply's lock is refused unless the state is what was approved, byte for byte.
func TestApplyLocksOnlyWhatWasApproved(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", false)
		_, applier := w.attempt(t, run.TaskApply)
		lock := func(a access.Actor) error { return s.LockState(t.Context(), a, "net", lockInfo("Q")) }
		wantRefused(t, "no plan", lock(applier), "no_plan")
		w.planned(t, "")
		s.mustLock(t, applier, "net", "Q")
		s.mustWrite(t, applier, "net", "Q", doc(1, "l", "v"))
		s.mustLock(t, applier, "net", "Q") // a repeat, after its own first save
		s.mustUnlock(t, applier, "net", "Q")
		wantRefused(t, "planned on nothing, but there is a state now", lock(applier), "state_moved")

		base := s.view(t, "net").Head.SHA256
		w.planned(t, base)
		s.save(t, ann, "net", "A", doc(2, "l", "v"))
		err := lock(applier)
		wantRefused(t, "the state moved", err, "state_moved")
		if f := fault.From(err); f.Kind == fault.Conflict || f.Kind == fault.Locked {
			t.Errorf("refused as %s: the tools would take it for a lock and wait", f.Kind)
		}
		_, planner := w.attempt(t, run.TaskPlan)
		if err := lock(planner); err != nil {
			t.Errorf("a plan's lock: %v", err)
		}
	})
}

// L08: what is known of the holder, and when its lock can be taken over.
func TestL08HoldersLife(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.mustLock(t, ann, "of-a-person", "A")
		if l := s.view(t, "of-a-person").Life; l.Alive != "unknown" || l.Evidence == "" || l.Dead {
			t.Errorf("a person: %+v, want unknown with the reason", l)
		}
		w := s.newWork(t, "net", false)
		attempt, actor := w.attempt(t, run.TaskPlan)
		s.mustLock(t, actor, "net", "P")
		want := func(what, alive string, dead bool) {
			t.Helper()
			if l := s.view(t, "net").Life; l.Alive != alive || l.Dead != dead || l.Evidence == "" {
				t.Errorf("%s: %+v, want %s, dead %t", what, l, alive, dead)
			}
		}
		want("just heard of", "yes", false)
		s.advance(2*time.Minute + time.Second)
		want("silent", "unknown", false)
		w.set(t, &attempt, run.AttemptLost)
		want("lost", "unknown", false)
		wantRefused(t, "a lock in the grace", s.LockState(t.Context(), ann, "net", lockInfo("B")), "state_locked")
		s.mustWrite(t, actor, "net", "P", `{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}`)
		s.advance(grace - time.Second)
		want("nearly over", "unknown", false)
		s.advance(time.Second)
		want("the grace is over", "no", true)
		s.mustLock(t, ann, "net", "B")
		if got := s.audited(t, "net"); strings.Contains(got, "force") {
			t.Errorf("audited %q: taking over is no force", got)
		}
	})
}

// A stale lock is one whose holder is gone or not known to live. Pages of them are filled over those that live.
func TestStaleLocksAreListed(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, viewer := s.user("ann", access.Operator), s.user("vic", access.Viewer)
		list := func(limit int) (got []string) {
			t.Helper()
			for p := (engine.Page{Limit: limit}); ; {
				items, next, err := s.States(t.Context(), viewer, engine.StateFilter{Stale: true}, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range items {
					got = append(got, v.Name)
				}
				if p.Cursor = next; next == "" {
					return got
				}
			}
		}
		s.save(t, ann, "free", "A", doc(1, "l", "v"))
		for _, name := range []string{"a-of-a-person", "z-of-a-person"} {
			s.mustLock(t, ann, name, "A")
		}
		_, first := s.newWork(t, "m-of-a-run", false).attempt(t, run.TaskPlan)
		_, second := s.newWork(t, "n-of-a-run", false).attempt(t, run.TaskPlan)
		s.mustLock(t, first, "m-of-a-run", "P")
		s.mustLock(t, second, "n-of-a-run", "P")
		for _, limit := range []int{1, 2, 100} {
			if got := list(limit); !slices.Equal(got, []string{"a-of-a-person", "z-of-a-person"}) {
				t.Errorf("%d a page: %q, want those of whom nobody knows", limit, got)
			}
		}
		s.advance(2*time.Minute + time.Second)
		if got := list(2); !slices.Equal(got, []string{"a-of-a-person", "m-of-a-run", "n-of-a-run", "z-of-a-person"}) {
			t.Errorf("silent: %q, want the runs' too", got)
		}
	})
}

// A forced release that names a lock or a hold leaves the other alone, and a newer lock too.
func TestForceUnlockByID(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		eve := s.user("eve", access.Admin)
		w := s.newWork(t, "net", true)
		_, planner := w.attempt(t, run.TaskPlan)
		s.mustLock(t, planner, "net", "P")
		_, err := s.ForceUnlock(t.Context(), eve, "net", engine.UnlockRequest{ID: "older", Reason: "r"})
		wantRefused(t, "an older lock", err, "other_lock")
		v, err := s.ForceUnlock(t.Context(), eve, "net", engine.UnlockRequest{ID: "P", Reason: "r"})
		if err != nil || v.Lock != nil || v.Hold == nil {
			t.Fatalf("by the lock's id: lock %+v, hold %+v, %v; want the hold alone left", v.Lock, v.Hold, err)
		}
		if v, err = s.ForceUnlock(t.Context(), eve, "net", engine.UnlockRequest{ID: v.Hold.ID(), Reason: "r"}); err != nil || v.Hold != nil {
			t.Fatalf("by the hold's id: hold %+v, %v", v.Hold, err)
		}
		if got := s.audited(t, "net"); got != "force_unlock force_unlock" {
			t.Errorf("audited %q, want both", got)
		}
	})
}

// A lost attempt may save until another one is at work; then its lock is the other's to take.
func TestRetryTakesTheLostAttemptsLock(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", false)
		first, one := w.attempt(t, run.TaskPlan)
		s.mustLock(t, one, "net", "P")
		w.set(t, &first, run.AttemptLost)
		wantRefused(t, "a person, in the grace", s.LockState(t.Context(), ann, "net", lockInfo("A")), "state_locked")
		_, two := w.attempt(t, run.TaskPlan)
		s.mustLock(t, two, "net", "P2")
		wantRefused(t, "the first one's clean-up", s.UnlockState(t.Context(), one, "net", engine.UnlockRequest{ID: "P"}), "other_lock")
		if l := s.view(t, "net").Lock; l == nil || l.Holder.ID != two.ID {
			t.Errorf("the lock is %+v, want the second attempt's", l)
		}
	})
}

// An attempt that has ended holds nothing: for a write, and by releaseAttemptLock for its own lock only.
func TestEndedAttemptHoldsNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", false)
		w.planned(t, "")
		first, one := w.attempt(t, run.TaskApply)
		second, two := w.attempt(t, run.TaskApply)
		release := func(a run.Attempt) {
			s.update(t, func(ctx context.Context, tx engine.Tx) error { return s.ReleaseAttemptLock(ctx, tx, a) })
		}
		s.mustLock(t, one, "net", "P")
		release(second)
		if s.view(t, "net").Lock == nil {
			t.Fatal("another attempt's end released the lock")
		}
		release(first)
		release(first)
		if l := s.view(t, "net").Lock; l != nil {
			t.Fatalf("the lock stayed: %+v", l)
		}
		s.mustLock(t, two, "net", "Q")
		w.set(t, &second, run.AttemptFailed)
		s.mustWrite(t, ann, "net", "", doc(1, "l", "v"))
		if l := s.view(t, "net").Lock; l != nil {
			t.Errorf("the write left the dead lock: %+v", l)
		}
	})
}

// L12: the last save of a holder whose token has ended is kept; the token opens nothing else.
func TestL12SaveWithAnEndedToken(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		w := s.newWork(t, "net", false)
		w.planned(t, "")
		_, a := w.attempt(t, run.TaskApply)
		_, stranger := w.attempt(t, run.TaskApply)
		s.mustLock(t, a, "net", "P")
		s.mustWrite(t, a, "net", "P", doc(1, "l", "v"))
		a.TokenDead, stranger.TokenDead = true, true
		_, err := s.ReadState(t.Context(), a, "net")
		wantRefused(t, "read", err, "token_expired")
		wantRefused(t, "lock", s.LockState(t.Context(), a, "net", lockInfo("P")), "token_expired")
		wantRefused(t, "unlock", s.UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: "P"}), "token_expired")
		_, err = s.WriteState(t.Context(), stranger, "net", write("P", doc(9, "l", "x")))
		wantRefused(t, "the write of one that never held the lock", err, "token_expired")
		s.mustWrite(t, a, "net", "P", doc(1, "l", "v")) // stored already
		_, err = s.WriteState(t.Context(), a, "net", write("P", doc(2, "l", "last")))
		wantRefused(t, "the last save", err, "token_ended")
		if got := s.versions(t, "net"); got != "q2:2 1:1" {
			t.Errorf("versions %q, want the last save kept aside: q2:2 1:1", got)
		}
	})
}

// One holder at a time, whoever asks, from two servers on one database, with a first lock that makes the state.
func TestOneHolderUnderContention(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		servers := []*engine.Engine{s.Engine, s.server(t)}
		var holders, taken atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				a, e := s.user(fmt.Sprint("user", i), access.Operator), servers[i%2]
				for round := range 10 {
					lockID := fmt.Sprintf("%d-%d", i, round)
					err := e.LockState(t.Context(), a, "net", lockInfo(lockID))
					if err != nil {
						if !fault.Is(err, fault.Locked) {
							t.Errorf("lock: %v, want taken or locked", err)
						}
						if d, ok := fault.From(err).Detail.(state.LockInfo); !ok || d.ID == "" || d.ID == lockID {
							t.Errorf("the conflict shows %+v, want the holder's lock", fault.From(err).Detail)
						}
						continue
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					taken.Add(1)
					holders.Add(-1)
					if err := e.UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: lockID}); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if taken.Load() == 0 {
			t.Error("nobody ever got the lock")
		}
	})
}
