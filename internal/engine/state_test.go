package engine_test

import (
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// wantRefused checks the code of a refusal.
func wantRefused(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.Code(err) != code {
		t.Errorf("%s: %v, want code %s", what, err, code)
	}
}

// S08: byte for byte, whatever the document looks like.
func TestS08StateBytesComeBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		for i, document := range []string{
			doc(1, "l", "v"),
			"{\n  \"version\": 4,\n  \"serial\": 1,\n  \"lineage\": \"l\",\n  \"x\": 12345678901234567890\n}\n",
			`{"version":4,"serial":9007199254740993,"lineage":"l","x":"\u003c\u2028 Žofie 日本 \ud83d\ude00"}`,
			`{"serial":2,"lineage":"l","meta":{},"encrypted_data":"QUFB","encryption_version":"v0"}`,
			`{"version":4,"serial":1,"x":"` + strings.Repeat("long ", 150_000) + `"}`,
		} {
			name := fmt.Sprintf("bytes-%d", i)
			v := s.save(t, ann, name, "A", document)
			if got := s.read(t, ann, name); got != document {
				t.Errorf("%s: other bytes came back", name)
			}
			c, err := s.StateVersionContent(t.Context(), ann, name, v.Number)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, c.Body); got != document {
				t.Errorf("%s: the download has other bytes", name)
			}
		}
	})
}

// Promise 7, fact 20: only a state without a document is "not found"; anything else that goes wrong is not.
func TestEmptyIsNotUnreadable(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		_, err := s.ReadState(t.Context(), ann, "never")
		wantRefused(t, "a name nobody used", err, "state_not_found")
		s.mustLock(t, ann, "net", "A")
		_, err = s.ReadState(t.Context(), ann, "net")
		wantRefused(t, "locked and nothing stored", err, "state_empty")
		v := s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, v.ID) })
		_, err = s.ReadState(t.Context(), ann, "net")
		if fault.Code(err) != "object_missing" || fault.Is(err, fault.NotFound) {
			t.Errorf("S18 a row without its bytes: %v, want object_missing and never not found", err)
		}
	})
}

// S01, W4: a write whose answer was lost is stored once, also when the lock was released, or taken by others and the
// state written by them, before it was repeated.
func TestS01RepeatedWriteIsStoredOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		s.mustLock(t, ann, "net", "A")
		first := s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		again := s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		if again.ID != first.ID {
			t.Errorf("the repeat was stored again: %s, then %s", first.ID, again.ID)
		}
		s.mustUnlock(t, ann, "net", "A")
		s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		s.mustLock(t, ben, "net", "B")
		s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		s.mustWrite(t, ben, "net", "B", doc(2, "l", "w"))
		if v := s.mustWrite(t, ann, "net", "A", doc(1, "l", "v")); v.Number != 1 {
			t.Errorf("the late repeat gives version %d, want 1", v.Number)
		}
		_, err := s.WriteState(t.Context(), ann, "net", write("A", doc(3, "l", "x")))
		wantRefused(t, "other bytes under a lock long released", err, "state_locked")
		if got := s.versions(t, "net"); got != "2:2 1:1" {
			t.Errorf("versions %q, want 2:2 1:1", got)
		}
		if got := s.audited(t, "net"); got != "write write" {
			t.Errorf("audited %q, want two writes", got)
		}
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks are left staged", n)
		}
	})
}

// S01: a write that only resembles one that was stored before is refused like any other.
func TestS01WhatIsNoRepeatedWrite(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		old := doc(1, "l", "v")
		refused := func(what string, a access.Actor, name, lockID string) {
			t.Helper()
			_, err := s.WriteState(t.Context(), a, name, write(lockID, old))
			wantRefused(t, what, err, "serial_too_low")
		}
		s.mustWrite(t, ann, "bare", "", old)
		s.mustWrite(t, ann, "bare", "", doc(2, "l", "v"))
		refused("without a lock's id", ann, "bare", "")
		if got := s.versions(t, "bare"); got != "2:2 1:1" {
			t.Errorf("versions %q, want nothing kept of what no lock covers", got)
		}
		s.save(t, ann, "net", "A", old)
		s.save(t, ann, "net", "B", doc(2, "l", "v"))
		s.mustLock(t, ben, "net", "A")
		refused("another's lock of the same id", ben, "net", "A")
		s.mustUnlock(t, ben, "net", "A")
		s.mustLock(t, ann, "net", "C")
		refused("the same bytes under another lock", ann, "net", "C")
		refused("what was kept of a refused write", ann, "net", "C")
		if got := s.versions(t, "net"); got != "q5:1 q3:1 2:2 1:1" {
			t.Errorf("versions %q, want each lock's newest refused write", got)
		}
		if got := s.audited(t, "net"); got != "write write quarantine quarantine quarantine" {
			t.Errorf("audited %q: what the same lock's newer save replaces is not dropped", got)
		}
	})
}

// beaten is a database in which somebody else is first to make the state, once.
type beaten struct {
	engine.Store
	meanwhile func()
}

func (b *beaten) Update(ctx context.Context, fn func(engine.Tx) error) error {
	meanwhile := b.meanwhile
	if meanwhile == nil {
		return b.Store.Update(ctx, fn)
	}
	b.meanwhile = nil
	err := b.Store.Update(ctx, func(tx engine.Tx) error { return fn(beatenTx{tx}) })
	meanwhile()
	return err
}

type beatenTx struct{ engine.Tx }

func (beatenTx) CreateState(context.Context, state.State) error {
	return fault.New(fault.Conflict, "state_exists", "There is a state of that name.")
}

// Two that make a state at once, by a lock or a save: neither of them is refused for it.
func TestStateThatSomebodyElseMakesMeanwhile(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		for _, name := range []string{"locked", "saved"} {
			db := &beaten{Store: s.store, meanwhile: func() { s.save(t, ben, name, "B", doc(1, "l", "ben's")) }}
			var err error
			if name == "locked" {
				err = s.serverOn(t, db).LockState(t.Context(), ann, name, lockInfo("A"))
			} else {
				_, err = s.serverOn(t, db).WriteState(t.Context(), ann, name, write("", doc(2, "l", "ann's")))
			}
			if err != nil || db.meanwhile != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if v := s.view(t, name); (v.Lock != nil) != (name == "locked") || v.Head == nil {
				t.Errorf("%s: lock %+v, head %+v", name, v.Lock, v.Head)
			}
		}
		if got := s.versions(t, "saved"); got != "2:2 1:1" {
			t.Errorf("versions %q, want both saves", got)
		}
	})
}

// W2, S16: one version per lock, replaced by its later saves; once released it never changes.
func TestS16OneVersionPerLock(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.mustLock(t, ann, "net", "A")
		for i := 1; i <= 3; i++ {
			s.mustWrite(t, ann, "net", "A", doc(i, "l", "v"))
		}
		s.mustWrite(t, ann, "net", "A", doc(3, "l", "other bytes, same serial"))
		s.mustUnlock(t, ann, "net", "A")
		if got := s.versions(t, "net"); got != "1:3" {
			t.Errorf("after one lock: versions %q, want 1:3", got)
		}
		s.save(t, ann, "net", "A", doc(4, "l", "same id, later lock"))
		if got := s.versions(t, "net"); got != "2:4 1:3" {
			t.Errorf("after a later lock with the same id: versions %q, want 2:4 1:3", got)
		}
	})
}

// S02, and what becomes of it: 409, nothing changed, the holder's bytes kept aside, others' not.
func TestS02RefusedWriteOfTheHolderIsKept(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		s.save(t, ann, "net", "A", doc(7, "l", "v"))
		for _, c := range []struct{ document, code string }{
			{doc(7, "l", "other"), "serial_taken"}, {doc(6, "l", "v"), "serial_too_low"}, {doc(8, "new", "v"), "other_lineage"},
		} {
			_, err := s.WriteState(t.Context(), ben, "net", write("", c.document))
			wantRefused(t, "without a lock", err, c.code)
		}
		if got := s.versions(t, "net"); got != "1:7" {
			t.Errorf("what nobody's lock covers was kept: %q", got)
		}
		s.mustLock(t, ben, "net", "B")
		for _, c := range []struct{ document, code string }{
			{doc(6, "l", "v"), "serial_too_low"}, {doc(8, "new", "v"), "other_lineage"}, {doc(7, "l", "newest"), "serial_taken"},
		} {
			_, err := s.WriteState(t.Context(), ben, "net", write("B", c.document))
			wantRefused(t, "the holder", err, c.code)
			if f := fault.From(err); f.Kind != fault.Conflict || !strings.Contains(f.Public, "quarantined version") {
				t.Errorf("the refusal is %s %q, want a conflict that says where the document is", f.Kind, f.Public)
			}
		}
		if got := s.versions(t, "net"); got != "q4:7 1:7" {
			t.Errorf("versions %q, want the lock's newest refused write beside the head: q4:7 1:7", got)
		}
		c, err := s.StateVersionContent(t.Context(), ben, "net", 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, c.Body); got != doc(7, "l", "newest") {
			t.Errorf("the quarantined version holds %q", got)
		}
		if got := s.read(t, ann, "net"); got != doc(7, "l", "v") {
			t.Errorf("the state was changed to %q", got)
		}
		s.mustWrite(t, ben, "net", "B", doc(8, "l", "fine"))
	})
}

// Twenty are kept for one state; what is dropped is audited, and what is current is never among it.
func TestQuarantineIsBounded(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "net", "A", doc(100, "l", "v"))
		for i := range 22 {
			lockID := fmt.Sprintf("L%d", i)
			s.mustLock(t, ann, "net", lockID)
			_, err := s.WriteState(t.Context(), ann, "net", write(lockID, doc(i, "l", "old")))
			wantRefused(t, "a low serial", err, "serial_too_low")
			s.mustUnlock(t, ann, "net", lockID)
		}
		got := s.versions(t, "net")
		if n := strings.Count(got, "q"); n != 20 || !strings.HasPrefix(got, "q23:21 ") || !strings.HasSuffix(got, "q4:2 1:100") {
			t.Errorf("%d quarantined of %q, want the 20 newest beside the head", n, got)
		}
		if n := strings.Count(s.audited(t, "net"), "quarantine_drop"); n != 2 {
			t.Errorf("%d drops are audited, want 2", n)
		}
	})
}

// The holder of a lock that was forced away did change real things: its save is kept, nobody else's is.
func TestSaveAfterForcedRelease(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben, eve := s.user("ann", access.Operator), s.user("ben", access.Operator), s.user("eve", access.Admin)
		s.mustLock(t, ann, "net", "A")
		s.mustWrite(t, ann, "net", "A", doc(1, "l", "v"))
		s.mustUnlock(t, eve, "net", "A")
		_, err := s.WriteState(t.Context(), ben, "net", write("A", doc(2, "l", "not ben's")))
		wantRefused(t, "somebody who never held it", err, "lock_lost")
		_, err = s.WriteState(t.Context(), ann, "net", write("Z", doc(2, "l", "under no lock")))
		wantRefused(t, "a lock that ann never had", err, "lock_lost")
		if got := s.versions(t, "net"); got != "1:1" {
			t.Errorf("versions %q, want nothing kept yet", got)
		}
		_, err = s.WriteState(t.Context(), ann, "net", write("A", doc(2, "l", "ann's")))
		wantRefused(t, "who held it, nobody has the lock", err, "lock_lost")
		s.mustLock(t, ben, "net", "B")
		_, err = s.WriteState(t.Context(), ann, "net", write("A", doc(3, "l", "ann's last")))
		wantRefused(t, "who held it, somebody else has the lock", err, "state_locked")
		if f := fault.From(err); f.Kind != fault.Conflict {
			t.Errorf("kept, but answered as %s", f.Kind)
		}
		if got := s.versions(t, "net"); got != "q3:3 1:1" {
			t.Errorf("versions %q, want the newest of ann's late saves beside the head: q3:3 1:1", got)
		}
	})
}

// A transfer that was changed or cut is refused by its sum.
func TestContentMD5(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		document := doc(1, "l", "v")
		sum := md5.Sum([]byte(document)) //nolint:gosec // Content-MD5
		w := write("", document)
		w.MD5 = sum[:]
		if _, err := s.WriteState(t.Context(), ann, "net", w); err != nil {
			t.Errorf("the right sum: %v", err)
		}
		w = write("", doc(2, "l", "v"))
		w.MD5 = sum[:]
		_, err := s.WriteState(t.Context(), ann, "net", w)
		wantRefused(t, "a wrong sum", err, "md5_mismatch")
		if got := s.versions(t, "net"); got != "1:1" {
			t.Errorf("versions %q, want 1:1", got)
		}
	})
}

// S12: refused by what is announced, and as it arrives where nothing is announced.
func TestS12StateLimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		pad := func(n int) string {
			const frame = `{"version":4,"serial":1,"x":""}`
			return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
		}
		if _, err := s.WriteState(t.Context(), ann, "net", write("", pad(stateLimit))); err != nil {
			t.Errorf("exactly the limit: %v", err)
		}
		over := pad(stateLimit + 1)
		announced := engine.StateWrite{Size: int64(len(over)), Body: iotest.ErrReader(fmt.Errorf("the body was read"))}
		_, err := s.WriteState(t.Context(), ann, "net", announced)
		wantRefused(t, "announced", err, "too_large")
		_, err = s.WriteState(t.Context(), ann, "net", engine.StateWrite{Size: -1, Body: strings.NewReader(over)})
		wantRefused(t, "not announced", err, "too_large")
	})
}

// The newest are kept, whatever is current among them.
func TestRetention(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		for i := 1; i <= keepVersions+3; i++ {
			s.save(t, ann, "net", "A", doc(i, "l", "v"))
		}
		if got := s.versions(t, "net"); got != "6:6 5:5 4:4" {
			t.Errorf("versions %q, want the newest %d", got, keepVersions)
		}
		_, err := s.StateVersionContent(t.Context(), ann, "net", 1)
		wantRefused(t, "a dropped version", err, "version_not_found")
	})
}

// X06, X25: an attempt's token opens its own state and tells nothing of others; another organization's states do not
// exist.
func TestStatesOfOthers(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		w := s.newWork(t, "mine", false)
		_, attempt := w.attempt(t, "apply")
		s.save(t, ann, "other", "A", doc(1, "l", "v"))
		for _, name := range []string{"other", "never"} {
			_, err := s.ReadState(t.Context(), attempt, name)
			wantRefused(t, "read "+name, err, "other_state")
			wantRefused(t, "lock "+name, s.LockState(t.Context(), attempt, name, lockInfo("B")), "other_state")
			_, err = s.WriteState(t.Context(), attempt, name, write("", doc(2, "l", "v")))
			wantRefused(t, "write "+name, err, "other_state")
			wantRefused(t, "unlock "+name, s.UnlockState(t.Context(), attempt, name, engine.UnlockRequest{ID: "A"}), "other_state")
		}
		stranger := ann
		stranger.Org = "org_elsewhere"
		_, err := s.ReadState(t.Context(), stranger, "other")
		wantRefused(t, "another organization's", err, "state_not_found")
		_, err = s.StateVersionContent(t.Context(), stranger, "other", 1)
		wantRefused(t, "another organization's version", err, "state_not_found")
	})
}

func TestRolesOnStates(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, viewer := s.user("ann", access.Operator), s.user("vic", access.Viewer)
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		_, err := s.ReadState(t.Context(), viewer, "net")
		wantRefused(t, "read", err, "forbidden")
		_, err = s.StateVersionContent(t.Context(), viewer, "net", 1)
		wantRefused(t, "download", err, "forbidden")
		_, err = s.WriteState(t.Context(), viewer, "net", write("", doc(2, "l", "v")))
		wantRefused(t, "write", err, "forbidden")
		wantRefused(t, "lock", s.LockState(t.Context(), viewer, "net", lockInfo("B")), "forbidden")
		wantRefused(t, "unlock", s.UnlockState(t.Context(), viewer, "net", engine.UnlockRequest{}), "forbidden")
		if _, _, err := s.States(t.Context(), viewer, engine.StateFilter{}, engine.Page{Limit: 10}); err != nil {
			t.Errorf("list: %v", err)
		}
		_, err = s.ForceUnlock(t.Context(), ann, "net", engine.UnlockRequest{})
		wantRefused(t, "force as an operator", err, "forbidden")
	})
}

// The tools show a status code and nothing else, so the log has to say why, who, and which locks.
func TestRefusalsAreLogged(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, ben := s.user("ann", access.Operator), s.user("ben", access.Operator)
		ben.RequestID = "req_1"
		s.mustLock(t, ann, "net", "lock-of-ann")
		_, err := s.WriteState(t.Context(), ben, "net", write("lock-of-ben", doc(1, "l", "v")))
		wantRefused(t, "write", err, "state_locked")
		line := ""
		for l := range strings.Lines(s.log.String()) {
			if strings.Contains(l, "state write refused") {
				line = l
			}
		}
		for _, part := range []string{"level=WARN", "code=state_locked", "state=net", "lock=lock-of-ben", "held_lock=lock-of-ann", "held by user ann", "usr_ben", "request_id=req_1"} {
			if !strings.Contains(line, part) {
				t.Errorf("the log line lacks %q: %s", part, line)
			}
		}
		_, err = s.ReadState(t.Context(), ben, "nothing-there")
		wantRefused(t, "read", err, "state_not_found")
		if strings.Contains(s.log.String(), "nothing-there") {
			t.Error("an empty state, which every init asks for, is logged as a refusal")
		}
	})
}

// A version says who wrote it, under which lock, with which key.
func TestVersionSaysWhereItIsFrom(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "net", "A", doc(1, "lin", "v"))
		h := s.view(t, "net").Head
		if h.By.Kind != "user" || h.By.ID != ann.ID || h.By.Name != "ann" || h.LockID != "A" || h.Source != state.SourceWrite ||
			h.Key.Kind != "platform" || h.Key.Name == "" || h.Lineage != "lin" || h.Terraform != "1.12.6" {
			t.Errorf("version %+v lacks something", h)
		}
	})
}
