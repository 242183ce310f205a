package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

const (
	// migrationLock is the advisory lock that a server holds while it migrates.
	migrationLock = 0x686f6c6466617374 // "holdfast"
	// A migration of a large table takes minutes.
	lockWithin = 10 * time.Minute
	lockEvery  = 200 * time.Millisecond
)

// alone also makes the collation that the migrations name; SQLite has one of that name.
func (p *database) alone(ctx context.Context, fn func(context.Context) error) (err error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := lock(ctx, conn); err != nil {
		return err
	}
	defer func() {
		// Should this fail, the connection is broken and the lock went with it.
		_, e := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(migrationLock))
		err = errors.Join(err, e)
	}()
	if _, err := conn.ExecContext(ctx, `CREATE COLLATION IF NOT EXISTS "binary" FROM "C"`); err != nil {
		return fmt.Errorf("making the collation: %w", err)
	}
	return fn(ctx)
}

// lock asks again and again: a wait in PostgreSQL would be subject to the timeouts of ordinary statements.
func lock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWithin, fault.New(fault.Unavailable, "migration_runs",
		"Another server has been changing the database's tables for %s.", lockWithin))
	defer cancel()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		var taken bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&taken); err != nil {
			return fmt.Errorf("locking the database's tables: %w", err)
		}
		if taken {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
