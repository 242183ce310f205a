package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// Notice is something a run's stream told. Exactly one of its fields is set.
type Notice struct {
	Event   *api.Event // a new line of the run's history
	Changed bool       // the run itself may not be what it was: ask for it. Each connecting begins with one, after the events so far.
	Lost    error      // the stream broke and is being connected again
}

// Events lists a run's history after seq.
func (c *Client) Events(ctx context.Context, run string, after int64, page Page) (api.List[api.Event], error) {
	return list[api.Event](ctx, c, path("runs", run, "events"), filter("after", strconv.FormatInt(after, 10)), page)
}

// WatchRun follows a run's history after seq, live, until the caller stops or the context ends. It connects again
// whenever the stream breaks, and goes on after the last event it gave, so that a server may be restarted under it;
// once that has failed for the client's patience, the iteration ends with the error. The run being over ends nothing:
// the caller sees that from the run.
func (c *Client) WatchRun(ctx context.Context, run string, after int64) iter.Seq2[Notice, error] {
	return func(yield func(Notice, error) bool) {
		w := &watch{client: c, run: run, after: after, yield: yield}
		for lost, try := c.now(), 0; ; try++ {
			err := w.connect(ctx)
			if w.stopped {
				return
			}
			if ctx.Err() != nil {
				yield(Notice{}, context.Cause(ctx))
				return
			}
			if w.heard {
				lost, try, w.heard = c.now(), 0, false
			}
			wait, again := retryIn(err, true, try)
			if !again || c.now().Add(wait).Sub(lost) > c.patience {
				yield(Notice{}, c.explain(ctx, err))
				return
			}
			// A stream that was ended in order is over with its run, as the caller is about to see, or its server is
			// going away, which connecting again will tell.
			if !errors.Is(err, errOver) && !yield(Notice{Lost: c.explain(ctx, err)}, nil) {
				return
			}
			if err := pause(ctx, wait); err != nil {
				yield(Notice{}, err)
				return
			}
		}
	}
}

var (
	errSilent = errors.New("it has sent nothing for a while")
	errOver   = errors.New("it has ended the stream")
)

// watch is one run being followed, over any number of connections.
type watch struct {
	client  *Client
	run     string
	after   int64
	yield   func(Notice, error) bool
	stopped bool // the caller has enough
	heard   bool // this connection was good
}

// connect follows one connection to its end, which is always an error.
func (w *watch) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	answer, err := w.client.try(ctx, request{
		method: http.MethodGet, path: path("runs", w.run, "events"),
		header: http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {strconv.FormatInt(w.after, 10)}},
	})
	if err != nil {
		return err
	}
	w.heard = true
	silence := time.AfterFunc(w.client.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	body := &watched{ReadCloser: answer.Body, alive: func() { silence.Reset(w.client.silence) }}
	defer func() { _ = body.Close() }()
	for m, err := range messages(body) {
		if errors.Is(context.Cause(ctx), errSilent) {
			return errSilent
		}
		if err != nil {
			return fmt.Errorf("read the run's events: %w", err)
		}
		if err := w.take(m); err != nil || w.stopped {
			return err
		}
	}
	return errOver
}

func (w *watch) take(m message) error {
	if m.event == "run" {
		w.stopped = !w.yield(Notice{Changed: true}, nil)
		return nil
	}
	var e api.Event
	if err := json.Unmarshal(m.data, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if e.Seq <= w.after {
		return nil
	}
	w.after = e.Seq
	w.stopped = !w.yield(Notice{Event: &e}, nil)
	return nil
}

// watched tells of each byte that arrives.
type watched struct {
	io.ReadCloser
	alive func()
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.alive()
	}
	return n, err
}
