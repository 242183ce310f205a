package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

const (
	stateLimit   = 1 << 20
	keepVersions = 3
	grace        = 10 * time.Minute
)

// states is an engine on a real store, for the tests of managed state.
type states struct {
	*engine.Engine
	store  *store.Store
	blobs  engine.Blobs // nil: what is large is in the database
	org    string
	log    *safeBuffer
	offset atomic.Int64 // of the clock
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *states) now() time.Time          { return time.Now().Add(time.Duration(s.offset.Load())) }
func (s *states) advance(d time.Duration) { s.offset.Add(int64(d)) }

// onEachStore runs a test on both databases.
func onEachStore(t *testing.T, test func(t *testing.T, s *states)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"))
		if err != nil {
			t.Fatal(err)
		}
		test(t, newStates(t, db))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.New(t), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		test(t, newStates(t, db))
	})
}

func newStates(t *testing.T, db *store.Store) *states {
	t.Helper()
	return newStatesIn(t, db, nil)
}

func newStatesIn(t *testing.T, db *store.Store, blobs engine.Blobs) *states {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &states{store: db, blobs: blobs, log: &safeBuffer{}}
	s.Engine = s.server(t)
	s.org = id.New(id.Organization, s.now())
	s.update(t, func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateOrganization(ctx, access.Organization{ID: s.org, Name: "default", CreatedAt: s.now()})
	})
	return s
}

// server is another server on the same database.
func (s *states) server(t *testing.T) *engine.Engine {
	t.Helper()
	return s.serverOn(t, s.store)
}

// serverOn is a server whose database is db.
func (s *states) serverOn(t *testing.T, db engine.Store) *engine.Engine {
	t.Helper()
	return engine.New(s.config(t, db))
}

// platform is the platform key of all servers.
func (*states) platform(t *testing.T) *keyring.Platform {
	t.Helper()
	keys, err := keyring.NewPlatform(redact.NewSecret("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// config is that of a server whose database is db.
func (s *states) config(t *testing.T, db engine.Store) engine.Config {
	t.Helper()
	keys := s.platform(t)
	chain, err := audit.NewChain(keys.AuditKey())
	if err != nil {
		t.Fatal(err)
	}
	return engine.Config{
		Store: db, Blobs: s.blobs, Keys: keys, Chain: chain, Now: s.now, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Limits: engine.Limits{
			StateMaxBytes: stateLimit, KeepVersions: keepVersions, RunEndGrace: grace, HeartbeatTimeout: 2 * time.Minute,
			DeletedKeep: 7 * 24 * time.Hour, SourceMaxBytes: 1 << 20, PlanMaxBytes: 1 << 20,
		},
	}
}

func (s *states) update(t *testing.T, fn func(ctx context.Context, tx engine.Tx) error) {
	t.Helper()
	if err := s.store.Update(t.Context(), func(tx engine.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func (s *states) user(name string, role access.Role) access.Actor {
	return access.Actor{Kind: access.User, Org: s.org, ID: "usr_" + name, Name: name, Token: "tok_" + name, Role: role}
}

// doc is a state document.
func doc(serial int, lineage, value string) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":%q,"outputs":{"v":{"value":%q,"type":"string"}},"resources":[]}`, serial, lineage, value)
}

func lockInfo(lockID string) state.LockInfo {
	return state.LockInfo{ID: lockID, Operation: "OperationTypeApply", Who: "x@y", Version: "1.12.6"}
}

func write(lockID, document string) engine.StateWrite {
	return engine.StateWrite{LockID: lockID, Size: int64(len(document)), Body: strings.NewReader(document)}
}

func (s *states) mustLock(t *testing.T, a access.Actor, name, lockID string) {
	t.Helper()
	if err := s.LockState(t.Context(), a, name, lockInfo(lockID)); err != nil {
		t.Fatalf("lock %s as %s: %v", name, lockID, err)
	}
}

func (s *states) mustUnlock(t *testing.T, a access.Actor, name, lockID string) {
	t.Helper()
	if err := s.UnlockState(t.Context(), a, name, engine.UnlockRequest{ID: lockID}); err != nil {
		t.Fatalf("unlock %s as %s: %v", name, lockID, err)
	}
}

func (s *states) mustWrite(t *testing.T, a access.Actor, name, lockID, document string) state.Version {
	t.Helper()
	v, err := s.WriteState(t.Context(), a, name, write(lockID, document))
	if err != nil {
		t.Fatalf("write %s under %q: %v", name, lockID, err)
	}
	return v
}

// save is a whole cycle.
func (s *states) save(t *testing.T, a access.Actor, name, lockID, document string) state.Version {
	t.Helper()
	s.mustLock(t, a, name, lockID)
	v := s.mustWrite(t, a, name, lockID, document)
	s.mustUnlock(t, a, name, lockID)
	return v
}

func (s *states) read(t *testing.T, a access.Actor, name string) string {
	t.Helper()
	c, err := s.ReadState(t.Context(), a, name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return readAll(t, c.Body)
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s *states) view(t *testing.T, name string) engine.StateView {
	t.Helper()
	v, err := s.State(t.Context(), s.user("viewer", access.Viewer), name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// versions lists "number:serial", newest first, a quarantined one with a q before it.
func (s *states) versions(t *testing.T, name string) string {
	t.Helper()
	_, vs, _, err := s.StateVersions(t.Context(), s.user("viewer", access.Viewer), name, false, engine.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, v := range vs {
		if v.Quarantined {
			b.WriteString("q")
		}
		fmt.Fprintf(&b, "%d:%d ", v.Number, v.Serial.N)
	}
	return strings.TrimSpace(b.String())
}

// audited lists the actions on a state, oldest first.
func (s *states) audited(t *testing.T, name string) string {
	t.Helper()
	var actions []string
	err := s.store.View(t.Context(), func(tx engine.Tx) error {
		actions = nil
		rs, err := tx.AuditFrom(t.Context(), s.org, 1, 500)
		for _, r := range rs {
			if r.Object == name {
				actions = append(actions, strings.TrimPrefix(r.Action, "state."))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(actions, " ")
}

// work is a run of one component with its attempts.
type work struct {
	s     *states
	run   run.Run
	state state.State
	tasks map[run.TaskKind]run.Task
}

// newWork makes a run on a state that it makes.
func (s *states) newWork(t *testing.T, name string, hold bool) *work {
	t.Helper()
	now := s.now()
	acc := access.Account{ID: id.New(id.Account, now), Org: s.org, Name: "acc-" + name + id.New("x", now), Enabled: true, CreatedAt: now}
	st := state.State{ID: id.New(id.State, now), Org: s.org, Name: name, CreatedAt: now, UpdatedAt: now}
	w := &work{s: s, state: st, tasks: map[run.TaskKind]run.Task{}}
	s.update(t, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateAccount(ctx, acc); err != nil {
			return err
		}
		if err := tx.CreateState(ctx, st); err != nil {
			return err
		}
		stack, err := tx.PutStack(ctx, run.Stack{ID: id.New(id.Stack, now), Org: s.org, Name: name, Account: acc.ID, Approval: run.Always, CreatedAt: now, UpdatedAt: now})
		if err != nil {
			return err
		}
		w.run = run.Run{
			ID: id.New(id.Run, now), Org: s.org, Stack: stack.ID, StackName: name, Account: acc.ID, Kind: run.Deploy, Status: run.Planning, Hold: hold,
			CreatedAt: now, CreatedBy: run.Person{Kind: "user", ID: "usr_ann", Name: "ann"},
		}
		w.run.Components = []run.Component{{Run: w.run.ID, Name: "main", StateName: name, StateID: st.ID, Inputs: json.RawMessage("{}"), Status: run.ComponentPending}}
		return tx.CreateRun(ctx, w.run)
	})
	return w
}

// attempt makes another attempt of the run's plan or apply, accepted now, and its actor.
func (w *work) attempt(t *testing.T, kind run.TaskKind) (run.Attempt, access.Actor) {
	t.Helper()
	now := w.s.now()
	task, ok := w.tasks[kind]
	if !ok {
		task = run.Task{ID: id.New(id.Task, now), Org: w.s.org, Run: w.run.ID, Component: "main", Account: w.run.Account, Kind: kind, Status: run.TaskRunning, CreatedAt: now}
		w.s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.CreateTask(ctx, task) })
	}
	task.Attempts++
	w.tasks[kind] = task
	a := run.Attempt{
		ID: id.New(id.Attempt, now), Org: w.s.org, Task: task.ID, Run: w.run.ID, Component: "main", TaskKind: kind, Number: task.Attempts,
		Agent: "agt_1", AgentName: "agent one", Status: run.AttemptAccepted, OfferedAt: now, AcceptedAt: now, HeartbeatAt: now,
	}
	w.s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.CreateAttempt(ctx, a) })
	return a, access.Actor{Kind: access.Attempt, Org: w.s.org, ID: a.ID, Name: a.AgentName, Token: "tok_" + a.ID, Run: w.run.ID, Task: task.ID, State: w.state.ID}
}

// set stores the attempt with a new status.
func (w *work) set(t *testing.T, a *run.Attempt, status run.AttemptStatus) {
	t.Helper()
	a.Status, a.EndedAt = status, w.s.now()
	w.s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateAttempt(ctx, *a) })
}

// planned stores that the run's plan was made on the state whose document has this SHA-256.
func (w *work) planned(t *testing.T, base string) {
	t.Helper()
	w.run.Components[0].Plan = &run.Plan{Digest: "sha256:1", BaseSHA256: base, HasChanges: true, View: json.RawMessage("{}")}
	w.s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.UpdateRun(ctx, w.run) })
}
