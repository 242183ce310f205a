// Package fault holds the one error type that crosses layers: what kind of failure it is, a stable code for
// scripts, text fit for strangers, and a hint that says what to do. Everything else about an error stays in the
// wrapped cause, which is logged and never sent to a client.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of a failure. One function in httpapi maps it to a status, one in cli to an exit code.
type Kind string

// The kinds, with the HTTP status each becomes.
const (
	Invalid         Kind = "invalid"         // 400: the request is malformed
	Unauthenticated Kind = "unauthenticated" // 401: no credential, or one that is not accepted
	Forbidden       Kind = "forbidden"       // 403: known, but not allowed
	NotFound        Kind = "not_found"       // 404
	Conflict        Kind = "conflict"        // 409: the present state of things refuses it
	Gone            Kind = "gone"            // 410: existed, deleted
	TooLarge        Kind = "too_large"       // 413
	Unprocessable   Kind = "unprocessable"   // 422: well-formed, but its content is refused
	Locked          Kind = "locked"          // 423: somebody else holds the lock
	UpgradeRequired Kind = "upgrade"         // 426: an agent too old
	TooMany         Kind = "too_many"        // 429 with Retry-After: slow down
	Unavailable     Kind = "unavailable"     // 503 with Retry-After: nothing was changed, try again
	NoSpace         Kind = "no_space"        // 507: the disk is full, nothing was changed
	NotSetUp        Kind = "not_set_up"      // 501: this server lacks a setting for it, so trying again does not help
	Internal        Kind = "internal"        // 500: ours
)

// Error is a failure with a public side and a private side.
type Error struct {
	Kind   Kind
	Code   string // stable, snake_case, e.g. "state_locked"
	Public string // what happened and why; safe for any client
	Hint   string // what to do about it; may be empty
	Err    error  // private cause; logged only

	RetryAfter time.Duration // with Unavailable and TooMany; zero means the default of 2 s
	Detail     any           // a document for the client, e.g. the lock's holder with Locked
}

// New makes an error whose public text is format filled with args.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Public: fmt.Sprintf(format, args...)}
}

// Wrap gives err a public side. Its own text stays private.
func Wrap(err error, kind Kind, code, format string, args ...any) *Error {
	e := New(kind, code, format, args...)
	e.Err = err
	return e
}

// WithHint returns a copy that says what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithDetail returns a copy that carries a document for the client.
func (e *Error) WithDetail(d any) *Error {
	c := *e
	c.Detail = d
	return &c
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Public + ": " + e.Err.Error()
	}
	return e.Public
}

func (e *Error) Unwrap() error { return e.Err }

// From finds the Error in err's chain; an error without one is Internal.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{
		Kind: Internal, Code: "internal", Public: "Something failed inside Holdfast.",
		Hint: "The server's log has the cause under this request id.", Err: err,
	}
}

// Is reports whether err carries kind.
func Is(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}

// Code is the code that err carries, or "" without one.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
