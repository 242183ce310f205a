package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// longestAnswer bounds the wait for answers that no context may cut short. It is longer than the statement timeout, so
// that it ends waits for a network that has gone away, and no others.
const longestAnswer = 90 * time.Second

// session runs statements on one connection, and is for one goroutine at a time. A round trip costs more than most
// statements, so statements whose answer nobody waits for are kept until one comes that is waited for, and travel in
// one packet with it, in their order.
type session struct {
	database *database
	conn     *pgx.Conn
	known    map[string]*statement // by text, compiled on this connection
	scratch  []byte                // never nil, nor is what it is cut into: nil is NULL

	batch   *pgconn.Batch
	waiting []waiting // what batch has

	// Of the transaction:
	broken  bool // a statement has failed: only a rollback is left
	written bool // a statement that writes was sent since begun or part
}

// statement is one that the connection has compiled.
type statement struct {
	*pgconn.StatementDescription
	formats []int16 // of its columns
	reads   bool    // it changes nothing
}

// waiting is a statement on its way.
type waiting struct {
	*statement
	failed func(error) error // names its failure; nil leaves that as it is
}

// sessionKey is where a connection has its session.
const sessionKey = "holdfast session"

// sessionOf is the connection's session. It lives as long as the connection, for the sake of the compiled statements.
func (p *database) sessionOf(c *pgxpool.Conn) *session {
	kept := c.Conn().PgConn().CustomData()
	if s, ok := kept[sessionKey].(*session); ok {
		return s
	}
	s := &session{database: p, conn: c.Conn(), known: map[string]*statement{}, scratch: make([]byte, 0, 512), batch: &pgconn.Batch{}}
	kept[sessionKey] = s
	return s
}

// reset forgets what is left of the last transaction.
func (s *session) reset() {
	s.batch, s.waiting, s.broken, s.written = &pgconn.Batch{}, s.waiting[:0], false, false
}

// Later runs a statement at the latest with the next one that is waited for, or with the commit.
func (s *session) Later(ctx context.Context, failed func(error) error, query string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.add(ctx, failed, query, args)
}

func (s *session) add(ctx context.Context, failed func(error) error, query string, args []any) error {
	st, err := s.compiled(ctx, query)
	if err != nil {
		return err
	}
	values, formats, err := s.encode(args)
	if err != nil {
		return err
	}
	s.batch.ExecStatement(st.StatementDescription, values, formats, st.formats)
	s.waiting = append(s.waiting, waiting{st, failed})
	return nil
}

// compiled is the statement for query. The first time on a connection costs a round trip, beside what waits.
func (s *session) compiled(ctx context.Context, query string) (*statement, error) {
	if st, ok := s.known[query]; ok {
		return st, nil
	}
	d, err := s.conn.PgConn().Prepare(ctx, "hf"+strconv.Itoa(len(s.known)), query, nil)
	if err != nil {
		s.broken = true
		return nil, err
	}
	st := &statement{StatementDescription: d, formats: make([]int16, len(d.Fields)), reads: onlyReads(query)}
	for i, f := range d.Fields {
		st.formats[i] = formatOf(f.DataTypeOID)
	}
	s.known[query] = st
	return st, nil
}

// onlyReads is whether a statement leaves nothing to undo. Of what starts otherwise it is not known.
func onlyReads(query string) bool {
	for strings.HasPrefix(query, "--") {
		_, query, _ = strings.Cut(query, "\n")
	}
	return strings.HasPrefix(query, "SELECT")
}

func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := s.ask(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return r.changed, nil
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.database.rows.QueryContext(&call{Context: context.Background(), ask: s.ask, ctx: ctx}, query, args...)
}

func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return s.database.rows.QueryRowContext(&call{Context: context.Background(), ask: s.ask, ctx: ctx}, query, args...)
}

// PrepareContext is there for the interface: statements are compiled when they are run.
func (s *session) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.New("statements are not prepared apart from running them")
}

// ask sends what waits, and the statement, and waits for its answer.
func (s *session) ask(ctx context.Context, query string, args []any) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.add(ctx, nil, query, args); err != nil {
		return nil, err
	}
	return s.send(ctx)
}

// send sends what waits and gives the last answer.
func (s *session) send(ctx context.Context) (*answer, error) {
	all, batch := s.waiting, s.batch
	for _, w := range all {
		s.written = s.written || !w.reads
	}
	s.waiting, s.batch = s.waiting[:0], &pgconn.Batch{}
	results := s.conn.PgConn().ExecBatch(ctx, batch)
	var last *answer
	answered := 0
	for results.NextResult() {
		a, err := read(results.ResultReader(), all[answered].statement, answered == len(all)-1)
		if err != nil {
			break
		}
		last = a
		answered++
	}
	err := results.Close()
	if err == nil && answered < len(all) {
		err = fmt.Errorf("%d of %d statements were answered", answered, len(all))
	}
	if err == nil {
		return last, nil
	}
	s.broken = true
	s.forgetStale(err)
	if answered < len(all) && all[answered].failed != nil {
		err = all[answered].failed(err)
	}
	return nil, err
}

// forgetStale drops the connection where a statement it has compiled is not what it was: the tables have changed.
func (s *session) forgetStale(err error) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (e.Code == featureNotSupported || e.Code == noSuchStatement) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.conn.Close(ctx)
	}
}

// uncut is ctx for what must be known to have happened or not.
func uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), longestAnswer)
}

// commit sends what waits with the commit.
func (s *session) commit(ctx context.Context) error {
	if s.broken {
		return errors.New("committing: a statement has failed")
	}
	ctx, cancel := uncut(ctx)
	defer cancel()
	if err := s.add(ctx, nil, "COMMIT", nil); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	a, err := s.send(ctx)
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	if a.tag != "COMMIT" {
		return fmt.Errorf("committing: the database answered %s", a.tag)
	}
	return nil
}

// rollback ends a transaction that is not to happen. Where that fails, the connection is closed, and the database does
// it.
func (s *session) rollback() {
	s.batch, s.waiting = &pgconn.Batch{}, s.waiting[:0]
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestAnswer)
	defer cancel()
	err := s.add(ctx, nil, "ROLLBACK", nil)
	if err == nil {
		_, err = s.send(ctx)
	}
	if err != nil {
		_ = s.conn.Close(ctx)
	}
}
