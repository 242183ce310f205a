package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/httpapi"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
)

func (s *server) allocate(t *testing.T, p access.Permission, role access.Role) api.Permission {
	t.Helper()
	return into[api.Permission](t, s.as(t, s.admin, "PATCH", "/api/permissions/"+string(p), api.SetPermission{Role: string(role)}), 200)
}

func TestPermissionsOfAnOrganization(t *testing.T) {
	s := newServer(t)
	_, viewer := s.user(t, "vic", access.Viewer)
	_, operator := s.user(t, "ann", access.Operator)
	into[api.Organization](t, s.as(t, s.admin, "POST", "/api/organizations", api.AddOrganization{Name: "other"}), 201)
	other := into[api.CreatedToken](t, s.as(t, s.admin, "POST", "/api/tokens", api.CreateToken{Name: "o", Role: "operator", Organization: "other"}), 201).Token
	listed := func(token string) map[string]api.Permission {
		t.Helper()
		out := map[string]api.Permission{}
		for _, p := range into[api.List[api.Permission]](t, s.as(t, token, "GET", "/api/permissions", nil), 200).Items {
			out[p.Permission] = p
		}
		return out
	}
	may := func(token string, p access.Permission) bool {
		t.Helper()
		return slices.Contains(into[api.Whoami](t, s.as(t, token, "GET", "/api/whoami", nil), 200).Permissions, string(p))
	}
	all := listed(viewer)
	for _, want := range []api.Permission{
		{Permission: "tf_state:list", Role: "viewer", DefaultRole: "viewer"},
		{Permission: "tf_state:read", Role: "operator", DefaultRole: "operator", Allocatable: true},
		{Permission: "tf_state:write", Role: "operator", DefaultRole: "operator", Allocatable: true},
		{Permission: "tf_state:manage", Role: "admin", DefaultRole: "admin", Allocatable: true},
		{Permission: "user:manage", Role: "admin", DefaultRole: "admin"},
	} {
		if all[want.Permission] != want {
			t.Errorf("listed %+v, want %+v", all[want.Permission], want)
		}
	}
	if got := s.allocate(t, access.StateRead, access.Viewer); got.Role != "viewer" || !got.Allocatable || got.DefaultRole != "operator" {
		t.Errorf("allocated: %+v", got)
	}
	s.allocate(t, access.StateRead, access.Viewer)
	s.allocate(t, access.StateWrite, access.Disabled)
	all = listed(viewer)
	if all["tf_state:read"].Role != "viewer" || all["tf_state:write"].Role != "disabled" || all["tf_state:manage"].Role != "admin" {
		t.Errorf("listed after the change: %+v", all)
	}
	if !may(viewer, access.StateRead) || may(operator, access.StateWrite) || may(s.admin, access.StateWrite) || !may(s.admin, access.UserManage) {
		t.Error("whoami does not follow the allocation")
	}
	added := into[api.AddedUser](t, s.as(t, s.admin, "POST", "/api/users", api.AddUser{Name: "new", Role: "viewer"}), 201)
	_, code, _ := strings.Cut(added.SignInLink, "#code=")
	if _, who := s.signIn(t, api.SignIn{Code: code}); !slices.Contains(who.Permissions, "tf_state:read") {
		t.Errorf("who signs in with a link may %v, want tf_state:read among it", who.Permissions)
	}
	if theirs := listed(other); theirs["tf_state:read"].Role != "operator" || !may(other, access.StateWrite) {
		t.Errorf("another organization's permissions changed: %+v", theirs)
	}
	records := into[api.List[api.AuditRecord]](t, s.as(t, s.admin, "GET", "/api/audit?action=permission.allocate", nil), 200).Items
	if len(records) != 2 || records[1].Object != "tf_state:read" || string(records[1].Data) != `{"role":"viewer","role_before":"operator"}` {
		t.Errorf("audited %+v, want the two changes and not their repetition", records)
	}
}

func TestAllocationRefuses(t *testing.T) {
	s := newServer(t)
	_, operator := s.user(t, "ann", access.Operator)
	for _, p := range []access.Permission{access.StateRead, access.StateWrite, access.StateManage} {
		s.allocate(t, p, access.Disabled)
	}
	const base = "/api/permissions/"
	wantProblem(t, s.as(t, operator, "PATCH", base+"tf_state:manage", api.SetPermission{Role: "operator"}), 403, "forbidden")
	wantProblem(t, s.as(t, s.admin, "PATCH", base+"user:manage", api.SetPermission{Role: "disabled"}), 422, "permission_fixed")
	wantProblem(t, s.as(t, s.admin, "PATCH", base+"tf_state:all", api.SetPermission{Role: "admin"}), 404, "permission_not_found")
	for _, role := range []string{"king", ""} {
		if a := s.as(t, s.admin, "PATCH", base+"tf_state:read", map[string]string{"role": role}); a.StatusCode != 422 && a.StatusCode != 400 {
			t.Errorf("role %q = %d %s, want a refusal", role, a.StatusCode, a.body)
		}
	}
	p := wantProblem(t, s.as(t, s.admin, "GET", "/api/tf-states/x/state", nil), 403, "forbidden")
	if !strings.Contains(p.Detail, "tf_state:read, which is disabled") || !strings.Contains(p.Hint, "holdfast permission set tf_state:read operator") {
		t.Errorf("the refusal of a disabled permission says %+v", p)
	}
	// Whatever is allocated, an administrator can change it again.
	if got := s.allocate(t, access.StateRead, access.Admin); got.Role != "admin" {
		t.Errorf("allocated again: %+v", got)
	}
	attempt, _ := s.attempt(t)
	token := s.attemptToken(t, attempt, "sta_none")
	p = wantProblem(t, s.as(t, token, "GET", "/api/tf-states/x/state", nil), 403, "forbidden")
	if !strings.Contains(p.Detail, "allocated to the role admin here; the steps of a run act as operator") || !strings.Contains(p.Hint, "An administrator") {
		t.Errorf("the refusal of a run's step says %+v", p)
	}
}

// attemptToken is another token of an attempt, for a state.
func (s *server) attemptToken(t *testing.T, a run.Attempt, stateID string) string {
	t.Helper()
	token := access.NewToken(access.AttemptPrefix)
	err := s.store.Update(t.Context(), func(tx engine.Tx) error {
		return tx.CreateToken(t.Context(), access.Token{
			ID: id.New(id.Token, s.now()), Org: a.Org, Name: "attempt", Hash: access.Hash(token).Hex(), AttemptID: a.ID, State: stateID, CreatedAt: s.now(),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// allocation is one row of the matrix: what an administrator has changed.
type allocation struct {
	permission access.Permission // "" for nothing
	role       access.Role
}

// may is the rule anew, as the reference says it, apart from the code under test.
func (c allocation) may(role access.Role, p access.Permission) bool {
	rank := map[access.Role]int{access.Viewer: 1, access.Operator: 2, access.Admin: 3, access.Disabled: 4}
	least := map[access.Permission]access.Role{
		access.StateList: access.Viewer, access.StateRead: access.Operator, access.StateWrite: access.Operator, access.StateManage: access.Admin,
	}[p]
	if p == c.permission {
		least = c.role
	}
	return rank[role] >= rank[least]
}

// caller is one column of the matrix.
type caller struct {
	kind string // token, session or attempt
	role access.Role
	with []with
}

func (c caller) may(row allocation, r httpapi.Route) bool {
	return slices.ContainsFunc(r.Permissions(), func(p access.Permission) bool {
		if c.kind == "attempt" && p != access.StateRead && p != access.StateWrite {
			return false // a step never forces
		}
		return row.may(c.role, p)
	})
}

// matrix is the server under test, and what stays the same for all of the cells.
type matrix struct {
	*server
	callers []caller
	system  access.Actor
	state   int // counts the states made
}

func newMatrix(t *testing.T) *matrix {
	m := &matrix{server: newServer(t)}
	attempt, _ := m.attempt(t)
	m.system = access.Actor{Kind: access.System, Org: attempt.Org, ID: "tests"}
	stateID := ""
	m.made(t, "the-steps-own")
	err := m.store.View(t.Context(), func(tx engine.Tx) error {
		st, err := tx.State(t.Context(), attempt.Org, "the-steps-own")
		stateID = st.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin} {
		_, token := m.user(t, "service-"+string(role), role)
		m.callers = append(m.callers, caller{"token", role, []with{bearer(token)}})
		added := into[api.AddedUser](t, m.as(t, m.admin, "POST", "/api/users", api.AddUser{Name: "person-" + string(role), Role: string(role)}), 201)
		_, code, _ := strings.Cut(added.SignInLink, "#code=")
		c, who := m.signIn(t, api.SignIn{Code: code})
		m.callers = append(m.callers, caller{"session", role, []with{cookie(c), header("X-Holdfast-CSRF", who.CSRFToken)}})
	}
	m.callers = append(m.callers, caller{"attempt", access.Operator, []with{bearer(m.attemptToken(t, attempt, stateID))}})
	return m
}

// made makes a state of two versions.
func (m *matrix) made(t *testing.T, name string) {
	t.Helper()
	doc := stateDoc(1, "l")
	_, err := m.engine.ImportState(t.Context(), m.system, name, engine.StateImport{StateWrite: engine.StateWrite{Size: int64(len(doc)), Body: strings.NewReader(doc)}})
	if err != nil {
		t.Fatal(err)
	}
	doc = stateDoc(2, "l")
	if _, err = m.engine.WriteState(t.Context(), m.system, name, engine.StateWrite{Size: int64(len(doc)), Body: strings.NewReader(doc)}); err != nil {
		t.Fatal(err)
	}
}

// requests are what makes each route succeed on a state of two versions, and its answer then. A route that is not
// here is only known not to be refused.
var requests = map[string]struct {
	body   any
	status int
}{
	"GET /api/tf-states":                                   {nil, 200},
	"GET /api/tf-states/{name}":                            {nil, 200},
	"GET /api/tf-states/{name}/resources":                  {nil, 200},
	"GET /api/state-resources":                             {nil, 200},
	"GET /api/tf-states/{name}/diff":                       {nil, 200},
	"GET /api/tf-states/{name}/outputs":                    {nil, 200},
	"GET /api/tf-states/{name}/versions":                   {nil, 200},
	"GET /api/tf-states/{name}/state":                      {nil, 200},
	"POST /api/tf-states/{name}/state":                     {stateDoc(3, "l"), 200},
	"LOCK /api/tf-states/{name}/lock":                      {lockDoc("A"), 200},
	"POST /api/tf-states/{name}/lock":                      {lockDoc("A"), 200},
	"UNLOCK /api/tf-states/{name}/lock":                    {lockDoc("A"), 200},
	"DELETE /api/tf-states/{name}/lock":                    {lockDoc("A"), 200},
	"GET /api/tf-states/{name}/versions/{version}/content": {nil, 200},
	"POST /api/tf-states/{name}/rollback":                  {api.PickVersion{Version: 1}, 200},
	"POST /api/tf-states/{name}/accept":                    {api.PickVersion{Version: 1}, 409}, // it is not quarantined
	"POST /api/tf-states/{name}/import":                    {stateDoc(1, "l"), 409},            // there is one of this name
	"POST /api/tf-states/{name}/force-unlock":              {nil, 200},
	"POST /api/tf-states/{name}/restore":                   {nil, 200}, // and is no error where it is not deleted
	"DELETE /api/tf-states/{name}":                         {nil, 204},
}

// TestPermissionMatrix asks for every route of states, as every kind of caller and role, under every allocation of
// each permission, on the real engine: who may gets the route's own answer, who may not gets a refusal that says why,
// and nothing has changed.
func TestPermissionMatrix(t *testing.T) {
	m := newMatrix(t)
	m.made(t, "untouched")
	rows := []allocation{{}}
	for _, p := range []access.Permission{access.StateRead, access.StateWrite, access.StateManage} {
		for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin, access.Disabled} {
			rows = append(rows, allocation{p, role})
		}
	}
	var routes []httpapi.Route
	for _, r := range m.api.Routes() {
		if strings.HasPrefix(string(r.Permission), "tf_state:") {
			routes = append(routes, r)
		}
		unlocks := strings.HasSuffix(r.Path, "/lock") && (r.Method == "UNLOCK" || r.Method == "DELETE")
		if second := len(r.Permissions()) > 1; second != unlocks || unlocks && r.Permissions()[1] != access.StateManage {
			t.Errorf("%s %s is opened by %v; unlocking alone has a second permission, tf_state:manage", r.Method, r.Path, r.Permissions())
		}
	}
	if len(routes) < len(requests) {
		t.Fatalf("%d routes need a permission on states, and %d are known", len(routes), len(requests))
	}
	refused, allowed := 0, 0
	for _, row := range rows {
		if row.permission != "" {
			m.allocate(t, row.permission, row.role)
		}
		for _, r := range routes {
			for _, c := range m.callers {
				if c.may(row, r) {
					allowed++
				} else {
					refused++
				}
				m.cell(t, row, r, c)
			}
		}
		if row.permission != "" {
			m.allocate(t, row.permission, access.Lowest(row.permission))
		}
	}
	if allowed < 500 || refused < 500 {
		t.Errorf("%d cells allowed and %d refused, which cannot be the whole matrix", allowed, refused)
	}
	st := into[api.State](t, m.as(t, m.admin, "GET", "/api/tf-states/untouched", nil), 200)
	if st.Version != 2 || st.Lock != nil || st.DeletedAt != nil {
		t.Errorf("after all the refusals the state is %+v, want it as it was", st)
	}
}

// cell is one request of the matrix.
func (m *matrix) cell(t *testing.T, row allocation, r httpapi.Route, c caller) {
	t.Helper()
	route := r.Method + " " + r.Path
	backend := strings.HasSuffix(r.Path, "/state") || strings.HasSuffix(r.Path, "/lock")
	may := c.may(row, r)
	name := "untouched"
	switch {
	case c.kind == "attempt":
		name = "the-steps-own"
	case may && !(c.kind == "session" && backend):
		m.state++
		name = fmt.Sprintf("s%d", m.state)
		m.made(t, name)
	}
	known, isKnown := requests[route]
	path := strings.NewReplacer("{name}", name, "{version}", "1").Replace(r.Path)
	a := m.do(t, r.Method, path, known.body, c.with...)
	what := fmt.Sprintf("%s as %s %s with %s allocated to %q", route, c.kind, c.role, row.permission, row.role)
	switch {
	case c.kind == "session" && backend:
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s = %d %s, want 401: sessions are not for the tools", what, a.StatusCode, a.body)
		}
	case c.kind == "attempt" && !backend:
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("%s = %d %s, want 403: a step has its state's backend paths only", what, a.StatusCode, a.body)
		}
	case !may:
		if p := a.problem(t); a.StatusCode != http.StatusForbidden || p.Code != "forbidden" || p.Hint == "" || !strings.Contains(p.Detail, string(r.Permission)) {
			t.Errorf("%s = %d %s, want 403 forbidden with the permission and a hint", what, a.StatusCode, a.body)
		}
	case a.StatusCode == http.StatusUnauthorized, a.StatusCode == http.StatusForbidden && (c.kind != "attempt" || a.problem(t).Code == "forbidden"):
		t.Errorf("%s = %d %s, want it allowed", what, a.StatusCode, a.body)
	case isKnown && c.kind != "attempt" && a.StatusCode != known.status:
		t.Errorf("%s = %d %s, want %d", what, a.StatusCode, a.body, known.status)
	}
}
