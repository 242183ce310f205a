package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast.dev/holdfast/internal/store"
)

const (
	tries     = 10
	firstWait = 5 * time.Millisecond
	longest   = 250 * time.Millisecond
)

type database struct{ db *sql.DB }

func (p *database) view(ctx context.Context, fn func(store.Session) error) error {
	return p.once(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, fn)
}

// look spares a statement the two round trips of a transaction.
func (p *database) look(_ context.Context, fn func(store.Session) error) error { return fn(p.db) }

// update runs fn again where PostgreSQL had to choose between it and another transaction.
func (p *database) update(ctx context.Context, fn func(store.Session) error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := p.once(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, fn)
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

func (p *database) once(ctx context.Context, options *sql.TxOptions, fn func(store.Session) error) error {
	tx, err := p.db.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	// Also where fn panics or ends its goroutine. After a commit it does nothing.
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

func repeatable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == serializationFailure || e.Code == deadlockDetected)
}
