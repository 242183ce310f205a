package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store/db"
)

// tx is one transaction, seen by the engine.
type tx struct {
	store   *Store
	session Session
	q       *db.Queries
	writes  bool
	single  bool  // one statement that reads is all there may be
	begun   bool  // a statement has been
	failed  error // the first statement's failure, which every later statement repeats
	topics  []string
	mine    map[string]int64 // ids of rows that this transaction has locked and not deleted; see lockedRow
}

var _ engine.Tx = (*tx)(nil)

func newTx(s *Store, session Session, writes bool) *tx {
	t := &tx{store: s, session: session, writes: writes}
	t.q = db.New(t)
	return t
}

// end makes a tx that outlives its function fail instead of writing into somebody else's transaction.
func (t *tx) end() {
	if t.failed == nil {
		t.failed = errors.New("a transaction was used after it had ended")
	}
}

func (t *tx) result(err error) error {
	if err == nil {
		return t.failed
	}
	return err
}

// err names what failed. It keeps the first failure for the statements after it; a row that is not there is none.
func (t *tx) err(doing, noun string, err error) error {
	switch {
	case err == nil:
		return nil
	case t.failed != nil:
		return t.failed
	}
	named := t.store.fault(noun, doing+" the "+noun, err)
	if !errors.Is(err, sql.ErrNoRows) {
		t.failed = named
	}
	return named
}

// one is err for a statement that must change a row.
func (t *tx) one(doing, noun string, rows int64, err error) error {
	if err == nil && rows == 0 {
		err = sql.ErrNoRows
	}
	return t.err(doing, noun, err)
}

// Notify tells the subscribers of topic, once this transaction is committed.
func (t *tx) Notify(_ context.Context, topic string) error {
	switch {
	case !t.writes:
		return t.err("telling", "topic", errors.New("a view cannot notify"))
	case topic == "", len(topic) > maxTopic:
		return t.err("telling", "topic", fmt.Errorf("a topic has 1 to %d bytes, this one %d", maxTopic, len(topic)))
	}
	if !slices.Contains(t.topics, topic) {
		t.topics = append(t.topics, topic)
	}
	return nil
}

// maxTopic is well below the 8000 bytes of a PostgreSQL notification.
const maxTopic = 512

// tell notifies last: PostgreSQL lets one notifying transaction commit at a time.
func (t *tx) tell(ctx context.Context) error {
	if t.store.d.Notify == "" {
		return nil
	}
	for _, topic := range t.topics {
		if err := t.later(ctx, "telling", "topic", t.store.d.Notify, topic); err != nil {
			return err
		}
	}
	return nil
}

// lock has a SELECT of one row with the dialect's suffix run before the next statement, so that what that reads is not
// changed by others. It is a statement of its own because PostgreSQL would read joined tables as they were before it
// waited. That there is no such row is for the next statement to find out.
func (t *tx) lock(ctx context.Context, noun, query string, args ...any) error {
	if t.store.d.RowLock == "" {
		return nil
	}
	return t.later(ctx, "locking", noun, query+t.store.d.RowLock, args...)
}

// later runs a statement whose answer nobody waits for; see Session.Later.
func (t *tx) later(ctx context.Context, doing, noun, query string, args ...any) error {
	if err := t.check(args); err != nil {
		return t.err(doing, noun, err)
	}
	// t may have ended when it fails, and has to be told only if it has not: by the statement that fails with it.
	named := func(err error) error { return t.store.fault(noun, doing+" the "+noun, err) }
	return t.err(doing, noun, t.session.Later(ctx, named, query, args...))
}

// afterwards are the queries whose answers nobody waits for: only writes that cannot be refused for what somebody
// asked for, since the refusal comes with a later statement.
func (t *tx) afterwards(doing, noun string) *db.Queries { return db.New(afterwards{t, doing, noun}) }

// changing is afterwards for a change of the row id where this transaction has locked it, so that it is sure to be
// there; else the answer, which says so, is waited for.
func (t *tx) changing(id, doing, noun string) *db.Queries {
	if _, locked := t.mine[id]; locked {
		return t.afterwards(doing, noun)
	}
	return t.q
}

// lockedRow keeps what changing goes by, and of a state how many versions it has counted.
func (t *tx) lockedRow(id string, versions int64) {
	if t.mine == nil {
		t.mine = map[string]int64{}
	}
	t.mine[id] = versions
}

type afterwards struct {
	*tx
	doing, noun string
}

// ExecContext says that a row was changed, which only time will tell.
func (a afterwards) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return driver.RowsAffected(1), a.later(ctx, a.doing, a.noun, query, args...)
}

// The generated queries run on tx itself, for the sake of check.

func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.check(args); err != nil {
		return nil, err
	}
	if t.single {
		t.failed = errors.New("a look cannot write")
		return nil, t.failed
	}
	return t.session.ExecContext(ctx, query, args...)
}

func (t *tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return t.session.PrepareContext(ctx, query)
}

func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.check(args); err != nil {
		return nil, err
	}
	return t.session.QueryContext(ctx, query, args...)
}

func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := t.check(args); err != nil {
		// A Row cannot be made with an error in it, so its arguments are made to fail.
		refused := make([]any, len(args))
		for i := range refused {
			refused[i] = refusal{err}
		}
		args = refused
	}
	return t.session.QueryRowContext(ctx, query, args...)
}

// check refuses a text that one of the databases would not take, and everything once the transaction has failed.
func (t *tx) check(args []any) error {
	if t.failed == nil && t.single && t.begun {
		t.failed = errors.New("a look has one statement; with more, it has to be a view")
	}
	if t.failed != nil {
		return t.failed
	}
	t.begun = true
	for _, arg := range args {
		text, ok := arg.(string)
		switch {
		case !ok:
		case strings.IndexByte(text, 0) >= 0:
			return fault.New(fault.Invalid, "nul_in_text", "A text has a NUL character, which cannot be stored.").
				WithHint("Leave the character out.")
		case !utf8.ValidString(text):
			return fault.New(fault.Invalid, "invalid_utf8", "A text is not valid UTF-8.").WithHint("Send text as UTF-8.")
		}
	}
	return nil
}

// refusal is an argument that cannot be converted.
type refusal struct{ err error }

func (r refusal) Value() (driver.Value, error) { return nil, r.err }
