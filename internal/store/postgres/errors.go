package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast.dev/holdfast/internal/store"
)

// SQLSTATE codes.
const (
	foreignKeyViolation  = "23503"
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	readOnlyTransaction  = "25006" // what a standby says to a write
	idleTimeout          = "25P03"
	featureNotSupported  = "0A000" // also of a compiled statement whose tables have changed
	noSuchStatement      = "26000"
)

func classify(err error) store.Class {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyCode(e.Code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect), errors.As(err, &network), pgconn.SafeToRetry(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, net.ErrClosed):
		return store.Lost
	}
	return store.Unknown
}

func classifyCode(code string) store.Class {
	switch code {
	case uniqueViolation:
		return store.Unique
	case foreignKeyViolation:
		return store.Foreign
	case diskFull:
		return store.Full
	case serializationFailure, deadlockDetected, lockNotAvailable, queryCanceled:
		return store.Busy
	case readOnlyTransaction, idleTimeout:
		return store.Lost
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57": // connection, resources, operator
		return store.Lost
	}
	return store.Unknown
}
