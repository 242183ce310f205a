package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// problem is an error on its way out. Huma takes its status and headers from its methods.
type problem struct {
	api.Problem
	header http.Header
}

func (p *problem) Error() string           { return p.Detail }
func (p *problem) GetStatus() int          { return p.Status }
func (p *problem) GetHeaders() http.Header { return p.header }

// ContentType makes huma answer with the type of RFC 9457.
func (p *problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// status is the one place where a kind of failure becomes an HTTP status.
func status(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Gone:
		return http.StatusGone
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Unprocessable:
		return http.StatusUnprocessableEntity
	case fault.Locked:
		return http.StatusLocked
	case fault.UpgradeRequired:
		return http.StatusUpgradeRequired
	case fault.TooMany:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.NoSpace:
		return http.StatusInsufficientStorage
	case fault.NotSetUp:
		return http.StatusNotImplemented
	case fault.Internal:
	}
	return http.StatusInternalServerError
}

// problemOf makes err fit for the client and logs what is not the client's doing.
func (a *API) problemOf(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fault.Wrap(err, fault.TooLarge, "body_too_large", "The request's body is larger than the %d bytes that this route takes.", over.Limit)
	}
	if _, named := errors.AsType[*fault.Error](err); !named && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = fault.Wrap(err, fault.Unavailable, "timeout", "The request took too long, or was given up, and was ended.").WithHint("Try it again.")
	}
	f := fault.From(err)
	p := newProblem(ctx, status(f.Kind), f.Code, f.Public, f.Hint)
	switch f.Kind {
	case fault.Internal, fault.NoSpace, fault.Unavailable:
		// A client that went away or a server that is going away is nobody's failure.
		if !errors.Is(err, context.Canceled) {
			a.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request_id", p.RequestID), slog.String("code", f.Code), slog.String("error", err.Error()))
		}
	}
	if f.Kind == fault.Unavailable || f.Kind == fault.TooMany {
		p.header = http.Header{"Retry-After": {strconv.Itoa(retrySeconds(f.RetryAfter))}}
	}
	if f.Kind == fault.Unauthenticated {
		p.header = http.Header{"Www-Authenticate": {`Bearer realm="holdfast"`}}
	}
	return p
}

func retrySeconds(d time.Duration) int {
	if d <= 0 {
		return 2
	}
	return int((d + time.Second - 1) / time.Second)
}

func newProblem(ctx context.Context, status int, code, detail, hint string) *problem {
	return &problem{Problem: api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code,
		Hint: hint, RequestID: requestID(ctx),
	}}
}

// fail answers with err. Once the answer has begun it cuts the connection instead: the client must not take half of
// one for a whole one.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if out, ok := w.(*reply); ok && out.begun {
		a.log.LogAttrs(r.Context(), slog.LevelWarn, "answer cut short", slog.String("request_id", requestID(r.Context())), slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
	p := a.problemOf(r.Context(), err)
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Disposition")
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(p.Problem) // the client went away
	}
}

// transform turns huma's own refusals into problems. They name the place and what was expected there, and never
// repeat what was sent: it may be a secret in the wrong field.
func transform(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := newProblem(ctx.Context(), m.Status, "invalid_request", "", "")
	switch m.Status {
	case http.StatusRequestEntityTooLarge:
		p.Code, p.Detail = "body_too_large", "The request's body is larger than this route takes."
	case http.StatusUnsupportedMediaType:
		p.Code, p.Detail, p.Hint = "unsupported_media_type", "The body is not JSON.", "Send it with Content-Type: application/json."
	case http.StatusRequestTimeout:
		p.Code, p.Detail = "body_timeout", "The request's body did not arrive in time."
	case http.StatusBadRequest:
		p.Detail, p.Hint = "The body is not valid JSON.", "Compare with the route's description in /api/openapi.json."
		if len(m.Errors) == 0 {
			p.Detail = "The request needs a body."
		}
	case http.StatusUnprocessableEntity:
		p.Detail, p.Hint = places(m.Errors), "Compare with the route's description in /api/openapi.json."
	default:
		p.Code, p.Detail = "internal", "Something failed inside Holdfast."
	}
	return p, nil
}

func places(details []*huma.ErrorDetail) string {
	const most = 5
	var b strings.Builder
	b.WriteString("The request is not as it should be.")
	for i, d := range details {
		if i == most {
			b.WriteString(" And " + strconv.Itoa(len(details)-most) + " more.")
			break
		}
		if d == nil {
			continue
		}
		where := redact.Plain(d.Location)
		if len(where) > 80 {
			where = "body"
		}
		what := d.Message
		if strings.ContainsAny(what, "\"`") && !strings.HasPrefix(what, "expected ") {
			what = "it cannot be read" // the standard library's parsers quote what they were given
		}
		b.WriteString(" " + where + ": " + what + ".")
	}
	return b.String()
}
