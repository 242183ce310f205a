package store

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver"

	"holdfast.dev/holdfast/internal/store/db"
)

// Session runs statements within one transaction.
type Session interface {
	db.DBTX
	// Later runs a statement whose answer nobody waits for: at the latest with the next one that is waited for, or with
	// the commit, and after all those before it. Should it fail, that one fails, with what failed makes of the error.
	Later(ctx context.Context, failed func(error) error, query string, args ...any) error
	// Notes are what updates of one transaction leave for each other, such as what was read and cannot change before its
	// end. They are gone with the transaction, and with any update of it that is undone.
	Notes() map[string]any
}

// Dialect is everything in which the databases differ. The SQL is the same for all of them.
type Dialect struct {
	// View runs fn on one snapshot, read-only.
	View func(ctx context.Context, fn func(Session) error) error
	// Look runs fn, which reads with one statement, without a transaction.
	Look func(ctx context.Context, fn func(Session) error) error
	// Update runs fn in one transaction, which is durable when Update returns nil. It may run fn again.
	Update func(ctx context.Context, fn func(Session) error) error
	// Classify says what a driver's error means.
	Classify func(error) Class

	// RowLock ends a SELECT whose rows nobody else may change until the transaction ends, Claim one that skips
	// rows which another transaction has locked. Both are empty where one transaction writes at a time.
	RowLock, Claim string
	// ChainLock is a statement that keeps others from one audit chain, which $1 numbers; "" as above.
	ChainLock string
	// Notify is a statement that tells topic $1 to all servers once the transaction is committed; "" where this
	// process is the only one.
	Notify string
	// Listen calls signal for each topic told by any server, and lost whenever some may have been missed, until
	// ctx ends. Nil where this process is the only one.
	Listen func(ctx context.Context, signal func(topic string), lost func())

	// DB answers Ready and takes the migrations.
	DB *sql.DB
	// Goose is the migrations' name for the database.
	Goose goose.Dialect
	// Alone runs fn, which migrates, while no other server does. It may run fn again.
	Alone func(ctx context.Context, fn func(context.Context) error) error
	// HasTable is a statement that tells whether there is a table named $1.
	HasTable string
	// Schema describes the tables as they are in the database.
	Schema func(ctx context.Context) ([]Table, error)

	// Queue is the database as River's driver sees it.
	Queue riverdriver.Driver[*sql.Tx]
	// Close frees what the dialect holds.
	Close func() error
}

// Class is what a failed statement means, whichever database says it.
type Class int

// The classes of failure.
const (
	Unknown Class = iota // ours to find out
	Unique               // a unique key is taken
	Foreign              // a reference to a row that is not there, or from one that is
	Busy                 // another transaction is in the way: a repeat may work
	Lost                 // the database cannot be reached or is stopping
	Full                 // no room left
)
