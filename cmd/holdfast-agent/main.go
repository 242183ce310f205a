// Command holdfast-agent is the half of an agent that has the token: it claims work and gives it to the worker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Environ())
	stop()
	os.Exit(code)
}

// run runs one command and gives the exit code: 0 stopped as asked, 1 failed unexpectedly, 2 wrong usage or settings,
// 3 the token is not accepted any more.
func run(ctx context.Context, args, environ []string) int {
	var err error
	switch {
	case len(args) == 1 && args[0] == "broker":
		err = runBroker(ctx, environ, false)
	case len(args) == 1 && args[0] == "unisolated":
		err = runBroker(ctx, environ, true)
	case len(args) == 1 && args[0] == "worker":
		err = becomeWorker(environ)
	case len(args) == 1 && args[0] == "version":
		fmt.Println("holdfast-agent " + version())
	case len(args) == 0, wantsHelp(args):
		fmt.Print(help(args))
	default:
		fmt.Fprintf(os.Stderr, "holdfast-agent: unknown command %q.\n\n%s", args, help(nil))
		return exitUsage
	}
	return exitCode(err)
}
