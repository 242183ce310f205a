package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holdfast.dev/holdfast/test/load"
)

// attachTimeout bounds how long strace may take to attach.
const attachTimeout = 10 * time.Second

// syncs counts the syncs of server and database with strace, where this machine has it: their number does not depend
// on how slow that makes them.
func (b *bench) syncs(ctx context.Context, d database, p *load.Process) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		_, _ = fmt.Fprintln(b.progress, "no strace here, so syncs are not counted")
		return nil
	}
	for _, w := range []struct{ workers, each int }{{1, 30}, {32, 6}} {
		c := load.Cycles{Name: fmt.Sprintf("syncs-%d", w.workers), Workers: w.workers, Each: w.each + 1, Size: 10 * kilobyte}
		n, err := b.countSyncs(ctx, strace, d, p, c)
		if err != nil {
			return err
		}
		b.table.set(fmt.Sprintf("syncs-%d", w.workers), d.name, float64(n)/float64(c.Workers*c.Each))
	}
	return nil
}

func (b *bench) countSyncs(ctx context.Context, strace string, d database, p *load.Process, c load.Cycles) (n int, err error) {
	traced := []int{p.PID()}
	if d.main != 0 {
		more, err := descendants(d.main)
		if err != nil {
			return 0, err
		}
		traced = append(append(traced, d.main), more...)
	}
	log := filepath.Join(b.dir, string(d.name)+"-"+c.Name+".strace")
	args := []string{"-f", "-q", "-e", "trace=fsync,fdatasync", "-o", log}
	for _, pid := range traced {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, strace, args...) //nolint:gosec // found on PATH
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err = attached(ctx, traced)
	if err == nil {
		_, err = load.Run(ctx, p.Server, c)
	}
	_ = cmd.Process.Signal(syscall.SIGINT) // detaches
	_ = cmd.Wait()                         // its status is the signal's
	if err != nil {
		return 0, fmt.Errorf("%w; strace: %s", err, said.String())
	}
	text, err := os.ReadFile(log) //nolint:gosec // our own
	if err != nil {
		return 0, err
	}
	return strings.Count(string(text), "sync("), nil
}

// attached waits until every process is traced.
func attached(ctx context.Context, pids []int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attachTimeout, errors.New("strace does not attach"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for !traced(pid) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// traced reports whether every thread of a process is traced, or it has ended.
func traced(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range threads {
		text, err := os.ReadFile(path) //nolint:gosec // of /proc
		if err == nil && strings.Contains(string(text), "\nTracerPid:\t0\n") {
			return false
		}
	}
	return true
}
