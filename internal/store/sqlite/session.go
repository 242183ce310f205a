package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// session runs statements on one connection and keeps them compiled: compiling costs more than running most of
// them. It is for one goroutine at a time.
type session struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	notes      map[string]any
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, statements: map[string]*sql.Stmt{}, notes: map[string]any{}}, nil
}

func (s *session) close() error {
	var errs []error
	for _, statement := range s.statements {
		errs = append(errs, statement.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

// begun is the context for one statement. A context that ends stops the next statement, never one that runs:
// SQLite answers an interrupted write by rolling back the whole transaction, which others may share.
func begun(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func (s *session) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if statement, ok := s.statements[query]; ok {
		return statement, nil
	}
	statement, err := s.conn.PrepareContext(begun(ctx), query)
	if err != nil {
		return nil, err
	}
	s.statements[query] = statement
	return statement, nil
}

func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	statement, err := s.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(begun(ctx), args...)
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	statement, err := s.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(begun(ctx), args...)
}

func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	statement, err := s.PrepareContext(ctx, query)
	if err != nil {
		// A Row with an error in it can only be had by asking again.
		return s.conn.QueryRowContext(begun(ctx), query, args...)
	}
	return statement.QueryRowContext(begun(ctx), args...)
}

// Notes are for the updates of one transaction.
func (s *session) Notes() map[string]any { return s.notes }

// Later runs the statement now: there is no way to be spared.
func (s *session) Later(ctx context.Context, failed func(error) error, query string, args ...any) error {
	_, err := s.ExecContext(ctx, query, args...)
	if err != nil && failed != nil {
		err = failed(err)
	}
	return err
}

func (s *session) run(query string) error {
	_, err := s.ExecContext(context.Background(), query)
	return err
}
