// Holdfast is the server and the command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/cli"
)

var version = "dev" // set by the linker

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	os.Exit(cli.Run(context.Background(), cli.Env{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Interrupts: interrupts, Version: version, Now: time.Now,
	}))
}
