package engine_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// S06: the serial is new, no other byte is, and the tools' next save fits.
func TestS06Rollback(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		odd := func(serial string) string {
			return "{\n  \"version\": 4,\n  \"x\": [12345678901234567890, \"\\u2028\"],\n  \"serial\":\t" + serial + ",\n  \"lineage\": \"l\"\n}\n"
		}
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		s.save(t, ann, "net", "A", odd("9"))
		s.save(t, ann, "net", "A", doc(10, "l", "v"))
		v, err := s.RollbackState(t.Context(), ann, "net", 2)
		if err != nil {
			t.Fatal(err)
		}
		if v.Number != 4 || v.Serial != (state.Serial{N: 11, Known: true}) || v.Source != state.SourceRollback || v.By.ID != ann.ID {
			t.Errorf("the new version is %+v, want number 4, serial 11, a rollback by ann", v)
		}
		if got := s.read(t, ann, "net"); got != odd("11") {
			t.Errorf("current is %q, want version 2 with the serial 11", got)
		}
		s.save(t, ann, "net", "A", doc(12, "l", "after"))
		if got := s.audited(t, "net"); got != "write write write rollback write" {
			t.Errorf("audited %q", got)
		}
	})
}

// A client-encrypted version comes back as it was: OpenTofu refuses one whose outer serial was changed.
func TestRollbackOfAnEncryptedVersion(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		const sealed = `{"serial":1,"lineage":"l","meta":{},"encrypted_data":"QUFB","encryption_version":"v0"}`
		s.save(t, ann, "net", "A", sealed)
		s.save(t, ann, "net", "A", `{"serial":2,"lineage":"l","meta":{},"encrypted_data":"QkJC","encryption_version":"v0"}`)
		if _, err := s.RollbackState(t.Context(), ann, "net", 1); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, ann, "net"); got != sealed {
			t.Errorf("current is %q, want version 1 byte for byte", got)
		}
	})
}

// A document without a serial comes back as it was, and one that has a serial gets one above its own where the current
// one has none.
func TestRollbackWithoutASerial(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		bare := func(value string) string { return `{"version":4,"lineage":"l","x":"` + value + `"}` }
		for number, want := range map[int64]string{2: bare("one"), 1: doc(6, "l", "v")} {
			name := fmt.Sprint("net-", number)
			for _, document := range []string{doc(5, "l", "v"), bare("one"), bare("two")} {
				s.save(t, ann, name, "A", document)
			}
			if _, err := s.RollbackState(t.Context(), ann, name, number); err != nil {
				t.Fatalf("to version %d: %v", number, err)
			}
			if got := s.read(t, ann, name); got != want {
				t.Errorf("version %d came back as %q, want %q", number, got, want)
			}
		}
	})
}

// A lock whose holder is gone stands against no rollback, and does not outlive it.
func TestRollbackTakesADeadLockOver(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "net", false)
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		a, step := w.attempt(t, run.TaskPlan)
		s.mustLock(t, step, "net", "P")
		_, err := s.RollbackState(t.Context(), ann, "net", 1)
		wantRefused(t, "its holder lives", err, "state_locked")
		w.set(t, &a, run.AttemptFailed)
		if _, err := s.RollbackState(t.Context(), ann, "net", 1); err != nil {
			t.Errorf("its holder is gone: %v", err)
		}
		if l := s.view(t, "net").Lock; l != nil {
			t.Errorf("the dead lock stayed: %+v", l)
		}
	})
}

func TestRollbackIsRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, viewer := s.user("ann", access.Operator), s.user("vic", access.Viewer)
		s.save(t, ann, "net", "A", doc(5, "l", "v"))
		rollback := func(a access.Actor, number int64) error {
			_, err := s.RollbackState(t.Context(), a, "net", number)
			return err
		}
		wantRefused(t, "a viewer", rollback(viewer, 1), "forbidden")
		wantRefused(t, "a version that is not there", rollback(ann, 7), "version_not_found")
		s.mustLock(t, ann, "net", "B")
		wantRefused(t, "locked, though by oneself", rollback(ann, 1), "state_locked")
		_, err := s.WriteState(t.Context(), ann, "net", write("B", doc(1, "l", "v")))
		wantRefused(t, "a low serial", err, "serial_too_low")
		s.mustUnlock(t, ann, "net", "B")
		wantRefused(t, "a quarantined version", rollback(ann, 2), "version_quarantined")
		s.save(t, ann, "high", "A", `{"version":4,"serial":18446744073709551615,"lineage":"l"}`)
		_, err = s.RollbackState(t.Context(), ann, "high", 1)
		wantRefused(t, "no serial is left", err, "serial_exhausted")
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks are left staged", n)
		}
	})
}

// What was refused becomes current only by a person's word, byte for byte, and leaves its quarantine.
func TestAcceptQuarantined(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "net", "A", doc(5, "l", "v"))
		s.mustLock(t, ann, "net", "B")
		kept := doc(5, "other", "what is true")
		_, err := s.WriteState(t.Context(), ann, "net", write("B", kept))
		wantRefused(t, "another lineage", err, "other_lineage")
		_, err = s.AcceptVersion(t.Context(), ann, "net", 2)
		wantRefused(t, "locked", err, "state_locked")
		s.mustUnlock(t, ann, "net", "B")
		_, err = s.AcceptVersion(t.Context(), ann, "net", 1)
		wantRefused(t, "not quarantined", err, "version_not_quarantined")
		v, err := s.AcceptVersion(t.Context(), ann, "net", 2)
		if err != nil || v.Number != 3 || v.Source != state.SourceRecovery || v.Quarantined {
			t.Fatalf("accepted as %+v, %v", v, err)
		}
		if got := s.read(t, ann, "net"); got != kept {
			t.Errorf("current is %q, want what was kept", got)
		}
		if got := s.versions(t, "net"); got != "3:5 1:5" {
			t.Errorf("versions %q, want the quarantine empty", got)
		}
		if got := s.audited(t, "net"); got != "write quarantine accept" {
			t.Errorf("audited %q", got)
		}
	})
}

// A hold that stayed because a save was refused ends with the acceptance of that save, and stands against all else.
func TestAcceptEndsTheHoldThatWaitedForIt(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "held", true)
		first := s.save(t, ann, "held", "A", doc(1, "l", "v"))
		_, planner := w.attempt(t, run.TaskPlan)
		_, applier := w.attempt(t, run.TaskApply)
		w.planned(t, first.SHA256)
		s.mustLock(t, planner, "held", "P")
		s.mustUnlock(t, planner, "held", "P")
		s.mustLock(t, applier, "held", "Q")
		_, err := s.WriteState(t.Context(), applier, "held", write("Q", doc(2, "other", "v")))
		wantRefused(t, "the save", err, "other_lineage")
		s.mustUnlock(t, applier, "held", "Q")
		_, err = s.RollbackState(t.Context(), ann, "held", 1)
		wantRefused(t, "a rollback while held", err, "state_locked")
		if _, err := s.AcceptVersion(t.Context(), ann, "held", 2); err != nil {
			t.Fatal(err)
		}
		if h := s.view(t, "held").Hold; h != nil {
			t.Errorf("the hold stayed: %+v", h)
		}
	})
}

// S24: an import makes a state and changes none; what is no current state is refused.
func TestS24Import(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, viewer := s.user("ann", access.Operator), s.user("vic", access.Viewer)
		document := "{\n  \"version\": 4, \"serial\": 41, \"lineage\": \"2016\", \"resources\": []\n}\n"
		imported := func(a access.Actor, name, d string) (state.Version, error) {
			return s.ImportState(t.Context(), a, name, engine.StateImport{StateWrite: write("", d)})
		}
		_, err := imported(viewer, "net", document)
		wantRefused(t, "a viewer", err, "forbidden")
		v, err := imported(ann, "net", document)
		if err != nil || v.Number != 1 || v.Serial.N != 41 || v.Lineage != "2016" || v.Source != state.SourceImport {
			t.Fatalf("imported as %+v, %v", v, err)
		}
		if got := s.read(t, ann, "net"); got != document {
			t.Errorf("current is %q", got)
		}
		_, err = imported(ann, "net", document)
		wantRefused(t, "a name in use", err, "state_exists")
		_, err = imported(ann, "old", `{"version":3,"serial":1}`)
		wantRefused(t, "format 3", err, "state_too_old")
		_, err = imported(ann, "bad/name", document)
		wantRefused(t, "a name that is none", err, "invalid_name")
		_, err = s.State(t.Context(), ann, "old")
		wantRefused(t, "what a refused import leaves", err, "state_not_found")
		s.save(t, ann, "net", "A", doc(42, "2016", "v"))
		if got := s.audited(t, "net"); got != "import write" {
			t.Errorf("audited %q", got)
		}
		s.mustLock(t, ann, "fresh", "A")
		_, err = imported(ann, "fresh", document)
		wantRefused(t, "somebody is at it", err, "state_locked")
	})
}

// S19: delete, the time in which it can be undone, and the end of it.
func TestS19DeleteAndRestore(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		wantRefused(t, "an operator", s.DeleteState(t.Context(), ann, "net", false), "forbidden")
		s.mustLock(t, ann, "net", "B")
		err := s.DeleteState(t.Context(), eve, "net", false)
		wantRefused(t, "locked", err, "state_locked")
		s.mustUnlock(t, ann, "net", "B")
		for range 2 {
			if err := s.DeleteState(t.Context(), eve, "net", false); err != nil {
				t.Fatalf("delete: %v", err)
			}
		}
		// A 404 would have the tools plan to create everything.
		_, err = s.ReadState(t.Context(), ann, "net")
		wantRefused(t, "read", err, "state_deleted")
		if f := fault.From(err); f.Kind != fault.Gone {
			t.Errorf("a deleted state is %s, want gone", f.Kind)
		}
		wantRefused(t, "lock", s.LockState(t.Context(), ann, "net", lockInfo("C")), "state_deleted")
		wantRefused(t, "unlock", s.UnlockState(t.Context(), ann, "net", engine.UnlockRequest{ID: "C"}), "state_deleted")
		_, err = s.WriteState(t.Context(), ann, "net", write("", doc(2, "l", "v")))
		wantRefused(t, "write", err, "state_deleted")
		_, err = s.StateVersionContent(t.Context(), eve, "net", 1)
		wantRefused(t, "download", err, "state_deleted")
		_, err = s.RestoreState(t.Context(), ann, "net")
		wantRefused(t, "restore as an operator", err, "forbidden")
		for range 2 {
			if v, err := s.RestoreState(t.Context(), eve, "net"); err != nil || !v.DeletedAt.IsZero() {
				t.Fatalf("restore: %+v, %v", v, err)
			}
		}
		if got := s.read(t, ann, "net"); got != doc(1, "l", "v") {
			t.Errorf("restored to %q", got)
		}
		if got := s.audited(t, "net"); got != "write delete restore" {
			t.Errorf("audited %q", got)
		}
	})
}

// Two rollbacks at once: one of them, or both one after the other, never a version on a state that had moved.
func TestRollbackAgainstAWrite(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		s.save(t, ann, "net", "A", doc(2, "l", "v"))
		done := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := s.RollbackState(context.WithoutCancel(t.Context()), ann, "net", 2)
				done <- err
			}()
		}
		took := 0
		for range 4 {
			switch err := <-done; {
			case err == nil:
				took++
			case fault.Code(err) != "state_changed" && fault.Code(err) != "version_not_found":
				t.Errorf("refused with %v", err)
			}
		}
		if v := s.view(t, "net"); took == 0 || v.Head.Serial.N != uint64(2+took) || v.Versions != int64(2+took) {
			t.Errorf("%d rollbacks left serial %d and %d versions", took, v.Head.Serial.N, v.Versions)
		}
		if got := s.read(t, ann, "net"); got != doc(2+took, "l", "v") || strings.Contains(got, fmt.Sprint("\"serial\":", 2)+",") {
			t.Errorf("current is %q", got)
		}
	})
}

// meddling is a database in which something happens right after the first view.
type meddling struct {
	engine.Store
	once func()
}

func (m *meddling) View(ctx context.Context, fn func(engine.Tx) error) error {
	err := m.Store.View(ctx, fn)
	if once := m.once; once != nil {
		m.once = nil
		once()
	}
	return err
}

// A version is not made current of a state that became another one while it was prepared, nor of one that had no
// current version and has one now.
func TestAcceptAgainstWhatHappensMeanwhile(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben, eve := s.user("ann", access.Operator), s.user("ben", access.Operator), s.user("eve", access.Admin)
		keep := func(name, document string) {
			t.Helper()
			s.mustLock(t, ann, name, "A")
			s.mustUnlock(t, eve, name, "A")
			_, err := s.WriteState(t.Context(), ann, name, write("A", document))
			wantRefused(t, "a late save", err, "lock_lost")
		}
		for name, c := range map[string]struct {
			once func(name string)
			want string
		}{
			"written": {func(name string) { s.save(t, ben, name, "B", doc(1, "l", "ben's")) }, "2:1 q1:1"},
			"made-anew": {func(name string) {
				s.mustDelete(t, name, true)
				s.gone(t, name)
				keep(name, doc(7, "another", "v"))
			}, "q1:7"},
		} {
			keep(name, doc(1, "l", "ann's"))
			db := &meddling{Store: s.store, once: func() { c.once(name) }}
			_, err := s.serverOn(t, db).AcceptVersion(t.Context(), ann, name, 1)
			wantRefused(t, name, err, "state_changed")
			if got := s.versions(t, name); got != c.want {
				t.Errorf("%s: versions %q, want %q", name, got, c.want)
			}
		}
	})
}

// replacing is a database in which something happens right after the first update that succeeds.
type replacing struct {
	engine.Store
	once func()
}

func (r *replacing) Update(ctx context.Context, fn func(engine.Tx) error) error {
	err := r.Store.Update(ctx, fn)
	if once := r.once; err == nil && once != nil {
		r.once = nil
		once()
	}
	return err
}

// W2: the newest version is downloaded while the holder of its lock saves again, which replaces it. The download gives
// the newer document instead of a failure.
func TestDownloadOfAVersionThatIsReplaced(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		random := make([]byte, 200<<10) // more than stands in a row
		_, _ = rand.Read(random)
		s.mustLock(t, ann, "net", "A")
		s.mustWrite(t, ann, "net", "A", doc(1, "l", base64.StdEncoding.EncodeToString(random)))
		newer := doc(2, "l", base64.StdEncoding.EncodeToString(random))
		db := &replacing{Store: s.store, once: func() { s.mustWrite(t, ann, "net", "A", newer) }}
		c, err := s.serverOn(t, db).StateVersionContent(t.Context(), ann, "net", 1)
		if err != nil {
			t.Fatalf("the download: %v", err)
		}
		if got := readAll(t, c.Body); got != newer {
			t.Errorf("the download has %d bytes that are not the newer document", len(got))
		}
		if db.once != nil {
			t.Error("nothing replaced the version")
		}
	})
}
