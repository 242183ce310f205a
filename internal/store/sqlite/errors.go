package sqlite

import (
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"holdfast.dev/holdfast/internal/store"
)

func classify(err error) store.Class {
	if errors.Is(err, sql.ErrConnDone) {
		return store.Lost
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return store.Unknown
	}
	switch e.Code() {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return store.Unique
	case lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return store.Foreign
	case lib.SQLITE_IOERR_SHMSIZE: // what a full disk says of the file beside the database
		return store.Full
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return store.Busy
	case lib.SQLITE_FULL:
		return store.Full
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY:
		return store.Lost
	}
	return store.Unknown
}
