package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/broker/internal/relay"
	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/redact"
)

// attempt is one execution of a task, from its acceptance to the day its report is stored.
type attempt struct {
	b      *Broker
	work   api.Work
	log    *slog.Logger
	dir    string // shared with the worker
	own    string // the broker's
	relay  *relay.Relay
	closer func() // of the relay's socket
	logs   *logs
	heart  *heart

	life context.Context //nolint:containedctx // the attempt's own: it outlasts what began it
	end  context.CancelFunc
	runs sync.WaitGroup

	kept    chan struct{} // closed once the record is on the disk for good, or cannot be (keepErr)
	keepErr error

	applying bool // the apply's stage was reached
}

// errTaken means that the server gave the offer to somebody else, or takes it back.
var errTaken = errors.New("the offer is not this agent's any more")

// attempt accepts an offer and brings it to its end. It returns a connection to a worker that is ready, or nil.
func (b *Broker) attempt(ctx context.Context, w *workerConn, offer api.Offer) (*workerConn, error) {
	work, err := b.accept(ctx, offer)
	b.removing.Wait()
	if errors.Is(err, errTaken) {
		b.log.Info("an offer was withdrawn", "attempt", offer.Attempt, "error", err)
		return w, nil
	}
	if err != nil {
		w.close()
		return nil, err
	}
	r := record{Work: work, Password: newPassword().Reveal(), Accepted: b.now()}
	a, err := b.newAttempt(r)
	if err != nil {
		w.close()
		return nil, err
	}
	b.health.begin(work)
	a.log.Info("attempt accepted", "run", work.Run, "component", work.Component, "kind", work.Kind)
	w, err = a.finish(ctx, w, a.execute(ctx, w, r))
	if err != nil {
		a.stop() // what is not delivered stays for the next life
	}
	return w, err
}

// accept takes the offer. The server waits ten seconds for it. A drain that begins meanwhile does not cut it off: an
// attempt that the server took for accepted would hang until it is lost.
func (b *Broker) accept(ctx context.Context, offer api.Offer) (work api.Work, err error) {
	if ctx.Err() != nil {
		return work, fmt.Errorf("%w: %w", errTaken, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = b.platform.Until(ctx, "accept an offer", func(ctx context.Context) error {
		var err error
		work, err = b.platform.Accept(ctx, offer)
		return err
	})
	switch {
	case platform.Refused(err):
		return work, refused(err)
	case err != nil:
		return work, fmt.Errorf("%w: %w", errTaken, err)
	case work.Attempt != offer.Attempt || work.Task != offer.Task:
		return work, fmt.Errorf("%w: the server gave another one", errTaken)
	}
	return work, nil
}

// newAttempt starts what an attempt needs while it lives: its heart, its log and its relay.
func (b *Broker) newAttempt(r record) (a *attempt, err error) {
	w := r.Work
	token := redact.NewSecret(w.State.Token)
	w.State.Token = ""
	a = &attempt{
		b: b, work: w, log: b.log.With("attempt", w.Attempt, "task", w.Task),
		dir: filepath.Join(b.WorkDir, w.Attempt), own: filepath.Join(b.private, w.Attempt),
	}
	a.life, a.end = context.WithCancel(context.Background())
	a.heart = newHeart(b.platform, w, b.policy, a.log)
	a.runs.Go(func() { a.heart.run(a.life) })
	defer func() {
		if err != nil {
			a.stop()
		}
	}()
	for _, dir := range []struct {
		path string
		make func(string) error
	}{{a.own, func(d string) error { return os.Mkdir(d, 0o700) }}, {a.dir, makeDir}} {
		if err := dir.make(dir.path); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("begin an attempt: %w", err)
		}
	}
	if a.logs, err = openLogs(filepath.Join(a.own, logFile), b.platform, w, b.policy, b.now); err != nil {
		return nil, err
	}
	a.runs.Go(func() { a.logs.run(a.life) })
	return a, a.serveState(token, redact.NewSecret(r.Password))
}

// serveState starts the relay.
func (a *attempt) serveState(token, password redact.Secret) error {
	access := relay.Write
	switch {
	case a.work.State.ReadOnly:
		access = relay.Read
	case a.work.Kind == "plan":
		access = relay.Plan
	}
	a.relay = relay.New(relay.Options{
		Platform: a.b.platform, State: a.work.State, Token: token, Access: access, User: a.work.Attempt, Password: password,
		MaxBytes: a.b.policy.StateMaxBytes, SpoolFile: filepath.Join(a.own, spoolFile), Log: a.log, Say: a.logs.say, Now: a.b.now,
	})
	if err := os.Remove(filepath.Join(a.dir, link.StateSocket)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("serve the state: %w", err)
	}
	l, closer, err := link.Listen(a.dir, link.StateSocket, 0o660)
	if err != nil {
		return fmt.Errorf("serve the state: %w", err)
	}
	a.closer = closer
	a.runs.Go(func() { a.relay.Serve(l) })
	return nil
}

// stop ends what newAttempt started. What is on the disk stays.
func (a *attempt) stop() {
	a.end()
	if a.relay != nil {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		a.relay.Drain(gone)
	}
	if a.closer != nil {
		a.closer()
	}
	a.runs.Wait()
	if a.logs != nil {
		_ = a.logs.file.Close()
	}
}

// ended is how the work ended, and the plan where one was made.
type ended struct {
	result  link.Result
	planned *link.Planned
	base    string // SHA-256 of the state that was planned on
	gone    bool   // the worker went away meanwhile
}

func lost(class, format string, args ...any) ended {
	return ended{result: link.Result{Outcome: link.Failed, Class: class, Message: fmt.Sprintf(format, args...)}}
}

// execute gives the worker what it needs, and hears it to the end.
func (a *attempt) execute(ctx context.Context, w *workerConn, r record) ended {
	work, cancel := context.WithCancelCause(a.life)
	defer cancel(nil)
	orders := make(chan string, 1)
	go a.listenOrders(ctx, work, orders)
	fetch, stop := context.WithCancelCause(work)
	a.kept = make(chan struct{})
	a.runs.Go(func() {
		defer close(a.kept)
		a.keepErr = a.b.sealer.write(a.own, r)
	})
	fetched := make(chan error, 1)
	go func() { fetched <- a.fetch(fetch) }()
	var err error
	select {
	case err = <-fetched:
	case reason := <-orders:
		stop(errors.New(reason))
		<-fetched
		return ended{result: cancelledBy(reason)}
	}
	stop(nil)
	if err != nil {
		a.logs.say("holdfast: " + err.Error())
		class := link.ClassInfrastructure
		if platform.Final(err) || errors.Is(err, errRefused) {
			class = link.ClassRefused
		}
		return lost(class, "The attempt could not be begun: %v.", err)
	}
	if err := w.conn.Send(link.Message{Begin: a.begin()}); err != nil {
		return a.workerGone(err)
	}
	return a.hear(work, w, orders)
}

// listenOrders gives the first reason to cancel: the server's, or that this process is to stop.
func (a *attempt) listenOrders(drain, work context.Context, orders chan<- string) {
	select {
	case reason := <-a.heart.orders:
		orders <- reason
	case <-drain.Done():
		a.heart.drain()
		orders <- link.ReasonDrain
	case <-work.Done():
	}
}

func cancelledBy(reason string) link.Result {
	text := map[string]string{
		link.ReasonAsked: "The attempt was cancelled before it began.", link.ReasonDrain: "The agent was stopped before the attempt began.",
		link.ReasonSuperseded: "Another attempt has taken over.", link.ReasonRevoked: "The agent's token is not accepted any more.",
	}[reason]
	return link.Result{Outcome: link.Cancelled, Class: link.ClassCancelled, Message: text}
}

// errRefused is wrapped by what an agent refuses to run.
var errRefused = errors.New("refused")

// fetch gets the packed source and the approved plan into the attempt's directory.
func (a *attempt) fetch(ctx context.Context) error {
	if !a.b.AllowInline {
		return fmt.Errorf("%w: this agent runs no sources packed by holdfast up; HOLDFAST_ALLOW_INLINE_SOURCES=true allows it", errRefused)
	}
	limit := a.b.policy.SourceMaxBytes
	err := a.fetchFile(ctx, link.SourceArchive, a.work.Source.SHA256, func(ctx context.Context, w io.Writer) (string, error) {
		return a.b.platform.Source(ctx, a.work.Task, a.work.Attempt, w, limit)
	})
	if err != nil || a.work.Plan == nil {
		return err
	}
	return a.fetchFile(ctx, link.PlanFile, trimDigest(a.work.Plan.Digest), func(ctx context.Context, w io.Writer) (string, error) {
		return a.b.platform.PlanFile(ctx, a.work.Task, a.work.Attempt, w, a.b.policy.PlanMaxBytes)
	})
}

func (a *attempt) fetchFile(ctx context.Context, name, want string, get func(context.Context, io.Writer) (string, error)) error {
	f, err := newFile(filepath.Join(a.dir, name))
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	var got string
	err = a.b.platform.Until(ctx, "fetch "+name, func(ctx context.Context) error {
		if err := rewind(f); err != nil {
			return err
		}
		var err error
		got, err = get(ctx, f)
		return err
	})
	if err != nil {
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	if got != want {
		return fmt.Errorf("%w: %s is not what the run was started with: its SHA-256 is %.12s…, expected %.12s…", errRefused, name, got, want)
	}
	return nil
}

func rewind(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// begin is the worker's order. The attempt's token is not in it.
func (a *attempt) begin() *link.Begin {
	w := a.work
	b := &link.Begin{
		Attempt: w.Attempt, Apply: w.Kind == "apply", Destroy: w.RunKind == "destroy", ReadOnly: w.State.ReadOnly,
		SourceSHA256: w.Source.SHA256, SourceMaxBytes: a.b.policy.SourceMaxBytes, Inputs: w.Inputs, Sensitive: w.Sensitive,
		TimeoutSeconds: max(w.Timeout, 1), LogLineBytes: a.b.policy.LogLineBytes, User: w.Attempt, Password: a.relay.Password(),
	}
	if p := w.Plan; p != nil {
		b.Plan = &link.Approved{Digest: p.Digest, Tool: p.Tool, Version: p.Version, LockFile: p.LockFile, ConfigHash: p.ConfigHash, View: p.View}
	}
	return b
}

// hear takes what the worker says until it says how the work ended, or is gone.
func (a *attempt) hear(work context.Context, w *workerConn, orders <-chan string) ended {
	var e ended
	limit := (<-chan time.Time)(nil)
	var asked sync.WaitGroup
	defer asked.Wait()
	for {
		select {
		case m := <-w.messages:
			switch {
			case m.Result != nil:
				e.result = *m.Result
				return e
			case m.Ask != nil:
				asked.Go(func() {
					_ = w.conn.Send(link.Message{Answer: &link.Answer{Go: a.mayApply(work)}}) // who is gone is noticed
				})
			case m.Planned != nil:
				e.planned, e.base = m.Planned, a.relay.Served()
			default:
				if err := a.note(m); err != nil {
					a.log.Error("the log cannot be kept", "error", err)
				}
			}
		case reason := <-orders:
			a.log.Info("ending the attempt", "reason", reason)
			if err := w.conn.Send(link.Message{Cancel: &link.Cancel{Reason: reason}}); err != nil {
				return a.workerGone(err)
			}
			t := time.NewTimer(a.b.InterruptGrace + workerSlack)
			defer t.Stop()
			limit = t.C
		case <-limit:
			w.close()
			return a.workerGone(errors.New("it does not say how the attempt ended"))
		case <-w.gone:
			// What it said before it went may still be waiting.
			if len(w.messages) == 0 {
				return a.workerGone(errWorkerGone)
			}
		}
	}
}

// mayApply reports whether an apply may begin: a next life would know of it, and the server has just said so.
func (a *attempt) mayApply(ctx context.Context) bool {
	<-a.kept
	if a.keepErr != nil {
		a.log.Error("the attempt is not applied: its record cannot be kept", "error", a.keepErr)
		return false
	}
	return a.heart.ask(ctx)
}

// note takes a stage or a piece of log.
func (a *attempt) note(m link.Message) error {
	switch {
	case m.Stage != nil:
		a.applying = a.applying || m.Stage.Stage == link.StageApply
		a.heart.at(m.Stage.Stage, m.Stage.Progress)
		a.b.health.stage(m.Stage.Stage)
	case m.Log != nil:
		return a.logs.add(m.Log.Stage, m.Log.Text)
	}
	return nil
}

// workerGone is the end of an attempt whose worker went away.
func (a *attempt) workerGone(err error) ended {
	a.log.Error("the worker went away", "error", err)
	e := lost(link.ClassInfrastructure, "The agent's worker went away in the middle of the attempt.")
	e.gone, e.result.PartialApply = true, a.applying
	return e
}
