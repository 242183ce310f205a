package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// streamBeat is how often a stream that has nothing to say shows that it lives.
const streamBeat = 15 * time.Second

// eventBatch is how many events are read at once.
const eventBatch = 200

func (a *API) mountEvent() {
	text := &huma.Schema{Type: huma.TypeString}
	doc := huma.Operation{
		OperationID: "list-run-events", Tags: []string{"runs"}, Summary: "A run's history",
		Description: "As a list or, with Accept: text/event-stream, live until the run ends: each event with its seq as the id, so that " +
			"Last-Event-ID resumes; and an event named run whenever the run itself changed.",
		Parameters: []*huma.Param{
			numberParam("after", "Only events after this seq."), numberParam("limit", "Most events of a list, at most 200."),
			{Name: "cursor", In: "query", Schema: text, Description: "What the list before gave as next."},
			{Name: "Last-Event-ID", In: "header", Schema: text, Description: "The last event of a stream that was seen."},
		},
		Responses: map[string]*huma.Response{"200": {Description: "Events", Content: map[string]*huma.MediaType{
			"application/json":  {Schema: schema[api.List[api.Event]](a)},
			"text/event-stream": {Schema: text},
		}}},
	}
	a.handle(http.MethodGet, "/api/runs/{id}/events", access.RunRead, doc, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		if accepts(r, "text/event-stream") {
			return a.streamEvents(w, r, actor)
		}
		return a.listEvents(w, r, actor)
	})
}

func numberParam(name, what string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: what, Schema: &huma.Schema{Type: huma.TypeInteger}}
}

func accepts(r *http.Request, mediaType string) bool {
	return strings.Contains(r.Header.Get("Accept"), mediaType)
}

// number reads a whole number from text; an empty one is fallback. Anything else is Invalid.
func number(text, name string, fallback, least, most int64) (int64, error) {
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fault.New(fault.Invalid, "invalid_request", "%s is no number from %d to %d.", name, least, most)
	}
	return n, nil
}

const maxSeq = 1 << 53

func (a *API) listEvents(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	q := r.URL.Query()
	after, err := number(q.Get("after"), "after", 0, 0, maxSeq)
	if err != nil {
		return err
	}
	if after, err = number(q.Get("cursor"), "cursor", after, 0, maxSeq); err != nil {
		return err
	}
	limit, err := number(q.Get("limit"), "limit", eventBatch, 1, eventBatch)
	if err != nil {
		return err
	}
	events, _, err := a.engine.Events(r.Context(), actor, r.PathValue("id"), after, int(limit))
	if err != nil {
		return err
	}
	out := api.List[api.Event]{Items: make([]api.Event, 0, len(events))}
	for _, e := range events {
		out.Items = append(out.Items, showEvent(e))
	}
	if len(events) == int(limit) {
		out.Next = strconv.FormatInt(events[len(events)-1].Seq, 10)
	}
	return writeJSON(w, http.StatusOK, out)
}

func showEvent(e run.Event) api.Event {
	return api.Event{Seq: e.Seq, At: e.At.UTC(), Level: e.Level, Type: e.Type, Phase: e.Phase, Component: e.Component, Text: e.Text, By: e.By}
}

// streamEvents sends the history, and then what happens, until the run has ended or the client or the server goes.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	after, err := number(r.URL.Query().Get("after"), "after", 0, 0, maxSeq)
	if err != nil {
		return err
	}
	if after, err = number(r.Header.Get("Last-Event-ID"), "Last-Event-ID", after, 0, maxSeq); err != nil {
		return err
	}
	runID := r.PathValue("id")
	// Subscribed first, so that nothing is missed between the first look and the wait.
	signals, stop := a.engine.WatchRun(runID)
	defer stop()
	out := &stream{w: w, control: http.NewResponseController(w), mediaType: "text/event-stream"}
	next := func(ctx context.Context) (over bool, err error) {
		for {
			events, over, err := a.engine.Events(ctx, actor, runID, after, eventBatch)
			if err != nil {
				return false, err
			}
			for _, e := range events {
				if err := out.event(e); err != nil {
					return false, err
				}
				after = e.Seq
			}
			if len(events) < eventBatch {
				return over, out.message("event: run\ndata: {}\n\n")
			}
		}
	}
	return a.follow(r.Context(), out, signals, nil, next)
}

// follow calls next now and after each signal, until it says that all is over. In between it shows that the stream
// lives. A client that went away, and a server that is going, end it without an error.
func (a *API) follow(ctx context.Context, out *stream, signals, more <-chan struct{}, next func(context.Context) (over bool, err error)) error {
	ctx, cancel := a.untilShutdown(ctx)
	defer cancel()
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		over, err := next(ctx)
		if err == nil {
			err = out.flush()
		}
		if ctx.Err() != nil && out.begun {
			return nil
		}
		if err != nil || over {
			return err
		}
		select {
		case <-signals:
		case <-more:
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if err := out.beat(); err != nil {
				return err
			}
		}
	}
}

// stream is an answer that goes on.
type stream struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	mediaType string
	begun     bool
}

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", s.mediaType)
	s.w.Header().Set("X-Accel-Buffering", "no") // what proxies hold back is not live
	s.w.WriteHeader(http.StatusOK)
}

func (s *stream) message(text string) error {
	s.begin()
	_, err := s.w.Write([]byte(text))
	return err
}

func (s *stream) event(e run.Event) error {
	data, err := json.Marshal(showEvent(e))
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	return s.message(fmt.Sprintf("id: %d\ndata: %s\n\n", e.Seq, data))
}

// beat is a comment, which readers of the stream drop. Plain text has no comments and gets none.
func (s *stream) beat() error {
	if s.mediaType != "text/event-stream" {
		return nil
	}
	if err := s.message(": alive\n\n"); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) flush() error {
	s.begin()
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
