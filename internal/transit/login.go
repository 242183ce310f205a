package transit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openbao/openbao/api/v2"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// The ways to log in.
const (
	AuthToken      = "token"
	AuthAppRole    = "approle"
	AuthKubernetes = "kubernetes"
)

// Auth says how to log in. The files are read at each login, so what is in them may be replaced at any time.
type Auth struct {
	Method       string // AuthToken, AuthAppRole or AuthKubernetes
	Mount        string // of the method; default its name
	TokenFile    string // AuthToken
	RoleIDFile   string // AuthAppRole
	SecretIDFile string // AuthAppRole
	Role         string // AuthKubernetes
	JWTFile      string // AuthKubernetes
}

// Times of a login.
const (
	renewCheck   = 5 * time.Second  // how often it is looked at whether to renew
	renewRetry   = 30 * time.Second // after a renewal that failed
	loginAgain   = 10 * time.Second // the least age of a login before a refusal leads to another
	expiryMargin = 2 * time.Second  // so that a token does not end on its way
)

// token is what a login gave. It is not changed once made.
type token struct {
	client    *api.Client // with it
	file      os.FileInfo // AuthToken: the file as it was read
	made      time.Time
	lease     time.Duration // 0: it does not end
	renewable bool
}

// login holds the token in use.
type login struct {
	auth Auth
	dial func() (*api.Client, error) // makes a client without a token
	log  *slog.Logger
	now  func() time.Time

	current atomic.Pointer[token]
	turn    chan struct{} // whoever holds its one element logs in
	retryAt time.Time     // of a renewal that failed; used by run alone
}

func newLogin(a Auth, dial func() (*api.Client, error), log *slog.Logger, now func() time.Time) *login {
	return &login{auth: a, dial: dial, log: log, now: now, turn: make(chan struct{}, 1)}
}

// token is the token in use, or one of a new login where there is none that lives.
func (l *login) token(ctx context.Context) (*token, error) {
	if t := l.current.Load(); t != nil && l.usable(t) {
		return t, nil
	}
	return l.exchange(ctx, func(t *token) bool { return t == nil || !l.usable(t) })
}

// replace is for a token that the service refused: it logs in again, unless that was done just now.
func (l *login) replace(ctx context.Context, refused *token) (*token, error) {
	return l.exchange(ctx, func(t *token) bool {
		if t != refused {
			return false // somebody else has replaced it
		}
		if l.auth.Method == AuthToken { // the file has what it had: another reading changes nothing
			return !l.sameFile(t)
		}
		return l.now().Sub(t.made) >= loginAgain
	})
}

// exchange logs in, one caller at a time, if needed still says so by then.
func (l *login) exchange(ctx context.Context, needed func(*token) bool) (*token, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	t := l.current.Load()
	if !needed(t) {
		return t, nil
	}
	t, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	l.current.Store(t)
	return t, nil
}

// usable reports whether the token has not ended as far as can be known here.
func (l *login) usable(t *token) bool {
	if l.auth.Method == AuthToken {
		return l.sameFile(t) // it is the only token there is; whether it lives the service says
	}
	return t.lease == 0 || l.now().Before(t.made.Add(t.lease-expiryMargin))
}

// sameFile is true also where the file is away for a moment: it may be being replaced.
func (l *login) sameFile(t *token) bool {
	info, err := os.Stat(l.auth.TokenFile)
	return err != nil || os.SameFile(info, t.file) && info.ModTime().Equal(t.file.ModTime()) && info.Size() == t.file.Size()
}

func (l *login) begin(ctx context.Context) (*token, error) {
	if l.auth.Method == AuthToken {
		return l.readToken(ctx)
	}
	body, err := l.credentials()
	if err != nil {
		return nil, err
	}
	mount := or(strings.Trim(l.auth.Mount, "/"), l.auth.Method)
	plain, err := l.dial()
	if err != nil {
		return nil, fmt.Errorf("log in by %s: %w", l.auth.Method, err)
	}
	answer, err := plain.Logical().WriteWithContext(ctx, "auth/"+mount+"/login", body)
	if err != nil {
		if hasStatus(err, http.StatusBadRequest) { // wrong role or secret id: the same as a token that is refused
			err = &api.ResponseError{StatusCode: http.StatusForbidden, Errors: []string{err.Error()}}
		}
		return nil, fmt.Errorf("log in by %s: %w", l.auth.Method, err)
	}
	if answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "" {
		return nil, fmt.Errorf("log in by %s: the answer holds no token", l.auth.Method)
	}
	return l.newToken(redact.NewSecret(answer.Auth.ClientToken), answer.Auth)
}

// credentials are what the method sends.
func (l *login) credentials() (map[string]any, error) {
	if l.auth.Method == AuthKubernetes {
		jwt, err := readFile(l.auth.JWTFile)
		return map[string]any{"role": l.auth.Role, "jwt": jwt.Reveal()}, err
	}
	role, err := readFile(l.auth.RoleIDFile)
	body := map[string]any{"role_id": role.Reveal()}
	if err == nil && l.auth.SecretIDFile != "" {
		var secret redact.Secret
		secret, err = readFile(l.auth.SecretIDFile)
		body["secret_id"] = secret.Reveal()
	}
	return body, err
}

func readFile(path string) (redact.Secret, error) {
	b, err := os.ReadFile(path)
	text := strings.TrimSpace(string(b))
	if err == nil && text == "" {
		err = fmt.Errorf("the file %s is empty", path)
	}
	if err != nil {
		return redact.Secret{}, unreadable(err)
	}
	return redact.NewSecret(text), nil
}

func unreadable(err error) error {
	f := fault.Wrap(err, fault.Unavailable, "key_service_login", "The credential for the key service cannot be read.").
		WithHint("The server's log names the file.")
	f.RetryAfter = retryAfter
	return f
}

// readToken takes the token of the file and asks how long it lives, to renew it. Where it may not ask that, it is
// taken as one that somebody else renews.
func (l *login) readToken(ctx context.Context) (*token, error) {
	info, err := os.Stat(l.auth.TokenFile)
	if err != nil {
		return nil, unreadable(err)
	}
	secret, err := readFile(l.auth.TokenFile)
	if err != nil {
		return nil, err
	}
	t, err := l.newToken(secret, &api.SecretAuth{})
	if err != nil {
		return nil, err
	}
	t.file = info
	answer, err := t.client.Logical().ReadWithContext(ctx, "auth/token/lookup-self")
	switch {
	case hasStatus(err, http.StatusForbidden):
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("look the token up: %w", err)
	case answer == nil:
		return nil, errors.New("look the token up: the answer is empty")
	}
	ttl, err := answer.TokenTTL()
	if err != nil {
		return nil, fmt.Errorf("look the token up: %w", err)
	}
	t.lease = ttl
	t.renewable, _ = answer.TokenIsRenewable()
	return t, nil
}

func (l *login) newToken(secret redact.Secret, a *api.SecretAuth) (*token, error) {
	authed, err := l.dial()
	if err != nil {
		return nil, fmt.Errorf("use a token: %w", err)
	}
	authed.SetToken(secret.Reveal())
	return &token{client: authed, made: l.now(), lease: time.Duration(a.LeaseDuration) * time.Second, renewable: a.Renewable}, nil
}

// run renews the token before it ends.
func (l *login) run(ctx context.Context) error {
	tick := time.NewTicker(renewCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.keep(ctx)
		}
	}
}

// keep renews a token of which a third is left. One that cannot be renewed, or not for long, is replaced by another
// login; a token of a file is its owner's to replace.
func (l *login) keep(ctx context.Context) {
	t := l.current.Load()
	now := l.now()
	if t == nil || t.lease == 0 || now.Before(t.made.Add(t.lease*2/3)) || now.Before(l.retryAt) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := l.exchange(ctx, func(held *token) bool { return held == t && !l.renew(ctx, t) && l.auth.Method != AuthToken })
	if err == nil && l.current.Load() != t {
		return
	}
	l.retryAt = now.Add(renewRetry)
	if err == nil {
		err = errors.New("the token in the file is not renewed")
	}
	if ctx.Err() == nil {
		l.log.WarnContext(ctx, "the login at the key service ends soon and could not be renewed", "ends", t.made.Add(t.lease).UTC(), "error", err.Error())
	}
}

// renew asks for more time and reports whether it was given.
func (l *login) renew(ctx context.Context, t *token) bool {
	if !t.renewable {
		return false
	}
	answer, err := t.client.Logical().WriteWithContext(ctx, "auth/token/renew-self", map[string]any{})
	if err != nil || answer == nil || answer.Auth == nil {
		return false
	}
	given := time.Duration(answer.Auth.LeaseDuration) * time.Second
	if given <= t.made.Add(t.lease).Sub(l.now()) || given < t.lease/2 { // it comes to the most it can live
		return false
	}
	next := *t
	next.made, next.lease, next.renewable = l.now(), given, answer.Auth.Renewable
	l.current.Store(&next)
	return true
}
