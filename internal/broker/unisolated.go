package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/config"
)

// passed lists what of the environment a worker gets that this process starts: where it runs and who it is in a cloud.
var (
	passedNames    = [...]string{"PATH", "HOME", "TZ", "LANG"}
	passedPrefixes = [...]string{"AWS_", "GOOGLE_", "ARM_", "AZURE_"}
)

// Unisolated runs a broker and, as a second process of the same user, its worker: for development on one's own machine.
// worker is the path of the worker's program, environ this process's environment, stderr where the worker logs.
func Unisolated(ctx context.Context, b *Broker, worker string, environ []string, stderr *os.File) error {
	if !b.Unisolated {
		return config.Invalid("HOLDFAST_DEVELOPMENT_UNISOLATED is not 1; without a user of its own for the worker, a template can reach what is its user's.").
			WithHint("Set it to 1 on a machine that is for development alone; elsewhere run broker and worker apart.")
	}
	if err := harden(); err != nil { // before the worker is there
		return err
	}
	env := workerEnvironment(environ)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	// The worker outlasts a drain: it ends with its lifeline, after the broker.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := b.keepWorker(life, worker, env, stderr)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	err := b.Run(ctx)
	end()
	return errors.Join(err, <-ended)
}

// workerEnvironment is built, not inherited: the token, and whatever else is meant for this process, stays here.
func workerEnvironment(environ []string) []string {
	var settings config.Worker
	var names []string
	for _, s := range config.WorkerSettings(&settings).Settings() {
		names = append(names, s.Name)
	}
	var env []string
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if ok && (slices.Contains(names, name) || slices.Contains(passedNames[:], name) || slices.ContainsFunc(passedPrefixes[:], func(p string) bool {
			return strings.HasPrefix(name, p)
		})) {
			env = append(env, kv)
		}
	}
	return env
}

// keepWorker starts the worker, and starts it again when it dies, until ctx is done. A worker that refuses its
// settings is not started again.
func (b *Broker) keepWorker(ctx context.Context, path string, env []string, stderr *os.File) error {
	const exitSettings = 2
	for pause := 100 * time.Millisecond; ; pause = min(pause*2, 5*time.Second) {
		begun := b.now()
		err := b.runWorker(ctx, path, env, stderr)
		if ctx.Err() != nil {
			return nil
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		switch {
		case ok && exit.ExitCode() == exitSettings:
			return config.Invalid("The worker refuses its settings; it has said why.")
		case err != nil && !ok:
			return config.Invalid("The worker cannot be started: %v.", err).
				WithHint("holdfast-worker has to stand beside holdfast-agent.")
		}
		b.log.Error("the worker ended; starting it again", "error", err)
		if b.now().Sub(begun) > time.Minute {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// runWorker runs one worker. Its standard input is its lifeline: when this process ends, however, the worker sees it
// end, and stops after it has interrupted what runs.
func (b *Broker) runWorker(ctx context.Context, path string, env []string, stderr *os.File) error {
	read, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the worker's lifeline: %w", err)
	}
	cmd := &exec.Cmd{Path: path, Args: []string{path}, Env: env, Stdin: read, Stderr: stderr, Stdout: stderr}
	// A group of its own, so that the terminal's interrupt reaches the broker alone, which drains.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = read.Close()
	if err != nil {
		_ = lifeline.Close()
		return fmt.Errorf("start the worker: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = lifeline.Close() })
	defer stop()
	err = cmd.Wait()
	_ = lifeline.Close()
	return err
}
