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
	sent    int       // how many batches were sent

	// Of the transaction:
	broken  bool // a statement has failed: only a rollback is left
	notes   map[string]any
	part    int  // which of the updates that share it runs
	written bool // a statement of that part that writes was sent
}

// mostKnown bounds how many statements a connection keeps compiled. All that are written down are fewer; of those that
// are put together, such as for many rows at once, there is no end.
const mostKnown = 400

// statement is one that the connection has compiled, or, with no description, one to be compiled each time.
type statement struct {
	*pgconn.StatementDescription
	formats []int16 // of its columns
	reads   bool    // it changes nothing
}

// waiting is a statement on its way.
type waiting struct {
	*statement
	failed func(error) error // names its failure; nil leaves that as it is
	part   int
	into   **answer // where its answer goes; nil where nobody asks for it
}

// sessionKey is where a connection has its session.
const sessionKey = "holdfast session"

// sessionOf is the connection's session. It lives as long as the connection, for the sake of the compiled statements.
func (p *database) sessionOf(c *pgxpool.Conn) *session {
	kept := c.Conn().PgConn().CustomData()
	if s, ok := kept[sessionKey].(*session); ok {
		return s
	}
	s := &session{database: p, conn: c.Conn(), known: map[string]*statement{}, notes: map[string]any{}, scratch: make([]byte, 0, 512), batch: &pgconn.Batch{}}
	kept[sessionKey] = s
	return s
}

// reset forgets what is left of the last transaction.
func (s *session) reset() {
	s.batch, s.waiting, s.broken, s.part, s.written = &pgconn.Batch{}, s.waiting[:0], false, 0, false
	clear(s.notes)
}

// Notes are for the updates of one transaction.
func (s *session) Notes() map[string]any { return s.notes }

// Later runs a statement at the latest with the next one that is waited for, or with the commit.
func (s *session) Later(ctx context.Context, failed func(error) error, query string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.add(ctx, nil, failed, query, args)
}

func (s *session) add(ctx context.Context, into **answer, failed func(error) error, query string, args []any) error {
	st, err := s.compiled(ctx, query)
	if err != nil {
		return err
	}
	values, formats, err := s.encode(args)
	if err != nil {
		return err
	}
	if st.StatementDescription != nil {
		s.batch.ExecStatement(st.StatementDescription, values, formats, st.formats)
	} else {
		s.batch.ExecParams(query, values, nil, formats, nil)
	}
	s.waiting = append(s.waiting, waiting{statement: st, failed: failed, part: s.part, into: into})
	return nil
}

// compiled is the statement for query. The first time on a connection costs a round trip, beside what waits.
func (s *session) compiled(ctx context.Context, query string) (*statement, error) {
	if st, ok := s.known[query]; ok {
		return st, nil
	}
	if len(s.known) >= mostKnown {
		return &statement{reads: onlyReads(query)}, nil
	}
	ctx, cancel := uncut(ctx)
	defer cancel()
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
	var got *answer
	if err := s.add(ctx, &got, nil, query, args); err != nil {
		return nil, err
	}
	if s.part > 0 { // what others share is not to end with one's context
		waits, cancel := uncut(ctx)
		defer cancel()
		ctx = waits
	}
	return got, s.send(ctx)
}

// send sends what waits, and takes the answers in.
func (s *session) send(ctx context.Context) error {
	all, batch := s.waiting, s.batch
	for _, w := range all {
		s.written = s.written || !w.reads && w.part == s.part
	}
	s.waiting, s.batch = nil, &pgconn.Batch{}
	s.sent++
	results := s.conn.PgConn().ExecBatch(ctx, batch)
	answered := 0
	for results.NextResult() {
		w := all[answered]
		a, err := read(results.ResultReader(), w.into != nil)
		if err != nil {
			break
		}
		if w.into != nil {
			*w.into = a
		}
		answered++
	}
	err := results.Close()
	if err == nil && answered < len(all) {
		err = fmt.Errorf("%d of %d statements were answered", answered, len(all))
	}
	if err == nil {
		clear(all)
		s.waiting = all[:0]
		return nil
	}
	s.broken = true
	s.forgetStale(err)
	if answered < len(all) && all[answered].failed != nil {
		err = all[answered].failed(err)
	}
	return err
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
	var a *answer
	err := s.add(ctx, &a, nil, "COMMIT", nil)
	if err == nil {
		err = s.send(ctx)
	}
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
	err := s.add(ctx, nil, nil, "ROLLBACK", nil)
	if err == nil {
		err = s.send(ctx)
	}
	if err != nil {
		_ = s.conn.Close(ctx)
	}
}

// place is a point in what a session has sent and keeps, to go back to.
type place struct {
	batch   pgconn.Batch
	waiting int
	sent    int
}

// next begins another part of the transaction.
func (s *session) next() place {
	s.part++
	s.written = false
	return place{*s.batch, len(s.waiting), s.sent}
}

// undo takes back what was done since p, which is nil where that cannot be done: something failed, or was written.
func (s *session) undo(p place) bool {
	clear(s.notes)
	switch {
	case s.broken, s.written, s.conn.IsClosed():
		return false
	case s.sent == p.sent:
		*s.batch, s.waiting = p.batch, s.waiting[:p.waiting]
	default: // what had waited before p was sent with what came after
		s.batch, s.waiting = &pgconn.Batch{}, s.waiting[:0]
	}
	return true
}
