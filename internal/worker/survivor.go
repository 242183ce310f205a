package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/worker/internal/sweep"
)

// The notes that an apply leaves for a worker that finds it running after its own worker has died.
const (
	applyingFile    = "applying"    // the port of the forwarder that the tool knows
	interruptedFile = "interrupted" // the tool has got its one interrupt
)

// survivors brings applies to their end that outlived an earlier worker: their state can pass again, they get the one
// interrupt, and the grace to stop and save. Whatever runs after that is ended by the sweep.
func (w *Worker) survivors(ctx context.Context) error {
	entries, err := os.ReadDir(w.WorkDir)
	if err != nil {
		return fmt.Errorf("look for what an earlier worker left: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && id.Valid(id.Attempt, e.Name()) {
			if err := w.survivor(ctx, filepath.Join(w.WorkDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Worker) survivor(ctx context.Context, dir string) error {
	note, err := os.ReadFile(filepath.Join(dir, scratchDir, applyingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no apply was begun; nothing is lost with what runs
	}
	if err != nil {
		return fmt.Errorf("look for what an earlier worker left: %w", err)
	}
	tools, err := w.tools(dir)
	if err != nil || len(tools) == 0 {
		return err
	}
	w.log.Warn("an apply of an earlier worker still runs; interrupting it and waiting for its state", "dir", dir, "limit", w.InterruptGrace)
	if port, err := strconv.Atoi(string(note)); err == nil {
		f, err := newForwarder(ctx, dir, port, w.BrokerUID, w.log)
		if err != nil {
			w.log.Error("its state cannot pass; it will be in errored.tfstate", "error", err)
		} else {
			defer f.Close()
		}
	}
	// Noted before it is sent: on a second interrupt the tool gives up what it is creating.
	switch err := write(filepath.Join(dir, scratchDir, interruptedFile), []byte("1")); {
	case err == nil:
		for _, pid := range tools {
			_ = syscall.Kill(pid, syscall.SIGINT)
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return w.await(ctx, dir)
}

// await waits until no tool runs in the attempt, or the grace has passed.
func (w *Worker) await(ctx context.Context, dir string) error {
	until := time.NewTimer(w.InterruptGrace)
	defer until.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-until.C:
			return nil
		case <-tick.C:
		}
		tools, err := w.tools(dir)
		if err != nil || len(tools) == 0 {
			return err
		}
	}
}

// tools are the processes of the tool itself in an attempt.
func (w *Worker) tools(dir string) ([]int, error) {
	pids, err := sweep.Marked(dir)
	if err != nil {
		return nil, err
	}
	var tools []int
	for _, pid := range pids {
		if sweep.Runs(pid, w.TofuBin) {
			tools = append(tools, pid)
		}
	}
	return tools, nil
}
