package platform

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"holdfast.dev/holdfast/internal/redact"
)

// StateRequest is one request of the state protocol, as the tool made it.
type StateRequest struct {
	Method     string
	Path       string // as the work order gives it
	Query      string // as the tool gave it
	Token      redact.Secret
	ContentMD5 string
	Body       io.Reader // nil without one
	Size       int64
}

// State sends one request of the state protocol, with the attempt's token. Any answer is a success; the caller closes
// its body.
func (c *Client) State(ctx context.Context, r StateRequest) (*http.Response, error) {
	// The path is the server's word; it must not lead to another host.
	u, err := url.Parse(r.Path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("%s of the state: the server named the address %q, which is no path", r.Method, r.Path)
	}
	at := *c.base
	at.Path, at.RawPath, at.RawQuery = c.base.Path+u.Path, "", r.Query
	body := r.Body
	if body != nil && r.Size == 0 {
		body = http.NoBody // else it would be sent in chunks
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, at.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s of the state: %w", r.Method, err)
	}
	if r.Body != nil {
		req.ContentLength = r.Size // NewRequest does not know every kind of reader
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-MD5", r.ContentMD5)
	}
	req.SetBasicAuth("attempt", r.Token.Reveal())
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s of the state: %w", r.Method, plain(err))
	}
	return resp, nil
}

// Again reports whether an answer to a state request asks for a repetition.
func Again(status int) bool { return again(status) }

// Check closes an answer to a state request and gives what is wrong with it.
func Check(resp *http.Response) error {
	defer drain(resp)
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	return readError(resp)
}
