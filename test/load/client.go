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
	case status != http.StatusLocked && status != http.StatusConflict:
		return "", unexpected("LOCK", name, status, body)
	}
	var doc struct{ ID string }
	if err := json.Unmarshal(body, &doc); err != nil || doc.ID == "" || doc.ID == id {
		return "", fmt.Errorf("LOCK %s = %d %q, which is not the holder's lock document", name, status, body)
	}
	return doc.ID, nil
}

// Unlock releases the lock.
func (c *Client) Unlock(ctx context.Context, name, id string) error {
	status, body, err := c.do(ctx, "UNLOCK", name, "/lock", lockDocument(id))
	if err == nil && status != http.StatusOK {
		err = unexpected("UNLOCK", name, status, body)
	}
	return err
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
		return nil, unexpected("GET", name, status, body)
	}
	return body, nil
}

// Post stores a document under the lock.
func (c *Client) Post(ctx context.Context, name, id string, document []byte) error {
	status, body, err := c.do(ctx, http.MethodPost, name, "/state?ID="+url.QueryEscape(id), document)
	if err == nil && status != http.StatusOK {
		err = unexpected("POST", name, status, body)
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
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var buf bytes.Buffer
	if resp.ContentLength > 0 {
		buf.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	_, err = io.Copy(&buf, resp.Body)
	return resp.StatusCode, buf.Bytes(), err
}

func unexpected(method, name string, status int, body []byte) error {
	return fmt.Errorf("%s %s = %d %.300s", method, name, status, body)
}

func lockDocument(id string) []byte {
	return fmt.Appendf(nil, `{"ID":%q,"Operation":"OperationTypeApply","Info":"","Who":"load@test","Version":"1.12.6","Created":"2026-01-02T03:04:05.123456789Z","Path":""}`, id)
}
