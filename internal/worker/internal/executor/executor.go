// Package executor runs one command of the tool. An Executor decides where; what it promises is the same everywhere.
package executor

import (
	"context"
	"os"
	"time"

	"holdfast.dev/holdfast/internal/tofu"
)

// Command is one command of the tool.
type Command struct {
	Path   string   // absolute
	Args   []string // without the program's own name; never a secret
	Dir    string
	Env    []string // all of it
	Stdout *os.File // a file: a pipe whose reader dies would end the tool in the middle of an apply
	Stderr *os.File

	Timeout   time.Duration // hard limit; required
	Grace     time.Duration // between the one interrupt and the kill
	NotBefore time.Duration // a command that exceeds Timeout is not killed before it ran this long
}

// Result is how a command ended.
type Result struct {
	Exit        tofu.Exit
	Interrupted bool // it was sent the one interrupt
	TimedOut    bool // because of Timeout
	Killed      bool // it did not end within the grace
	Took        time.Duration
}

// Executor runs commands, one at a time.
//
// Run returns when the command has ended and nothing it started is left. Standard input is closed. When ctx is done
// the command gets one interrupt, then Grace, then the end of it and everything it started. The same happens by itself
// one Grace, but at most half of Timeout, before Timeout. There is never a second interrupt: on one, the tool gives up
// the object it is creating. A command that the interrupt finds already done ends with status 0. The error is non-nil
// only when the command was not run, or what it left behind could not be ended.
type Executor interface {
	Run(ctx context.Context, c Command) (Result, error)
}
