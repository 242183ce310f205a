package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/link"
)

// leftovers takes up the attempts that an earlier life of this broker did not finish. Their hearts beat and their
// states are served from now on: the tool may still run.
func (b *Broker) leftovers(context.Context) ([]*attempt, error) {
	names, err := attemptsIn(b.private)
	if err != nil {
		return nil, err
	}
	var all []*attempt
	for _, name := range names {
		r, err := b.sealer.read(filepath.Join(b.private, name), name)
		if err != nil {
			b.abandon(name, err)
			continue
		}
		a, err := b.newAttempt(r)
		if err != nil {
			for _, other := range all {
				other.stop()
			}
			return nil, fmt.Errorf("take up attempt %s again: %w", name, err)
		}
		a.log.Warn("taking up an attempt of an earlier life")
		all = append(all, a)
	}
	return all, nil
}

// abandon gives up an attempt whose record cannot be opened: nothing can be said for it. A state it left is kept.
func (b *Broker) abandon(name string, why error) {
	b.log.Error("an attempt of an earlier life cannot be finished", "attempt", name, "error", why)
	dir := filepath.Join(b.WorkDir, name)
	f, _, err := b.openWorkers(dir, filepath.Join(link.ModuleDir, link.ErroredState), b.policy.StateMaxBytes)
	if err == nil {
		defer func() { _ = f.Close() }()
		path, err := b.keepAside(name, f)
		if err != nil {
			b.log.Error("its unsaved state cannot be kept, so it stays where it is", "attempt", name, "error", err)
			return
		}
		b.log.Error("its unsaved state is kept", "attempt", name, "path", path)
	}
	if err := removeIn(b.private, name); err != nil {
		b.log.Error("an attempt's record cannot be removed", "attempt", name, "error", err)
	}
}

// finishLeftover finishes one, now that a worker is there: so nothing of the attempt runs any more.
func (b *Broker) finishLeftover(ctx context.Context, a *attempt, w *workerConn) error {
	e, err := a.remembered()
	if err != nil {
		return err
	}
	if err := a.settleAgain(ctx, e); err != nil {
		return err
	}
	if err := a.deliver(ctx); err != nil && !errors.Is(err, errOver) {
		return err
	}
	if err := w.clean(a.work.Attempt); err != nil {
		a.log.Warn("the worker did not clear the attempt's directory", "error", err)
		b.strays = true
	}
	a.remove()
	return nil
}

// remembered is the report that the earlier life wrote, or what is known without one.
func (a *attempt) remembered() (*api.Report, error) {
	var r api.Report
	ok, err := readJSON(filepath.Join(a.own, reportFile), &r)
	if err != nil || ok {
		return &r, err
	}
	return &api.Report{
		Attempt: a.work.Attempt, Outcome: link.Failed, Class: link.ClassLost,
		Message:      "The agent's broker ended in the middle of the attempt.",
		PartialApply: a.work.Kind == "apply" && a.sawApply(),
	}, nil
}

// sawApply reports whether the log tells that the apply's stage had begun.
func (a *attempt) sawApply() bool {
	text, err := os.ReadFile(filepath.Join(a.own, logFile))
	return err != nil || strings.Contains(string(text), `"stage":"`+link.StageApply+`"`)
}

// settleAgain is settle with a report that is there already.
func (a *attempt) settleAgain(ctx context.Context, report *api.Report) error {
	state, cancel := within(ctx, a.b.StateReadTimeout)
	defer cancel()
	a.relay.Drain(state)
	if _, err := a.rescue(state, report); err != nil {
		return err
	}
	return writeJSON(filepath.Join(a.own, reportFile), report)
}

// removeStrays removes directories of attempts that are over, with the worker's help. It reports whether some are left.
func (b *Broker) removeStrays(w *workerConn) (left bool) {
	names, err := attemptsIn(b.WorkDir)
	if err != nil {
		b.log.Error("the work directory cannot be read", "error", err)
		return true
	}
	for _, name := range names {
		_ = w.clean(name) // what it cannot remove shows below
		if err := removeIn(b.WorkDir, name); err != nil {
			b.log.Error("an earlier attempt's directory cannot be removed", "attempt", name, "error", err)
			left = true
		}
	}
	return left
}

func section(f *os.File, size int64) io.Reader { return io.NewSectionReader(f, 0, size) }

func trimDigest(d string) string { return strings.TrimPrefix(d, "sha256:") }
