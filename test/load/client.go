// Package load drives the state backend as tofu does and checks what it answers while it measures: one holder at a
// time, and every read gives what was written last.
package load

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5 of the state protocol
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// requestTimeout bounds one request; a 128 MiB document takes seconds on a slow machine.
const requestTimeout = 2 * time.Minute

// Client is one tool: its own connections, as each tofu process has.
type Client struct {
	base, token string
	http        *http.Client
}

// NewClient makes a Client of the server at base (http://host:port).
func NewClient(base, token string) *Client {
	return &Client{base: base, token: token, http: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConnsPerHost: 2,
	}}}
}

// Close ends the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Lock asks for the lock; held is the id of whoever has it instead.
func (c *Client) Lock(ctx context.Context, name, id string) (held string, err error) {
	status, body, err := c.do(ctx, "LOCK", name, "/lock", lockDocument(id))
	switch {
	case err != nil:
		return "", err
	case status == http.StatusOK:
		return "", nil
	case status != http.StatusLocked:
		return "", refused("LOCK", name, status, body)
	}
	return holder(body, id)
}

// Unlock releases the lock; held is the id of another lock that is held instead, which it leaves alone.
func (c *Client) Unlock(ctx context.Context, name, id string) (held string, err error) {
	status, body, err := c.do(ctx, "UNLOCK", name, "/lock", lockDocument(id))
	switch {
	case err != nil:
		return "", err
	case status == http.StatusOK:
		return "", nil
	case status != http.StatusConflict:
		return "", refused("UNLOCK", name, status, body)
	}
	return holder(body, id)
}

// holder reads the lock document that a conflict is answered with: all that the holder sent, and never the asker's own.
func holder(body []byte, id string) (string, error) {
	var doc struct{ ID, Operation, Who, Version, Created string }
	err := json.Unmarshal(body, &doc)
	if err != nil || doc.ID == "" || doc.ID == id || doc.Operation != operation || doc.Who != who || doc.Version != version || doc.Created != created {
		return "", fmt.Errorf("a conflict of the lock %s is answered %.300q, which is not the holder's lock document", id, body)
	}
	return doc.ID, nil
}

// Get reads the document; nil where there is none yet.
func (c *Client) Get(ctx context.Context, name string) ([]byte, error) {
	status, body, err := c.do(ctx, http.MethodGet, name, "/state", nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound, status == http.StatusNoContent:
		return nil, nil
	case status != http.StatusOK:
		return nil, refused("GET", name, status, body)
	}
	return body, nil
}

// Post stores a document under the lock.
func (c *Client) Post(ctx context.Context, name, id string, document []byte) error {
	status, body, err := c.do(ctx, http.MethodPost, name, "/state?ID="+url.QueryEscape(id), document)
	if err == nil && status != http.StatusOK {
		err = refused("POST", name, status, body)
	}
	return err
}

func (c *Client) do(ctx context.Context, method, name, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/tf-states/"+name+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.SetBasicAuth("load", c.token)
	if body != nil {
		sum := md5.Sum(body) //nolint:gosec // see the import
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, &Unanswered{err}
	}
	defer func() { _ = resp.Body.Close() }()
	var buf bytes.Buffer
	if resp.ContentLength > 0 {
		buf.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	if _, err := io.Copy(&buf, resp.Body); err != nil {
		return 0, nil, &Unanswered{err}
	}
	return resp.StatusCode, buf.Bytes(), nil
}

// Unanswered is a request that no whole answer came to: what it asked for may have happened.
type Unanswered struct{ Err error }

func (u *Unanswered) Error() string { return "no answer: " + u.Err.Error() }
func (u *Unanswered) Unwrap() error { return u.Err }

// Refused is an answer other than the one that was asked for.
type Refused struct {
	Request string // method and state
	Status  int
	Body    []byte
}

func (r *Refused) Error() string { return fmt.Sprintf("%s = %d %.300s", r.Request, r.Status, r.Body) }

func refused(method, name string, status int, body []byte) error {
	return &Refused{Request: method + " " + name, Status: status, Body: body}
}

// What the locks of these clients say of themselves.
const (
	operation = "OperationTypeApply"
	who       = "load@test"
	version   = "1.12.6"
	created   = "2026-01-02T03:04:05.123456789Z"
)

func lockDocument(id string) []byte {
	return fmt.Appendf(nil, `{"ID":%q,"Operation":%q,"Info":"","Who":%q,"Version":%q,"Created":%q,"Path":""}`, id, operation, who, version, created)
}
