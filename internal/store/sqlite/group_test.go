package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/store"
)

const wait = 30 * time.Second

// fixture is a group on a table of its own.
type fixture struct {
	*group
	path string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "group.db")
	d, err := open(t.Context(), path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := d.DB.ExecContext(t.Context(), "CREATE TABLE rows (id TEXT PRIMARY KEY, parent TEXT REFERENCES rows (id))"); err != nil {
		t.Fatalf("make the table: %v", err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGroup(t.Context(), db)
	if err != nil {
		t.Fatalf("make the group: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.close(), db.Close()); err != nil {
			t.Errorf("close the group: %v", err)
		}
	})
	return fixture{g, path}
}

func (f fixture) insert(ctx context.Context, id string) error {
	return f.update(ctx, func(s store.Session) error { return insert(ctx, s, id) })
}

func insert(ctx context.Context, s store.Session, id string) error {
	_, err := s.ExecContext(ctx, "INSERT INTO rows (id) VALUES ($1)", id)
	return err
}

// has reads by the group itself, whose connection sees what is committed.
func (f fixture) has(t *testing.T, id string) (there bool) {
	t.Helper()
	if err := f.update(t.Context(), func(s store.Session) error {
		return s.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM rows WHERE id = $1)", id).Scan(&there)
	}); err != nil {
		t.Fatalf("read: %v", err)
	}
	return there
}

// commits counts the frames of the journal that end a transaction.
func (f fixture) commits(t *testing.T) int {
	t.Helper()
	wal, err := os.ReadFile(f.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	page := int(binary.BigEndian.Uint32(wal[8:]))
	n := 0
	for at := 32; at+24+page <= len(wal); at += 24 + page {
		if binary.BigEndian.Uint32(wal[at+4:]) != 0 {
			n++
		}
	}
	return n
}

// queue holds the turn in an update that runs first, until n others wait behind it.
func (f fixture) queue(t *testing.T, first func(store.Session) error, n int, other func(i int) error) (errs []error, firstErr error) {
	t.Helper()
	running, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	once := sync.OnceFunc(func() {
		close(running)
		<-release
	})
	all.Go(func() {
		firstErr = f.update(t.Context(), func(s store.Session) error {
			once()
			return first(s)
		})
	})
	<-running
	errs = make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = other(i) })
	}
	f.await(t, n)
	close(release)
	all.Wait()
	return errs, firstErr
}

// await returns when n updates wait for their turn.
func (f fixture) await(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for {
		have := f.turns.Waiting()
		if have == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d updates wait, want %d", have, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestUpdatesThatWaitShareACommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := f.commits(t)
	errs, first := f.queue(t, func(s store.Session) error { return insert(t.Context(), s, "first") }, 40,
		func(i int) error { return f.insert(t.Context(), fmt.Sprint(i)) })
	if err := errors.Join(append(errs, first)...); err != nil {
		t.Fatalf("updates: %v", err)
	}
	if got := f.commits(t) - before; got != 1 {
		t.Errorf("%d commits for 41 updates that waited together, want 1", got)
	}
	for i := range 40 {
		if !f.has(t, fmt.Sprint(i)) {
			t.Errorf("row %d was acknowledged and is not there", i)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := f.commits(t)
	errs, first := f.queue(t, func(s store.Session) error { return insert(t.Context(), s, "first") }, 3*maxBatch,
		func(i int) error { return f.insert(t.Context(), fmt.Sprint(i)) })
	if err := errors.Join(append(errs, first)...); err != nil {
		t.Fatalf("updates: %v", err)
	}
	if got := f.commits(t) - before; got != 4 {
		t.Errorf("%d commits for %d updates that waited together, want 4", got, 3*maxBatch+1)
	}
}

func TestContextThatEndsInTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	errs, _ := f.queue(t, func(store.Session) error {
		cancel()
		f.await(t, 1) // the one that is not cancelled
		return nil
	}, 2, func(i int) error {
		if i == 0 {
			return f.insert(t.Context(), "kept")
		}
		return f.update(ctx, func(store.Session) error {
			t.Error("an update ran whose context had ended in the queue")
			return nil
		})
	})
	if errs[0] != nil || !errors.Is(errs[1], context.Canceled) {
		t.Errorf("errors %v, want none for the first and a cancelled context for the second", errs)
	}
}

// TestRolledBackBatchRunsAgain: SQLite ends the whole transaction by itself on some failures. Those who shared it
// must neither be acknowledged nor lost.
func TestRolledBackBatchRunsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	boom := errors.New("boom")
	runs := make([]int, 9)
	errs, first := f.queue(t, func(s store.Session) error { return insert(t.Context(), s, "first") }, 9, func(i int) error {
		return f.update(t.Context(), func(s store.Session) error {
			runs[i]++
			if err := insert(t.Context(), s, fmt.Sprint(i)); err != nil {
				return err
			}
			if i == 4 {
				if _, err := s.ExecContext(t.Context(), "ROLLBACK"); err != nil {
					t.Errorf("roll back: %v", err)
				}
				return boom
			}
			return nil
		})
	})
	if first != nil || !f.has(t, "first") {
		t.Errorf("the first update: %v, stored %t; want it to be stored", first, f.has(t, "first"))
	}
	again := 0
	for i, err := range errs {
		if want := i != 4; (err == nil) != want || f.has(t, fmt.Sprint(i)) != want {
			t.Errorf("update %d: %v, stored %t; want stored %t", i, err, f.has(t, fmt.Sprint(i)), want)
		}
		if runs[i] > 1 {
			again++
		}
	}
	if runs[4] != 1 {
		t.Errorf("the update that failed ran %d times, want once", runs[4])
	}
	t.Logf("%d of the others ran again", again)
}

func TestFailedCommitFailsAllThatShareIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	errs, first := f.queue(t, func(s store.Session) error { return insert(t.Context(), s, "first") }, 3, func(i int) error {
		return f.update(t.Context(), func(s store.Session) error {
			if i != 1 {
				return insert(t.Context(), s, fmt.Sprint(i))
			}
			// Checked by the commit only.
			if _, err := s.ExecContext(t.Context(), "PRAGMA defer_foreign_keys = ON"); err != nil {
				return err
			}
			_, err := s.ExecContext(t.Context(), "INSERT INTO rows (id, parent) VALUES ('orphan', 'nobody')")
			return err
		})
	})
	for i, err := range append(errs, first) {
		if err == nil {
			t.Errorf("update %d of a failed commit: nil, want its error", i)
		}
	}
	for _, id := range []string{"first", "0", "orphan", "2"} {
		if f.has(t, id) {
			t.Errorf("row %s of a failed commit is there", id)
		}
	}
	if err := f.insert(t.Context(), "next"); err != nil || !f.has(t, "next") {
		t.Errorf("the update after a failed commit: %v", err)
	}
}

func TestFullDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var pages int
	if err := f.session.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	var limit int
	if err := f.session.QueryRowContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages+20)).Scan(&limit); err != nil {
		t.Fatal(err)
	}
	errs, first := f.queue(t, func(s store.Session) error { return insert(t.Context(), s, "first") }, 10, func(i int) error {
		return f.update(t.Context(), func(s store.Session) error {
			id := fmt.Sprint(i)
			if i%2 == 1 {
				id = fmt.Sprintf("%d%0300000d", i, 0)
			}
			return insert(t.Context(), s, id)
		})
	})
	if first != nil {
		t.Errorf("the first update: %v", first)
	}
	for i, err := range errs {
		if i%2 == 1 && classify(err) != store.Full {
			t.Errorf("update %d, too large: %v, want a full database", i, err)
		}
		if i%2 == 0 && (err != nil || !f.has(t, fmt.Sprint(i))) {
			t.Errorf("update %d, small: %v, stored %t; want it stored", i, err, f.has(t, fmt.Sprint(i)))
		}
	}
}

func TestBusyDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.session.ExecContext(t.Context(), "PRAGMA busy_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	other, err := open(t.Context(), f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := other.Update(t.Context(), func(store.Session) error {
		if err := f.insert(t.Context(), "a"); classify(err) != store.Busy {
			t.Errorf("an update while another process writes: %v, want a busy database", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.insert(t.Context(), "a"); err != nil {
		t.Errorf("an update after it: %v", err)
	}
}

// TestEndingContextsLoseNothing ends contexts at any moment, before, in and after the queue.
func TestEndingContextsLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const workers, rounds = 16, 60
	acknowledged := make([][]bool, workers)
	var all sync.WaitGroup
	for w := range workers {
		acknowledged[w] = make([]bool, rounds)
		all.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(1500))*time.Microsecond)
				acknowledged[w][i] = f.insert(ctx, fmt.Sprint(w, " ", i)) == nil
				cancel()
			}
		})
	}
	all.Wait()
	some := 0
	for w := range workers {
		for i, ok := range acknowledged[w] {
			if ok {
				some++
			}
			if there := f.has(t, fmt.Sprint(w, " ", i)); there != ok {
				t.Fatalf("row %d of worker %d: acknowledged %t, stored %t", i, w, ok, there)
			}
		}
	}
	t.Logf("%d of %d were acknowledged", some, workers*rounds)
}

// TestContextThatEndsInAStatement must not make SQLite interrupt it: that would roll back what others have written.
func TestContextThatEndsInAStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	runs := 0
	errs, first := f.queue(t, func(s store.Session) error {
		runs++
		return insert(t.Context(), s, "first")
	}, 1, func(int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return f.update(ctx, func(s store.Session) error {
			time.AfterFunc(5*time.Millisecond, cancel)
			_, err := s.ExecContext(ctx, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
				INSERT INTO rows (id) SELECT 'long ' || i FROM n`)
			return err
		})
	})
	if first != nil || runs != 1 {
		t.Errorf("the update before it: %v after %d runs, want none after one", first, runs)
	}
	if errs[0] == nil || f.has(t, "long 1") {
		t.Errorf("the update whose context ended: %v, stored %t; want an error and nothing stored", errs[0], f.has(t, "long 1"))
	}
}
