package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"holdfast.dev/holdfast/internal/store"
)

// pool is the connections that read. Readers see the last commit and never wait for the writer.
type pool struct {
	idle   chan *session
	closed chan struct{}
}

func newPool(ctx context.Context, db *sql.DB) (*pool, error) {
	p := &pool{idle: make(chan *session, readers), closed: make(chan struct{})}
	for range readers {
		s, err := newSession(ctx, db)
		if err != nil {
			return nil, err
		}
		p.idle <- s
	}
	return p, nil
}

// close waits for the views that run.
func (p *pool) close() error {
	close(p.closed)
	var errs []error
	for range readers {
		errs = append(errs, (<-p.idle).close())
	}
	return errors.Join(errs...)
}

func (p *pool) view(ctx context.Context, fn func(store.Session) error) error {
	return p.with(ctx, func(s *session) error { return s.snapshot(ctx, fn) })
}

// look leaves the transaction out: a statement alone is one.
func (p *pool) look(ctx context.Context, fn func(store.Session) error) error {
	return p.with(ctx, func(s *session) error { return fn(s) })
}

// with runs fn on one of the connections.
func (p *pool) with(ctx context.Context, fn func(*session) error) error {
	select {
	case s := <-p.idle:
		defer func() { p.idle <- s }()
		return fn(s)
	case <-p.closed:
		return sql.ErrConnDone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) snapshot(ctx context.Context, fn func(store.Session) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.run("COMMIT")) }()
	return fn(s)
}
