// Package platform is the agent's only way to the server. It alone holds the agent's token.
package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/redact"
)

// Limits of one request. A claim is held open by the server, so its answer's head may take longer.
const (
	headTimeout = 60 * time.Second
	dialTimeout = 15 * time.Second
	maxAnswer   = 64 << 20 // bytes of a JSON answer; the largest is a work order with its inputs and approved plan
)

// Client speaks to the server.
type Client struct {
	base  *url.URL
	token redact.Secret
	http  *http.Client
	log   *slog.Logger
	agent string // User-Agent
}

// New makes a Client of the server at base.
func New(base *url.URL, token redact.Secret, version string, log *slog.Logger) *Client {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headTimeout,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true, // bytes are hashed and passed on as they are
	}
	return &Client{base: base, token: token, log: log, agent: "holdfast-agent/" + version, http: &http.Client{
		Transport: t,
		// A redirect would carry the token somewhere else, or make a GET of a POST.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Error is an answer that is no success.
type Error struct {
	Status     int
	Problem    api.Problem
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the server answered %d", e.Status)
	if e.Problem.Detail != "" {
		text += ": " + e.Problem.Detail
	}
	if e.Problem.Hint != "" {
		text += " " + e.Problem.Hint
	}
	return text
}

// Status is the status of the answer that err is about, or 0 where there was none.
func Status(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// Final reports whether err is an answer that repeating the request will not change.
func Final(err error) bool {
	s := Status(err)
	return s != 0 && !again(s)
}

// again reports whether a status asks for a repetition.
func again(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= http.StatusInternalServerError
}

// Refused is a failure that is the server's answer to who the agent is.
func Refused(err error) bool { return Status(err) == http.StatusUnauthorized }

// NotNow is a refusal that somebody on the server's side can lift: the account is disabled, the agent too old.
func NotNow(err error) bool {
	s := Status(err)
	return s == http.StatusForbidden || s == http.StatusUpgradeRequired
}

// do sends one request to /api/agent/v1 and reads the answer into out, which may be nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.send(ctx, method, path, "application/json", body, -1)
	if err != nil {
		return err
	}
	defer drain(resp)
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

// send sends a request as the agent. An answer that is no success is an *Error; else the caller closes the body.
func (c *Client) send(ctx context.Context, method, path, kind string, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath("api/agent/v1").String()+"/"+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if size >= 0 {
		req.ContentLength = size
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, plain(err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer drain(resp)
		return nil, fmt.Errorf("%s %s: %w", method, path, readError(resp))
	}
	return resp, nil
}

// plain takes the address out of an error: it is in every log line otherwise.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func readError(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, RetryAfter: RetryAfter(resp.Header, time.Now())}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e.Problem) // without it the status says enough
	}
	return e
}

// RetryAfter reads the header of that name, in either form; at most a minute.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	wait := time.Duration(0)
	if n, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(max(n, 0), 3600)) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Minute)
}

func drain(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 256<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
}

// Backoff is the waiting between repetitions: it grows from 50 ms to 5 s, with a random part so that agents do not
// come back in step.
type Backoff struct{ next time.Duration }

// Wait waits, at least atLeast; false means that ctx is done.
func (b *Backoff) Wait(ctx context.Context, atLeast time.Duration) bool {
	const first, most = 50 * time.Millisecond, 5 * time.Second
	b.next = min(max(b.next*2, first), most)
	t := time.NewTimer(max(b.next/2+rand.N(b.next/2+1), atLeast)) //nolint:gosec // no secret is made of it
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Reset is called after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Until repeats do until it succeeds, its failure is final, or ctx is done. What is being done is for the log.
func (c *Client) Until(ctx context.Context, what string, do func(context.Context) error) error {
	var b Backoff
	for n := 0; ; n++ {
		err := do(ctx)
		if err == nil {
			if n > 0 {
				c.log.Info("the server answers again", "doing", what, "tries", n+1)
			}
			return nil
		}
		if Final(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
		if n == 0 {
			c.log.Warn("the server does not answer; trying on", "doing", what, "error", err)
		}
		var wait time.Duration
		if e, ok := errors.AsType[*Error](err); ok {
			wait = e.RetryAfter
		}
		if !b.Wait(ctx, wait) {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}
