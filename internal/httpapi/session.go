package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

type signInInput struct {
	Body api.SignIn
}

type signedIn struct {
	SetCookie string `header:"Set-Cookie"`
	Body      api.Whoami
}

type signedOut struct {
	SetCookie string `header:"Set-Cookie"`
}

type whoami struct {
	Body api.Whoami
}

func (a *API) mountSession() {
	route(a, huma.Operation{
		OperationID: "sign-in", Method: http.MethodPost, Path: "/api/session", Tags: []string{"session"}, MaxBodyBytes: 4096,
		Summary:     "Sign a browser in",
		Description: "With a personal token, or with the code of a one-time link, which this uses up. The answer sets the session's cookie.",
	},
		access.Public, a.signIn, signsIn)
	route(a, huma.Operation{
		OperationID: "sign-out", Method: http.MethodDelete, Path: "/api/session", Tags: []string{"session"},
		Summary: "End the browser's session",
	}, access.TokenOwn, a.signOut)
	route(a, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/api/whoami", Tags: []string{"session"},
		Summary: "Who the credential stands for, and what they may do",
	}, access.TokenOwn, a.whoami)
}

func (a *API) signIn(ctx context.Context, actor access.Actor, in *signInInput) (*signedIn, error) {
	from := notesOf(ctx).from
	if wait := a.signIns.wait(from); wait > 0 {
		return nil, tooManyWrong(wait)
	}
	s, err := a.engine.SignIn(ctx, redact.NewSecret(in.Body.Token), redact.NewSecret(in.Body.Code), actor.RequestID)
	if err != nil {
		if fault.Is(err, fault.Unauthenticated) {
			a.signIns.charge(from)
		}
		return nil, err
	}
	who, err := a.describeActor(ctx, s.Actor, s.Value)
	if err != nil {
		return nil, err
	}
	return &signedIn{SetCookie: a.cookie(s).String(), Body: who}, nil
}

func (a *API) signOut(ctx context.Context, actor access.Actor, _ *struct{}) (*signedOut, error) {
	value := notesOf(ctx).session
	if value.IsZero() {
		return nil, fault.New(fault.Invalid, "no_session", "The request came with a token; only a session can be ended.").
			WithHint("DELETE /api/tokens/{id} revokes a token.")
	}
	if err := a.engine.SignOut(ctx, actor, value); err != nil {
		return nil, err
	}
	gone := a.cookie(engine.NewSession{})
	gone.MaxAge = -1
	return &signedOut{SetCookie: gone.String()}, nil
}

func (a *API) whoami(ctx context.Context, actor access.Actor, _ *struct{}) (*whoami, error) {
	who, err := a.describeActor(ctx, actor, notesOf(ctx).session)
	return &whoami{Body: who}, err
}

func (a *API) describeActor(ctx context.Context, actor access.Actor, session redact.Secret) (api.Whoami, error) {
	org, err := a.engine.OrganizationName(ctx, actor)
	if err != nil {
		return api.Whoami{}, err
	}
	who := api.Whoami{
		Kind: string(actor.Kind), ID: actor.ID, Name: actor.Name, Role: string(actor.Role), Organization: org, Permissions: []string{},
		StateMaxBytes: a.engine.Limits().StateMaxBytes,
	}
	for _, p := range access.Permissions() {
		if actor.Allow(p) == nil {
			who.Permissions = append(who.Permissions, string(p))
		}
	}
	if !session.IsZero() {
		who.CSRFToken = csrfToken(session)
	}
	return who, nil
}

// secure reports whether browsers reach the server by https. Only then can a cookie be bound to the host by its
// name's prefix.
func (a *API) secure() bool { return a.base.Scheme == "https" }

func (a *API) cookieName() string {
	if a.secure() {
		return "__Host-holdfast"
	}
	return "holdfast_session"
}

func (a *API) cookie(s engine.NewSession) *http.Cookie {
	c := &http.Cookie{Name: a.cookieName(), Value: s.Value.Reveal(), Path: "/", HttpOnly: true, Secure: a.secure(), SameSite: http.SameSiteStrictMode}
	if !s.Expires.IsZero() {
		c.MaxAge = int(s.Expires.Sub(a.now()) / time.Second)
	}
	return c
}

// sessionOf is the value of the session's cookie.
func (a *API) sessionOf(r *http.Request) (redact.Secret, bool) {
	c, err := r.Cookie(a.cookieName())
	if err != nil || c.Value == "" {
		return redact.Secret{}, false
	}
	return redact.NewSecret(c.Value), true
}
