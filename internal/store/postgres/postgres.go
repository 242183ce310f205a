// Package postgres keeps a store in a PostgreSQL database, for any number of servers.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"holdfast.dev/holdfast/internal/store"
)

// Options is where the database is.
type Options struct {
	URL    string // postgres://…, with pgx's parameters; pool_max_conns defaults to 16
	Logger *slog.Logger
}

// Open connects to the database and brings its schema up to date.
func Open(ctx context.Context, o Options) (*store.Store, error) {
	return opened(ctx, o, "60s", store.New)
}

// Attach connects for an administrator's command, and leaves the schema as it is. Statements may take an hour: they
// read and write whole tables, and a backup may be written to something slow.
func Attach(ctx context.Context, o Options) (*store.Store, error) {
	return opened(ctx, o, "1h", store.Attach)
}

func opened(ctx context.Context, o Options, patience string, as func(context.Context, store.Dialect) (*store.Store, error)) (*store.Store, error) {
	d, err := open(ctx, o, patience)
	if err != nil {
		return nil, fmt.Errorf("opening the PostgreSQL database: %w", err)
	}
	return as(ctx, d)
}

func open(ctx context.Context, o Options, patience string) (store.Dialect, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		// The cause repeats the URL, with the password where it cannot be told apart.
		return store.Dialect{}, fmt.Errorf("the database's URL cannot be read")
	}
	if !strings.Contains(o.URL, "pool_max_conns") {
		config.MaxConns = 16
	}
	for name, value := range map[string]string{
		"application_name": "holdfast",
		// A server that vanished must not keep its locks, nor one that hangs.
		"lock_timeout":                        "10s",
		"statement_timeout":                   patience,
		"idle_in_transaction_session_timeout": patience,
	} {
		if _, set := config.ConnConfig.RuntimeParams[name]; !set {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return store.Dialect{}, err
	}
	db := stdlib.OpenDBFromPool(pool)
	p := newDatabase(pool, db)
	return store.Dialect{
		View: p.view, Look: p.looks.look, Update: p.update, Classify: classify,
		RowLock: " FOR UPDATE", Claim: " FOR UPDATE SKIP LOCKED",
		ChainLock: "SELECT pg_advisory_xact_lock($1)",
		Notify:    "VALUES (pg_notify('" + channel + "', $1))", // no SELECT: it is to be undone with the rest
		Listen: func(ctx context.Context, signal func(string), lost func()) {
			(&listener{config: config.ConnConfig.Copy(), log: o.Logger, signal: signal, lost: lost}).run(ctx)
		},
		DB: db, Goose: goose.DialectPostgres, Alone: p.alone,
		HasTable: "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1)",
		Schema:   func(ctx context.Context) ([]store.Table, error) { return schema(ctx, db) },
		Queue:    riverdatabasesql.NewWithPgxListener(db, pool),
		Close: func() error {
			err := errors.Join(db.Close(), p.rows.Close())
			pool.Close()
			return err
		},
	}, nil
}
