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
	select {
	case s := <-p.idle:
		defer func() { p.idle <- s }()
		return s.snapshot(ctx, fn)
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
