// Package relay serves an attempt's state to the tool: it checks the attempt's password, keeps to what the attempt may
// do, and passes requests on with the attempt's token, for as long as it takes until the server has answered. It never
// says that something is saved before the server does. Whoever is at the other end is taken for hostile.
package relay

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/redact"
)

// Access is what an attempt may do with its state.
type Access string

// The kinds of access.
const (
	Read  Access = "read"  // previews: nothing but reading
	Plan  Access = "plan"  // reading, locking, and saving the empty first state, which an interrupted plan does
	Write Access = "write" // everything
)

// Limits. The tool sends one request at a time.
const (
	maxLockBytes  = 64 << 10
	maxAtOnce     = 8
	headerTimeout = 30 * time.Second
)

// The paths the relay answers on.
const (
	statePath = "/state"
	lockPath  = "/state/lock"
)

// Options are what a Relay is made of; all are required.
type Options struct {
	Platform  *platform.Client
	State     api.WorkState // its Token is not read
	Token     redact.Secret // the attempt's
	Access    Access
	User      string
	Password  redact.Secret
	MaxBytes  int64
	SpoolFile string // where a save stands until the server has it; the broker's own
	Log       *slog.Logger
	Say       func(string) // a line for the attempt's log: the tool does not show why it was refused
	Now       func() time.Time
}

// Relay serves the state of one attempt.
type Relay struct {
	o      Options
	server *http.Server
	slots  chan struct{}
	life   context.Context //nolint:containedctx // the relay's own: a save goes on when the tool that sent it has died
	end    context.CancelFunc
	saving sync.Mutex // one save at a time has the spool file
	busy   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	denied  string // why the server last said that this may not be done; "" where it has not
	served  string // hex SHA-256 of the document the tool read last; empty where there was none
	hasRead bool
}

// New makes a Relay; Serve starts it.
func New(o Options) *Relay {
	r := &Relay{o: o, slots: make(chan struct{}, maxAtOnce)}
	r.life, r.end = context.WithCancel(context.Background())
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return r
}

// Serve answers on l until Drain.
func (r *Relay) Serve(l net.Listener) {
	if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		r.o.Log.Error("the state relay stopped", "error", err)
	}
}

// Served is the hex SHA-256 of the state document that the tool read last; empty where there was none.
func (r *Relay) Served() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served
}

// Denied is why the server last answered that the attempt may not do what the tool asked for, and what can be done
// about it; "" where it has not. The tool shows its user nothing but a status.
func (r *Relay) Denied() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.denied
}

// refusal says in the attempt's log what the server refused, and keeps a denial for the report.
func (r *Relay) refusal(what string, status int, body []byte) {
	why := reason(body)
	r.o.Say(fmt.Sprintf("holdfast: the server refused %s with status %d: %s", what, status, why))
	if status == http.StatusForbidden {
		r.mu.Lock()
		r.denied = fmt.Sprintf("The server refused %s: %s", what, why)
		r.mu.Unlock()
	}
}

// Password opens this relay.
func (r *Relay) Password() redact.Secret { return r.o.Password }

// Drain takes no more requests, and lets what is under way be answered by the server until ctx is done.
func (r *Relay) Drain(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.busy.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	r.end()
	_ = r.server.Close()
	<-done
}

func (r *Relay) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.busy.Add(1)
	return true
}

// ServeHTTP answers the tool.
func (r *Relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if !r.begin() {
		refuse(w, http.StatusServiceUnavailable, "the attempt is over")
		return
	}
	defer r.busy.Done()
	if !r.allowed(q) {
		refuse(w, http.StatusUnauthorized, "not the password of this attempt")
		return
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		refuse(w, http.StatusTooManyRequests, "too many requests at once")
		return
	}
	method, path := q.Method, q.URL.Path
	switch {
	case method == http.MethodGet && path == statePath:
		r.get(w, q)
	case r.o.Access == Read && (path == statePath || path == lockPath):
		r.o.Say("holdfast: refused " + method + ": this attempt may only read its state")
		refuse(w, http.StatusForbidden, "this attempt may only read its state")
	case method == http.MethodPost && path == statePath:
		r.post(w, q)
	case (method == "LOCK" || method == "UNLOCK") && path == lockPath:
		r.lock(w, q)
	default:
		refuse(w, http.StatusMethodNotAllowed, "this is no request of the state protocol")
	}
}

// allowed checks the password in a time that says nothing about it.
func (r *Relay) allowed(q *http.Request) bool {
	user, password, _ := q.BasicAuth()
	got, want := sha256.Sum256([]byte(user+"\x00"+password)), sha256.Sum256([]byte(r.o.User+"\x00"+r.o.Password.Reveal()))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func refuse(w http.ResponseWriter, status int, why string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Basic")
	}
	http.Error(w, why, status)
}

func (r *Relay) get(w http.ResponseWriter, q *http.Request) {
	resp, err := r.until(q.Context(), "read the state", func(ctx context.Context) (*http.Response, error) {
		return r.o.Platform.State(ctx, r.request(http.MethodGet, r.o.State.Address, ""))
	})
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the server does not answer")
		return
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent, http.StatusNotFound:
	default:
		r.answer(w, resp, "to read the state")
		return
	}
	h := sha256.New()
	head(w, resp)
	n, err := io.Copy(io.MultiWriter(w, h), resp.Body)
	if err != nil {
		// Half a document must not look like a whole one. The tool asks again.
		panic(http.ErrAbortHandler)
	}
	served := ""
	if resp.StatusCode == http.StatusOK && n > 0 {
		served = hex.EncodeToString(h.Sum(nil))
	}
	r.mu.Lock()
	r.served, r.hasRead = served, true
	r.mu.Unlock()
}

func (r *Relay) lock(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxLockBytes))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the lock document cannot be read")
		return
	}
	// A lock is wanted for as long as the tool waits for it; to be rid of one is wanted in any case.
	ctx := q.Context()
	if q.Method == "UNLOCK" {
		ctx = r.life
	}
	resp, err := r.until(ctx, q.Method, func(ctx context.Context) (*http.Response, error) {
		s := r.request(q.Method, r.o.State.Lock, "")
		return r.o.Platform.State(ctx, withBody(s, body))
	})
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the server does not answer")
		return
	}
	r.answer(w, resp, q.Method)
}

// answer passes the server's answer on, whole or not at all.
func (r *Relay) answer(w http.ResponseWriter, resp *http.Response, what string) {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if resp.StatusCode > 299 {
		r.refusal(what, resp.StatusCode, body)
	}
	head(w, resp)
	_, _ = w.Write(body) // who has gone needs no answer
}

func head(w http.ResponseWriter, resp *http.Response) {
	for _, name := range []string{"Content-Type", "Content-Length", "Content-MD5", "ETag"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
}

func (r *Relay) request(method, path, query string) platform.StateRequest {
	return platform.StateRequest{Method: method, Path: path, Query: query, Token: r.o.Token}
}

// until repeats send until the server has answered: with anything but a status that asks for a repetition. It ends
// with ctx, and with the relay.
func (r *Relay) until(ctx context.Context, what string, send func(context.Context) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	var b platform.Backoff
	for n := 0; ; n++ {
		resp, err := send(ctx)
		var wait time.Duration
		switch {
		case err == nil && !platform.Again(resp.StatusCode):
			if n > 0 {
				r.o.Log.Info("the server answers again", "doing", what, "tries", n+1)
			}
			resp.Body = &releasing{resp.Body, func() { stop(); cancel() }}
			return resp, nil
		case err == nil:
			wait = platform.RetryAfter(resp.Header, r.o.Now())
			err = fmt.Errorf("it answered %d", resp.StatusCode)
			_ = resp.Body.Close()
		}
		if n == 0 {
			r.o.Log.Warn("the server does not answer; trying on", "doing", what, "error", err)
			r.o.Say("holdfast: the server does not answer; waiting to " + what)
		}
		if ctx.Err() != nil || !b.Wait(ctx, wait) {
			stop()
			cancel()
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
}

// releasing ends a request's context with its body.
type releasing struct {
	io.ReadCloser
	release func()
}

func (b *releasing) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// Unsaved opens the save that the server has not got, or gives nil where there is none.
func Unsaved(spoolFile string) (*os.File, error) {
	f, err := os.Open(spoolFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return f, err
}
