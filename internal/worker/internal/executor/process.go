package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/sweep"
)

// Process runs a command as a child of this process, in a session of its own. This process has to be the parent of
// orphans (sweep.Harden) and may have no other children.
type Process struct{}

// Run implements Executor.
func (Process) Run(ctx context.Context, c Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", c.Path, context.Cause(ctx))
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir, Env: c.Env,
		Stdout: c.Stdout, Stderr: c.Stderr,
		// No Pdeathsig: the kernel sends it once for every thread of a parent that is killed, and a second interrupt
		// makes the tool give up what it is creating.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", c.Path, err)
	}
	ended := make(chan Result, 1)
	go func() { ended <- wait(cmd) }()
	r := watch(ctx, c, cmd.Process, ended)
	r.Took = time.Since(begin)
	if err := sweep.Children(); err != nil {
		return r, err
	}
	return r, nil
}

// wait ends the command's group once the command itself has ended. It is reaped only afterwards, so that its number,
// which is the group's, cannot belong to somebody else yet.
func wait(cmd *exec.Cmd) Result {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR { //nolint:errorlint // a bare errno
			break
		}
	}
	killGroup(cmd.Process.Pid)
	_ = cmd.Wait() // its error repeats the status below
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return Result{Exit: tofu.Classify(-1, 0)}
	case status.Signaled():
		return Result{Exit: tofu.Classify(-1, int(status.Signal()))}
	}
	return Result{Exit: tofu.Classify(status.ExitStatus(), 0)}
}

// watch interrupts once, on ctx or before the timeout, and kills after the grace.
func watch(ctx context.Context, c Command, p *os.Process, ended <-chan Result) Result {
	limit := time.NewTimer(c.Timeout - min(c.Grace, c.Timeout/2))
	defer limit.Stop()
	begin := time.Now()
	timedOut := false
	select {
	case r := <-ended:
		return r
	case <-ctx.Done():
	case <-limit.C:
		timedOut = true
	}
	_ = p.Signal(syscall.SIGINT) // to the process alone: its children are its own to stop
	grace := c.Grace
	if timedOut {
		grace = max(grace, c.NotBefore-time.Since(begin))
	}
	kill := time.NewTimer(grace)
	defer kill.Stop()
	killed := false
	var r Result
	select {
	case r = <-ended:
	case <-kill.C:
		killed = true
		killGroup(p.Pid)
		r = <-ended
	}
	r.Interrupted, r.TimedOut, r.Killed = true, timedOut, killed
	return r
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
