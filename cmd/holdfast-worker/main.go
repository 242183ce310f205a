// Command holdfast-worker is the half of an agent that runs OpenTofu. It has customer code and cloud identity, and no
// token of the platform. It is started by the supervisor as a user of its own, or by `holdfast-agent worker`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx)
	stop()
	if err == nil {
		return
	}
	e := fault.From(err)
	text := err.Error()
	if e.Code != "internal" && e.Hint != "" {
		text += "\n" + e.Hint
	}
	fmt.Fprintln(os.Stderr, "holdfast-worker: "+text)
	if e.Kind == fault.Invalid || e.Kind == fault.Unprocessable { // a setting, or the tool it names
		os.Exit(2)
	}
	os.Exit(1)
}

func run(ctx context.Context) error {
	c, warnings, err := config.LoadWorker(os.Environ())
	if err != nil {
		return err
	}
	log := config.Logger(os.Stderr, c.LogLevel, c.LogFormat)
	for _, w := range warnings {
		log.Warn(w)
	}
	s, err := worker.LoadSettings(c, os.Getuid())
	if err != nil {
		return err
	}
	if s.Unisolated {
		ctx = lifeline(ctx)
	}
	err = worker.New(worker.Options{Settings: s, Host: os.Environ(), Log: log, Now: time.Now}).Run(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// lifeline is done when the broker that started this worker has ended: it holds the other end of standard input. A
// worker that was started otherwise has no pipe there, and no lifeline.
func lifeline(ctx context.Context) context.Context {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}
