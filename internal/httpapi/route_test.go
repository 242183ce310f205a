package httpapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

// public is every route that needs no credential. A new one has to be added here by hand.
var public = []string{
	"GET /healthz", "GET /readyz", "GET /metrics", "POST /api/session", "GET /api/openapi.json", "GET /api/openapi.yaml",
}

var parameter = regexp.MustCompile(`\{[^}]+\}`)

func TestEveryRouteDeclaresAPermission(t *testing.T) {
	s := newServer(t)
	if len(s.api.Routes()) < 20 {
		t.Fatalf("there are %d routes, which cannot be all", len(s.api.Routes()))
	}
	for _, r := range s.api.Routes() {
		route := r.Method + " " + r.Path
		switch {
		case r.Permission == access.Public:
			if !slices.Contains(public, route) {
				t.Errorf("%s is public and not on the list of public routes", route)
			}
		case access.Lowest(r.Permission) == "" && r.Permission != access.AgentWork && r.Permission != access.PlatformManage:
			t.Errorf("%s declares the permission %q, which nobody has", route, r.Permission)
		}
	}
}

// TestEveryRouteRefuses walks the route table with every credential that must not open a route.
func TestEveryRouteRefuses(t *testing.T) {
	s := newServer(t)
	tokens := map[access.Role]string{"": ""}
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin} {
		_, tokens[role] = s.user(t, "a "+string(role), role)
	}
	agent := s.agent(t, "walker", "local").Token
	revokedID, revoked := s.user(t, "revoked", access.Admin)
	if a := s.as(t, s.admin, "DELETE", "/api/tokens/"+revokedID, nil); a.StatusCode != 204 {
		t.Fatalf("revoke: %d %s", a.StatusCode, a.body)
	}
	expired := into[api.CreatedToken](t, s.as(t, s.admin, "POST", "/api/tokens", api.CreateToken{Name: "e", Role: "admin", ExpiresIn: "1m"}), 201).Token
	s.advance(2 * time.Minute)
	good := tokens[access.Viewer]
	dead := map[string]string{
		"token_revoked": revoked, "token_expired": expired, "token_malformed": good[:len(good)-1],
		"token_unknown": access.NewToken(access.PersonalPrefix).Reveal(),
	}
	for _, r := range s.api.Routes() {
		if r.Permission == access.Public {
			continue
		}
		path := parameter.ReplaceAllString(r.Path, "x")
		name := r.Method + " " + r.Path
		if a := s.do(t, r.Method, path, nil); a.StatusCode != 401 || a.problem(t).Code != "no_credential" {
			t.Errorf("%s without a credential = %d %s, want 401 no_credential", name, a.StatusCode, a.body)
		}
		for code, token := range dead {
			if a := s.as(t, token, r.Method, path, nil); a.StatusCode != 401 || a.problem(t).Code != code {
				t.Errorf("%s with a dead token = %d %s, want 401 %s", name, a.StatusCode, a.body, code)
			}
			s.advance(time.Second) // wrong tokens are limited; see TestWrongTokensAreLimited
		}
		for role, token := range tokens {
			if role == "" || access.Lowest(r.Permission) != "" && role.AtLeast(access.Lowest(r.Permission)) {
				continue
			}
			if a := s.as(t, token, r.Method, path, nil); a.StatusCode != 403 || a.problem(t).Code != "forbidden" {
				t.Errorf("%s as %s = %d %s, want 403 forbidden", name, role, a.StatusCode, a.body)
			}
		}
		if r.Permission != access.AgentWork {
			if a := s.as(t, agent, r.Method, path, nil); a.StatusCode != 403 {
				t.Errorf("%s with an agent's token = %d %s, want 403", name, a.StatusCode, a.body)
			}
		}
		if r.Method != "LOCK" && r.Method != "UNLOCK" && !strings.HasPrefix(r.Path, "/api/tf-states/{name}/") {
			basic := s.do(t, r.Method, path, nil, basicAuth(tokens[access.Admin]))
			if basic.StatusCode != 401 || basic.problem(t).Code != "basic_refused" {
				t.Errorf("%s with Basic authentication = %d %s, want 401 basic_refused", name, basic.StatusCode, basic.body)
			}
		}
	}
}

func TestRoutesAreTheOpenAPIDocument(t *testing.T) {
	s := newServer(t)
	asJSON, _, err := s.api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Permission  string         `json:"x-permission"`
			OperationID string         `json:"operationId"`
			Summary     string         `json:"summary"`
			Responses   map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			name := strings.ToUpper(method) + " " + path
			described[name] = true
			if op.Permission == "" || op.OperationID == "" || op.Summary == "" || len(op.Responses) < 2 {
				t.Errorf("%s lacks a permission, id, summary or answer: %+v", name, op)
			}
		}
	}
	for _, r := range s.api.Routes() {
		name := r.Method + " " + r.Path
		if r.Documented() != described[name] {
			t.Errorf("%s: described in OpenAPI %t, want %t", name, described[name], r.Documented())
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("%s is described in OpenAPI and is no route", name)
	}
}

func TestCommittedOpenAPIIsCurrent(t *testing.T) {
	_, want, err := newServer(t).api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("api/openapi.yaml is not what the code says; write it out anew: make generate")
	}
}
