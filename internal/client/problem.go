package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"syscall"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
)

// ProblemOf is the problem document that the server answered, where err came from one.
func ProblemOf(err error) (api.Problem, bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return api.Problem{}, false
	}
	p, ok := f.Detail.(api.Problem)
	return p, ok
}

// kind is the inverse of the server's table from kinds to statuses.
func kind(status int) fault.Kind {
	switch status {
	case http.StatusUnauthorized:
		return fault.Unauthenticated
	case http.StatusForbidden:
		return fault.Forbidden
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusConflict:
		return fault.Conflict
	case http.StatusGone:
		return fault.Gone
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case http.StatusUnprocessableEntity:
		return fault.Unprocessable
	case http.StatusLocked:
		return fault.Locked
	case http.StatusUpgradeRequired:
		return fault.UpgradeRequired
	case http.StatusTooManyRequests:
		return fault.TooMany
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return fault.Unavailable
	case http.StatusNotImplemented:
		return fault.NotSetUp
	case http.StatusInsufficientStorage:
		return fault.NoSpace
	}
	if status >= 400 && status < 500 {
		return fault.Invalid
	}
	return fault.Internal
}

// refusal turns an answer that is no success into an error with the server's words.
func (c *Client) refusal(answer *http.Response) error {
	p := api.Problem{Status: answer.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Code == "" {
		if f, ok := holder(answer, body); ok {
			return f
		}
		p = api.Problem{Status: answer.StatusCode}
		return c.foreign(answer).WithDetail(p)
	}
	p.Status = answer.StatusCode
	f := fault.New(kind(p.Status), p.Code, "%s", p.Detail)
	f.Hint, f.RetryAfter = p.Hint, retryAfter(answer.Header)
	return f.WithDetail(p)
}

// foreign is an answer that Holdfast did not make: a proxy's, or another program's.
func (c *Client) foreign(answer *http.Response) *fault.Error {
	f := fault.New(kind(answer.StatusCode), "not_holdfast", "What answers at %s is not Holdfast, or something in front of it: it says %d %s.",
		c.Address(), answer.StatusCode, http.StatusText(answer.StatusCode)).
		WithHint("Check the address, and any proxy between here and the server.")
	f.RetryAfter = retryAfter(answer.Header)
	return f
}

func isJSON(answer *http.Response) bool {
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

func (c *Client) notHoldfast(answer *http.Response) error {
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return fault.New(fault.Internal, "not_holdfast", "What answers at %s is not Holdfast: it sends %q where JSON was asked for.", c.Address(), media).
		WithHint("Check the address, and any proxy between here and the server.")
}

// neverSent reports whether the request cannot have reached the server.
func neverSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// neverRight reports whether trying again cannot help: a certificate, or a host that does not exist.
func neverRight(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return certificate(err)
}

func certificate(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || authority || host || invalid
}

// explain gives an error of the transport a public side. The server's refusals have one already.
func (c *Client) explain(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if certificate(err) {
		return fault.Wrap(err, fault.Unavailable, "certificate_refused", "The certificate of %s is not trusted: %s.", c.Address(), innermost(err)).
			WithHint("Add the authority that signed it to this machine's trusted certificates, or name its file in SSL_CERT_FILE.")
	}
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fault.Wrap(record, fault.Unavailable, "no_tls", "%s does not speak TLS.", c.Address()).WithHint("If the server has no TLS, its address begins with http://.")
	}
	return fault.Wrap(err, fault.Unavailable, "server_unreachable", "The server at %s cannot be reached: %s.", c.Address(), innermost(err)).
		WithHint("Check that it runs and that the address is right: HOLDFAST_ADDR, else what holdfast login was told.")
}

// innermost is the cause in the words of the system, without the layers that repeat method and address.
func innermost(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("there is no host %s", dns.Name)
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it did not answer in time"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it closed the connection without an answer"
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
