package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// S12: whoever plans on a state that nears the limit is told before the save that would be refused.
func TestS12PlanWarnsNearTheLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		var log safeBuffer
		w.config.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.config.Limits.StateMaxBytes = 10_000
		w.restart()
		for size, warns := range map[int]bool{8000: false, 8001: true} {
			name := fmt.Sprint("shop-", size)
			w.putStack(engine.PutStack{Name: name})
			doc := document(1, "v")
			doc += strings.Repeat(" ", size-len(doc))
			w.ok(writeState(t.Context(), w.engine, w.alice, name+".main", "L", doc, engine.UnlockRequest{ID: "L"}))
			r := w.start(w.startRun(name))
			w.take(w.agents[0])
			events, _, err := w.engine.Events(t.Context(), w.alice, r.ID, 0, 100)
			w.ok(err)
			told := ""
			for _, e := range events {
				if e.Type == "state.near_limit" {
					told += e.Level + " " + e.Text
				}
			}
			text := fmt.Sprintf("its state %s.main has %d bytes, more than 80 %% of the 10000", name, size)
			if got := strings.Contains(told, text) && strings.HasPrefix(told, "WARN"); got != warns || !warns && told != "" {
				t.Errorf("%d of 10000 bytes: the run is told %q", size, told)
			}
			if got := strings.Contains(log.String(), text); got != warns {
				t.Errorf("%d of 10000 bytes: warned in the log: %t, want %t", size, got, warns)
			}
		}
	})
}

// A state that nothing was ever stored in is listed as it is, is imported into as if it were not there, and goes like
// any other.
func TestEmptyStateIsListedAndGoes(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.mustLock(t, ann, "net", "A")
		s.mustUnlock(t, ann, "net", "A") // a plan that was never applied
		items, _, err := s.States(t.Context(), ann, engine.StateFilter{}, engine.Page{Limit: 10})
		if err != nil || len(items) != 1 || items[0].Head != nil || items[0].Versions != 0 || items[0].Lock != nil {
			t.Fatalf("listed as %+v, %v; want one state without a version", items, err)
		}
		if _, err := s.ImportState(t.Context(), ann, "net", engine.StateImport{StateWrite: write("", doc(1, "l", "v"))}); err != nil {
			t.Errorf("an import into it: %v", err)
		}
		s.mustLock(t, ann, "typo", "A")
		s.mustUnlock(t, ann, "typo", "A")
		s.mustDelete(t, "typo", true)
		s.gone(t, "typo")
	})
}

// L04: an unlock whose answer was lost is repeated; it is no error, and never frees the lock of whoever came next.
func TestL04UnlockAnswerLost(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		lost := func(a access.Actor, lockID string, force bool) error {
			c := &answerless{Store: s.store}
			err := s.serverOn(t, c).UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: lockID, Force: force})
			if !errors.Is(err, errLost) {
				t.Fatalf("%v, want the answer lost", err)
			}
			return s.UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: lockID, Force: force})
		}
		s.mustLock(t, ann, "net", "A")
		if err := lost(ann, "A", false); err != nil {
			t.Errorf("the repeat: %v", err)
		}
		s.mustLock(t, ben, "net", "B")
		for range 2 {
			wantRefused(t, "a late repeat", s.UnlockState(t.Context(), ann, "net", engine.UnlockRequest{ID: "A"}), "other_lock")
		}
		if l := s.view(t, "net").Lock; l == nil || l.Info.ID != "B" {
			t.Fatalf("the late repeat freed %+v", l)
		}
		if err := lost(s.user("eve", access.Admin), "B", true); err != nil {
			t.Errorf("the repeat of a force unlock: %v", err)
		}
		if got := s.audited(t, "net"); got != "force_unlock" {
			t.Errorf("audited %q, want the forced release once", got)
		}
	})
}

var errLost = errors.New("the answer was lost")

// answerless is a store that commits and then loses the connection.
type answerless struct{ engine.Store }

func (a *answerless) Update(ctx context.Context, fn func(engine.Tx) error) error {
	return errors.Join(a.Store.Update(ctx, fn), errLost)
}

// S01, W3: a lock and a save whose answers were lost, repeated.
func TestS01LockAndSaveAnswersLost(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		deaf := s.serverOn(t, &answerless{Store: s.store})
		if err := deaf.LockState(t.Context(), ann, "net", lockInfo("A")); !errors.Is(err, errLost) {
			t.Fatalf("lock: %v", err)
		}
		s.mustLock(t, ann, "net", "A")
		for i, document := range []string{doc(1, "l", "v"), doc(2, "l", strings.Repeat("large ", 100_000))} {
			if _, err := deaf.WriteState(t.Context(), ann, "net", write("A", document)); !errors.Is(err, errLost) {
				t.Fatalf("write: %v", err)
			}
			v := s.mustWrite(t, ann, "net", "A", document)
			if v.Number != 1 || v.Serial.N != uint64(i+1) {
				t.Errorf("the repeat gives version %d, serial %d", v.Number, v.Serial.N)
			}
			if got := s.read(t, ann, "net"); got != document {
				t.Errorf("other bytes are stored")
			}
		}
		s.mustUnlock(t, ann, "net", "A")
		if got := s.audited(t, "net"); got != "write write" {
			t.Errorf("audited %q, want two writes", got)
		}
	})
}

// L07: what a person locked stays theirs: others, a run's steps among them, neither write nor release it.
func TestL07HumanLockStays(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		w := s.newWork(t, "net", true)
		_, step := w.attempt(t, run.TaskPlan)
		s.mustLock(t, ann, "net", "A")
		for what, a := range map[string]access.Actor{"another": ben, "a step": step} {
			for _, lockID := range []string{"", "wrong", "A"} {
				_, err := s.WriteState(t.Context(), a, "net", write(lockID, doc(1, "l", "v")))
				wantRefused(t, what+" writes with "+lockID, err, "state_locked")
			}
			err := s.LockState(t.Context(), a, "net", lockInfo("S"))
			wantRefused(t, what+" locks", err, "state_locked")
			if f := fault.From(err); f.Kind != fault.Locked {
				t.Errorf("%s: refused as %s, which the tools do not wait for", what, f.Kind)
			}
		}
		_, err := s.WriteState(t.Context(), ann, "net", write("", doc(1, "l", "v")))
		wantRefused(t, "the holder, without the id", err, "state_locked")
		_, err = s.WriteState(t.Context(), ann, "net", write("wrong", doc(1, "l", "v")))
		wantRefused(t, "the holder, with a wrong id", err, "state_locked")
		s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		if v := s.view(t, "net"); v.Lock == nil || v.Lock.Info.ID != "A" || v.Hold != nil {
			t.Errorf("lock %+v, hold %+v; want ann's lock and nothing else", v.Lock, v.Hold)
		}
		s.mustUnlock(t, ann, "net", "A")
		s.mustLock(t, step, "net", "S")
	})
}

// L08: a run's worker is gone, and with it its agent: the lock says so, forcing it needs the permission and is
// recorded with its reason, and the apply is not begun again.
func TestL08OrphanedLock(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Never})
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		k.planned()
		k = w.take(w.agents[0])
		w.ok(w.engine.LockState(t.Context(), k.token, "shop.main", lockInfo("Q")))
		life := func() engine.StateView {
			return must[engine.StateView](t)(w.engine.State(t.Context(), w.bob, "shop.main"))
		}
		if v := life(); v.Life.Alive != "yes" || v.Lock.Holder.Run != r.ID || v.Lock.Holder.Name != "one" {
			t.Errorf("while it works: %+v of %+v", v.Life, v.Lock.Holder)
		}
		w.pass(3 * time.Minute)
		w.wantStatus(r.ID, run.Failed)
		v := life()
		if v.Lock == nil || v.Life.Alive != "unknown" || v.Life.Dead || v.Life.LastSeen.IsZero() || !strings.Contains(v.Life.Evidence, "lost") {
			t.Fatalf("lost: lock %+v, %+v; want it held, with when it was last heard of", v.Lock, v.Life)
		}
		if _, ok := w.claim(w.agents[1]); ok {
			t.Error("the apply was begun again")
		}
		operator := access.Actor{Kind: access.User, Org: w.org, ID: "usr_op", Name: "op", Role: access.Operator}
		_, err := w.engine.ForceUnlock(t.Context(), operator, "shop.main", engine.UnlockRequest{Reason: "x"})
		wantCode(t, err, fault.Forbidden, "forbidden")
		_, err = w.engine.ForceUnlock(t.Context(), w.alice, "shop.main", engine.UnlockRequest{Reason: "its machine burnt down"})
		w.ok(err)
		records, _, err := w.engine.Audit(t.Context(), w.alice, engine.AuditFilter{Action: "state.force_unlock"}, engine.Page{Limit: 2})
		if err != nil || len(records) != 1 || records[0].ActorID != w.alice.ID || !strings.Contains(string(records[0].Data), "its machine burnt down") {
			t.Errorf("recorded %+v, %v; want who and why", records, err)
		}
	})
}

// S16: the newest save of a long apply is current when its agent dies, in the one version of its lock.
func TestS16IntermediateSavesSurvive(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Never})
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		k.planned()
		k = w.take(w.agents[0])
		w.ok(w.engine.LockState(t.Context(), k.token, "shop.main", lockInfo("Q")))
		for serial := 1; serial <= 3; serial++ {
			d := document(serial, "so far")
			_, err := w.engine.WriteState(t.Context(), k.token, "shop.main", engine.StateWrite{LockID: "Q", Size: int64(len(d)), Body: bytes.NewReader([]byte(d))})
			w.ok(err)
		}
		w.pass(3 * time.Minute)
		w.wantStatus(r.ID, run.Failed)
		_, vs, _, err := w.engine.StateVersions(t.Context(), w.bob, "shop.main", false, engine.Page{Limit: 10})
		if err != nil || len(vs) != 1 || vs[0].Serial.N != 3 || vs[0].By.Run != r.ID || vs[0].Quarantined {
			t.Errorf("versions %+v, %v; want one of the run with its newest save", vs, err)
		}
		if got := w.run(r.ID); got.Class != run.ClassLost {
			t.Errorf("the run ended as %s: %s", got.Class, got.Message)
		}
	})
}

// S18: whatever dies between two steps of a save, the state is the old or the new document, whole, and a save that
// was acknowledged is never missing.
func TestS18CrashAtEachStepOfASave(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		before, after := doc(1, "l", "old"), doc(2, "l", incompressible(600_000))
		for _, name := range []string{"before", "after"} {
			for step, done := 0, false; !done; step++ {
				target := fmt.Sprintf("%s-%d", name, step)
				s.save(t, ann, target, "A", before)
				s.mustLock(t, ann, target, "B")
				c := &failPoint{Store: s.store, at: step, after: name == "after"}
				_, err := s.serverOn(t, c).WriteState(t.Context(), ann, target, write("B", after))
				done = c.at >= 0 // it was never reached: the save is through
				got := s.read(t, ann, target)
				switch {
				case got != before && got != after:
					t.Errorf("%s: neither the old nor the new document", target)
				case err == nil && got != after:
					t.Errorf("%s: an acknowledged save is missing", target)
				case !done && err == nil:
					t.Errorf("%s: the save was acknowledged though the server died", target)
				case done && step < 3:
					t.Fatalf("a save of %d transactions is no test of the steps between them", step)
				}
				s.mustWrite(t, ann, target, "B", after) // as the client does
				if got := s.read(t, ann, target); got != after {
					t.Errorf("%s: after the repeat, other bytes", target)
				}
			}
		}
		s.advance(2 * time.Hour)
		s.housekeep(t)
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks of what died are left", n)
		}
	})
}

// failPoint is a store whose server dies at one of its updates, before or after the commit, and does nothing any more.
type failPoint struct {
	engine.Store
	at    int // updates until then; below 0 once dead
	after bool
}

func (f *failPoint) Update(ctx context.Context, fn func(engine.Tx) error) error {
	if f.at < 0 {
		return errCrash
	}
	if f.at--; f.at >= 0 {
		return f.Store.Update(ctx, fn)
	}
	if f.after {
		return errors.Join(f.Store.Update(ctx, fn), errCrash)
	}
	return errCrash
}

// incompressible is n characters that no compression makes much shorter.
func incompressible(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = letters[x%64]
	}
	return string(b)
}

// S24: what other tools and older versions wrote is stored as it is, or refused with what to do.
func TestS24ForeignStates(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		imports := func(name, document string) error {
			_, err := s.ImportState(t.Context(), ann, name, engine.StateImport{StateWrite: write("", document)})
			return err
		}
		const resource = `{"mode":"%s","type":"aws_vpc","name":"v","provider":"provider[\"%s\"]","instances":[%s]}`
		for name, document := range map[string]string{
			"deposed":   `{"version":4,"serial":3,"lineage":"l","resources":[` + fmt.Sprintf(resource, "managed", "registry.opentofu.org/hashicorp/aws", `{"deposed":"0a1b2c3d","schema_version":1,"attributes":{"id":"x"}}`) + `]}`,
			"tainted":   `{"version":4,"serial":3,"lineage":"l","resources":[` + fmt.Sprintf(resource, "managed", "registry.terraform.io/hashicorp/aws", `{"status":"tainted","schema_version":0,"attributes":{"id":"x"}}`) + `]}`,
			"data":      `{"version":4,"serial":3,"lineage":"l","resources":[` + fmt.Sprintf(resource, "data", "registry.terraform.io/hashicorp/aws", `{"schema_version":0,"attributes":{"id":"x"}}`) + `]}`,
			"sensitive": `{"version":4,"serial":3,"lineage":"l","resources":[` + fmt.Sprintf(resource, "managed", "registry.opentofu.org/hashicorp/aws", `{"schema_version":0,"attributes":{"p":"x"},"sensitive_attributes":[[{"type":"get_attr","value":"p"}]],"private":"eyJ9"}`) + `]}`,
			"checks":    `{"version":4,"serial":3,"lineage":"l","outputs":{},"resources":[],"check_results":[{"object_kind":"check","config_addr":"check.c","status":"unknown","objects":null}]}`,
			"flat":      `{"version":4,"serial":3,"lineage":"l","resources":[` + fmt.Sprintf(resource, "managed", "registry.terraform.io/hashicorp/aws", `{"schema_version":0,"attributes_flat":{"id":"x","tags.%":"0"}}`) + `]}`,
			"old":       "{\n  \"version\": 4,\n  \"terraform_version\": \"0.12.0\",\n  \"serial\": 99,\n  \"lineage\": \"a2b4c6d8-2016-11e6-8b77-86f30ca893d3\",\n  \"outputs\": {},\n  \"resources\": []\n}\n",
		} {
			if err := imports(name, document); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := s.read(t, ann, name); got != document {
				t.Errorf("%s: stored as %q", name, got)
			}
		}
		err := imports("v3", `{"version":3,"terraform_version":"0.11.14","serial":7,"lineage":"l","modules":[{"path":["root"],"outputs":{},"resources":{}}]}`)
		wantRefused(t, "version 3", err, "state_too_old")
		if hint := fault.From(err).Hint; !strings.Contains(hint, "Upgrade") {
			t.Errorf("version 3: the hint is %q", hint)
		}
		_, err = s.WriteState(t.Context(), ann, "old", write("", doc(100, "another", "v")))
		wantRefused(t, "another lineage over a state", err, "other_lineage")
	})
}

// W2, S09: a save of the bytes that are stored already is no new version, under whichever lock.
func TestS09NoOpSave(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		first := s.save(t, ann, "net", "A", doc(1, "l", "v"))
		again := s.save(t, ann, "net", "B", doc(1, "l", "v"))
		if again.ID != first.ID || s.versions(t, "net") != "1:1" || s.audited(t, "net") != "write" {
			t.Errorf("version %s then %s, versions %q, audited %q", first.ID, again.ID, s.versions(t, "net"), s.audited(t, "net"))
		}
	})
}

// The token of a step with a lock opens nothing for the next step of the same run, nor the other way round.
func TestStepsOfOneRunAreHoldersOfTheirOwn(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		w := s.newWork(t, "net", true)
		w.planned(t, "")
		_, planner := w.attempt(t, run.TaskPlan)
		_, applier := w.attempt(t, run.TaskApply)
		s.mustLock(t, planner, "net", "P")
		wantRefused(t, "lock", s.LockState(t.Context(), applier, "net", lockInfo("Q")), "state_locked")
		_, err := s.WriteState(t.Context(), applier, "net", write("P", doc(1, "l", "v")))
		wantRefused(t, "write", err, "state_locked")
		wantRefused(t, "unlock", s.UnlockState(t.Context(), applier, "net", engine.UnlockRequest{ID: "P"}), "attempt_may_not_force")
		s.mustUnlock(t, planner, "net", "P")
		s.mustLock(t, applier, "net", "Q")
		// The holder, and an attempt alone, may leave the id out: a version of its own.
		v := s.mustWrite(t, applier, "net", "", doc(1, "l", "v"))
		if v.LockID != "" || v.LockKey != "" {
			t.Errorf("a save without the id is stored under the lock %q", v.LockID)
		}
		if s.mustWrite(t, applier, "net", "Q", doc(2, "l", "v")).Number != 2 {
			t.Error("a save under the lock replaced the one without it")
		}
	})
}

// L05: an id that is empty, of a former lock, or of nobody's releases nothing and takes nothing.
func TestL05IDsThatAreWrong(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		unlock := func(lockID string) error {
			return s.UnlockState(t.Context(), ann, "net", engine.UnlockRequest{ID: lockID})
		}
		s.mustLock(t, ann, "net", "A")
		s.mustUnlock(t, ann, "net", "A")
		if err := unlock("A"); err != nil {
			t.Errorf("the id of a former lock, nothing held: %v", err)
		}
		s.mustLock(t, ann, "net", "B")
		for _, lockID := range []string{"A", "never"} {
			err := unlock(lockID)
			wantRefused(t, lockID, err, "other_lock")
			if held, ok := fault.From(err).Detail.(state.LockInfo); !ok || held.ID != "B" {
				t.Errorf("%s: the refusal shows %+v, want the lock that is held", lockID, fault.From(err).Detail)
			}
		}
		if l := s.view(t, "net").Lock; l == nil || l.Info.ID != "B" {
			t.Errorf("the lock is %+v, want B", l)
		}
		for _, body := range []string{`{}`, `{"ID":""}`, `{"ID":7}`, `hello`} {
			if _, err := state.ParseLock([]byte(body)); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v, want it invalid", body, err)
			}
		}
	})
}

// L09: what is taken of an odd lock document is stored by both databases and comes back as it was.
func TestL09OddLockDocuments(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		for i, body := range []string{
			"{\"ID\":\"A\",\"Who\":\"Žofie@日本-host\u202eevil\",\"Info\":\"x\",\"z\":[1]}",
			`{"ID":"A","Info":"` + strings.Repeat("i", 15<<10) + `"}`,
			`{"ID":"A","Info":"x","Created":"9999-12-31T23:59:59Z"}`,
			`{"ID":"A","Info":"\u0001\u001b[31m\u2028","Created":"0001-01-01T00:00:00Z"}`,
			`{"ID":"` + strings.Repeat("日", state.MaxLockIDChars) + `","Info":"x"}`,
		} {
			name := fmt.Sprint("net-", i)
			info, err := state.ParseLock([]byte(body))
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			if err := s.LockState(t.Context(), ann, name, info); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			err = s.LockState(t.Context(), ben, name, lockInfo("B"))
			if held, ok := fault.From(err).Detail.(state.LockInfo); !ok || held != info {
				t.Errorf("%d: the conflict shows %+v, want %+v", i, fault.From(err).Detail, info)
			}
			s.mustUnlock(t, ann, name, info.ID)
		}
	})
}

// What else is known of a holder: nothing of an attempt that is not stored, the acceptance where there was no
// heartbeat yet; and an attempt that nobody has accepted takes no one's place.
func TestLifeWithoutMuchToGoBy(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", true)
		one, actor := w.attempt(t, run.TaskPlan)
		s.mustLock(t, actor, "net", "P")
		since := s.view(t, "net").Hold.Since
		one.HeartbeatAt = time.Time{}
		w.set(t, &one, run.AttemptAccepted)
		if l := s.view(t, "net").Life; l.Alive != "yes" || l.LastSeen.IsZero() {
			t.Errorf("accepted and no heartbeat yet: %+v", l)
		}
		s.mustUnlock(t, actor, "net", "P")
		s.advance(time.Second)
		s.mustLock(t, actor, "net", "P2")
		if h := s.view(t, "net").Hold; !h.Since.Equal(since) {
			t.Errorf("the hold began at %s, and again at %s", since, h.Since)
		}
		w.set(t, &one, run.AttemptLost)
		two, _ := w.attempt(t, run.TaskPlan)
		two.AcceptedAt, two.HeartbeatAt = time.Time{}, time.Time{}
		w.set(t, &two, run.AttemptOffered)
		if l := s.view(t, "net").Life; l.Dead || l.Alive != "unknown" {
			t.Errorf("another attempt is only offered: %+v", l)
		}
		s.update(t, func(ctx context.Context, tx engine.Tx) error {
			st, err := tx.StateForUpdate(ctx, s.org, "net")
			if err != nil {
				return err
			}
			st.Hold, st.Lock.Holder.ID = nil, "att_unknown"
			return tx.UpdateState(ctx, st)
		})
		if l := s.view(t, "net").Life; !l.Dead || l.Alive != "no" || l.Evidence == "" {
			t.Errorf("an attempt that is not stored: %+v", l)
		}
		s.mustLock(t, ann, "net", "A")
		if !strings.Contains(s.log.String(), "state lock taken over from an ended holder") {
			t.Error("the log does not tell of the take-over")
		}
	})
}

// S02, L12: what is kept aside is whole, however large; a holder whose token has ended has its save kept also where
// another one wrote the head, or its lock is released already; and nobody else has.
func TestS02WhatIsKeptAside(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		large := doc(1, "l", incompressible(400_000))
		kept := func(name string, number int64) string {
			c, err := s.StateVersionContent(t.Context(), ann, name, number)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return readAll(t, c.Body)
		}
		s.save(t, ann, "refused", "A", doc(9, "l", "v"))
		s.mustLock(t, ann, "refused", "B")
		_, err := s.WriteState(t.Context(), ann, "refused", write("B", large))
		wantRefused(t, "a low serial", err, "serial_too_low")
		if kept("refused", 2) != large {
			t.Error("what was kept of a refused save is not what was sent")
		}

		w := s.newWork(t, "ended", false)
		v := s.save(t, ann, "ended", "A", doc(1, "l", "ann's"))
		w.planned(t, v.SHA256)
		_, a := w.attempt(t, run.TaskApply)
		_, stranger := w.attempt(t, run.TaskApply)
		s.mustLock(t, a, "ended", "P")
		a.TokenDead, stranger.TokenDead = true, true
		_, err = s.WriteState(t.Context(), a, "ended", write("P", doc(2, "l", "last")))
		wantRefused(t, "the head is another's", err, "token_ended")
		if kept("ended", 2) != doc(2, "l", "last") {
			t.Error("the last save of a holder whose token has ended is lost")
		}

		x := s.newWork(t, "released", false)
		x.planned(t, "")
		_, b := x.attempt(t, run.TaskApply)
		s.mustLock(t, b, "released", "P")
		s.mustWrite(t, b, "released", "", doc(1, "l", "v")) // without the id, as a step may
		s.mustUnlock(t, b, "released", "P")
		b.TokenDead = true
		s.mustWrite(t, b, "released", "", doc(1, "l", "v")) // stored already
		_, err = s.WriteState(t.Context(), b, "released", write("P", doc(2, "l", "late")))
		wantRefused(t, "a save after the unlock", err, "token_ended")
		if kept("released", 2) != doc(2, "l", "late") {
			t.Error("the late save of whoever wrote the head is lost")
		}
		// One per lock: of a head that named its lock, the newest; of one that named none, each.
		_, err = s.WriteState(t.Context(), b, "released", write("P", doc(3, "l", "later")))
		wantRefused(t, "another save after the unlock", err, "token_ended")
		if got := s.versions(t, "released"); got != "q3:3 q2:2 1:1" {
			t.Errorf("versions %q, want both late saves", got)
		}
		z := s.newWork(t, "named", false)
		z.planned(t, "")
		_, c := z.attempt(t, run.TaskApply)
		s.save(t, c, "named", "P", doc(1, "l", "v"))
		c.TokenDead = true
		for serial := 2; serial <= 3; serial++ {
			_, err = s.WriteState(t.Context(), c, "named", write("P", doc(serial, "l", "late")))
			wantRefused(t, "a late save", err, "token_ended")
		}
		if got := s.versions(t, "named"); got != "q3:3 1:1" {
			t.Errorf("versions %q, want the newest of the lock's late saves", got)
		}
		y := s.newWork(t, "empty", false)
		_, nobody := y.attempt(t, run.TaskApply)
		nobody.TokenDead = true
		_, err = s.WriteState(t.Context(), nobody, "empty", write("", doc(1, "l", "v")))
		wantRefused(t, "one that never held anything", err, "token_expired")
		if got := s.versions(t, "empty"); got != "" {
			t.Errorf("versions %q, want none", got)
		}
	})
}

// S24: an import leaves alone what was only kept aside, and takes a lock over whose holder is gone.
func TestS24ImportIntoAStateWithoutAHead(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		imports := func(name string) error {
			_, err := s.ImportState(t.Context(), ann, name, engine.StateImport{StateWrite: write("", doc(1, "new", "v"))})
			return err
		}
		s.mustLock(t, ann, "kept", "A")
		if _, err := s.ForceUnlock(t.Context(), eve, "kept", engine.UnlockRequest{}); err != nil {
			t.Fatal(err)
		}
		_, err := s.WriteState(t.Context(), ann, "kept", write("A", doc(1, "l", "late")))
		wantRefused(t, "the late save", err, "lock_lost")
		wantRefused(t, "a state with a version kept aside", imports("kept"), "state_exists")

		w := s.newWork(t, "orphaned", false)
		a, step := w.attempt(t, run.TaskPlan)
		s.mustLock(t, step, "orphaned", "P")
		wantRefused(t, "its holder lives", imports("orphaned"), "state_locked")
		w.set(t, &a, run.AttemptFailed)
		if err := imports("orphaned"); err != nil {
			t.Errorf("its holder is gone: %v", err)
		}
		if l := s.view(t, "orphaned").Lock; l != nil {
			t.Errorf("the dead lock stayed: %+v", l)
		}
	})
}

// A step's refusal names its run and task in the log; what is no refusal, and an unlock of nothing, are not mixed up.
func TestRefusalsOfAStepAreLogged(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		w := s.newWork(t, "net", false)
		_, step := w.attempt(t, run.TaskApply)
		wantRefused(t, "another state", s.LockState(t.Context(), step, "other", lockInfo("P")), "other_state")
		for _, part := range []string{"run=" + w.run.ID, "task=" + step.Task, "code=other_state"} {
			if !strings.Contains(s.log.String(), part) {
				t.Errorf("the log lacks %q: %s", part, s.log.String())
			}
		}
		wantRefused(t, "an unlock of no state", s.UnlockState(t.Context(), s.user("ann", access.Operator), "never", engine.UnlockRequest{ID: "A"}), "state_not_found")
		if !strings.Contains(s.log.String(), "state unlock refused") {
			t.Error("an unlock of no state is not logged")
		}
		c := &crashing{Store: s.store, count: func() int { return 0 }}
		if err := s.serverOn(t, c).LockState(t.Context(), s.user("ann", access.Operator), "net", lockInfo("A")); !errors.Is(err, errCrash) {
			t.Fatalf("%v, want the crash", err)
		}
		if strings.Contains(s.log.String(), "state lock refused\" code=internal") {
			t.Error("a failure of the server is logged as a refusal")
		}
	})
}
