package cli

import (
	"context"
	"errors"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
)

const (
	watchPatience = 10 * time.Minute       // without a server, before a watcher gives up; the run goes on
	redrawEvery   = 200 * time.Millisecond // of the lines on a terminal
	lastWords     = 2 * time.Second        // for the events of a run that is over, and for what was asked of one that is left
)

// errLeft is the end of watching a run that goes on.
var errLeft = errors.New("left running")

// watching follows one run. All its fields belong to the loop of follow; what takes time runs beside the loop and
// comes back to it as a function.
type watching struct {
	c      *call
	server *client.Client
	id     string
	live   *live

	decide  func(ctx context.Context, r api.Run) error // called once for each plan that waits for approval
	known   func(e api.Event) bool                     // what is said otherwise; may be nil
	cancels bool                                       // the first interrupt asks the run to cancel; else it ends the watching

	after     int64 // seq of the last event seen
	decided   string
	fetching  bool
	stale     bool
	asked     bool          // to cancel
	cancelled chan struct{} // closed once the server has answered that
	lost      bool
	question  bool // is on the screen and unanswered
	back      chan func() error
}

func (c *call) watching(server *client.Client, id string, s *screen) *watching {
	return &watching{c: c, server: server.WithPatience(watchPatience), id: id, live: newLive(s, c.Now), back: make(chan func() error)}
}

// beside runs work beside the loop; the function that it returns runs in the loop.
func (w *watching) beside(ctx context.Context, work func() func() error) {
	go func() {
		f := work()
		select {
		case w.back <- f:
		case <-ctx.Done():
		}
	}()
}

type told struct {
	notice client.Notice
	err    error
}

// follow watches until the run is over, and gives it as it is then.
func (w *watching) follow(ctx context.Context) (api.Run, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notices := make(chan told)
	go func() {
		for n, err := range w.server.WatchRun(ctx, w.id, 0) {
			select {
			case notices <- told{n, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	defer w.live.pause()
	for {
		var err error
		select {
		case n := <-notices:
			err = w.notice(ctx, n)
		case f := <-w.back:
			err = f()
		case <-w.c.Interrupts:
			err = w.interrupt(ctx)
		case <-redraw.C:
			w.live.tick()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return w.live.run, err
		}
		if w.live.has && w.live.run.EndedAt != nil {
			w.lastEvents(ctx)
			return w.live.run, nil
		}
	}
}

func (w *watching) notice(ctx context.Context, n told) error {
	switch {
	case n.err != nil:
		return n.err
	case n.notice.Lost != nil:
		if !w.lost {
			w.lost = true
			w.live.note(w.live.s.yellow("Connection lost:"), describe(n.notice.Lost).Detail+" Trying again; the run goes on.")
		}
	case n.notice.Event != nil:
		w.event(*n.notice.Event)
	case n.notice.Changed:
		if w.lost {
			w.lost = false
			w.live.note(w.live.s.green("Connected again."), "")
		}
		w.fetch(ctx)
	}
	return nil
}

func (w *watching) event(e api.Event) {
	if e.Seq > w.after {
		w.after = e.Seq
		if w.known == nil || !w.known(e) {
			w.live.event(e)
		}
	}
}

// fetch asks for the run, once more if it changes meanwhile.
func (w *watching) fetch(ctx context.Context) {
	if w.fetching {
		w.stale = true
		return
	}
	w.fetching = true
	w.beside(ctx, func() func() error {
		r, err := w.server.Run(ctx, w.id)
		return func() error {
			w.fetching = false
			if err != nil {
				return err
			}
			if w.stale {
				w.stale = false
				w.fetch(ctx)
			}
			return w.see(ctx, r)
		}
	})
}

// see takes the run as it is now. Answers of calls that ran side by side may come in any order.
func (w *watching) see(ctx context.Context, r api.Run) error {
	if w.live.has && w.live.run.EndedAt != nil {
		return nil
	}
	if w.question && r.Status != "awaiting_approval" {
		w.question = false
		w.live.s.print("\n")
		w.live.note(w.live.s.yellow("Answered elsewhere:"), approvalText(r.Approval))
		w.live.resume()
	}
	w.live.update(r)
	if r.Status != "awaiting_approval" || r.PlanDigest == "" || w.decided == r.PlanDigest || w.asked {
		return nil
	}
	w.decided = r.PlanDigest
	return w.decide(ctx, r)
}

// interrupt is what Ctrl-C does. The run is the server's: only asking it to stop stops it.
func (w *watching) interrupt(ctx context.Context) error {
	if w.asked {
		w.settleCancel()
		return errLeft
	}
	if !w.cancels {
		return errLeft
	}
	w.asked = true
	if w.question {
		w.question = false
		w.live.s.print("\n")
	}
	w.live.resume()
	w.live.note(w.live.s.yellow("Cancelling."), "The run is asked to stop. Press Ctrl-C again to leave it alone.")
	w.cancelled = make(chan struct{})
	w.beside(ctx, func() func() error {
		r, err := w.server.CancelRun(ctx, w.id)
		close(w.cancelled)
		return func() error {
			if fault.Is(err, fault.Conflict) { // it was faster
				w.fetch(ctx)
				return nil
			}
			if err != nil {
				return err
			}
			return w.see(ctx, r)
		}
	})
	return nil
}

// settleCancel waits a moment for the request to cancel to have arrived, so that leaving does not take it back, or for
// one more interrupt.
func (w *watching) settleCancel() {
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-w.cancelled:
	case <-t.C:
	case <-w.c.Interrupts:
	}
}

// left is what becomes of a run that is not watched any more.
func (w *watching) left() string {
	if w.asked {
		return "Left alone; it goes on stopping."
	}
	return "Left running."
}

// lastEvents shows what the run said that the stream has not brought yet. The run itself says how it ended, so
// nothing depends on it.
func (w *watching) lastEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	after := w.after
	for e, err := range client.All(ctx, 0, func(ctx context.Context, page client.Page) (api.List[api.Event], error) {
		return w.server.Events(ctx, w.id, after, page)
	}) {
		if err != nil {
			return
		}
		w.event(e)
	}
}
