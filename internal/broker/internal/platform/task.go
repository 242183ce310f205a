package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"holdfast.dev/holdfast/internal/api"
)

// Register tells the server what the agent is.
func (c *Client) Register(ctx context.Context, in api.Register) (out api.Registered, err error) {
	err = c.do(ctx, http.MethodPost, "register", in, &out)
	return out, err
}

// Claim waits for work; the zero Offer means that there was none in time.
func (c *Client) Claim(ctx context.Context, in api.Claim) (out api.Offer, err error) {
	err = c.do(ctx, http.MethodPost, "claim", in, &out)
	return out, err
}

// Accept takes an offer.
func (c *Client) Accept(ctx context.Context, o api.Offer) (out api.Work, err error) {
	err = c.do(ctx, http.MethodPost, task(o.Task, "accept"), api.Accept{Attempt: o.Attempt}, &out)
	return out, err
}

// Heartbeat tells that the attempt lives and hears whether to go on.
func (c *Client) Heartbeat(ctx context.Context, id string, in api.Heartbeat) (out api.HeartbeatAnswer, err error) {
	err = c.do(ctx, http.MethodPost, task(id, "heartbeat"), in, &out)
	return out, err
}

// Logs delivers chunks.
func (c *Client) Logs(ctx context.Context, id string, in api.AppendLogs) (out api.LogsAcknowledged, err error) {
	err = c.do(ctx, http.MethodPost, task(id, "logs"), in, &out)
	return out, err
}

// Plan delivers the view of a plan, after its file.
func (c *Client) Plan(ctx context.Context, id string, in api.PlanMade) error {
	return c.do(ctx, http.MethodPost, task(id, "plan"), in, nil)
}

// Report delivers how an attempt ended.
func (c *Client) Report(ctx context.Context, id string, in api.Report) (out api.Reported, err error) {
	err = c.do(ctx, http.MethodPost, task(id, "report"), in, &out)
	return out, err
}

// Source writes the attempt's packed source to w and returns the hex SHA-256 of what it wrote; at most limit bytes.
func (c *Client) Source(ctx context.Context, id, attempt string, w io.Writer, limit int64) (string, error) {
	return c.fetch(ctx, taskOf(id, "source", attempt), w, limit)
}

// PlanFile writes the approved plan to w, likewise.
func (c *Client) PlanFile(ctx context.Context, id, attempt string, w io.Writer, limit int64) (string, error) {
	return c.fetch(ctx, taskOf(id, "plan-file", attempt), w, limit)
}

func (c *Client) fetch(ctx context.Context, path string, w io.Writer, limit int64) (string, error) {
	resp, err := c.send(ctx, http.MethodGet, path, "", nil, -1)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", path, err)
	}
	if n > limit {
		return "", fmt.Errorf("GET %s: more than the %d bytes allowed", path, limit)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// PutPlanFile stores a plan file of size bytes.
func (c *Client) PutPlanFile(ctx context.Context, id, attempt string, body io.Reader, size int64) error {
	resp, err := c.send(ctx, http.MethodPut, taskOf(id, "plan-file", attempt), "application/octet-stream", io.NopCloser(body), size)
	if err != nil {
		return err
	}
	drain(resp)
	return nil
}

func task(id, what string) string { return "tasks/" + url.PathEscape(id) + "/" + what }

func taskOf(id, what, attempt string) string {
	return task(id, what) + "?attempt=" + url.QueryEscape(attempt)
}
