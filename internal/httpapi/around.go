package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
)

// notes are what is learned of a request on its way, for its log line and its metrics.
type notes struct {
	id      string
	pattern string // of the route; "" where none took it
	actor   access.Actor
	session redact.Secret // the session's value, where that was the credential
	from    netip.Addr    // the client's address
}

func notesOf(ctx context.Context) *notes {
	if n, ok := ctx.Value(requestKey).(*notes); ok {
		return n
	}
	return &notes{}
}

func note(ctx context.Context, pattern string) { notesOf(ctx).pattern = pattern }

func requestID(ctx context.Context) string { return notesOf(ctx).id }

// around is everything that happens to every request, outermost first: an id, a log line, safe headers, compression,
// recovery from a panic.
func (a *API) around(next http.Handler) http.Handler {
	inner := a.squeeze(a.recovering(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := a.now()
		n := &notes{id: a.requestIDFor(r), from: a.clientAddr(r)}
		r = r.WithContext(context.WithValue(r.Context(), requestKey, n))
		out := &answer{ResponseWriter: w, now: a.now, control: http.NewResponseController(w)}
		safeHeaders(w.Header())
		w.Header().Set("X-Request-Id", n.id)
		a.metrics.open.Inc()
		defer a.metrics.open.Dec()
		defer func() { a.finished(r, n, out, a.now().Sub(start)) }()
		inner.ServeHTTP(out, r)
	})
}

// recovering answers 500 for a panic, or cuts an answer that has begun: the client must not take half of one for a
// whole one.
func (a *API) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &reply{ResponseWriter: w}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p) // net/http's own way to cut an answer
			}
			a.log.LogAttrs(r.Context(), slog.LevelError, "panic in a handler", slog.String("request_id", requestID(r.Context())),
				slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
			if out.begun {
				panic(http.ErrAbortHandler)
			}
			a.fail(out, r, fault.From(fmt.Errorf("a handler panicked")))
		}()
		next.ServeHTTP(out, r)
	})
}

// reply knows whether an answer has begun, before compression holds it back.
type reply struct {
	http.ResponseWriter
	begun bool
}

func (w *reply) WriteHeader(status int) {
	w.begun = w.begun || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *reply) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// squeeze compresses JSON and the UI's files. Streams pass through it untouched.
func (a *API) squeeze(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(5), gzhttp.ContentTypes([]string{
		"application/json", "application/openapi+json", "application/openapi+yaml", "text/html", "text/css", "text/javascript",
		"application/javascript", "image/svg+xml",
	}))
	if err != nil {
		panic(fmt.Sprintf("gzip settings: %v", err)) // the settings above are constants
	}
	return wrap(next)
}

// requestIDFor takes over a caller's id where it is one of ours, so that a request can be followed through a proxy.
func (a *API) requestIDFor(r *http.Request) string {
	if given := r.Header.Get("X-Request-Id"); id.Valid(id.Request, given) {
		return given
	}
	return id.New(id.Request, a.now())
}

func safeHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// finished writes the access log: the path without its query, which may hold a lock's id.
func (a *API) finished(r *http.Request, n *notes, w *answer, took time.Duration) {
	a.metrics.observe(n.pattern, w.status, took)
	level := slog.LevelInfo
	if n.pattern == "GET /healthz" || n.pattern == "GET /readyz" || n.pattern == "GET /metrics" {
		level = slog.LevelDebug
	}
	a.log.LogAttrs(r.Context(), level, "request", slog.String("request_id", n.id), slog.String("method", r.Method), slog.String("path", loggable(r.URL.Path)),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Duration("took", took), slog.String("actor", n.actor.ID),
		slog.String("organization", n.actor.Org), slog.String("from", n.from.String()))
}

var tokenLike = regexp.MustCompile(`hf_(pat|run|agt)_[A-Za-z0-9_-]*`)

// loggable is a path without the token that somebody took for an id, and no longer than paths are.
func loggable(path string) string {
	const most = 512
	if len(path) > most {
		path = path[:most] + "…"
	}
	return tokenLike.ReplaceAllString(path, redact.Mark)
}

// Waits for a client: a body or an answer may take the slack and then a second for each of these bytes. Every wait
// is bounded, and a stream that goes on for hours is none.
const (
	clientSlack = 30 * time.Second
	clientRate  = 16 * 1024 // bytes per second
)

func deadline(start time.Time, bytes int64) time.Time {
	return start.Add(clientSlack + time.Duration(bytes/clientRate)*time.Second)
}

// answer is the response with what was sent, and a deadline for each write.
type answer struct {
	http.ResponseWriter
	now     func() time.Time
	control *http.ResponseController
	status  int
	bytes   int64
}

func (w *answer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = w.control.SetWriteDeadline(deadline(w.now(), int64(len(p)))) // not supported: a test's recorder
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError sends what was written, bounded like a write.
func (w *answer) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = w.control.SetWriteDeadline(deadline(w.now(), 0))
	return w.control.Flush()
}

// Flush makes an answer an http.Flusher.
func (w *answer) Flush() { _ = w.FlushError() }

func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// patientBody bounds how slowly a body may arrive, and says of one that does not arrive whole that this is its sender's
// doing. It must not be read behind its end, which http.MaxBytesReader sees to: a deadline set then would pass while a
// handler waits, and cancel its request.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	start   time.Time
	now     func() time.Time
	bytes   int64
	decoded bool // by huma, which answers 500 for what it cannot read
	ended   bool
}

func patient(w http.ResponseWriter, body io.ReadCloser, now func() time.Time, decoded bool) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return http.NoBody
	}
	return &patientBody{ReadCloser: body, control: http.NewResponseController(w), now: now, decoded: decoded}
}

func (b *patientBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if b.start.IsZero() {
		b.start = b.now()
	}
	_ = b.control.SetReadDeadline(deadline(b.start, b.bytes)) // not supported: a test's recorder
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case !b.decoded:
		return n, fault.Wrap(err, fault.Invalid, "body_incomplete", "The request's body did not arrive whole, or not as HTTP sends bodies.").WithHint("Send it again.")
	case n < len(p): // a byte that no JSON has: huma then answers that the body is none
		p[n], n, b.ended = 0, n+1, true
	}
	return n, nil
}
