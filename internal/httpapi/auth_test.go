package httpapi_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/httpapi"
	"holdfast.dev/holdfast/internal/redact"
)

func basicAuth(password string) with {
	return func(r *http.Request) { r.SetBasicAuth("anybody", password) }
}

// signIn signs a browser in and gives its cookie and CSRF token.
func (s *server) signIn(t *testing.T, in api.SignIn) (*http.Cookie, api.Whoami) {
	t.Helper()
	a := s.do(t, "POST", "/api/session", in)
	who := into[api.Whoami](t, a, 200)
	if len(a.Cookies()) != 1 {
		t.Fatalf("cookies = %v, want one", a.Cookies())
	}
	return a.Cookies()[0], who
}

func cookie(c *http.Cookie) with { return func(r *http.Request) { r.AddCookie(c) } }

func TestWhoami(t *testing.T) {
	s := newServer(t)
	who := into[api.Whoami](t, s.as(t, s.admin, "GET", "/api/whoami", nil), 200)
	if who.Kind != "user" || who.Name != "admin" || who.Role != "admin" || who.Organization != "default" || who.CSRFToken != "" ||
		who.StateMaxBytes != 32<<20 {
		t.Errorf("whoami = %+v", who)
	}
	_, viewer := s.user(t, "reader", access.Viewer)
	who = into[api.Whoami](t, s.as(t, viewer, "GET", "/api/whoami", nil), 200)
	want := "account:read agent:read permission:read run:read stack:read tf_state:list token:own"
	if got := strings.Join(who.Permissions, " "); got != want {
		t.Errorf("permissions of a viewer = %q, want %q", got, want)
	}
}

func TestTwoAuthorizationHeadersAreRefused(t *testing.T) {
	s := newServer(t)
	two := func(r *http.Request) {
		r.Header["Authorization"] = []string{"Bearer " + s.admin, "Bearer " + access.NewToken(access.PersonalPrefix).Reveal()}
	}
	wantProblem(t, s.do(t, "GET", "/api/whoami", nil, two), 400, "invalid_request")
}

func TestSession(t *testing.T) {
	s := newServer(t)
	c, who := s.signIn(t, api.SignIn{Token: s.admin})
	if c.Name != "holdfast_session" || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 {
		t.Errorf("cookie = %+v", c)
	}
	if who.CSRFToken == "" || strings.Contains(c.Value, who.CSRFToken) {
		t.Errorf("csrf token %q: want one that is not in the cookie", who.CSRFToken)
	}
	again := into[api.Whoami](t, s.do(t, "GET", "/api/whoami", nil, cookie(c)), 200)
	if again.CSRFToken != who.CSRFToken {
		t.Error("whoami gives another csrf token than the sign-in")
	}
	body := api.AddAccount{Name: "local"}
	wantProblem(t, s.do(t, "POST", "/api/accounts", body, cookie(c)), 403, "csrf")
	wantProblem(t, s.do(t, "POST", "/api/accounts", body, cookie(c), header("X-Holdfast-CSRF", "x"+who.CSRFToken)), 403, "csrf")
	csrf := header("X-Holdfast-CSRF", who.CSRFToken)
	for _, site := range []string{"cross-site", "same-site"} {
		wantProblem(t, s.do(t, "POST", "/api/accounts", body, cookie(c), csrf, header("Sec-Fetch-Site", site)), 403, "cross_site")
	}
	wantProblem(t, s.do(t, "POST", "/api/accounts", body, cookie(c), csrf, header("Origin", "https://evil.test")), 403, "cross_site")
	into[api.Account](t, s.do(t, "POST", "/api/accounts", body, cookie(c), csrf, header("Origin", "http://holdfast.test")), 201)

	out := s.do(t, "DELETE", "/api/session", nil, cookie(c), csrf)
	if out.StatusCode != 204 || len(out.Cookies()) != 1 || out.Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign-out = %d, cookies %v, want 204 and a cookie that ends", out.StatusCode, out.Cookies())
	}
	wantProblem(t, s.do(t, "GET", "/api/whoami", nil, cookie(c)), 401, "session_ended")
}

func TestSessionEndsByItself(t *testing.T) {
	s := newServer(t)
	c, _ := s.signIn(t, api.SignIn{Token: s.admin})
	s.advance(12*time.Hour - time.Minute)
	into[api.Whoami](t, s.do(t, "GET", "/api/whoami", nil, cookie(c)), 200)
	s.advance(2 * time.Minute)
	wantProblem(t, s.do(t, "GET", "/api/whoami", nil, cookie(c)), 401, "session_ended")
}

func TestCookieOfAnHTTPSServer(t *testing.T) {
	s := newServer(t, func(c *httpapi.Config) { c.BaseURL = &url.URL{Scheme: "https", Host: "holdfast.test"} })
	c, _ := s.signIn(t, api.SignIn{Token: s.admin})
	if c.Name != "__Host-holdfast" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
		t.Errorf("cookie = %+v", c)
	}
}

func TestSignInRefuses(t *testing.T) {
	s := newServer(t)
	agent := s.agent(t, "g", "local").Token
	_, service := s.user(t, "ci", access.Admin)
	for name, c := range map[string]struct {
		in     any
		status int
		code   string
	}{
		"nothing":         {api.SignIn{}, 400, "invalid_request"},
		"both":            {api.SignIn{Token: s.admin, Code: "x"}, 400, "invalid_request"},
		"unknown code":    {api.SignIn{Code: "never-given-out"}, 401, "link_unusable"},
		"unknown token":   {api.SignIn{Token: access.NewToken(access.PersonalPrefix).Reveal()}, 401, "token_unknown"},
		"agent's token":   {api.SignIn{Token: agent}, 403, "forbidden"},
		"service user":    {api.SignIn{Token: service}, 403, "service_user"},
		"too much":        {api.SignIn{Token: strings.Repeat("x", 5000)}, 413, "body_too_large"},
		"another's field": {map[string]string{"password": "x"}, 422, "invalid_request"},
	} {
		a := s.do(t, "POST", "/api/session", c.in)
		if p := a.problem(t); a.StatusCode != c.status || p.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, a.StatusCode, p.Code, c.status, c.code)
		}
		if len(a.Cookies()) != 0 {
			t.Errorf("%s: a refusal sets a cookie", name)
		}
	}
	wantProblem(t, s.do(t, "POST", "/api/session", api.SignIn{Token: s.admin}, header("Sec-Fetch-Site", "cross-site")), 403, "cross_site")
}

func TestSignInLinkWorksOnceAndOnlyByPOST(t *testing.T) {
	s := newServer(t)
	added := into[api.AddedUser](t, s.as(t, s.admin, "POST", "/api/users", api.AddUser{Name: "Anna Ångström", Role: "operator"}), 201)
	page, code, ok := strings.Cut(added.SignInLink, "/signin#code=")
	if !ok || page != "http://holdfast.test" {
		t.Fatalf("link = %q", added.SignInLink)
	}
	for range 2 { // a link preview
		if a := s.do(t, "GET", "/signin", nil); a.StatusCode != 200 {
			t.Fatalf("GET /signin = %d", a.StatusCode)
		}
	}
	_, who := s.signIn(t, api.SignIn{Code: code})
	if who.Name != "Anna Ångström" || who.Role != "operator" {
		t.Errorf("signed in as %+v", who)
	}
	wantProblem(t, s.do(t, "POST", "/api/session", api.SignIn{Code: code}), 401, "link_unusable")

	again := into[api.AddedUser](t, s.as(t, s.admin, "POST", "/api/users/"+added.User.ID+"/sign-in-link", nil), 201)
	s.advance(25 * time.Hour)
	_, code, _ = strings.Cut(again.SignInLink, "#code=")
	wantProblem(t, s.do(t, "POST", "/api/session", api.SignIn{Code: code}), 401, "link_unusable")
}

func TestBootstrapIsOnceAndForAll(t *testing.T) {
	s := newServer(t)
	code, err := s.engine.Bootstrap(t.Context(), redact.NewSecret("another-token-of-thirty-two-chars-or-more"))
	if err != nil || !code.IsZero() {
		t.Fatalf("second Bootstrap = code given %t, %v", !code.IsZero(), err)
	}
	wantProblem(t, s.as(t, "another-token-of-thirty-two-chars-or-more", "GET", "/api/whoami", nil), 401, "token_malformed")
	if code, err := s.engine.Bootstrap(t.Context(), redact.Secret{}); err != nil || !code.IsZero() {
		t.Errorf("Bootstrap without a token after one = code given %t, %v, want none", !code.IsZero(), err)
	}
}

func TestWrongSignInsAreLimited(t *testing.T) {
	s := newServer(t)
	limited := 0
	for i := range 500 {
		a := s.do(t, "POST", "/api/session", api.SignIn{Code: "wrong"}, header("X-Forwarded-For", netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()))
		if a.StatusCode == 429 {
			limited++
			if p := a.problem(t); p.Code != "too_many_attempts" || a.Header.Get("Retry-After") == "" {
				t.Fatalf("limited: %+v, Retry-After %q", p, a.Header.Get("Retry-After"))
			}
		} else if a.StatusCode != 401 {
			t.Fatalf("sign-in %d = %d", i, a.StatusCode)
		}
	}
	if limited < 480 {
		t.Errorf("of 500 wrong sign-ins %d were limited, want nearly all: a header of no trusted proxy was believed", limited)
	}
	s.advance(time.Minute) // a real user is not locked out for ever
	s.signIn(t, api.SignIn{Token: s.admin})
}

func TestLimitsBehindATrustedProxy(t *testing.T) {
	s := newServer(t, func(c *httpapi.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	from := func(list string) with { return header("X-Forwarded-For", list) }
	var last answer
	for i := range 30 { // what the client itself put before the proxy's entry counts for nothing
		last = s.do(t, "POST", "/api/session", api.SignIn{Code: "wrong"}, from(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}).String()+", 203.0.113.7"))
	}
	wantProblem(t, last, 429, "too_many_attempts")
	if a := s.do(t, "POST", "/api/session", api.SignIn{Token: s.admin}, from("203.0.113.8")); a.StatusCode != 200 {
		t.Errorf("another client behind the proxy = %d, want 200", a.StatusCode)
	}
}

func TestWrongTokensAreLimited(t *testing.T) {
	s := newServer(t)
	wrong := access.NewToken(access.PersonalPrefix).Reveal()
	stop := time.Now().Add(20 * time.Second)
	for a := s.as(t, wrong, "GET", "/api/whoami", nil); a.StatusCode != 429; a = s.as(t, wrong, "GET", "/api/whoami", nil) {
		if time.Now().After(stop) {
			t.Fatal("wrong tokens are never limited")
		}
	}
	s.advance(time.Minute)
	into[api.Whoami](t, s.as(t, s.admin, "GET", "/api/whoami", nil), 200)
}

func TestDisabledUserIsOutAtOnce(t *testing.T) {
	s := newServer(t)
	added := into[api.AddedUser](t, s.as(t, s.admin, "POST", "/api/users", api.AddUser{Name: "Bo", Role: "viewer"}), 201)
	_, code, _ := strings.Cut(added.SignInLink, "#code=")
	c, who := s.signIn(t, api.SignIn{Code: code})
	own := into[api.CreatedToken](t, s.do(t, "POST", "/api/tokens", api.CreateToken{Name: "mine"}, cookie(c), header("X-Holdfast-CSRF", who.CSRFToken)), 201)
	into[api.Whoami](t, s.as(t, own.Token, "GET", "/api/whoami", nil), 200)
	yes := true
	into[api.User](t, s.as(t, s.admin, "PATCH", "/api/users/"+added.User.ID, api.SetUser{Disabled: &yes}), 200)
	wantProblem(t, s.as(t, own.Token, "GET", "/api/whoami", nil), 401, "user_disabled")
	wantProblem(t, s.do(t, "GET", "/api/whoami", nil, cookie(c)), 401, "user_disabled")
}

func TestUseOfATokenIsNotedWithoutTheRequestWaiting(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.api.Run(ctx) }()
	stop := time.Now().Add(20 * time.Second)
	for {
		l := into[api.List[api.Token]](t, s.as(t, s.admin, "GET", "/api/tokens", nil), 200)
		if used := l.Items[0].LastUsedAt; used != nil {
			if d := time.Since(*used); d < 0 || d > time.Minute {
				t.Errorf("last used at %v, which is %v ago", used, d)
			}
			break
		}
		if time.Now().After(stop) {
			t.Fatal("the use of the token is never noted")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// TestSessionsAreForPagesOnly: neither the state protocol nor the agents' routes take a browser's session.
func TestSessionsAreForPagesOnly(t *testing.T) {
	s := newServer(t)
	c, who := s.signIn(t, api.SignIn{Token: s.admin})
	refused := 0
	for _, r := range s.api.Routes() {
		backend := strings.HasPrefix(r.Path, "/api/tf-states/{name}/state") || strings.HasPrefix(r.Path, "/api/tf-states/{name}/lock")
		if !backend && r.Permission != access.AgentWork {
			continue
		}
		refused++
		path := parameter.ReplaceAllString(r.Path, "x")
		wantProblem(t, s.do(t, r.Method, path, nil, cookie(c), header("X-Holdfast-CSRF", who.CSRFToken)), 401, "no_credential")
	}
	if refused < 10 {
		t.Errorf("only %d routes were tried", refused)
	}
}

// TestAttemptsTokenOpensItsStateOnly walks the routes with the token of an attempt.
func TestAttemptsTokenOpensItsStateOnly(t *testing.T) {
	s := newServer(t)
	_, token := s.attempt(t)
	for _, r := range s.api.Routes() {
		if r.Permission == access.Public {
			continue
		}
		path := parameter.ReplaceAllString(r.Path, "x")
		a := s.as(t, token, r.Method, path, nil)
		if backend := strings.HasPrefix(r.Path, "/api/tf-states/{name}/state") || strings.HasPrefix(r.Path, "/api/tf-states/{name}/lock"); backend {
			if a.StatusCode == 401 {
				t.Errorf("%s %s with an attempt's token = 401 %s", r.Method, r.Path, a.body)
			}
			continue
		}
		wantProblem(t, a, 403, "forbidden")
	}
}
