package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/test/load"
)

const (
	writers = 8
	saves   = 3 // under one lock
	rate    = 100
)

// writer saves one state again and again, as a tool does that repeats what it got no answer to: a lock, a few saves,
// and the release. It knows what it was told, and so what must be there.
type writer struct {
	name   string
	size   int
	caller *load.Caller
	turns  <-chan time.Time // one for each save
	acked  chan<- struct{}

	mu                sync.Mutex
	round             uint64 // whose lock it asks for, holds or releases
	sent, stored, all uint64 // serials; all is the saves that were acknowledged
}

// squad is writers at work.
type squad struct {
	writers []*writer
	acked   chan struct{}
	begun   time.Time
	ctx     context.Context //nolint:containedctx // its end is that a writer gave up
	stop    func()
}

// put sets writers to work on m, at most rate saves a second together.
func put(t *testing.T, m *mortal) *squad {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	turns := time.NewTicker(time.Second / rate)
	s := &squad{acked: make(chan struct{}, 100_000), begun: time.Now(), ctx: ctx}
	var all sync.WaitGroup
	for i := range writers {
		size := 2 << 10 // stored with its row
		if i%4 == 3 {
			size = 300 << 10 // in chunks, which have transactions of their own
		}
		w := &writer{name: fmt.Sprint("state-", i), size: size, caller: load.NewCaller(m.at), turns: turns.C, acked: s.acked}
		s.writers = append(s.writers, w)
		all.Go(func() {
			defer w.caller.Close()
			if err := w.run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", w.name, err))
			}
		})
	}
	s.stop = sync.OnceFunc(func() {
		cancel(nil)
		all.Wait()
		turns.Stop()
	})
	t.Cleanup(s.stop)
	return s
}

func (w *writer) run(ctx context.Context) error {
	for round := uint64(1); ; round++ {
		w.mu.Lock()
		w.round = round
		w.mu.Unlock()
		id := lockOf(w.name, round)
		if err := w.caller.Do(ctx, func(c *load.Client, _ bool) error { return alone(c.Lock(ctx, w.name, id)) }); err != nil {
			return err
		}
		for serial := (round-1)*saves + 1; serial <= round*saves; serial++ {
			if err := w.save(ctx, id, serial); err != nil {
				return err
			}
		}
		if err := w.caller.Do(ctx, func(c *load.Client, _ bool) error { return alone(c.Unlock(ctx, w.name, id)) }); err != nil {
			return err
		}
	}
}

// alone makes a failure of a lock that somebody else has: each writer has its own state.
func alone(held string, err error) error {
	if err == nil && held != "" {
		err = fmt.Errorf("locked by %s, which nobody holds", held)
	}
	return err
}

func (w *writer) save(ctx context.Context, id string, serial uint64) error {
	select {
	case <-w.turns:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	document := w.document(serial)
	w.mu.Lock()
	w.sent = serial
	w.mu.Unlock()
	if err := w.caller.Do(ctx, func(c *load.Client, _ bool) error { return c.Post(ctx, w.name, id, document) }); err != nil {
		return err
	}
	w.mu.Lock()
	w.stored = serial
	w.all++
	w.mu.Unlock()
	w.acked <- struct{}{}
	return nil
}

func lockOf(name string, round uint64) string { return fmt.Sprintf("%s.%d", name, round) }

func (w *writer) document(serial uint64) []byte {
	return load.Document(serial, w.name, w.size, load.Incompressible)
}

// known is what a writer had been told at one moment.
type known struct{ round, sent, stored uint64 }

func (w *writer) known() known {
	w.mu.Lock()
	defer w.mu.Unlock()
	return known{w.round, w.sent, w.stored}
}

// check looks at each state while its writer goes on.
func (s *squad) check(t *testing.T, m *mortal) {
	t.Helper()
	server, backend := m.client(t), load.NewClient(m.at().URL, m.at().Token)
	defer backend.Close()
	for _, w := range s.writers {
		w.checkDocument(t, backend)
		w.checkLock(t, server)
	}
}

// checkDocument: what was acknowledged last, or anything sent since, whole.
func (w *writer) checkDocument(t *testing.T, backend *load.Client) {
	t.Helper()
	before := w.known()
	got, err := backend.Get(t.Context(), w.name)
	if err != nil {
		t.Fatal(err)
	}
	after := w.known()
	var serial uint64
	if got != nil {
		if serial, err = load.Serial(got); err != nil {
			t.Fatal(err)
		}
	}
	if serial < before.stored || serial > after.sent {
		t.Fatalf("%s has serial %d; %d was acknowledged before, and %d sent since", w.name, serial, before.stored, after.sent)
	}
	if got != nil && !bytes.Equal(got, w.document(serial)) {
		t.Fatalf("%s has other bytes than were sent with serial %d", w.name, serial)
	}
}

// pull downloads a version.
func (w *writer) pull(t *testing.T, server *client.Client, version int64) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := server.PullState(t.Context(), w.name, version, "", &b); err != nil {
		t.Fatalf("read version %d of %s: %v", version, w.name, err)
	}
	return b.Bytes()
}

func (w *writer) state(t *testing.T, server *client.Client) api.State {
	t.Helper()
	s, err := server.State(t.Context(), w.name)
	if code := problemCode(err); err != nil && code != "state_not_found" {
		t.Fatalf("read %s: %v", w.name, err)
	}
	return s
}

// checkLock: a lock is its writer's, of the round that it is at.
func (w *writer) checkLock(t *testing.T, server *client.Client) {
	t.Helper()
	before := w.known()
	s := w.state(t, server)
	after := w.known()
	if s.Lock == nil {
		return
	}
	for round := before.round; round <= after.round; round++ {
		if s.Lock.ID == lockOf(w.name, round) {
			return
		}
	}
	t.Fatalf("%s is locked by %s; its writer was at round %d before and is at %d", w.name, s.Lock.ID, before.round, after.round)
}

// end stops the writers and looks at everything: documents, locks, versions and the audit log. It gives the saves that
// were acknowledged.
func (s *squad) end(t *testing.T, m *mortal) (saved uint64) {
	t.Helper()
	s.stop()
	if err := context.Cause(s.ctx); err != context.Canceled { //nolint:errorlint // the cause itself
		t.Fatal(err)
	}
	s.check(t, m)
	server := m.client(t)
	for _, w := range s.writers {
		w.checkVersions(t, server)
		w.checkAudit(t, server)
		saved += w.all
	}
	return saved
}

// checkVersions: one version for each lock, in order, without a gap; each holds the last save under its lock.
func (w *writer) checkVersions(t *testing.T, server *client.Client) {
	t.Helper()
	list, err := client.Collect(client.All(t.Context(), 0, func(ctx context.Context, page client.Page) (api.List[api.StateVersion], error) {
		return server.StateVersions(ctx, w.name, false, page)
	}))
	if err != nil {
		t.Fatal(err)
	}
	const kept = 50
	head := w.state(t, server)
	if len(list) == 0 || len(list) != int(min(head.Version, kept)) || list[0].Version != head.Version || list[0].SHA256 != head.SHA256 || !list[0].Current {
		t.Fatalf("%s is at version %d, and %d versions are listed", w.name, head.Version, len(list))
	}
	for i, v := range list {
		round := uint64(v.Version) //nolint:gosec // not negative
		last := round * saves
		if i == 0 {
			last = *head.Serial
		}
		if v.Version != head.Version-int64(i) || v.LockID != lockOf(w.name, round) || v.Serial == nil || *v.Serial != last || (last-1)/saves+1 != round {
			t.Fatalf("%s, version %d: number %d, lock %s, serial %v; want the last save under lock %d, serial %d",
				w.name, head.Version-int64(i), v.Version, v.LockID, v.Serial, round, last)
		}
		if got := w.pull(t, server, v.Version); !bytes.Equal(got, w.document(last)) {
			t.Fatalf("%s, version %d: %d bytes that are not those of serial %d", w.name, v.Version, len(got), last)
		}
	}
}

// checkAudit: each save that was acknowledged is in the audit log once, and no other but the one in flight at the end.
func (w *writer) checkAudit(t *testing.T, server *client.Client) {
	t.Helper()
	records, err := client.Collect(client.All(t.Context(), 0, func(ctx context.Context, page client.Page) (api.List[api.AuditRecord], error) {
		return server.Audit(ctx, client.AuditFilter{Action: "state.write", Object: w.name}, page)
	}))
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(len(records))
	if next < w.stored || next > w.sent {
		t.Fatalf("the audit log has %d saves of %s; %d were acknowledged, %d sent", next, w.name, w.stored, w.sent)
	}
	for _, r := range records { // newest first
		var said struct{ Serial uint64 }
		if err := json.Unmarshal(r.Data, &said); err != nil || said.Serial != next {
			t.Fatalf("the audit log has %s (%v) of %s, want serial %d", r.Data, err, w.name, next)
		}
		next--
	}
}

func (s *squad) took() time.Duration { return time.Since(s.begun) }
