package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/broker/internal/relay"
	"holdfast.dev/holdfast/internal/link"
)

// finish brings everything that is left of an attempt to where it belongs and removes its directory. It returns a
// connection to a worker that is ready, or nil. With ctx done, which is a drain, each wait has a limit; what is not
// delivered then is kept for the next life.
func (a *attempt) finish(ctx context.Context, w *workerConn, e ended) (*workerConn, error) {
	a.heart.at(link.StageReport, "")
	if e.gone {
		w.close()
		w = a.workerBack(ctx)
	}
	if err := a.settle(ctx, e); err != nil {
		if w != nil {
			w.close()
		}
		return nil, err
	}
	// While the results are delivered the disk takes them, and the worker clears up and gets ready for the next attempt.
	synced := make(chan error, 1)
	go func() { synced <- a.settleFiles() }()
	next := make(chan *workerConn, 1)
	go func() { next <- a.b.turn(ctx, w, a) }()
	err := a.deliver(ctx)
	ready := <-next
	a.b.strays = a.b.strays || ready == nil
	if err != nil && !errors.Is(err, errOver) {
		if ready != nil {
			ready.close()
		}
		return nil, errors.Join(err, <-synced)
	}
	a.b.health.ended(e.result)
	a.b.removing.Go(a.remove)
	return ready, nil
}

// settleFiles makes what is to be delivered outlast the machine.
func (a *attempt) settleFiles() error {
	for _, name := range []string{plannedFile, reportFile} {
		err := settle(filepath.Join(a.own, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// turn has the worker clear the attempt's directory and gives the connection for the next one, or nil.
func (b *Broker) turn(ctx context.Context, w *workerConn, a *attempt) *workerConn {
	if w == nil {
		return nil
	}
	err := w.clean(a.work.Attempt)
	w.close() // one connection is one attempt
	if err != nil {
		a.log.Warn("the worker did not clear the attempt's directory", "error", err)
		return nil
	}
	ready, err := b.meet(ctx)
	if err != nil {
		return nil // only because of a drain
	}
	return ready
}

// workerBack waits until a worker is there again, which means that nothing of the attempt runs any more: until then
// the tool may be saving its state. While it waits the relay serves on.
func (a *attempt) workerBack(ctx context.Context) *workerConn {
	// The new worker lets the tool, which got its one interrupt when the old one died, end within the grace.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.b.InterruptGrace+workerSlack)
	defer cancel()
	w, err := a.b.meet(wait)
	if err != nil {
		a.log.Error("the worker did not come back", "error", err)
		return nil
	}
	return w
}

// within gives a context that is without limit as long as ctx is not done, and has limit from then on.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	})
	return out, func() { stop(); cancel(nil) }
}

// settle ends the state's relay, delivers a state that the tool could not save, and writes what is to be reported.
func (a *attempt) settle(ctx context.Context, e ended) error {
	state, cancel := within(ctx, a.b.StateReadTimeout)
	defer cancel()
	a.relay.Drain(state)
	report := a.report(e)
	// Before anything else can go wrong: should this process die, its next life knows the result.
	if err := writeJSON(filepath.Join(a.own, reportFile), report); err != nil {
		return err
	}
	changed, err := a.rescue(state, &report)
	if err != nil {
		return err
	}
	if changed {
		if err := writeJSON(filepath.Join(a.own, reportFile), report); err != nil {
			return err
		}
	}
	if e.planned == nil || report.Outcome != link.Succeeded {
		return nil
	}
	p := e.planned
	return writeJSON(filepath.Join(a.own, plannedFile), api.PlanMade{
		Attempt: a.work.Attempt, Digest: p.Digest, Tool: p.Tool, Version: p.Version, LockFile: p.LockFile, ConfigHash: p.ConfigHash,
		BaseSHA256: e.base, View: p.View,
	})
}

func (a *attempt) report(e ended) api.Report {
	r := e.result
	out := api.Report{
		Attempt: a.work.Attempt, Outcome: r.Outcome, Class: r.Class, Message: r.Message, PartialApply: r.PartialApply, Outputs: r.Outputs,
	}
	switch {
	case r.Outcome != link.Succeeded && r.Outcome != link.Failed && r.Outcome != link.Cancelled:
		out.Outcome, out.Class, out.Message = link.Failed, link.ClassInfrastructure, "The agent's worker said no outcome that is known."
	case r.Outcome == link.Succeeded && a.work.Kind == "plan" && e.planned == nil:
		out.Outcome, out.Class, out.Message = link.Failed, link.ClassInfrastructure, "The agent's worker made no plan and said that it had."
	}
	if !slices.Contains([]string{"", link.ClassConfiguration, link.ClassInfrastructure, link.ClassCancelled, link.ClassRefused}, out.Class) {
		out.Class = link.ClassInfrastructure
	}
	if denied := a.relay.Denied(); denied != "" && out.Outcome == link.Failed {
		out.Message = join(out.Message, denied)
		if !out.PartialApply {
			out.Class = link.ClassRefused
		}
	}
	for _, s := range r.Stages[:min(len(r.Stages), maxStages)] {
		out.Stages = append(out.Stages, api.StageTime{Stage: s.Stage, Milliseconds: s.Milliseconds, Tool: s.Tool})
	}
	if c := r.Applied; c != nil {
		out.Applied = &api.Counts{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Replace: c.Replace, Import: c.Import, Forget: c.Forget}
	}
	return out
}

// rescue delivers the state that an apply could not save: the tool's errored.tfstate, which is the newest, or else a
// save that the relay had taken and could not pass on. It reports whether it changed the report.
func (a *attempt) rescue(ctx context.Context, report *api.Report) (changed bool, err error) {
	if a.work.Kind != "apply" {
		return false, nil
	}
	f, size, err := a.b.openWorkers(a.dir, filepath.Join(link.ModuleDir, link.ErroredState), a.b.policy.StateMaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = relay.Unsaved(filepath.Join(a.own, spoolFile))
		if err != nil || f == nil {
			return false, err
		}
		info, err := f.Stat()
		if err != nil {
			return false, err
		}
		size = info.Size()
	} else if err != nil {
		a.log.Error("an unsaved state cannot be delivered", "error", err)
		report.StateUnsaved = true
		report.Message = join(report.Message, "The state could not be saved, and what the tool left of it cannot be delivered: "+err.Error()+".")
		return true, nil
	}
	defer func() { _ = f.Close() }()
	a.log.Warn("delivering a state that could not be saved", "bytes", size)
	err = a.relay.Deliver(ctx, f, size)
	switch {
	case err == nil:
		_ = os.Remove(filepath.Join(a.own, spoolFile))
		a.logs.say("holdfast: the state that could not be saved was delivered afterwards")
		report.Message = join(report.Message, "The state that it could not save was saved afterwards.")
		return true, nil
	case platform.Final(err):
		path, keepErr := a.b.keepAside(a.work.Attempt, f)
		if keepErr != nil {
			return false, keepErr
		}
		a.log.Error("the server refuses a state that could not be saved; it is kept", "error", err, "path", path)
		report.StateUnsaved = true
		report.Message = join(report.Message, fmt.Sprintf("The state could not be saved (%v); the agent keeps it as %s.", err, path))
		return true, nil
	}
	return false, err
}

// What the contract takes of a report, whatever the worker says.
const (
	maxMessage = 3900 // bytes; it allows 4000 characters
	maxStages  = 32
)

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }

func cut(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// errOver means that the server wants nothing more of the attempt.
var errOver = errors.New("the attempt is over for the server")

// deliver gives log, plan and report to the server, from what is on the disk; repeating it is harmless.
func (a *attempt) deliver(ctx context.Context) error {
	ctx, cancel := within(ctx, reportWindow)
	defer cancel()
	var report api.Report
	if ok, err := readJSON(filepath.Join(a.own, reportFile), &report); err != nil || !ok {
		return errors.Join(err, errors.New("deliver a report: there is none"))
	}
	flushed := make(chan error, 1)
	go func() { flushed <- a.logs.flush(ctx) }()
	err := a.deliverPlan(ctx)
	switch {
	case platform.Refused(err):
		return refused(err)
	case platform.Final(err) || errors.Is(err, errRefused):
		a.log.Error("the plan was not taken", "error", err)
		report.Outcome, report.Class, report.Message = link.Failed, link.ClassRefused, "The plan could not be stored: "+err.Error()
	case err != nil:
		return err
	}
	if err := <-flushed; err != nil && !platform.Final(err) {
		return err
	} else if err != nil {
		a.log.Warn("the server takes no more of the log", "error", err)
	}
	report.Message = cut(report.Message)
	err = a.b.platform.Until(ctx, "report", func(ctx context.Context) error {
		answer, err := a.b.platform.Report(ctx, a.work.Task, report)
		if err == nil {
			a.log.Info("reported", "outcome", report.Outcome, "class", report.Class, "status", answer.Status)
		}
		return err
	})
	switch {
	case platform.Refused(err):
		return refused(err)
	case platform.Final(err):
		a.log.Warn("the server does not take the report", "error", err)
		return errOver
	}
	return err
}

// deliverPlan stores the plan's file, then its view.
func (a *attempt) deliverPlan(ctx context.Context) error {
	var made api.PlanMade
	ok, err := readJSON(filepath.Join(a.own, plannedFile), &made)
	if err != nil || !ok {
		return err
	}
	f, size, err := a.b.openWorkers(a.dir, link.PlanFile, a.b.policy.PlanMaxBytes)
	if err != nil {
		return fmt.Errorf("%w: the plan's file cannot be read: %w", errRefused, err)
	}
	defer func() { _ = f.Close() }()
	err = a.b.platform.Until(ctx, "store the plan's file", func(ctx context.Context) error {
		return a.b.platform.PutPlanFile(ctx, a.work.Task, a.work.Attempt, section(f, size), size)
	})
	if err != nil {
		return err
	}
	return a.b.platform.Until(ctx, "store the plan", func(ctx context.Context) error {
		return a.b.platform.Plan(ctx, a.work.Task, made)
	})
}

// remove ends the attempt on this machine. Its own directory goes last: while it is there, the attempt is not over.
// What of the shared directory is the worker's and was not cleared goes when a worker is there again.
func (a *attempt) remove() {
	a.stop()
	if err := removeIn(a.b.WorkDir, a.work.Attempt); err != nil {
		a.log.Warn("an attempt's directory cannot be removed yet", "error", err)
	}
	if err := removeIn(a.b.private, a.work.Attempt); err != nil {
		a.log.Error("an attempt's record cannot be removed", "error", err)
	}
}
