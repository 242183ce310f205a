package client

import (
	"context"
	"iter"
	"strconv"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// logPause is between two looks at a log that is still being written. Agents send at most a few times a second.
const logPause = 400 * time.Millisecond

// Logs lists the chunks of an attempt's log after seq; -1 gives them from the first. With no attempt it is the logs
// of the whole run, attempt by attempt.
func (c *Client) Logs(ctx context.Context, run, attempt string, after int64, page Page) (api.List[api.LogChunk], error) {
	query := filter("attempt", attempt)
	if attempt != "" {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	return list[api.LogChunk](ctx, c, path("runs", run, "logs"), query, page)
}

// RunLogs gives the logs of a run's attempts in the order in which they were made: those that want accepts, all with
// a nil want. With follow it waits for more until the run is over. The server may be restarted under it.
func (c *Client) RunLogs(ctx context.Context, run string, follow bool, want func(api.Attempt) bool) iter.Seq2[api.LogChunk, error] {
	return func(yield func(api.LogChunk, error) bool) {
		next := map[string]int64{} // attempt -> seq of its next chunk
		for {
			// Asked for before the chunks: what a run that is over has logged is all stored.
			r, err := c.Run(ctx, run)
			if err != nil {
				yield(api.LogChunk{}, err)
				return
			}
			for _, a := range r.Attempts {
				if want != nil && !want(a) {
					continue
				}
				if !c.attemptLogs(ctx, run, a.ID, next, yield) {
					return
				}
			}
			if !follow || r.EndedAt != nil {
				return
			}
			if err := pause(ctx, logPause); err != nil {
				yield(api.LogChunk{}, err)
				return
			}
		}
	}
}

// attemptLogs gives what is new in one attempt's log. It reports whether the caller wants more.
func (c *Client) attemptLogs(ctx context.Context, run, attempt string, next map[string]int64, yield func(api.LogChunk, error) bool) bool {
	after := next[attempt] - 1 // the cursor of a later page belongs to this one
	chunks := All(ctx, 0, func(ctx context.Context, page Page) (api.List[api.LogChunk], error) {
		return c.Logs(ctx, run, attempt, after, page)
	})
	for chunk, err := range chunks {
		if err != nil {
			yield(api.LogChunk{}, err)
			return false
		}
		if chunk.Seq < next[attempt] {
			continue
		}
		next[attempt] = chunk.Seq + 1
		if !yield(chunk, nil) {
			return false
		}
	}
	return true
}
