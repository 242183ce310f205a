package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast.dev/holdfast/internal/store"
)

const (
	tries     = 10
	firstWait = 5 * time.Millisecond
	longest   = 250 * time.Millisecond
)

const (
	beginView   = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	beginUpdate = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
)

type database struct {
	pool *pgxpool.Pool
	db   *sql.DB // of the same pool, for what needs database/sql's own transactions
	rows *sql.DB // of no pool; see call

	looks looks
	group *group
}

func newDatabase(pool *pgxpool.Pool, db *sql.DB) *database {
	p := &database{pool: pool, db: db, rows: newRows()}
	p.looks.database = p
	p.group = newGroup(p)
	return p
}

// view ends its transaction without making its caller wait for that.
func (p *database) view(ctx context.Context, fn func(store.Session) error) error {
	c, err := p.begin(ctx, beginView)
	if err != nil {
		return err
	}
	s := p.sessionOf(c)
	defer func() {
		go func() {
			defer c.Release()
			s.rollback()
		}()
	}()
	return fn(s)
}

// begin takes a connection for a transaction, which begins with its first statement.
func (p *database) begin(ctx context.Context, how string) (*pgxpool.Conn, error) {
	c, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	s := p.sessionOf(c)
	s.reset()
	if err := s.Later(ctx, nil, how); err != nil {
		c.Release()
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	return c, nil
}

// update runs fn again where PostgreSQL had to choose between it and another transaction.
func (p *database) update(ctx context.Context, fn func(store.Session) error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := p.group.update(ctx, fn)
		if errors.Is(err, errAlone) {
			err = p.once(ctx, fn)
		}
		if err == nil || try == tries || !repeatable(err) {
			return err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait = min(2*wait, longest)
	}
}

// once runs fn in a transaction of its own.
func (p *database) once(ctx context.Context, fn func(store.Session) error) error {
	c, err := p.begin(ctx, beginUpdate)
	if err != nil {
		return err
	}
	defer c.Release()
	s := p.sessionOf(c)
	// Also where fn panics or ends its goroutine. After a commit it does nothing.
	defer s.rollback()
	if err := fn(s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commit(ctx)
}

func repeatable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == serializationFailure || e.Code == deadlockDetected)
}
