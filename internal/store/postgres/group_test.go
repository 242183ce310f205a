package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

const testWait = time.Minute

// opened is a database with a table of words, whose updates wait for each other however long it takes.
func openedDatabase(t *testing.T) (*database, string) {
	t.Helper()
	url := pgtest.New(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	p := newDatabase(pool, nil)
	p.group.patience = testWait
	t.Cleanup(func() {
		if err := p.rows.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	p.must(t, "CREATE TABLE words (word TEXT PRIMARY KEY)")
	return p, url
}

// must runs a statement beside everything else.
func (p *database) must(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := p.pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// stored is the words, and how many transactions they were stored by.
func (p *database) stored(t *testing.T) (words string, transactions int) {
	t.Helper()
	err := p.pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(word, ' ' ORDER BY word), ''), count(DISTINCT xmin::text) FROM words").Scan(&words, &transactions)
	if err != nil {
		t.Fatal(err)
	}
	return words, transactions
}

func put(ctx context.Context, s store.Session, word string) error {
	_, err := s.ExecContext(ctx, "INSERT INTO words VALUES ($1)", word)
	return err
}

func later(ctx context.Context, s store.Session, word string) error {
	return s.Later(ctx, func(err error) error { return fmt.Errorf("storing %s: %w", word, err) }, "INSERT INTO words VALUES ($1)", word)
}

func count(ctx context.Context, s store.Session) (n int, err error) {
	err = s.QueryRowContext(ctx, "SELECT count(*) FROM words").Scan(&n)
	return n, err
}

// eventually waits until done is true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(testWait); !done(); {
		if time.Now().After(end) {
			t.Errorf("not within %s: %s", testWait, what)
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// inOne has the updates run one after the other as parts of one transaction, the first of which stores "first".
func inOne(t *testing.T, p *database, updates ...func(store.Session) error) []error {
	t.Helper()
	errs := make([]error, len(updates)+1)
	begun := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		once := sync.OnceFunc(func() {
			close(begun)
			eventually(t, "the others wait", func() bool { return p.group.turns.Waiting() == len(updates) })
		})
		errs[0] = p.update(t.Context(), func(s store.Session) error {
			once()
			return later(t.Context(), s, "first")
		})
	})
	<-begun
	for i, fn := range updates {
		all.Go(func() { errs[i+1] = p.update(t.Context(), fn) })
		if i+1 < len(updates) { // after the last one they all go
			eventually(t, "the next one waits", func() bool { return p.group.turns.Waiting() == i+1 })
		}
	}
	all.Wait()
	return errs
}

func TestUpdatesThatWaitShareATransaction(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	seen := 0
	errs := inOne(t, p,
		func(s store.Session) (err error) {
			if seen, err = count(t.Context(), s); err != nil {
				return err
			}
			return later(t.Context(), s, "second")
		},
		func(s store.Session) error { return put(t.Context(), s, "third") },
	)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	words, transactions := p.stored(t)
	if words != "first second third" || transactions != 1 || seen != 1 {
		t.Errorf("stored %q in %d transactions, and the second had seen %d; want all in one, and each to see the ones before it", words, transactions, seen)
	}
}

func TestRefusalLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	no := errors.New("no")
	runs := 0
	errs := inOne(t, p,
		func(s store.Session) error {
			if _, err := count(t.Context(), s); err != nil {
				return err
			}
			if err := later(t.Context(), s, "refused"); err != nil {
				return err
			}
			return no
		},
		func(s store.Session) error { runs++; return later(t.Context(), s, "third") },
	)
	words, transactions := p.stored(t)
	if errs[0] != nil || !errors.Is(errs[1], no) || errs[2] != nil || words != "first third" || transactions != 1 || runs != 1 {
		t.Errorf("errors %v, stored %q in %d transactions, the third ran %d times; want only the refused one to be left out", errs, words, transactions, runs)
	}
}

// TestFailuresAmongOthers: each of these ends the transaction that it shares; the others then run by themselves.
func TestFailuresAmongOthers(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, fails := range map[string]func(t *testing.T, p *database, s store.Session) error{
		"a statement": func(t *testing.T, _ *database, s store.Session) error { return put(t.Context(), s, "taken") },
		"a statement that nobody waited for": func(t *testing.T, _ *database, s store.Session) error {
			return later(t.Context(), s, "taken")
		},
		"a refusal after a write": func(t *testing.T, _ *database, s store.Session) error {
			return errors.Join(put(t.Context(), s, "refused"), no)
		},
		"a statement that is none": func(t *testing.T, _ *database, s store.Session) error {
			return s.Later(t.Context(), nil, "INSERT INTO nowhere VALUES (1)")
		},
		"an argument that is none": func(t *testing.T, _ *database, s store.Session) error {
			return s.Later(t.Context(), nil, "INSERT INTO words VALUES ($1)", struct{}{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := openedDatabase(t)
			p.must(t, "INSERT INTO words VALUES ('taken')")
			errs := inOne(t, p,
				func(s store.Session) error { return put(t.Context(), s, "second") },
				func(s store.Session) error { return fails(t, p, s) },
				func(s store.Session) error { return later(t.Context(), s, "fourth") },
			)
			words, _ := p.stored(t)
			if errs[0] != nil || errs[1] != nil || errs[2] == nil || errs[3] != nil || words != "first fourth second taken" {
				t.Errorf("errors %v, stored %q; want the third update to fail and the others to be stored", errs, words)
			}
		})
	}
}

func TestLateFailureHasItsOwnName(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	p.must(t, "INSERT INTO words VALUES ('taken')")
	for name, after := range map[string]func(store.Session) error{
		"by the commit": func(store.Session) error { return nil },
		"by a read":     func(s store.Session) error { _, err := count(t.Context(), s); return err },
	} {
		err := p.update(t.Context(), func(s store.Session) error {
			return errors.Join(later(t.Context(), s, "new"), later(t.Context(), s, "taken"), after(s))
		})
		if err == nil || !strings.Contains(err.Error(), "storing taken") || classify(err) != store.Unique {
			t.Errorf("found out %s: %v, want a unique violation of storing taken", name, err)
		}
	}
	if words, _ := p.stored(t); words != "taken" {
		t.Errorf("stored %q, want nothing of what failed", words)
	}
}

// TestCutConnections: what is not committed for sure runs again; what may be committed is never repeated.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	p, url := openedDatabase(t)
	cut := false
	errs := inOne(t, p,
		func(s store.Session) error { return put(t.Context(), s, "second") },
		func(s store.Session) error {
			if !cut {
				cut = true
				cutConnections(t, url, "state = 'idle in transaction'")
			}
			_, err := count(t.Context(), s)
			return errors.Join(err, later(t.Context(), s, "third"))
		},
	)
	if words, _ := p.stored(t); errors.Join(errs...) != nil || words != "first second third" {
		t.Errorf("errors %v, stored %q; want the cut updates to have run again", errs, words)
	}

	// A commit that takes until it is cut.
	p.must(t, `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$`)
	p.must(t, `CREATE CONSTRAINT TRIGGER lingers AFTER INSERT ON words DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()`)
	var runs int
	ended := make(chan error)
	go func() {
		ended <- p.update(t.Context(), func(s store.Session) error { runs++; return later(t.Context(), s, "fourth") })
	}()
	eventually(t, "the commit lingers", func() bool {
		var n int
		err := p.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()").Scan(&n)
		return err == nil && n == 1
	})
	cutConnections(t, url, "wait_event = 'PgSleep'")
	select {
	case err := <-ended:
		if err == nil || classify(err) != store.Lost || runs != 1 {
			t.Errorf("a commit that was cut: %v after %d runs, want the connection to be lost, once", err, runs)
		}
	case <-time.After(testWait):
		t.Fatal("a commit that was cut does not end")
	}
}

// TestOthersDoNotWaitForALock that another server has: not those behind the one that waits for it.
func TestOthersDoNotWaitForALock(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	p.group.patience = patience
	p.must(t, "INSERT INTO words VALUES ('locked')")
	other, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	const lock = "SELECT word FROM words WHERE word = 'locked' FOR UPDATE"
	if _, err := other.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	waits, waited := make(chan struct{}), make(chan error)
	go func() {
		waited <- p.update(t.Context(), func(s store.Session) error {
			close(waits)
			var word string
			return s.QueryRowContext(t.Context(), lock).Scan(&word)
		})
	}()
	<-waits
	if err := p.update(t.Context(), func(s store.Session) error { return put(t.Context(), s, "other") }); err != nil {
		t.Errorf("an update behind one that waits: %v", err)
	}
	select {
	case err := <-waited:
		t.Errorf("the first update ended before the lock was released: %v", err)
	default:
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the update that waited for the lock: %v", err)
	}
}

func TestEndedContextsLeaveNoTransaction(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	for name, run := range map[string]func(context.Context, func(store.Session) error) error{
		"shared": p.update, "alone": p.once, "view": p.view,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, func(s store.Session) error {
			if _, err := count(ctx, s); err != nil {
				return err
			}
			cancel()
			_, err := count(ctx, s)
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error", name, err)
		}
	}
	eventually(t, "no transaction is open", func() bool {
		var open int
		err := p.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'").Scan(&open)
		return err == nil && open == 0
	})
}

// TestLooksTogether: many at once, of which some give up and some fail, get each their own answer.
func TestLooksTogether(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	const n = 300
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 1 {
				go cancel()
			}
			errs[i] = p.looks.look(ctx, func(s store.Session) error {
				var got int
				query := "SELECT 600 / $1::bigint"
				if err := s.QueryRowContext(ctx, query, int64(i%3)).Scan(&got); err != nil {
					return err
				}
				if want := 600 / (i % 3); got != want {
					return fmt.Errorf("got %d, want %d", got, want)
				}
				return nil
			})
		})
	}
	all.Wait()
	for i, err := range errs {
		failed, isPg := errors.AsType[*pgconn.PgError](err)
		switch {
		case i%3 == 0 && (!isPg || failed.Code != "22012"):
			t.Errorf("look %d: %v, want a division by zero", i, err)
		case i%3 == 1 && err != nil && !errors.Is(err, context.Canceled):
			t.Errorf("look %d: %v, want an answer or the context's end", i, err)
		case i%3 == 2 && err != nil:
			t.Errorf("look %d: %v", i, err)
		}
	}
}

func TestValuesOfEveryType(t *testing.T) {
	t.Parallel()
	p, _ := openedDatabase(t)
	for kept := range 2 { // at first compiled and kept, then neither
		err := p.view(t.Context(), func(s store.Session) error {
			if kept == 1 {
				for i := range mostKnown {
					s.(*session).known[fmt.Sprint("-- ", i)] = nil
				}
			}
			row := s.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT $1::bigint, $2::int, $3::bool, $4::text, $5::bytea, 1.5::float8, sum(x)::numeric, NULL::text, ''::text, ''::bytea, %d
				FROM generate_series(1, 3) x`, kept), int64(-1)<<62, int32(-7), true, "ä'\\", []byte{0, 255})
			var (
				large, sum, last int64
				small            int32
				yes              bool
				text, empty      string
				bytes, none      []byte
				float            float64
				null             sql.NullString
			)
			if err := row.Scan(&large, &small, &yes, &text, &bytes, &float, &sum, &null, &empty, &none, &last); err != nil {
				return err
			}
			got := fmt.Sprint(large, small, yes, text, bytes, float, sum, null.Valid, empty, none != nil, len(none), last)
			if want := fmt.Sprint(int64(-1)<<62, -7, true, "ä'\\", []byte{0, 255}, 1.5, 6, false, "", true, 0, kept); got != want {
				t.Errorf("read %s, want %s", got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func cutConnections(t *testing.T, url, condition string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer pool.Close()
	var cut int
	err = pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND `+condition).Scan(&cut)
	if err != nil || cut == 0 {
		t.Errorf("cut %d connections where %s: %v", cut, condition, err)
	}
}
