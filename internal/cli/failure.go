package cli

import (
	"context"
	"errors"
	"fmt"

	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

// The exit codes. They are part of the interface: scripts decide by them.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2 // wrong usage or configuration
	exitRefused = 3 // the run was rejected, cancelled or refused, or waits for an approval that nobody here gives
	exitDenied  = 4 // not allowed, or not signed in
)

// codeUsage is the code of errors of the command line.
const codeUsage = "usage"

// ended is the end of a command that has said everything already.
type ended struct{ code int }

func (e ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode is the one place where a failure becomes an exit code.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if e, ok := errors.AsType[ended](err); ok {
		return e.code
	}
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case !ok:
		return exitFailed
	case f.Code == config.CodeInvalid, f.Code == codeUsage:
		return exitUsage
	}
	switch f.Kind {
	case fault.Unauthenticated, fault.Forbidden:
		return exitDenied
	case fault.Invalid, fault.Unprocessable, fault.TooLarge:
		return exitUsage
	case fault.NotFound, fault.Conflict, fault.Gone, fault.Locked, fault.UpgradeRequired, fault.TooMany, fault.Unavailable, fault.NoSpace, fault.NotSetUp, fault.Internal:
	}
	return exitFailed
}

// failure is an error as --json prints it.
type failure struct {
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Hint      string `json:"hint,omitempty"`
	Status    int    `json:"status,omitempty"` // where a server answered it
	RequestID string `json:"request_id,omitempty"`
	More      any    `json:"findings,omitempty"` // of a refused source
}

// describe takes an error apart. An error of this program itself has no public side to it: all of it is shown.
func describe(err error) failure {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		code := "failed"
		if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
			code = "interrupted"
		}
		return failure{Code: code, Detail: err.Error()}
	}
	out := failure{Code: f.Code, Detail: f.Public, Hint: f.Hint}
	if p, ok := client.ProblemOf(err); ok {
		out.Status, out.RequestID = p.Status, p.RequestID
	} else {
		out.More = f.Detail
	}
	return out
}

// fail says what went wrong, why, and what to do, and gives the exit code.
func (c *call) fail(err error) int {
	code := exitCode(err)
	if _, said := errors.AsType[ended](err); said || err == nil {
		return code
	}
	f := describe(err)
	if c.json {
		if c.printJSON(map[string]failure{"error": f}) != nil {
			return exitFailed
		}
		return code
	}
	c.msg.print("%s %s\n", c.msg.red("Error:"), lines(f.Detail))
	if f.Hint != "" {
		c.msg.print("%s %s\n", c.msg.bold("Do:"), lines(f.Hint))
	}
	if f.RequestID != "" {
		c.msg.print("%s\n", c.msg.dim("Request: "+f.RequestID))
	}
	return code
}
