// Package client calls the HTTP contract: one method per route, grouped in a file per noun. What the server refuses
// comes back as a fault.Error with the server's own words; what is safe to repeat is repeated while the server is
// away, for as long as the client's patience lasts.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// Defaults of a Config.
const (
	DefaultPatience = 3 * time.Second  // long enough for a server that is being restarted, short enough for a wrong address
	connectTimeout  = 10 * time.Second // for one connection, and again for its TLS handshake
	answerTimeout   = 90 * time.Second // until an answer begins; the server bounds its own work at 60 s
	idleTimeout     = 60 * time.Second // a stream without a byte for this long is taken for dead; the server says something more often
)

// Config is what a Client is made of. Only Address is required.
type Config struct {
	Address   string        // http:// or https://, host, and perhaps a path in front of /api
	Token     redact.Secret // sent as Bearer; without one, only public routes answer
	UserAgent string
	Patience  time.Duration // how long a repeatable call is repeated; zero means DefaultPatience, negative means never
	Proxy     func(*http.Request) (*url.URL, error)
	TLS       *tls.Config
	Now       func() time.Time
}

// Client calls one server with one credential. It may be used from several goroutines.
type Client struct {
	base     *url.URL
	token    redact.Secret
	agent    string
	patience time.Duration
	silence  time.Duration // after which a stream is taken for dead
	now      func() time.Time
	http     *http.Client
}

// New makes a Client. It refuses an address that is no base of an HTTP API; nothing is called yet.
func New(c Config) (*Client, error) {
	base, err := ParseAddress(c.Address)
	if err != nil {
		return nil, err
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	settings := c.TLS
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		Proxy: c.Proxy, DialContext: dialer.DialContext, TLSClientConfig: settings, TLSHandshakeTimeout: connectTimeout,
		ResponseHeaderTimeout: answerTimeout, ExpectContinueTimeout: time.Second, IdleConnTimeout: 90 * time.Second,
		MaxIdleConnsPerHost: 8, ForceAttemptHTTP2: true,
	}
	return &Client{
		base: base, token: c.Token, agent: c.UserAgent, patience: c.Patience, silence: idleTimeout, now: c.Now,
		http: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
	}, nil
}

// Address is the server's, as it was understood.
func (c *Client) Address() string { return c.base.String() }

// WithPatience is a client of the same server that repeats calls for d.
func (c *Client) WithPatience(d time.Duration) *Client {
	patient := *c
	patient.patience = d
	return &patient
}

// ParseAddress reads a server's address and brings it into one form: no trailing slash, host in lower case. It refuses
// what is no http or https URL and what holds a user, a query or a fragment.
func ParseAddress(address string) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) {
		return nil, fault.New(fault.Invalid, "invalid_address", "%q is not the address of a server: %s.", redact.Plain(address), why).
			WithHint("Give it as https://holdfast.example.com or http://127.0.0.1:8480.")
	}
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return refuse("it cannot be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("it has to begin with http:// or https://")
	case u.Host == "":
		return refuse("it names no host")
	case u.User != nil:
		// The text itself is left out: what stands before the @ may be a password.
		return nil, fault.New(fault.Invalid, "invalid_address", "The server's address holds a user name or a password.").
			WithHint("Give the address alone; the token is kept apart from it.")
	case u.RawQuery != "" || u.Fragment != "":
		return refuse("it has a query or a fragment")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

var errRedirect = errors.New("redirect refused")

// checkRedirect keeps the token, and whatever is sent with it, at the host it was meant for.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case next.URL.Scheme != first.URL.Scheme, next.URL.Host != first.URL.Host:
		return fault.Wrap(errRedirect, fault.Forbidden, "redirect_refused", "The server at %s sends this request on to %s, and the token is not sent there.",
			first.URL.Host, redact.Plain(next.URL.Scheme+"://"+next.URL.Host)).
			WithHint("If that is where Holdfast is, sign in there: holdfast login %s://%s", next.URL.Scheme, redact.Plain(next.URL.Host))
	case next.Method != first.Method, len(via) >= 3:
		return fault.Wrap(errRedirect, fault.Forbidden, "redirect_refused", "The server at %s redirects this request to %s instead of answering it.",
			first.URL.Host, redact.Plain(next.URL.Path)).WithHint("Check the address, and any proxy in front of the server.")
	}
	return nil
}

// path joins segments below /api, each escaped.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api")
	for _, s := range segments {
		b.WriteString("/")
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// locate is the URL of an escaped path with a query.
func (c *Client) locate(escaped string, query url.Values) (*url.URL, error) {
	u, err := url.Parse(c.base.Scheme + "://" + c.base.Host + c.base.EscapedPath() + escaped)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "invalid_name", "A name in this request cannot be sent.")
	}
	u.RawQuery = query.Encode()
	return u, nil
}

// Healthy is nil when a server answers there. It needs no token.
func (c *Client) Healthy(ctx context.Context) error {
	answer, err := c.send(ctx, request{method: http.MethodGet, path: "/healthz", repeatable: true})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
