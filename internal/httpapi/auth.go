package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// csrfHeader carries the session's own value with every change that a browser asks for.
const csrfHeader = "X-Holdfast-CSRF"

type handlerFunc func(w http.ResponseWriter, r *http.Request, actor access.Actor) error

// guard is what stands before every route: who is it, may they, and how much may they send. Nothing of the body is
// read before all that is settled.
func (a *API) guard(rt Route, h handlerFunc) http.Handler {
	pattern := rt.Method + " " + rt.Path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r.Context(), pattern)
		actor, err := a.admit(rt, r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		notesOf(r.Context()).actor = actor
		if r.ContentLength > rt.maxBody {
			a.fail(w, r, &http.MaxBytesError{Limit: rt.maxBody})
			return
		}
		limit := rt.maxBody
		if rt.decoded {
			limit++ // huma refuses it with a better answer than the reader's error
		}
		r.Body = http.MaxBytesReader(w, patient(w, r.Body, a.now, rt.decoded), limit)
		if err := h(w, r, actor); err != nil {
			a.fail(w, r, err)
		}
	})
}

// admit makes the actor of a request, or refuses it.
func (a *API) admit(rt Route, r *http.Request) (access.Actor, error) {
	if rt.Permission == access.Public {
		actor := access.Actor{RequestID: requestID(r.Context())}
		if rt.signsIn {
			return actor, a.sameSite(r)
		}
		return actor, nil
	}
	actor, err := a.authenticate(rt, r)
	if err != nil {
		return access.Actor{}, err
	}
	actor.RequestID = requestID(r.Context())
	if actor.Kind == access.Attempt && !rt.backend {
		return access.Actor{}, fault.New(fault.Forbidden, "forbidden", "An attempt's token works on its state's backend paths only.")
	}
	if err := actor.Allow(rt.Permission); err != nil && (rt.or == "" || actor.Allow(rt.or) != nil) {
		a.log.LogAttrs(r.Context(), slog.LevelWarn, "refused", slog.String("request_id", actor.RequestID), slog.String("actor", actor.ID),
			slog.String("permission", string(rt.Permission)))
		return access.Actor{}, err
	}
	return actor, nil
}

// authenticate reads the credential: a token in the Authorization header, or the UI's session.
func (a *API) authenticate(rt Route, r *http.Request) (access.Actor, error) {
	token, sent, err := tokenOf(rt, r)
	switch {
	case err != nil:
		return access.Actor{}, err
	case sent:
		return a.byToken(r, token)
	case rt.backend:
		return access.Actor{}, noCredential().WithHint("Set TF_HTTP_USERNAME to any text and TF_HTTP_PASSWORD to a token.")
	case rt.Permission == access.AgentWork:
		return access.Actor{}, noCredential().WithHint("Send the agent's token as Authorization: Bearer.")
	}
	value, ok := a.sessionOf(r)
	if !ok {
		return access.Actor{}, noCredential().WithHint("Send a token as Authorization: Bearer, or sign in.")
	}
	return a.bySession(r, value)
}

func noCredential() *fault.Error {
	return fault.New(fault.Unauthenticated, "no_credential", "This needs a credential, and none was sent.")
}

// tokenOf is the token of the Authorization header. sent is false without the header.
func tokenOf(rt Route, r *http.Request) (token redact.Secret, sent bool, err error) {
	header := r.Header.Values("Authorization")
	switch {
	case len(header) == 0:
		return redact.Secret{}, false, nil
	case len(header) > 1:
		return redact.Secret{}, true, fault.New(fault.Invalid, "invalid_request", "The request has more than one Authorization header.")
	}
	scheme, value, _ := strings.Cut(header[0], " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return redact.NewSecret(strings.TrimSpace(value)), true, nil
	case "basic":
		if !rt.backend {
			return redact.Secret{}, true, fault.New(fault.Unauthenticated, "basic_refused", "Basic authentication works on the state protocol only.").
				WithHint("Send the token as Authorization: Bearer.")
		}
		if _, password, ok := r.BasicAuth(); ok {
			return redact.NewSecret(password), true, nil
		}
	}
	return redact.Secret{}, true, fault.New(fault.Unauthenticated, "token_malformed", "The Authorization header cannot be read.").
		WithHint("Send the token as Authorization: Bearer.")
}

func (a *API) byToken(r *http.Request, token redact.Secret) (access.Actor, error) {
	from := notesOf(r.Context()).from
	if wait := a.wrong.wait(from); wait > 0 {
		return access.Actor{}, tooManyWrong(wait)
	}
	actor, err := a.engine.Authenticate(r.Context(), token)
	if fault.Is(err, fault.Unauthenticated) {
		a.wrong.charge(from)
	}
	if err == nil && actor.Kind == access.User {
		a.usage.note(actor.Token, a.now())
	}
	return actor, err
}

func (a *API) bySession(r *http.Request, value redact.Secret) (access.Actor, error) {
	notesOf(r.Context()).session = value
	actor, err := a.engine.SessionActor(r.Context(), value)
	if err != nil || !changes(r.Method) {
		return actor, err
	}
	if err := a.sameSite(r); err != nil {
		return access.Actor{}, err
	}
	if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(csrfToken(value))) {
		return access.Actor{}, fault.New(fault.Forbidden, "csrf", "The request lacks the session's own value in the header %s.", csrfHeader).
			WithHint("Reload the page and try again. Scripts use a token instead of a session.")
	}
	return actor, nil
}

// sameSite refuses what a browser sends on another site's behalf.
func (a *API) sameSite(r *http.Request) error {
	if err := a.crossSite.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "cross_site", "The request comes from a page of another site.").
			WithHint("Open Holdfast under its own address.")
	}
	return nil
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// csrfToken is bound to the session by its secret value, so nothing has to be stored for it.
func csrfToken(session redact.Secret) string {
	m := hmac.New(sha256.New, []byte(session.Reveal()))
	m.Write([]byte("holdfast csrf"))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
