package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Bounds of what is read of a log at once: chunks of a page, chunks of a read, text of a JSON answer.
const (
	logPage      = 200
	logBatch     = 16
	logTextBytes = 4 << 20
)

func (a *API) mountLog() {
	text := &huma.Schema{Type: huma.TypeString}
	doc := huma.Operation{
		OperationID: "list-run-logs", Tags: []string{"runs"}, Summary: "A run's logs",
		Description: "Of one attempt or of all, attempt by attempt. With Accept: text/plain the text alone; with follow=true it goes on until the run ends.",
		Parameters: []*huma.Param{
			{Name: "attempt", In: "query", Schema: text, Description: "Only this attempt's log."},
			numberParam("after", "With an attempt: only chunks after this seq; -1 for all."), numberParam("limit", "Most chunks of a list, at most 200."),
			{Name: "cursor", In: "query", Schema: text, Description: "What the list before gave as next."},
			{Name: "follow", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean}, Description: "Of plain text: go on until the run ends."},
		},
		Responses: map[string]*huma.Response{"200": {Description: "Logs", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schema[api.List[api.LogChunk]](a)},
			"text/plain":       {Schema: text},
		}}},
	}
	a.handle(http.MethodGet, "/api/runs/{id}/logs", access.RunRead, doc, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		if accepts(r, "text/plain") {
			return a.streamLogs(w, r, actor)
		}
		return a.listLogs(w, r, actor)
	})
}

// logPlace is a place in the logs of a run: after a chunk of an attempt.
type logPlace struct {
	attempt string
	after   int64
}

func (p logPlace) cursor() string { return p.attempt + ":" + strconv.FormatInt(p.after, 10) }

func placeOf(r *http.Request) (p logPlace, err error) {
	q := r.URL.Query()
	p.attempt = q.Get("attempt")
	after := q.Get("after")
	if cursor := q.Get("cursor"); cursor != "" {
		attempt, seq, ok := strings.Cut(cursor, ":")
		if !ok || p.attempt != "" && p.attempt != attempt {
			return p, fault.New(fault.Invalid, "invalid_cursor", "The cursor is not one of this list.")
		}
		p.attempt, after = attempt, seq
	}
	p.after, err = number(after, "after", -1, -1, maxSeq)
	return p, err
}

func (a *API) listLogs(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	place, err := placeOf(r)
	if err != nil {
		return err
	}
	limit, err := number(r.URL.Query().Get("limit"), "limit", logPage, 1, logPage)
	if err != nil {
		return err
	}
	attempts, err := a.attemptsFrom(r.Context(), actor, r.PathValue("id"), place.attempt, r.URL.Query().Get("attempt") != "")
	if err != nil {
		return err
	}
	out := api.List[api.LogChunk]{Items: []api.LogChunk{}}
	bytes := 0
	for _, t := range attempts {
		if t.ID != place.attempt {
			place = logPlace{t.ID, -1}
		}
		for {
			parts, err := a.engine.Logs(r.Context(), actor, t.Run, t.ID, place.after, min(logBatch, int(limit)-len(out.Items)))
			if err != nil {
				return err
			}
			for _, p := range parts {
				out.Items = append(out.Items, showLog(p))
				place.after = p.Seq
				bytes += len(p.Text)
			}
			if len(out.Items) == int(limit) || bytes >= logTextBytes {
				out.Next = place.cursor()
				return writeJSON(w, http.StatusOK, out)
			}
			if len(parts) == 0 {
				break
			}
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// attemptsFrom are the run's attempts from the one that is named on, or that one alone.
func (a *API) attemptsFrom(ctx context.Context, actor access.Actor, runID, from string, alone bool) ([]run.Attempt, error) {
	v, err := a.engine.Run(ctx, actor, runID)
	if err != nil || from == "" {
		return v.Attempts, err
	}
	for i, t := range v.Attempts {
		if t.ID == from && alone {
			return v.Attempts[i : i+1], nil
		}
		if t.ID == from {
			return v.Attempts[i:], nil
		}
	}
	return nil, fault.New(fault.NotFound, "attempt_not_found", "The run has no such attempt.")
}

func showLog(p engine.LogPart) api.LogChunk {
	return api.LogChunk{Attempt: p.Attempt, Component: p.Component, Kind: string(p.Kind), Seq: p.Seq, Stage: p.Stage, At: p.At.UTC(), Text: p.Text}
}

// streamLogs sends the text of the logs and, where asked, goes on until the run has ended.
func (a *API) streamLogs(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	place, err := placeOf(r)
	if err != nil {
		return err
	}
	runID, alone := r.PathValue("id"), r.URL.Query().Get("attempt") != ""
	signals, stop := a.engine.WatchLogs(runID)
	defer stop()
	changes, done := a.engine.WatchRun(runID)
	defer done()
	out := &stream{w: w, control: http.NewResponseController(w), mediaType: "text/plain; charset=utf-8"}
	sent := map[string]int64{}
	if place.attempt != "" {
		sent[place.attempt] = place.after
	}
	follow := r.URL.Query().Get("follow") == "true"
	return a.follow(r.Context(), out, signals, changes, func(ctx context.Context) (over bool, err error) {
		v, err := a.engine.Run(ctx, actor, runID) // before the chunks: what a run that is over has logged is stored
		if err != nil {
			return false, err
		}
		if place.attempt != "" && !hasAttempt(v.Attempts, place.attempt) {
			return false, fault.New(fault.NotFound, "attempt_not_found", "The run has no such attempt.")
		}
		for _, t := range v.Attempts {
			if alone && t.ID != place.attempt {
				continue
			}
			if err := a.sendLog(ctx, actor, out, t, sent); err != nil {
				return false, err
			}
		}
		return !follow || v.Run.Status.Final(), nil
	})
}

func hasAttempt(attempts []run.Attempt, id string) bool {
	for _, t := range attempts {
		if t.ID == id {
			return true
		}
	}
	return false
}

// sendLog sends what is new in one attempt's log.
func (a *API) sendLog(ctx context.Context, actor access.Actor, out *stream, t run.Attempt, sent map[string]int64) error {
	if _, ok := sent[t.ID]; !ok {
		sent[t.ID] = -1
	}
	for {
		parts, err := a.engine.Logs(ctx, actor, t.Run, t.ID, sent[t.ID], logBatch)
		if err != nil || len(parts) == 0 {
			return err
		}
		for _, p := range parts {
			if err := out.message(p.Text); err != nil {
				return err
			}
			sent[t.ID] = p.Seq
		}
	}
}
