package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

// maxDocument bounds a JSON answer, in bytes: the largest is a run's plan.
const maxDocument = 64 << 20

// request is one call.
type request struct {
	method string
	path   string // escaped, from the root of the API
	query  url.Values
	header http.Header

	document any                           // sent as JSON
	body     func() (io.ReadCloser, error) // else: opened again for each try
	size     int64                         // of body; -1 when it is not known

	repeatable bool // may be done twice with the effect of once
}

// call sends a request and decodes the JSON answer into out; a nil out drops it.
func (c *Client) call(ctx context.Context, r request, out any) error {
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if out == nil {
		_, _ = io.CopyN(io.Discard, answer.Body, maxDocument) // so that the connection can be used again
		return nil
	}
	if !isJSON(answer) {
		return c.notHoldfast(answer)
	}
	d := json.NewDecoder(io.LimitReader(answer.Body, maxDocument))
	if err := d.Decode(out); err != nil {
		return fault.Wrap(fmt.Errorf("decode the answer to %s %s: %w", r.method, r.path, err), fault.Internal, "answer_unreadable",
			"The server's answer cannot be read.").WithHint("Check that this program and the server are of about the same version: holdfast version.")
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4096))
	return nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query, repeatable: true}, out)
}

// send tries a request until it is answered, refused, or the client's patience ends. The caller closes the body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if r.document != nil {
		b, err := json.Marshal(r.document)
		if err != nil {
			return nil, fmt.Errorf("encode the request to %s: %w", r.path, err)
		}
		r.body, r.size = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, int64(len(b))
		r.header = withHeader(r.header, "Content-Type", "application/json")
	}
	start := c.now()
	for try := 0; ; try++ {
		answer, err := c.try(ctx, r)
		if err == nil {
			return answer, nil
		}
		wait, again := retryIn(err, r.repeatable, try)
		if !again || ctx.Err() != nil || c.now().Add(wait).Sub(start) > c.patience {
			return nil, c.explain(ctx, err)
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func withHeader(h http.Header, name, value string) http.Header {
	if h == nil {
		h = http.Header{}
	}
	h.Set(name, value)
	return h
}

// try sends a request once. The answer is a success; anything else is an error.
func (c *Client) try(ctx context.Context, r request) (*http.Response, error) {
	u, err := c.locate(r.path, r.query)
	if err != nil {
		return nil, err
	}
	var body io.ReadCloser = http.NoBody
	if r.body != nil {
		if body, err = r.body(); err != nil {
			return nil, fmt.Errorf("open what is to be sent: %w", err)
		}
	}
	q, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		_ = body.Close()
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if r.body != nil {
		q.ContentLength, q.GetBody = r.size, r.body
	}
	for name, values := range r.header {
		q.Header[name] = values
	}
	if c.agent != "" {
		q.Header.Set("User-Agent", c.agent)
	}
	if q.Header.Get("Accept") == "" {
		q.Header.Set("Accept", "application/json, application/problem+json")
	}
	if !c.token.IsZero() {
		q.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		defer func() { _ = answer.Body.Close() }()
		return nil, c.refusal(answer)
	}
	return answer, nil
}

// retryIn says whether, and after how long, a failed try is repeated. A connection that was refused carried nothing,
// and a 429 or 503 of ours says that nothing was changed, so those are repeated whatever the call; a connection that
// broke, or a proxy that gave up, leaves open whether the call was done, so that takes a repeatable one.
func retryIn(err error, repeatable bool, try int) (time.Duration, bool) {
	wait := backoff(try)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		p, _ := ProblemOf(err)
		switch {
		case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusTooManyRequests:
			return max(wait, f.RetryAfter), repeatable || p.Code != ""
		case p.Status == http.StatusBadGateway, p.Status == http.StatusGatewayTimeout:
			return wait, repeatable
		}
		return 0, false
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), neverRight(err):
		return 0, false
	case neverSent(err):
		return wait, true
	}
	return wait, repeatable
}

// backoff is 50 ms, doubled for each try up to 2 s, and moved by up to a quarter so that clients do not march in step.
func backoff(try int) time.Duration {
	d := min(50*time.Millisecond<<min(try, 10), 2*time.Second)
	return d*3/4 + rand.N(d/2) //nolint:gosec // spreads load, guards nothing
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// retryAfter reads the header in seconds; a date is not what our server sends.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 300)) * time.Second
}
