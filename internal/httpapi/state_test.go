package httpapi_test

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

func stateDoc(serial int, lineage string) string {
	return fmt.Sprintf("{\n  \"version\": 4, \"serial\": %d, \"lineage\": %q, \"x\": 9007199254740993\n}\n", serial, lineage)
}

func lockDoc(id string) string {
	return fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypePlan","Info":"","Who":"root@vm","Version":"1.12.6","Created":"2026-11-29T16:36:39.32552424Z","Path":""}`, id)
}

func wantStatus(t *testing.T, a answer, status int) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s = %d %s, want %d", a.Request.Method, a.Request.URL, a.StatusCode, a.body, status)
	}
	return a
}

// wantHolder checks that a conflict's body is the holder's lock document and nothing else.
func wantHolder(t *testing.T, a answer, status int, id string) map[string]any {
	t.Helper()
	wantStatus(t, a, status)
	var doc map[string]any
	if err := json.Unmarshal(a.body, &doc); err != nil || len(doc) != 7 || doc["ID"] != id || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the conflict's body is %s (%s), want the lock document of %s", a.body, a.Header.Get("Content-Type"), id)
	}
	return doc
}

func basic(user, password string) with {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

// The conversation of one apply on an empty state (W1), with both ways to sign in.
func TestStateProtocol(t *testing.T) {
	s := newServer(t)
	const base = "/api/tf-states/net"
	for name, auth := range map[string]with{"bearer": bearer(s.admin), "basic": basic("anybody", s.admin)} {
		base := base + "-" + name
		wantStatus(t, s.do(t, "GET", base+"/state", nil, auth), 404)
		wantStatus(t, s.do(t, "LOCK", base+"/lock", lockDoc("A"), auth), 200)
		wantStatus(t, s.do(t, "GET", base+"/state", nil, auth), 404)
		document := stateDoc(1, "l")
		sum := md5.Sum([]byte(document)) //nolint:gosec // Content-MD5
		md5Header := base64.StdEncoding.EncodeToString(sum[:])
		wantStatus(t, s.do(t, "POST", base+"/state?ID=A", document, auth, header("Content-MD5", md5Header)), 200)
		wantStatus(t, s.do(t, "UNLOCK", base+"/lock", lockDoc("A"), auth), 200)
		got := wantStatus(t, s.do(t, "GET", base+"/state", nil, auth, header("Accept-Encoding", "gzip")), 200)
		if string(got.body) != document {
			t.Errorf("%s: %q came back, want %q", name, got.body, document)
		}
		if got.Header.Get("Content-MD5") != md5Header || got.ContentLength != int64(len(document)) || got.Header.Get("Content-Encoding") != "" ||
			!strings.HasPrefix(got.Header.Get("ETag"), `"`) || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v, length %d; want the sum and length of the document itself", name, got.Header, got.ContentLength)
		}
	}
}

// A large state is as it was too, and is not compressed on its way.
func TestLargeStateComesBack(t *testing.T) {
	s := newServer(t)
	document := `{"version":4,"serial":1,"x":"` + strings.Repeat("0123456789", 300_000) + `"}`
	wantStatus(t, s.do(t, "POST", "/api/tf-states/big/state", document, bearer(s.admin)), 200)
	got := wantStatus(t, s.do(t, "GET", "/api/tf-states/big/state", nil, bearer(s.admin), header("Accept-Encoding", "gzip")), 200)
	if string(got.body) != document || got.ContentLength != int64(len(document)) {
		t.Errorf("%d bytes came back with length %d, want %d", len(got.body), got.ContentLength, len(document))
	}
	if head := s.do(t, "HEAD", "/api/tf-states/big/state", nil, bearer(s.admin)); head.StatusCode != 200 || head.ContentLength != int64(len(document)) || len(head.body) != 0 {
		t.Errorf("HEAD = %d with length %d and %d bytes", head.StatusCode, head.ContentLength, len(head.body))
	}
}

// L02, L07: who is in conflict sees the holder's document.
func TestL02LockConflicts(t *testing.T) {
	s := newServer(t)
	_, ann := s.user(t, "ann", access.Operator)
	_, ben := s.user(t, "ben", access.Operator)
	const base = "/api/tf-states/net"
	wantStatus(t, s.as(t, ann, "LOCK", base+"/lock", lockDoc("A")), 200)
	wantStatus(t, s.as(t, ann, "LOCK", base+"/lock", lockDoc("A")), 200) // W3
	doc := wantHolder(t, s.as(t, ben, "LOCK", base+"/lock", lockDoc("B")), 423, "A")
	if doc["Who"] != "root@vm" || !strings.Contains(fmt.Sprint(doc["Info"]), "held by user ann since") || doc["Created"] != "2026-11-29T16:36:39.32552424Z" {
		t.Errorf("the holder's document is %v", doc)
	}
	wantHolder(t, s.as(t, ben, "POST", base+"/state", stateDoc(1, "l")), 423, "A")
	wantHolder(t, s.as(t, ann, "POST", base+"/state", stateDoc(1, "l")), 423, "A")
	wantHolder(t, s.as(t, ann, "POST", base+"/state?ID=other", stateDoc(1, "l")), 423, "A")
	wantHolder(t, s.as(t, ann, "UNLOCK", base+"/lock", lockDoc("old")), 409, "A")
	wantProblem(t, s.as(t, ben, "UNLOCK", base+"/lock", lockDoc("A")), 403, "force_needs_manage")
	wantStatus(t, s.as(t, ann, "POST", base+"/state?ID=A", stateDoc(1, "l")), 200)
	wantStatus(t, s.as(t, ann, "UNLOCK", base+"/lock", lockDoc("A")), 200)
	wantStatus(t, s.as(t, ann, "UNLOCK", base+"/lock", lockDoc("A")), 200)
	wantProblem(t, s.as(t, ann, "POST", base+"/state?ID=A", stateDoc(2, "l")), 409, "lock_lost")
}

// L01: Terraform's force-unlock, as it is on the wire: an empty chunked body with the sum of nothing.
func TestL01EmptyUnlock(t *testing.T) {
	s := newServer(t)
	_, ann := s.user(t, "ann", access.Operator)
	_, ben := s.user(t, "ben", access.Operator)
	const path = "/api/tf-states/net/lock"
	unlock := func(token string) answer {
		chunked := func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("")), -1 }
		return s.do(t, "UNLOCK", path, nil, bearer(token), header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="), chunked)
	}
	wantStatus(t, s.as(t, ann, "LOCK", path, lockDoc("A")), 200)
	wantProblem(t, unlock(ben), 403, "force_needs_manage")
	wantStatus(t, unlock(s.admin), 200)
	wantStatus(t, unlock(ben), 200) // nothing is held any more
	page := into[api.List[api.AuditRecord]](t, s.as(t, s.admin, "GET", "/api/audit?action=state.force_unlock", nil), 200)
	if len(page.Items) != 1 || page.Items[0].Object != "net" {
		t.Errorf("audited %+v, want the one release by force", page.Items)
	}
}

// L11: the documented methods work, others are 405 with Allow, and DELETE of the state is no unlock.
func TestL11StateMethods(t *testing.T) {
	s := newServer(t)
	const base = "/api/tf-states/net"
	wantStatus(t, s.as(t, s.admin, "POST", base+"/lock", lockDoc("A")), 200)
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/state", "GET, HEAD, POST"},
		{"DELETE", "/state", "GET, HEAD, POST"},
		{"LOCK", "/state", "GET, HEAD, POST"},
		{"UNLOCK", "/state", "GET, HEAD, POST"},
		{"PATCH", "/state", "GET, HEAD, POST"},
		{"PUT", "/lock", "DELETE, LOCK, POST, UNLOCK"},
		{"GET", "/lock", "DELETE, LOCK, POST, UNLOCK"},
	} {
		a := s.as(t, s.admin, c.method, base+c.path, lockDoc("A"))
		if a.StatusCode != 405 || a.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s = %d, Allow %q; want 405 and %q", c.method, c.path, a.StatusCode, a.Header.Get("Allow"), c.allow)
		}
	}
	if v := into[api.State](t, s.as(t, s.admin, "GET", base, nil), 200); v.Lock == nil {
		t.Fatal("a method that is none of the protocol's released the lock")
	}
	wantStatus(t, s.as(t, s.admin, "DELETE", base+"/lock", lockDoc("A")), 200)
	if v := into[api.State](t, s.as(t, s.admin, "GET", base, nil), 200); v.Lock != nil {
		t.Error("DELETE of the lock did not release it")
	}
}

// Sessions never open the backend paths, and Basic opens nothing else.
func TestStateCredentials(t *testing.T) {
	s := newServer(t)
	const base = "/api/tf-states/net"
	wantProblem(t, s.do(t, "GET", base+"/state", nil), 401, "no_credential")
	wantProblem(t, s.do(t, "GET", base+"/state", nil, header("Cookie", "holdfast_session=x")), 401, "no_credential")
	wantProblem(t, s.do(t, "GET", "/api/tf-states", nil, basic("me", s.admin)), 401, "basic_refused")
	wantProblem(t, s.do(t, "GET", base+"/state", nil, basic("me", "hf_pat_wrong")), 401, "token_malformed")
	_, viewer := s.user(t, "vic", access.Viewer)
	wantProblem(t, s.as(t, viewer, "GET", base+"/state", nil), 403, "forbidden")
	wantProblem(t, s.as(t, viewer, "LOCK", base+"/lock", lockDoc("A")), 403, "forbidden")
	agent := s.agent(t, "one", "local")
	wantProblem(t, s.as(t, agent.Token, "GET", base+"/state", nil), 403, "forbidden")
}

// Every refusal of a document, with its status, and nothing stored by any of them.
func TestRefusedDocuments(t *testing.T) {
	s := newServer(t)
	const base = "/api/tf-states/net"
	for _, c := range []struct {
		method, path, body string
		opts               []with
		status             int
		code               string
	}{
		{"POST", "/state", "hello", nil, 400, "invalid_json"},
		{"POST", "/state", "", nil, 400, "invalid_json"},
		{"POST", "/state", stateDoc(1, "l")[:20], nil, 400, "invalid_json"},
		{"POST", "/state", `{"a":1}`, nil, 422, "invalid_state"},
		{"POST", "/state", `{"version":3}`, nil, 422, "state_too_old"},
		{"POST", "/state", stateDoc(1, "l"), []with{header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")}, 400, "md5_mismatch"},
		{"POST", "/state", stateDoc(1, "l"), []with{header("Content-MD5", "nonsense")}, 400, "invalid_md5"},
		{"POST", "/state?ID=gone", stateDoc(1, "l"), nil, 409, "lock_lost"},
		{"LOCK", "/lock", "hello", nil, 400, "invalid_lock"},
		{"LOCK", "/lock", "{}", nil, 400, "invalid_lock"},
		{"LOCK", "/lock", `{"ID":""}`, nil, 400, "invalid_lock"},
		{"LOCK", "/lock", `{"ID":7}`, nil, 400, "invalid_lock"},
		{"LOCK", "/lock", "", nil, 400, "invalid_lock"},
		{"LOCK", "/lock", lockDoc("A"), []with{header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")}, 400, "md5_mismatch"},
		{"LOCK", "/lock", `{"ID":"A","Info":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413, ""},
		{"LOCK", "/lock", `{"ID":"A","Info":"` + strings.Repeat("x", 16<<10) + `"}`, nil, 413, ""},
		{"UNLOCK", "/lock", `{"ID":""}`, nil, 400, "invalid_lock"},
		{"UNLOCK", "/lock", lockDoc("A"), nil, 404, "state_not_found"},
	} {
		a := s.do(t, c.method, base+c.path, c.body, append(c.opts, bearer(s.admin))...)
		p := a.problem(t)
		if a.StatusCode != c.status || c.code != "" && p.Code != c.code {
			t.Errorf("%s %s %.40q = %d %s, want %d %s", c.method, c.path, c.body, a.StatusCode, p.Code, c.status, c.code)
		}
	}
	wantProblem(t, s.as(t, s.admin, "GET", base, nil), 404, "state_not_found")
}

// S12: over the limit is 413, with and without an announced length, and so is what announces more than it could send.
func TestS12StateTooLarge(t *testing.T) {
	s := newServer(t)
	const path = "/api/tf-states/net/state"
	body := `{"version":4,"x":"` + strings.Repeat("x", 33<<20) + `"}`
	wantProblem(t, s.as(t, s.admin, "POST", path, body), 413, "too_large")
	chunked := func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1 }
	wantProblem(t, s.do(t, "POST", path, nil, bearer(s.admin), chunked), 413, "too_large")
}

// X23: a name is a name: nothing in it becomes a path, and what cannot be one is refused.
func TestStateNames(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{"a%2Fb", "..%2f..", "a%20b", "%C3%A4", "a%00b", strings.Repeat("x", 129), "-a", ".a"} {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/state", ""}, {"POST", "/state", stateDoc(1, "l")}, {"LOCK", "/lock", lockDoc("A")}, {"UNLOCK", "/lock", lockDoc("A")}, {"POST", "/import", stateDoc(1, "l")},
		} {
			if a := s.as(t, s.admin, c.method, "/api/tf-states/"+name+c.path, c.body); a.StatusCode != 400 {
				t.Errorf("%s %s%s = %d %s, want 400", c.method, name, c.path, a.StatusCode, a.body)
			}
		}
		if a := s.as(t, s.admin, "GET", "/api/tf-states/"+name, nil); a.StatusCode != 400 && a.StatusCode != 422 {
			t.Errorf("GET %s = %d, want a refusal", name, a.StatusCode)
		}
	}
	wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/A/state", stateDoc(1, "l")), 200)
	wantStatus(t, s.as(t, s.admin, "GET", "/api/tf-states/a/state", nil), 404)
}

func TestStateLists(t *testing.T) {
	s := newServer(t)
	_, viewer := s.user(t, "vic", access.Viewer)
	for _, name := range []string{"net-a", "net-b", "Net-c", "db"} {
		wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/"+name+"/state", stateDoc(3, "lin")), 200)
	}
	wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/sealed/state", `{"serial":1,"lineage":"l","meta":{},"encrypted_data":"eA==","encryption_version":"v0"}`), 200)
	wantStatus(t, s.as(t, s.admin, "LOCK", "/api/tf-states/net-b/lock", lockDoc("it's B")), 200)
	names := func(query string) string {
		t.Helper()
		var all []string
		for _, v := range into[api.List[api.State]](t, s.as(t, viewer, "GET", "/api/tf-states"+query, nil), 200).Items {
			all = append(all, v.Name)
		}
		return strings.Join(all, " ")
	}
	for query, want := range map[string]string{
		"": "Net-c db net-a net-b sealed", "?q=net": "Net-c net-a net-b", "?locked=true": "net-b", "?held=true": "", "?deleted=true": "",
		"?stale=true": "net-b", "?stale=true&q=db": "", "?client_encrypted=true": "sealed",
	} {
		if got := names(query); got != want {
			t.Errorf("list %q = %q, want %q", query, got, want)
		}
	}
	first := into[api.List[api.State]](t, s.as(t, viewer, "GET", "/api/tf-states?limit=3", nil), 200)
	if rest := names("?limit=3&cursor=" + first.Next); len(first.Items) != 3 || rest != "net-b sealed" {
		t.Errorf("pages of %d and %q", len(first.Items), rest)
	}
	v := into[api.State](t, s.as(t, viewer, "GET", "/api/tf-states/net-b", nil), 200)
	if v.Version != 1 || v.Serial == nil || *v.Serial != 3 || v.Lineage != "lin" || v.Size != int64(len(stateDoc(3, "lin"))) || v.UpdatedBy == nil ||
		v.Lock == nil || v.Lock.Holder.Alive != "unknown" || v.Lock.Holder.Evidence == "" || v.Lock.Unlock != `holdfast state unlock net-b --id 'it'\''s B' --force` {
		t.Errorf("state %+v with lock %+v", v, v.Lock)
	}
	versions := into[api.List[api.StateVersion]](t, s.as(t, viewer, "GET", "/api/tf-states/net-b/versions", nil), 200)
	if len(versions.Items) != 1 || !versions.Items[0].Current || versions.Items[0].Key.Kind != "platform" || versions.Items[0].CreatedBy.Kind != "user" {
		t.Errorf("versions %+v", versions.Items)
	}
	if bytes.Contains(s.as(t, viewer, "GET", "/api/tf-states/net-b/versions", nil).body, []byte("9007199254740993")) {
		t.Error("a listing shows content")
	}
}

func TestVersionDownload(t *testing.T) {
	s := newServer(t)
	_, viewer := s.user(t, "vic", access.Viewer)
	wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/net/state", stateDoc(1, "l")), 200)
	wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/net/state", stateDoc(2, "l")), 200)
	const path = "/api/tf-states/net/versions/"
	got := wantStatus(t, s.as(t, s.admin, "GET", path+"1/content", nil), 200)
	if string(got.body) != stateDoc(1, "l") || got.Header.Get("Content-Disposition") != `attachment; filename="net-1.tfstate"` {
		t.Errorf("%q, %v", got.body, got.Header)
	}
	wantProblem(t, s.as(t, viewer, "GET", path+"1/content", nil), 403, "forbidden")
	wantProblem(t, s.as(t, s.admin, "GET", path+"9/content", nil), 404, "version_not_found")
	wantProblem(t, s.as(t, s.admin, "GET", path+"x/content", nil), 400, "invalid_version")
	page := into[api.List[api.AuditRecord]](t, s.as(t, s.admin, "GET", "/api/audit?action=state.download", nil), 200)
	if len(page.Items) != 1 {
		t.Errorf("%d downloads are audited, want the one that was allowed", len(page.Items))
	}
}

func TestStateAdministration(t *testing.T) {
	s := newServer(t)
	_, operator := s.user(t, "ann", access.Operator)
	const base = "/api/tf-states/net"
	v := into[api.StateVersion](t, s.as(t, operator, "POST", base+"/import", stateDoc(7, "l")), 201)
	if v.Version != 1 || v.Source != "import" || !v.Current || v.Serial == nil || *v.Serial != 7 {
		t.Errorf("imported %+v", v)
	}
	wantProblem(t, s.as(t, operator, "POST", base+"/import", stateDoc(7, "l")), 409, "state_exists")
	wantStatus(t, s.as(t, operator, "POST", base+"/state", stateDoc(8, "l")), 200)
	if v = into[api.StateVersion](t, s.as(t, operator, "POST", base+"/rollback", api.PickVersion{Version: 1}), 200); v.Version != 3 || *v.Serial != 9 || v.Source != "rollback" {
		t.Errorf("rolled back to %+v", v)
	}
	wantProblem(t, s.as(t, operator, "POST", base+"/rollback", api.PickVersion{Version: 9}), 404, "version_not_found")
	wantProblem(t, s.as(t, operator, "POST", base+"/accept", api.PickVersion{Version: 1}), 409, "version_not_quarantined")
	wantStatus(t, s.as(t, operator, "LOCK", base+"/lock", lockDoc("A")), 200)
	wantProblem(t, s.as(t, operator, "POST", base+"/rollback", api.PickVersion{Version: 1}), 423, "state_locked")
	wantProblem(t, s.as(t, s.admin, "DELETE", base, nil), 423, "state_locked")
	wantProblem(t, s.as(t, operator, "POST", base+"/force-unlock", nil), 403, "forbidden")
	if st := into[api.State](t, s.as(t, s.admin, "POST", base+"/force-unlock", api.ForceUnlock{Reason: "on call"}), 200); st.Lock != nil {
		t.Errorf("still locked: %+v", st.Lock)
	}
	wantStatus(t, s.as(t, operator, "LOCK", base+"/lock", lockDoc("B")), 200)
	wantProblem(t, s.as(t, s.admin, "POST", base+"/force-unlock", api.ForceUnlock{ID: "A"}), 409, "other_lock")
	if st := into[api.State](t, s.as(t, s.admin, "POST", base+"/force-unlock", nil), 200); st.Lock != nil {
		t.Errorf("without a body: %+v", st.Lock)
	}
	wantProblem(t, s.as(t, operator, "DELETE", base, nil), 403, "forbidden")
	if a := wantStatus(t, s.as(t, s.admin, "DELETE", base, nil), 204); len(a.body) != 0 {
		t.Errorf("S19 the answer to DELETE has a body: %s", a.body)
	}
	for _, c := range []struct{ method, path, body string }{{"GET", "/state", ""}, {"POST", "/state", stateDoc(9, "l")}, {"LOCK", "/lock", lockDoc("A")}, {"UNLOCK", "/lock", lockDoc("A")}} {
		wantProblem(t, s.as(t, operator, c.method, base+c.path, c.body), 410, "state_deleted")
	}
	if l := into[api.List[api.State]](t, s.as(t, operator, "GET", "/api/tf-states?deleted=true", nil), 200); len(l.Items) != 1 || l.Items[0].DeletedAt == nil ||
		l.Items[0].RestorableUntil == nil || !l.Items[0].RestorableUntil.Equal(l.Items[0].DeletedAt.Add(7*24*time.Hour)) {
		t.Errorf("deleted states %+v", l.Items)
	}
	if st := into[api.State](t, s.as(t, s.admin, "POST", base+"/restore", nil), 200); st.DeletedAt != nil || st.Version != 3 {
		t.Errorf("restored %+v", st)
	}
	wantStatus(t, s.as(t, s.admin, "DELETE", base+"?purge=true", nil), 204)
	wantProblem(t, s.as(t, s.admin, "GET", base, nil), 404, "state_not_found")
}

// A body that stops halfway changes nothing, and nothing is answered as if it had.
func TestBodyThatStops(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/tf-states/net/state", r)
	if err != nil {
		t.Fatal(err)
	}
	bearer(s.admin)(req)
	go func() {
		_, _ = io.WriteString(w, `{"version":4,`)
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if resp, err := s.Client().Do(req); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("half a body = %d", resp.StatusCode)
		}
	}
	wantProblem(t, s.as(t, s.admin, "GET", "/api/tf-states/net", nil), 404, "state_not_found")
}

// The command that releases a lock is one that a shell and the command line take as it is meant, whatever id the client
// chose.
func TestUnlockCommandIsSafeToPaste(t *testing.T) {
	s := newServer(t)
	for i, c := range []struct{ id, want string }{
		{"azAZ09-_.", " --id azAZ09-_. --force"},
		{"-f", " --id=-f --force"},
		{"--x y", " --id='--x y' --force"},
		{"a{b", " --id 'a{b' --force"},
		{"a[b", " --id 'a[b' --force"},
		{"a:b", " --id 'a:b' --force"},
		{"a`b", " --id 'a`b' --force"},
		{"a/b", " --id 'a/b' --force"},
		{"é", " --id 'é' --force"},
		{"'$(x)'", ` --id ''\''$(x)'\''' --force`},
	} {
		name := fmt.Sprint("net", i)
		wantStatus(t, s.as(t, s.admin, "LOCK", "/api/tf-states/"+name+"/lock", fmt.Sprintf(`{"ID":%q}`, c.id)), 200)
		v := into[api.State](t, s.as(t, s.admin, "GET", "/api/tf-states/"+name, nil), 200)
		if want := "holdfast state unlock " + name + c.want; v.Lock == nil || v.Lock.Unlock != want {
			t.Errorf("%q: %+v, want the command %s", c.id, v.Lock, want)
		}
	}
}

// What a document does not say is null, an older version is not called current, and an import's parameter is checked.
func TestStateViewsSayWhatIsKnown(t *testing.T) {
	s := newServer(t)
	const base = "/api/tf-states/net"
	wantStatus(t, s.as(t, s.admin, "POST", base+"/state", `{"version":4}`), 200)
	wantStatus(t, s.as(t, s.admin, "POST", base+"/state", `{"version":4,"x":1}`), 200)
	if v := into[api.State](t, s.as(t, s.admin, "GET", base, nil), 200); v.Serial != nil || v.Version != 2 {
		t.Errorf("serial %v of version %d, want none of 2", v.Serial, v.Version)
	}
	page := into[api.List[api.StateVersion]](t, s.as(t, s.admin, "GET", base+"/versions", nil), 200)
	if len(page.Items) != 2 || !page.Items[0].Current || page.Items[1].Current {
		t.Errorf("versions %+v, want the newest current alone", page.Items)
	}
	for _, number := range []string{"0", "-1"} {
		wantProblem(t, s.as(t, s.admin, "GET", base+"/versions/"+number+"/content", nil), 400, "invalid_version")
	}
	wantProblem(t, s.as(t, s.admin, "POST", "/api/tf-states/new/import?replace_deleted=yes", stateDoc(1, "l")), 400, "invalid_request")
	for _, value := range []string{"true", "false", ""} {
		wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/new"+value+"/import?replace_deleted="+value, stateDoc(1, "l")), 201)
	}
	// A state that only has versions that were kept aside has none that is current.
	wantStatus(t, s.as(t, s.admin, "LOCK", "/api/tf-states/kept/lock", lockDoc("A")), 200)
	wantStatus(t, s.as(t, s.admin, "POST", "/api/tf-states/kept/force-unlock", api.ForceUnlock{ID: "A"}), 200)
	wantProblem(t, s.as(t, s.admin, "POST", "/api/tf-states/kept/state?ID=A", stateDoc(1, "l")), 409, "lock_lost")
	page = into[api.List[api.StateVersion]](t, s.as(t, s.admin, "GET", "/api/tf-states/kept/versions", nil), 200)
	if len(page.Items) != 1 || page.Items[0].Current || !page.Items[0].Quarantined {
		t.Errorf("versions %+v, want the one that was kept aside", page.Items)
	}
}
