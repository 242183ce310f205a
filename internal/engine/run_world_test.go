package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

// closer is a store that tests close.
type closer interface {
	engine.Store
	Close() error
}

// runPostgres is a migrated database to copy.
var runPostgres = pgtest.Template{Prepare: func(ctx context.Context, url string) error {
	db, err := postgres.Open(ctx, postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return db.Close()
}}

func openSQLite(t testing.TB) closer {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func openPostgres(t testing.TB) closer {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: runPostgres.New(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(t *testing.T, w *runWorld)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newRunWorld(t, openSQLite(t))) })
	t.Run("postgres", func(t *testing.T) { test(t, newRunWorld(t, openPostgres(t))) })
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond) // so that no two things happen at one time
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// breakable is a store that fails at one update: before its commit, or after it, when the answer is lost.
type breakable struct {
	engine.Store
	mu      sync.Mutex
	updates int
	at      int // the update that fails; 0 for none
	after   bool
}

var errBroken = fault.New(fault.Unavailable, "broken", "The store was told to fail.")

func (b *breakable) Update(ctx context.Context, fn func(engine.Tx) error) error {
	b.mu.Lock()
	b.updates++
	broken, after := b.updates == b.at, b.after
	b.mu.Unlock()
	if !broken {
		return b.Store.Update(ctx, fn)
	}
	if after {
		if err := b.Store.Update(ctx, fn); err != nil {
			return err
		}
		return errBroken
	}
	err := b.Store.Update(ctx, func(tx engine.Tx) error { return errors.Join(fn(tx), errBroken) })
	if !errors.Is(err, errBroken) {
		return err
	}
	return errBroken
}

// runWorld is an engine on a real store, with an organization, an account, people and agents.
type runWorld struct {
	t      testing.TB
	engine *engine.Engine
	store  engine.Store
	config engine.Config
	clock  *clock
	org    string
	alice  access.Actor // an administrator
	bob    access.Actor // a viewer
	agents []access.Actor
	source engine.Object
}

const testAccount = "local"

func newRunWorld(t testing.TB, db closer) *runWorld {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return worldOn(t, db)
}

func worldOn(t testing.TB, db engine.Store) *runWorld {
	t.Helper()
	keys, err := keyring.NewPlatform(redact.NewSecret("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
	if err != nil {
		t.Fatal(err)
	}
	chain, err := audit.NewChain(keys.AuditKey())
	if err != nil {
		t.Fatal(err)
	}
	w := &runWorld{t: t, store: db, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	w.config = engine.Config{Store: db, Keys: keys, Chain: chain, Now: w.clock.Now, Log: slog.New(slog.DiscardHandler), Limits: engine.Limits{
		StateMaxBytes: 32 << 20, KeepVersions: 50, DeletedKeep: 7 * 24 * time.Hour, RunEndGrace: 10 * time.Minute, HeartbeatTimeout: 2 * time.Minute,
		StepTimeout: 45 * time.Minute, SourceMaxBytes: 1 << 20, PlanMaxBytes: 8 << 20,
	}}
	w.restart()
	admin := redact.NewSecret("the-first-administrator-of-the-tests")
	if _, err := w.engine.Bootstrap(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	if w.alice, err = w.engine.Authenticate(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	w.org = w.alice.Org
	w.bob = access.Actor{Kind: access.User, Org: w.org, ID: "usr_bob", Name: "bob", Role: access.Viewer}
	w.addAccount(w.alice, testAccount)
	w.agents = []access.Actor{w.addAgent(w.alice, "one", testAccount), w.addAgent(w.alice, "two", testAccount)}
	w.source = w.upload(w.alice, "source")
	return w
}

// restart makes a new engine on the same rows, as a server does that was killed.
func (w *runWorld) restart() { w.engine = engine.New(w.config) }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected: %v", err)
		}
		return v
	}
}

func (w *runWorld) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("unexpected: %v", err)
	}
}

func wantCode(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.Is(err, kind) || fault.Code(err) != code {
		t.Errorf("error = %v (kind %s, code %q), want kind %s, code %q", err, fault.From(err).Kind, fault.Code(err), kind, code)
	}
}

func (w *runWorld) addAccount(admin access.Actor, name string) access.Account {
	w.t.Helper()
	acc := must[access.Account](w.t)(w.engine.AddAccount(w.t.Context(), admin, name))
	if !acc.Enabled {
		acc = must[access.Account](w.t)(w.engine.EnableAccount(w.t.Context(), admin, name, true))
	}
	return acc
}

func (w *runWorld) addAgent(admin access.Actor, name, account string) access.Actor {
	w.t.Helper()
	_, token, err := w.engine.IssueAgent(w.t.Context(), admin, name, account)
	w.ok(err)
	agent := must[access.Actor](w.t)(w.engine.Authenticate(w.t.Context(), token))
	must[engine.Registered](w.t)(w.engine.Register(w.t.Context(), agent, engine.Registration{Version: "1.0.0"}))
	return agent
}

func (w *runWorld) upload(by access.Actor, content string) engine.Object {
	w.t.Helper()
	archive := io.MultiReader(bytes.NewReader([]byte{0x28, 0xb5, 0x2f, 0xfd}), bytes.NewReader([]byte(content)))
	return must[engine.Object](w.t)(w.engine.UploadSource(w.t.Context(), by, archive))
}

func (w *runWorld) putStack(in engine.PutStack) engine.StackView {
	w.t.Helper()
	if in.Account == "" {
		in.Account = testAccount
	}
	return must[engine.StackView](w.t)(w.engine.PutStack(w.t.Context(), w.alice, in))
}

func (w *runWorld) startRun(stack string) engine.StartRun {
	return engine.StartRun{Stack: stack, Components: []engine.StartComponent{{Name: "main", Source: w.source.ID, Inputs: json.RawMessage(`{"size": 1}`)}}}
}

func (w *runWorld) start(in engine.StartRun) run.Run {
	w.t.Helper()
	return must[engine.RunView](w.t)(w.engine.StartRun(w.t.Context(), w.alice, in)).Run
}

func (w *runWorld) run(id string) run.Run {
	w.t.Helper()
	return w.view(id).Run
}

func (w *runWorld) view(id string) engine.RunView {
	w.t.Helper()
	return must[engine.RunView](w.t)(w.engine.Run(w.t.Context(), w.alice, id))
}

func (w *runWorld) wantStatus(id string, want run.Status) run.Run {
	w.t.Helper()
	r := w.run(id)
	if r.Status != want {
		w.t.Fatalf("run %s is %s (%s: %s), want %s", id, r.Status, r.Class, r.Message, want)
	}
	return r
}

func (w *runWorld) sweep() {
	w.t.Helper()
	w.ok(w.engine.Sweep(w.t.Context()))
}

// pass lets time pass as it does for a server that is up: with a sweep every few seconds.
func (w *runWorld) pass(d time.Duration) {
	w.t.Helper()
	for d > 0 {
		w.clock.move(min(d, 20*time.Second))
		d -= 20 * time.Second
		w.sweep()
	}
}

func (w *runWorld) update(fn func(context.Context, engine.Tx) error) {
	w.t.Helper()
	w.ok(w.store.Update(w.t.Context(), func(tx engine.Tx) error { return fn(w.t.Context(), tx) }))
}

func (w *runWorld) state(name string) state.State {
	w.t.Helper()
	return must[engine.StateView](w.t)(w.engine.State(w.t.Context(), w.alice, name)).State
}

// personWrites changes a state as a person with a tool does.
func (w *runWorld) personWrites(name string, serial int) {
	w.t.Helper()
	w.ok(writeState(w.t.Context(), w.engine, w.alice, name, "lock-of-alice", document(serial, "by hand"), engine.UnlockRequest{ID: "lock-of-alice"}))
}

func document(serial int, value string) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"l","outputs":{"o":{"value":%q,"type":"string"}},"resources":[],"check_results":null}`,
		serial, value)
}

// writeState is a tool's lock, save and unlock. An empty document saves nothing.
func writeState(ctx context.Context, e *engine.Engine, a access.Actor, name, lock, doc string, unlock engine.UnlockRequest) error {
	if err := e.LockState(ctx, a, name, state.LockInfo{ID: lock, Operation: "OperationTypeApply"}); err != nil {
		return err
	}
	if doc != "" {
		if _, err := e.WriteState(ctx, a, name, engine.StateWrite{LockID: lock, Size: int64(len(doc)), Body: bytes.NewReader([]byte(doc))}); err != nil {
			return err
		}
	}
	return e.UnlockState(ctx, a, name, unlock)
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// stranger is an administrator of another organization.
func (w *runWorld) stranger() (access.Actor, error) {
	o, err := w.engine.AddOrganization(w.t.Context(), w.alice, "others")
	return access.Actor{Kind: access.User, Org: o.ID, ID: "usr_eve", Name: "eve", Role: access.Admin}, err
}

func (w *runWorld) deleteState(name string) func(context.Context, engine.Tx) error {
	return func(ctx context.Context, tx engine.Tx) error {
		s, err := tx.StateForUpdate(ctx, w.org, name)
		if err != nil {
			return err
		}
		s.DeletedAt = w.clock.Now()
		return tx.UpdateState(ctx, s)
	}
}

func reader(text string) io.Reader { return bytes.NewReader([]byte(text)) }
