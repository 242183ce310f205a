package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/broker"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

const (
	exitFailed  = 1
	exitUsage   = 2
	exitRevoked = 3
)

// workerProgram stands beside this program.
const workerProgram = "holdfast-worker"

func runBroker(ctx context.Context, environ []string, unisolated bool) error {
	c, warnings, err := config.LoadBroker(environ)
	if err != nil {
		return err
	}
	log := config.Logger(os.Stderr, c.LogLevel, c.LogFormat)
	for _, w := range warnings {
		log.Warn(w)
	}
	if c.Unisolated && !unisolated {
		return config.Invalid("HOLDFAST_DEVELOPMENT_UNISOLATED is set, and this is `broker`.").
			WithHint("Run `holdfast-agent unisolated`, or unset it.")
	}
	b, err := broker.New(broker.Options{Settings: c, UID: os.Getuid(), Version: version(), Log: log, Now: time.Now})
	if err != nil {
		return err
	}
	if !unisolated {
		return b.Run(ctx)
	}
	worker, err := beside(workerProgram)
	if err != nil {
		return err
	}
	return broker.Unisolated(ctx, b, worker, environ, os.Stderr)
}

// becomeWorker replaces this process by the worker, which links nothing of the broker.
func becomeWorker(environ []string) error {
	path, err := beside(workerProgram)
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, []string{path}, environ))
}

func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the own program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), name), nil
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "holdfast-agent: "+err.Error())
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return exitFailed
	}
	if e.Hint != "" {
		fmt.Fprintln(os.Stderr, e.Hint)
	}
	switch e.Code {
	case broker.CodeTokenRefused:
		return exitRevoked
	case config.CodeInvalid:
		return exitUsage
	}
	return exitFailed
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

func wantsHelp(args []string) bool {
	return slices.Contains(args, "--help") || slices.Contains(args, "-h") || args[0] == "help"
}

func help(args []string) string {
	switch {
	case slices.Contains(args, "broker"), slices.Contains(args, "unisolated"):
		return "Settings of the broker, from the environment:\n\n" + config.BrokerSettings(&config.Broker{}).Help()
	case slices.Contains(args, "worker"):
		return "Settings of the worker, from the environment:\n\n" + config.WorkerSettings(&config.Worker{}).Help()
	}
	return `Usage: holdfast-agent COMMAND

  broker      claim work and deliver results; has the token and runs no customer code
  worker      run OpenTofu; has customer code and no token (executes holdfast-worker)
  unisolated  both, as one user: for development on one's own machine
  version     say the version

The settings of each: holdfast-agent COMMAND --help
`
}
