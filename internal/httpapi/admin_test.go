package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

func TestTokensOfOnesOwn(t *testing.T) {
	s := newServer(t)
	_, viewer := s.user(t, "reader", access.Viewer)
	own := into[api.CreatedToken](t, s.as(t, viewer, "POST", "/api/tokens", api.CreateToken{Name: "laptop", ExpiresIn: "30d"}), 201)
	who := into[api.Whoami](t, s.as(t, own.Token, "GET", "/api/whoami", nil), 200)
	if who.Name != "reader" || who.Role != "viewer" {
		t.Errorf("one's own token is of %+v", who)
	}
	mine := into[api.List[api.Token]](t, s.as(t, viewer, "GET", "/api/tokens", nil), 200)
	if len(mine.Items) != 2 || mine.Items[0].Name != "laptop" || mine.Items[0].UserName != "reader" || mine.Items[0].ExpiresAt == nil {
		t.Errorf("tokens = %+v, want laptop and the first, newest first", mine.Items)
	}
	wantProblem(t, s.as(t, viewer, "GET", "/api/tokens?all=true", nil), 403, "forbidden")
	wantProblem(t, s.as(t, viewer, "POST", "/api/tokens", api.CreateToken{Name: "root", Role: "admin"}), 403, "forbidden")
	all := into[api.List[api.Token]](t, s.as(t, s.admin, "GET", "/api/tokens?all=true", nil), 200)
	if len(all.Items) != 3 {
		t.Errorf("an administrator sees %d tokens, want 3", len(all.Items))
	}
	adminToken := all.Items[2]
	if adminToken.Name != "bootstrap" {
		t.Fatalf("the oldest token is %q", adminToken.Name)
	}
	wantProblem(t, s.as(t, viewer, "DELETE", "/api/tokens/"+adminToken.ID, nil), 404, "token_not_found")
	for range 2 { // repeating it changes nothing
		if a := s.as(t, viewer, "DELETE", "/api/tokens/"+own.ID, nil); a.StatusCode != 204 {
			t.Fatalf("revoke = %d %s", a.StatusCode, a.body)
		}
	}
	wantProblem(t, s.as(t, own.Token, "GET", "/api/whoami", nil), 401, "token_revoked")
}

func TestTokenRequestsThatAreRefused(t *testing.T) {
	s := newServer(t)
	s.user(t, "taken", access.Viewer)
	for _, c := range []struct {
		in     api.CreateToken
		status int
		code   string
	}{
		{api.CreateToken{Name: "x", ExpiresIn: "soon"}, 400, "invalid_request"},
		{api.CreateToken{Name: "x", ExpiresIn: "0s"}, 400, "invalid_request"},
		{api.CreateToken{Name: "x", ExpiresIn: "367d"}, 400, "invalid_request"},
		{api.CreateToken{Name: "x", ExpiresIn: "-1h"}, 400, "invalid_request"},
		{api.CreateToken{Name: " x"}, 400, "invalid_request"},
		{api.CreateToken{Name: "a\nb"}, 400, "invalid_request"},
		{api.CreateToken{Name: "a\u202eb"}, 400, "invalid_request"},
		{api.CreateToken{Name: "x", Role: "root"}, 422, "invalid_request"},
		{api.CreateToken{Name: ""}, 422, "invalid_request"},
		{api.CreateToken{Name: "taken", Role: "viewer"}, 409, "user_exists"},
		{api.CreateToken{Name: "x", Organization: "elsewhere", Role: "viewer"}, 404, "organization_not_found"},
	} {
		wantProblem(t, s.as(t, s.admin, "POST", "/api/tokens", c.in), c.status, c.code)
	}
}

func TestLastAdministratorStays(t *testing.T) {
	s := newServer(t)
	me := into[api.Whoami](t, s.as(t, s.admin, "GET", "/api/whoami", nil), 200)
	yes := true
	path := "/api/users/" + me.ID
	wantProblem(t, s.as(t, s.admin, "PATCH", path, api.SetUser{Role: "viewer"}), 409, "last_admin")
	wantProblem(t, s.as(t, s.admin, "PATCH", path, api.SetUser{Disabled: &yes}), 409, "last_admin")
	_, second := s.user(t, "second", access.Admin)
	into[api.User](t, s.as(t, s.admin, "PATCH", path, api.SetUser{Disabled: &yes}), 200)
	who := into[api.Whoami](t, s.as(t, second, "GET", "/api/whoami", nil), 200)
	wantProblem(t, s.as(t, second, "PATCH", "/api/users/"+who.ID, api.SetUser{Role: "operator"}), 409, "last_admin")
	wantProblem(t, s.as(t, second, "PATCH", "/api/users/usr_00000000000000000000000000", api.SetUser{Role: "viewer"}), 404, "user_not_found")
}

func TestAgentsAreIssuedForManagedAccounts(t *testing.T) {
	s := newServer(t)
	issue := func(name, account string) answer {
		return s.as(t, s.admin, "POST", "/api/provisioning/agents", api.IssueAgent{Name: name, AccountID: account})
	}
	wantProblem(t, issue("a", "111122223333"), 409, "account_not_managed")
	for _, account := range []string{"../x", "a/b", "-x", "a b", ".."} {
		wantProblem(t, issue("a", account), 400, "invalid_request")
	}
	for _, name := range []string{"..", "a/b", `a\b`, "-a", "a.", "a b", "é"} {
		wantProblem(t, issue(name, "111122223333"), 400, "invalid_request")
	}
	into[api.Account](t, s.as(t, s.admin, "POST", "/api/accounts", api.AddAccount{Name: "111122223333"}), 201)
	wantProblem(t, s.as(t, s.admin, "POST", "/api/accounts", api.AddAccount{Name: "111122223333"}), 409, "account_exists")
	made := into[api.IssuedAgent](t, issue("prod", "111122223333"), 201)
	if made.Agent.Status != "never_seen" || made.Agent.Account != "111122223333" || !strings.HasPrefix(made.Token, "hf_agt_") {
		t.Errorf("issued %+v", made.Agent)
	}
	wantProblem(t, issue("prod", "111122223333"), 409, "agent_exists")
	into[api.Account](t, s.as(t, s.admin, "PATCH", "/api/accounts/111122223333", api.SetAccount{Enabled: false}), 200)
	wantProblem(t, issue("b", "111122223333"), 409, "account_not_managed")
	wantProblem(t, s.as(t, s.admin, "PATCH", "/api/accounts/nowhere", api.SetAccount{Enabled: false}), 404, "account_not_found")

	if a := s.as(t, s.admin, "DELETE", "/api/provisioning/agents/"+made.Agent.ID, nil); a.StatusCode != 204 {
		t.Fatalf("revoke = %d %s", a.StatusCode, a.body)
	}
	wantProblem(t, s.as(t, made.Token, "GET", "/api/whoami", nil), 401, "token_revoked")
	agents := into[api.List[api.Agent]](t, s.as(t, s.admin, "GET", "/api/provisioning/agents", nil), 200)
	if len(agents.Items) != 1 || agents.Items[0].Status != "revoked" || agents.Items[0].RevokedAt == nil {
		t.Errorf("agents = %+v", agents.Items)
	}
}

func TestAgentsOfOneAccount(t *testing.T) {
	s := newServer(t)
	for i, account := range []string{"one", "two", "one", "two", "one"} {
		s.agent(t, fmt.Sprintf("agent-%d", i), account)
	}
	var names []string
	for cursor, more := "", true; more; more = cursor != "" {
		l := into[api.List[api.Agent]](t, s.as(t, s.admin, "GET", "/api/provisioning/agents?account=one&limit=2&cursor="+cursor, nil), 200)
		for _, g := range l.Items {
			names = append(names, g.Name)
		}
		cursor = l.Next
	}
	if got, want := strings.Join(names, " "), "agent-0 agent-2 agent-4"; got != want {
		t.Errorf("agents of account one = %q, want %q", got, want)
	}
	wantProblem(t, s.as(t, s.admin, "GET", "/api/provisioning/agents?acount=one", nil), 422, "invalid_request")
}

func TestOrganizationsAreApart(t *testing.T) {
	s := newServer(t)
	_, plain := s.user(t, "plain admin", access.Admin)
	wantProblem(t, s.as(t, plain, "POST", "/api/organizations", api.AddOrganization{Name: "other"}), 403, "forbidden")
	into[api.Organization](t, s.as(t, s.admin, "POST", "/api/organizations", api.AddOrganization{Name: "other"}), 201)
	wantProblem(t, s.as(t, s.admin, "POST", "/api/organizations", api.AddOrganization{Name: "other"}), 409, "organization_exists")
	wantProblem(t, s.as(t, plain, "POST", "/api/tokens", api.CreateToken{Name: "x", Role: "admin", Organization: "other"}), 403, "forbidden")
	foreign := into[api.CreatedToken](t, s.as(t, s.admin, "POST", "/api/tokens", api.CreateToken{Name: "theirs", Role: "admin", Organization: "other"}), 201)
	who := into[api.Whoami](t, s.as(t, foreign.Token, "GET", "/api/whoami", nil), 200)
	if who.Organization != "other" {
		t.Fatalf("the token is of organization %q", who.Organization)
	}
	g := s.agent(t, "ours", "local")
	mine := into[api.Whoami](t, s.as(t, s.admin, "GET", "/api/whoami", nil), 200)
	tokens := into[api.List[api.Token]](t, s.as(t, s.admin, "GET", "/api/tokens", nil), 200)
	no := false
	for _, c := range []struct {
		method, path, random string
		body                 any
	}{
		{"DELETE", "/api/provisioning/agents/" + g.Agent.ID, "/api/provisioning/agents/agt_00000000000000000000000000", nil},
		{"PATCH", "/api/users/" + mine.ID, "/api/users/usr_00000000000000000000000000", api.SetUser{Disabled: &no}},
		{"POST", "/api/users/" + mine.ID + "/sign-in-link", "/api/users/usr_00000000000000000000000000/sign-in-link", nil},
		{"DELETE", "/api/tokens/" + tokens.Items[0].ID, "/api/tokens/tok_00000000000000000000000000", nil},
		{"PATCH", "/api/accounts/local", "/api/accounts/nowhere", api.SetAccount{Enabled: false}},
	} {
		theirs, random := s.as(t, foreign.Token, c.method, c.path, c.body), s.as(t, foreign.Token, c.method, c.random, c.body)
		a, b := theirs.problem(t), random.problem(t)
		if theirs.StatusCode != 404 || a.Code != b.Code || a.Detail != b.Detail {
			t.Errorf("%s %s from another organization = %+v, want the same 404 as for a random id, %+v", c.method, c.path, a, b)
		}
	}
	for _, path := range []string{"/api/accounts", "/api/provisioning/agents"} {
		if l := into[api.List[json.RawMessage]](t, s.as(t, foreign.Token, "GET", path, nil), 200); len(l.Items) != 0 {
			t.Errorf("%s shows another organization's: %s", path, l.Items)
		}
	}
}

func TestListsArePaged(t *testing.T) {
	s := newServer(t)
	for i := range 5 {
		into[api.Account](t, s.as(t, s.admin, "POST", "/api/accounts", api.AddAccount{Name: fmt.Sprintf("acc-%d", i)}), 201)
	}
	var names []string
	cursor, pages := "", 0
	for {
		l := into[api.List[api.Account]](t, s.as(t, s.admin, "GET", "/api/accounts?limit=2&cursor="+cursor, nil), 200)
		for _, a := range l.Items {
			names = append(names, a.Name)
		}
		pages++
		if cursor = l.Next; cursor == "" {
			break
		}
	}
	if got, want := strings.Join(names, " "), "acc-0 acc-1 acc-2 acc-3 acc-4"; got != want || pages != 3 {
		t.Errorf("paged through %q in %d pages, want %q in 3", got, pages, want)
	}
	for _, limit := range []string{"0", "201", "x", "-1"} {
		wantProblem(t, s.as(t, s.admin, "GET", "/api/accounts?limit="+limit, nil), 422, "invalid_request")
	}
	wantProblem(t, s.as(t, s.admin, "GET", "/api/accounts?cursor=%00nonsense", nil), 400, "invalid_cursor")
}

func TestEveryChangeIsInTheAuditChain(t *testing.T) {
	s := newServer(t)
	added := into[api.AddedUser](t, s.as(t, s.admin, "POST", "/api/users", api.AddUser{Name: "Cy", Role: "viewer"}), 201)
	into[api.User](t, s.as(t, s.admin, "PATCH", "/api/users/"+added.User.ID, api.SetUser{Role: "operator"}), 200)
	into[api.User](t, s.as(t, s.admin, "PATCH", "/api/users/"+added.User.ID, api.SetUser{Role: "operator"}), 200) // changes nothing
	_, code, _ := strings.Cut(added.SignInLink, "#code=")
	s.signIn(t, api.SignIn{Code: code})
	g := s.agent(t, "g", "local")
	s.as(t, s.admin, "DELETE", "/api/provisioning/agents/"+g.Agent.ID, nil)
	s.as(t, s.admin, "PATCH", "/api/accounts/local", api.SetAccount{Enabled: false})
	wantProblem(t, s.as(t, s.admin, "POST", "/api/accounts", api.AddAccount{Name: "local"}), 409, "account_exists") // is rolled back with its record
	into[api.CreatedToken](t, s.as(t, s.admin, "POST", "/api/tokens", api.CreateToken{Name: "ci", Role: "operator"}), 201)

	list := into[api.List[api.AuditRecord]](t, s.as(t, s.admin, "GET", "/api/audit?limit=200", nil), 200)
	var actions []string
	for _, r := range list.Items {
		actions = append(actions, r.Action)
	}
	want := "token.create user.create account.disable agent.revoke agent.issue account.create session.start user.change user.create token.create organization.create"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("actions = %q, want %q", got, want)
	}
	if r := list.Items[0]; r.ActorName != "admin" || !strings.HasPrefix(r.RequestID, "req_") || r.Object == "" {
		t.Errorf("record = %+v", r)
	}
	for query, want := range map[string]int{"action=user.": 3, "action=user.change": 1, "object=" + g.Agent.ID: 2, "actor=" + added.User.ID: 1, "action=nothing": 0} {
		if l := into[api.List[api.AuditRecord]](t, s.as(t, s.admin, "GET", "/api/audit?"+query, nil), 200); len(l.Items) != want {
			t.Errorf("?%s gives %d records, want %d", query, len(l.Items), want)
		}
	}

	v := into[api.AuditVerified](t, s.as(t, s.admin, "GET", "/api/audit/verify", nil), 200)
	if !v.Intact || v.Records != int64(len(actions)) || !strings.HasPrefix(v.Anchor, fmt.Sprint(len(actions))+":") {
		t.Errorf("verify = %+v", v)
	}
	if again := into[api.AuditVerified](t, s.as(t, s.admin, "GET", "/api/audit/verify?anchor="+v.Anchor, nil), 200); !again.Intact {
		t.Errorf("verify with its own anchor = %+v", again)
	}
	beyond := fmt.Sprintf("%d:%s", len(actions)+5, strings.Repeat("a", 64))
	if cut := into[api.AuditVerified](t, s.as(t, s.admin, "GET", "/api/audit/verify?anchor="+beyond, nil), 200); cut.Intact || cut.BrokenAt == 0 {
		t.Errorf("verify with an anchor beyond the end = %+v, want broken", cut)
	}
	other := "3:" + strings.Repeat("a", 64)
	if forged := into[api.AuditVerified](t, s.as(t, s.admin, "GET", "/api/audit/verify?anchor="+other, nil), 200); forged.Intact {
		t.Errorf("verify with another hash = %+v, want broken", forged)
	}
	wantProblem(t, s.as(t, s.admin, "GET", "/api/audit/verify?anchor=x", nil), 400, "invalid_request")

	export := s.as(t, s.admin, "GET", "/api/audit/export", nil)
	lines := bufio.NewScanner(bytes.NewReader(export.body))
	for seq := int64(1); lines.Scan(); seq++ {
		var r api.AuditRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Seq != seq {
			t.Fatalf("line %d of the export is %q, %v", seq, lines.Text(), err)
		}
	}
	if got := bytes.Count(export.body, []byte("\n")); export.StatusCode != 200 || got != len(actions) {
		t.Errorf("export = %d with %d lines, want %d", export.StatusCode, got, len(actions))
	}
}
