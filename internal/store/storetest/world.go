package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

// now has microseconds that are not whole milliseconds.
var now = time.UnixMicro(1_750_000_000_123_456).UTC()

func after(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }

// wait bounds whatever a test waits for.
const wait = 30 * time.Second

func update(t testing.TB, s *store.Store, fn func(context.Context, engine.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx engine.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatalf("update: %v", err)
	}
}

func view(t testing.TB, s *store.Store, fn func(context.Context, engine.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), func(tx engine.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// refused checks that an update of its own fails with the kind.
func refused(t testing.TB, s *store.Store, kind fault.Kind, what string, fn func(context.Context, engine.Tx) error) {
	t.Helper()
	err := s.Update(t.Context(), func(tx engine.Tx) error { return fn(t.Context(), tx) })
	wantKind(t, what, err, kind)
}

func wantKind(t testing.TB, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: got error %v, want one of kind %s", what, err, kind)
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// all reads a list page by page.
func all[T any](t testing.TB, limit int, list func(engine.Page) ([]T, string, error)) []T {
	t.Helper()
	var items []T
	p := engine.Page{Limit: limit}
	for {
		more, next, err := list(p)
		if err != nil {
			t.Fatalf("page after %q: %v", p.Cursor, err)
		}
		if len(more) > limit {
			t.Fatalf("a page of at most %d has %d items", limit, len(more))
		}
		items = append(items, more...)
		if next == "" {
			return items
		}
		p.Cursor = next
	}
}

func names[T any](items []T, name func(T) string) []string {
	out := []string{}
	for _, i := range items {
		out = append(out, name(i))
	}
	return out
}

// world is the rows that others refer to.
type world struct {
	org     access.Organization
	user    access.UserRecord
	account access.Account
	agent   access.AgentRecord
	stack   run.Stack
}

func newWorld(t testing.TB, s *store.Store) world {
	t.Helper()
	return newWorldNamed(t, s, "acme")
}

// newWorldNamed is newWorld of another organization.
func newWorldNamed(t testing.TB, s *store.Store, org string) world {
	t.Helper()
	w := world{org: access.Organization{ID: id.New(id.Organization, now), Name: org, CreatedAt: now}}
	w.user = access.UserRecord{ID: id.New(id.User, now), Org: w.org.ID, Name: "ann", Role: access.Admin, CreatedAt: now}
	w.account = access.Account{ID: id.New(id.Account, now), Org: w.org.ID, Name: "local", Enabled: true, CreatedAt: now}
	w.agent = access.AgentRecord{
		ID: id.New(id.Agent, now), Org: w.org.ID, Account: w.account.ID, Name: "agent-1", Version: "1.2.3",
		Capabilities: []string{"process", "tofu 1.12.6"}, SealingKey: "key", CreatedAt: now,
	}
	w.stack = run.Stack{
		ID: id.New(id.Stack, now), Org: w.org.ID, Name: "shop", Account: w.account.ID, Production: true,
		Approval: run.HighRisk, Hold: true, CreatedAt: now, UpdatedAt: now,
	}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateOrganization(ctx, w.org); err != nil {
			return err
		}
		if err := tx.CreateUser(ctx, w.user); err != nil {
			return err
		}
		if err := tx.CreateAccount(ctx, w.account); err != nil {
			return err
		}
		if err := tx.CreateAgent(ctx, w.agent); err != nil {
			return err
		}
		_, err := tx.PutStack(ctx, w.stack)
		return err
	})
	return w
}

func (w world) newState(name string) state.State {
	return state.State{ID: id.New(id.State, now), Org: w.org.ID, Name: name, CreatedAt: now, UpdatedAt: now}
}

func (w world) newRun() run.Run {
	return run.Run{
		ID: id.New(id.Run, now), Org: w.org.ID, Stack: w.stack.ID, StackName: w.stack.Name, Account: w.account.ID,
		Kind: run.Deploy, Status: run.Queued, CreatedAt: now,
		CreatedBy: run.Person{Kind: "user", ID: w.user.ID, Name: w.user.Name}, Components: []run.Component{},
	}
}

func (w world) newTask(r run.Run) run.Task {
	return run.Task{
		ID: id.New(id.Task, now), Org: w.org.ID, Run: r.ID, Component: "web", Account: w.account.ID, Kind: run.TaskPlan,
		Status: run.TaskReady, CreatedAt: now,
	}
}

func (w world) newAttempt(k run.Task, number int) run.Attempt {
	return run.Attempt{
		ID: id.New(id.Attempt, now), Org: w.org.ID, Task: k.ID, Run: k.Run, Component: k.Component, TaskKind: k.Kind,
		Number: number, Agent: w.agent.ID, AgentName: w.agent.Name, Status: run.AttemptOffered, OfferedAt: now,
	}
}

// withTask makes a run with a task.
func (w world) withTask(t testing.TB, s *store.Store) (run.Run, run.Task) {
	t.Helper()
	r := w.newRun()
	k := w.newTask(r)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateRun(ctx, r); err != nil {
			return err
		}
		return tx.CreateTask(ctx, k)
	})
	return r, k
}

// together runs n functions at once and gives their errors.
func together(t testing.TB, n int, fn func(i int) error) []error {
	t.Helper()
	errs := make([]error, n)
	start, done := make(chan struct{}), make(chan int, n)
	for i := range n {
		go func() {
			<-start
			errs[i] = fn(i)
			done <- i
		}()
	}
	close(start)
	limit := time.After(wait)
	for range n {
		select {
		case <-done:
		case <-limit:
			t.Fatalf("%d at once have not ended after %s", n, wait)
		}
	}
	return errs
}

func noErrors(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("number %d: %v", i, err)
		}
	}
}
