package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
)

// gone checks that there is no state of this name for anybody.
func (s *states) gone(t *testing.T, name string) {
	t.Helper()
	_, err := s.State(t.Context(), s.user("viewer", access.Viewer), name)
	wantRefused(t, name, err, "state_not_found")
}

func (s *states) mustDelete(t *testing.T, name string, purge bool) {
	t.Helper()
	if err := s.DeleteState(t.Context(), s.user("eve", access.Admin), name, purge); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

func (s *states) housekeep(t *testing.T) {
	t.Helper()
	if err := s.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPurge(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		v := s.save(t, ann, "at-once", "A", doc(1, "l", "v"))
		s.mustDelete(t, "at-once", true)
		s.gone(t, "at-once")
		err := s.store.View(t.Context(), func(tx engine.Tx) error { _, err := tx.Object(t.Context(), v.ID); return err })
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("the bytes of a purged state: %v, want not found", err)
		}
		s.save(t, ann, "at-once", "A", doc(1, "new", "v"))
		for _, name := range []string{"kept", "restored"} {
			s.save(t, ann, name, "A", doc(1, "l", "v"))
			s.mustDelete(t, name, false)
		}
		s.advance(7*24*time.Hour - time.Minute)
		s.housekeep(t)
		if s.view(t, "kept").DeletedAt.IsZero() {
			t.Error("not deleted any more")
		}
		if _, err := s.RestoreState(t.Context(), s.user("eve", access.Admin), "restored"); err != nil {
			t.Fatal(err)
		}
		s.advance(2 * time.Minute)
		s.housekeep(t)
		s.gone(t, "kept")
		if got := s.audited(t, "kept"); got != "write delete purge" {
			t.Errorf("audited %q", got)
		}
		for name, want := range map[string]string{"restored": doc(1, "l", "v"), "at-once": doc(1, "new", "v")} {
			if got := s.read(t, ann, name); got != want {
				t.Errorf("the sweep took what is not deleted: %s is %q", name, got)
			}
		}
	})
}

// The sweep comes to every deleted state, however many there are, and leaves those that are not due.
func TestSweepOfManyDeletedStates(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		make := func(prefix string, n int) {
			s.update(t, func(ctx context.Context, tx engine.Tx) error {
				for i := range n {
					now := s.now()
					err := tx.CreateState(ctx, state.State{
						ID: id.New(id.State, now), Org: s.org, Name: fmt.Sprintf("%s-%03d", prefix, i), CreatedAt: now, UpdatedAt: now, DeletedAt: now,
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		make("z-old", 3)
		s.advance(4 * 24 * time.Hour)
		make("a-young", 120)
		s.advance(4 * 24 * time.Hour)
		s.housekeep(t)
		items, _, err := s.States(t.Context(), s.user("vic", access.Viewer), engine.StateFilter{Deleted: true}, engine.Page{Limit: 500})
		if err != nil || len(items) != 120 || !strings.HasPrefix(items[119].Name, "a-young") {
			t.Errorf("%d deleted states are left, %v; want the 120 young ones", len(items), err)
		}
	})
}

// crashing is a store whose server dies before one of its updates.
type crashing struct {
	engine.Store
	after   int // updates that are done before
	updates []int
	count   func() int
}

var errCrash = errors.New("the server died")

func (c *crashing) Update(ctx context.Context, fn func(engine.Tx) error) error {
	if c.after == 0 {
		return errCrash
	}
	c.after--
	err := c.Store.Update(ctx, fn)
	c.updates = append(c.updates, c.count())
	return err
}

// A purge is done in bounded steps. Whatever dies between them, the state is gone for everybody from the first on,
// and the sweep or the next one to ask does the rest.
func TestPurgeIsBoundedAndSurvivesACrash(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		for name, resume := range map[string]func(t *testing.T, name string){
			"by-sweep":  func(t *testing.T, _ string) { s.housekeep(t) },
			"by-delete": func(t *testing.T, name string) { s.mustDelete(t, name, true) },
			"by-import": func(t *testing.T, name string) {
				if _, err := s.ImportState(t.Context(), ann, name, engine.StateImport{StateWrite: write("", doc(1, "new", "v"))}); err != nil {
					t.Fatal(err)
				}
				s.mustDelete(t, name, true)
			},
		} {
			last := s.save(t, ann, name, "A", doc(1, "l", "v"))
			s.fill(t, last, 250)
			c := &crashing{Store: s.store, after: 2, count: func() int { return s.stored(t, last.StateID) }}
			err := s.serverOn(t, c).DeleteState(t.Context(), eve, name, true)
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v, want the crash", name, err)
			}
			if got := fmt.Sprint(c.updates); got != "[250 150]" {
				t.Errorf("%s: versions after each transaction %s, want at most 100 fewer", name, got)
			}
			s.gone(t, name)
			_, err = s.ReadState(t.Context(), ann, name)
			wantRefused(t, name+": read", err, "state_purged")
			wantRefused(t, name+": lock", s.LockState(t.Context(), ann, name, lockInfo("B")), "state_purged")
			_, err = s.RestoreState(t.Context(), eve, name)
			wantRefused(t, name+": restore", err, "state_purged")
			_, _, _, err = s.StateVersions(t.Context(), eve, name, false, engine.Page{Limit: 1})
			wantRefused(t, name+": versions", err, "state_not_found")
			if items, _, err := s.States(t.Context(), eve, engine.StateFilter{Deleted: true}, engine.Page{Limit: 10}); err != nil || len(items) != 0 {
				t.Errorf("%s: listed among the deleted: %+v, %v", name, items, err)
			}
			resume(t, name)
			s.gone(t, name)
			if n := s.stored(t, last.StateID); n != 0 {
				t.Errorf("%s: %d versions are left", name, n)
			}
			if got := s.audited(t, name); strings.Count(got, "purge") != 1+strings.Count(got, "import") {
				t.Errorf("%s: audited %q, want each purge once", name, got)
			}
		}
	})
}

// A step ends with the version that passes its bytes, however few versions that are.
func TestPurgeStepIsBoundedInBytes(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		last := s.save(t, s.user("ann", access.Operator), "net", "A", doc(1, "l", "v"))
		last.Size = 40 << 20
		s.fill(t, last, 5)
		c := &crashing{Store: s.store, after: 100, count: func() int { return s.stored(t, last.StateID) }}
		if err := s.serverOn(t, c).DeleteState(t.Context(), s.user("eve", access.Admin), "net", true); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.updates); got != "[5 3 1 0 0]" {
			t.Errorf("versions after each transaction %s, want two fewer each time", got)
		}
	})
}

// fill gives v's state n versions like v.
func (s *states) fill(t *testing.T, v state.Version, n int) {
	t.Helper()
	s.update(t, func(ctx context.Context, tx engine.Tx) error {
		for number := v.Number + 1; number <= int64(n); number++ {
			next := v
			next.ID, next.Number, next.LockKey = id.New(id.Write, s.now()), number, ""
			if err := tx.PutVersion(ctx, next); err != nil {
				return err
			}
		}
		return nil
	})
}

// stored is how many versions of a state are stored.
func (s *states) stored(t *testing.T, stateID string) (n int) {
	t.Helper()
	err := s.store.View(t.Context(), func(tx engine.Tx) error {
		vs, _, err := tx.Versions(t.Context(), stateID, false, engine.Page{Limit: 500})
		n = len(vs)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// S19: a deleted state can be restored, until somebody who may says that an import is to replace it.
func TestS19ImportOverADeletedName(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		imports := func(a access.Actor, replace bool) error {
			_, err := s.ImportState(t.Context(), a, "net", engine.StateImport{StateWrite: write("", doc(1, "new", "v")), ReplaceDeleted: replace})
			return err
		}
		s.save(t, ann, "net", "A", doc(9, "l", "v"))
		wantRefused(t, "a live one", imports(eve, true), "state_exists")
		s.mustDelete(t, "net", false)
		for _, a := range []access.Actor{ann, eve} {
			err := imports(a, false)
			wantRefused(t, a.Name+", without saying so", err, "name_deleted")
			if f := fault.From(err); f.Kind != fault.Conflict || !strings.Contains(f.Hint, "--replace-deleted") {
				t.Errorf("refused as %s, hint %q", f.Kind, f.Hint)
			}
		}
		wantRefused(t, "an operator", imports(ann, true), "forbidden")
		if _, err := s.ImportState(t.Context(), eve, "net", engine.StateImport{StateWrite: write("", "no state"), ReplaceDeleted: true}); err == nil {
			t.Error("what is no state was imported")
		}
		if v, err := s.RestoreState(t.Context(), eve, "net"); err != nil || v.Head == nil || v.Head.Serial.N != 9 {
			t.Fatalf("after the refusals, restored as %+v, %v", v, err)
		}
		s.mustDelete(t, "net", false)
		if err := imports(eve, true); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, ann, "net"); got != doc(1, "new", "v") {
			t.Errorf("current is %q", got)
		}
		if got := s.versions(t, "net"); got != "1:1" {
			t.Errorf("versions %q, want none of the state before", got)
		}
		if got := s.audited(t, "net"); got != "write delete restore delete purge import" {
			t.Errorf("audited %q", got)
		}
		if err := imports(eve, true); fault.Code(err) != "state_exists" {
			t.Errorf("a repeat: %v", err)
		}
		if _, err := s.ImportState(t.Context(), ann, "fresh", engine.StateImport{StateWrite: engine.StateWrite{Size: -1, Body: io.NopCloser(strings.NewReader(doc(1, "l", "v")))}, ReplaceDeleted: true}); err != nil {
			t.Errorf("a name that is free needs no permission to replace: %v", err)
		}
	})
}

// interleaved is a store on which something else happens just before one of its updates.
type interleaved struct {
	engine.Store
	at   int
	then func()
}

func (i *interleaved) Update(ctx context.Context, fn func(engine.Tx) error) error {
	if i.at--; i.at == 0 {
		i.then()
	}
	return i.Store.Update(ctx, fn)
}

// A state that is restored while the sweep looks at it stays.
func TestSweepLeavesWhatIsRestoredMeanwhile(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		s.save(t, ann, "net", "A", doc(1, "l", "v"))
		s.mustDelete(t, "net", false)
		s.advance(8 * 24 * time.Hour)
		restored := false
		i := &interleaved{Store: s.store, at: 2, then: func() { // the first is the sweep of what was staged
			_, err := s.RestoreState(t.Context(), eve, "net")
			restored = err == nil
		}}
		if err := s.serverOn(t, i).Housekeep(t.Context()); err != nil || !restored {
			t.Fatalf("restored meanwhile: %t, %v", restored, err)
		}
		if got := s.read(t, ann, "net"); got != doc(1, "l", "v") {
			t.Errorf("current is %q", got)
		}
	})
}
