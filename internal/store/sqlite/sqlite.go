// Package sqlite keeps a store in one SQLite file, for one server.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"modernc.org/sqlite"

	"holdfast.dev/holdfast/internal/store"
)

const (
	readers = 4
	// busyTimeout is how long a connection waits for another process, or for the background jobs, to let go.
	busyTimeout = 5 * time.Second
)

// Open opens or makes the database file at path, readable by its owner only.
func Open(ctx context.Context, path string) (*store.Store, error) {
	return opened(ctx, path, store.New)
}

// Attach opens or makes the file for an administrator's command, and leaves its schema as it is.
func Attach(ctx context.Context, path string) (*store.Store, error) {
	return opened(ctx, path, store.Attach)
}

func opened(ctx context.Context, path string, as func(context.Context, store.Dialect) (*store.Store, error)) (*store.Store, error) {
	d, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", path, err)
	}
	return as(ctx, d)
}

func open(ctx context.Context, path string) (d store.Dialect, err error) {
	if err := makeFile(path); err != nil {
		return d, err
	}
	// As durable as fsync, at half the wait: it leaves out the file's timestamps. Where there is none, fsync stays.
	_, _ = sqlite.Fdatasync(true)
	var dbs []*sql.DB
	closeAll := func() error {
		var errs []error
		for _, db := range dbs {
			errs = append(errs, db.Close())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	connect := func(limit int, more ...string) (*sql.DB, error) {
		db, err := sql.Open("sqlite", dsn(path, more...))
		if err == nil {
			db.SetMaxOpenConns(limit)
			dbs = append(dbs, db)
		}
		return db, err
	}
	write, err := connect(1)
	if err != nil {
		return d, err
	}
	read, err := connect(readers, "query_only(1)")
	if err != nil {
		return d, err
	}
	side, err := connect(1)
	if err != nil {
		return d, err
	}
	side.SetConnMaxIdleTime(time.Minute)
	// Background jobs have a connection of their own: they must not wait for a shared commit, nor it for them.
	jobs, err := connect(1)
	if err != nil {
		return d, err
	}
	g, err := newGroup(ctx, write)
	if err != nil {
		return d, err
	}
	p, err := newPool(ctx, read)
	if err != nil {
		return d, err
	}
	return store.Dialect{
		View: p.view, Look: p.look, Update: g.update, Classify: classify,
		DB: side, Goose: goose.DialectSQLite3, Alone: again,
		HasTable: "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1)",
		Schema:   func(ctx context.Context) ([]store.Table, error) { return schema(ctx, side) },
		Queue:    riversqlite.New(jobs),
		Close:    func() error { return errors.Join(p.close(), g.close(), closeAll()) },
	}, nil
}

// again runs fn until it is not in the way of another process that changes the tables too. Each time it is, the
// other one has made a step, and there are fewer steps than tries.
func again(ctx context.Context, fn func(context.Context) error) error {
	const (
		tries = 20
		pause = 50 * time.Millisecond
	)
	for try := 1; ; try++ {
		err := fn(ctx)
		if err == nil || try == tries {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// makeFile makes an empty database that only its owner can read. SQLite would go by the umask, and gives its journal
// the mode of the database. A file that is there is not opened: to close it would free the locks that another
// connection of this process has on it.
func makeFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

func dsn(path string, more ...string) string {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"foreign_keys(1)",
		"trusted_schema(0)",
		"cache_size(-8192)", // KiB for each connection
		"journal_size_limit(67108864)",
	}, more...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}
