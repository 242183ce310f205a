package app_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/testkit/baotest"
)

// ask is one request of the state protocol, or another one, as the administrator.
func (s *server) ask(t *testing.T, method, path, body string) (status int, text string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func (s *server) want(t *testing.T, method, path, body string, status int) string {
	t.Helper()
	got, text, _ := s.ask(t, method, path, body)
	if got != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

func backendSettings(t *testing.T, address string) []string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(baotest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"HOLDFAST_BOOTSTRAP_TOKEN=" + admin, "HOLDFAST_SECRET_BACKEND_INTERNAL_ADDR=" + address, "HOLDFAST_SECRET_BACKEND_INTERNAL_TOKEN_FILE=" + token}
}

// Over HTTP: a service that is sealed costs a save a 503 that the tools repeat, and nothing else; a server starts
// while it is, and rewrap then brings everything back to the platform key.
func TestKeyServiceFromSettingsToRewrap(t *testing.T) {
	const path, first, second = "/api/tf-states/net/state", `{"version":4,"serial":1,"lineage":"l"}`, `{"version":4,"serial":2,"lineage":"l"}`
	dir, bao := t.TempDir(), baotest.New(t)
	before := start(t, settings(t, dir, "HOLDFAST_BOOTSTRAP_TOKEN="+admin))
	before.want(t, "POST", "/api/tf-states/old/state", first, 200)
	before.stop()
	before.wait(t)

	s := start(t, settings(t, dir, backendSettings(t, bao.URL)...))
	s.want(t, "POST", path, first, 200)
	if text := s.want(t, "GET", "/api/tf-states/net/versions", "", 200); !strings.Contains(text, `"kind":"transit"`) || !strings.Contains(text, `"name":"INTERNAL/holdfast-org_`) {
		t.Errorf("the version list does not tell the key: %s", text)
	}
	bao.Do(func(b *baotest.Server) { b.Sealed = true })
	status, text, header := s.ask(t, "POST", path, second)
	if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(text, "key_service_sealed") || strings.Contains(text, bao.URL) {
		t.Errorf("a save while sealed: %d, Retry-After %q, %s", status, header.Get("Retry-After"), text)
	}
	s.want(t, "GET", "/readyz", "", 503)
	s.want(t, "GET", "/healthz", "", 200)
	if got := s.want(t, "GET", "/api/tf-states/old/state", "", 200); got != first {
		t.Errorf("the platform key's version: %s", got)
	}
	s.stop()
	s.wait(t)

	again := start(t, settings(t, dir, backendSettings(t, bao.URL)...)) // while sealed
	if got := again.want(t, "GET", "/api/tf-states/old/state", "", 200); got != first {
		t.Errorf("the platform key's version: %s", got)
	}
	again.want(t, "GET", path, "", 503)
	bao.Do(func(b *baotest.Server) { b.Sealed = false })
	again.want(t, "GET", "/readyz", "", 200)
	again.want(t, "POST", path, second, 200)
	again.stop()
	again.wait(t)

	back := start(t, settings(t, dir, append(backendSettings(t, bao.URL), "HOLDFAST_TF_STATE_KEY_BACKEND=none")...))
	if text := back.want(t, "POST", "/api/keys/rewrap", "{}", 200); !strings.Contains(text, `"failed":[]`) || strings.Contains(text, `"moved":0`) {
		t.Errorf("rewrap: %s", text)
	}
	if text := back.want(t, "GET", "/api/keys", "", 200); strings.Contains(text, "transit") {
		t.Errorf("keys after the rewrap: %s", text)
	}
	bao.Close()
	if got := back.want(t, "GET", path, "", 200); got != second {
		t.Errorf("after the rewrap, without the service: %s", got)
	}
}

// A platform key that was changed, and everything moved, can be dropped.
func TestPlatformKeyCanBeDropped(t *testing.T) {
	other := base64.StdEncoding.EncodeToString([]byte("another key of thirty-two bytes!"))
	dir := t.TempDir()
	s := start(t, settings(t, dir, "HOLDFAST_BOOTSTRAP_TOKEN="+admin))
	s.want(t, "POST", "/api/tf-states/net/state", `{"version":4,"serial":1,"lineage":"l"}`, 200)
	s.stop()
	s.wait(t)
	with := func(current string, old ...string) *server {
		c := settings(t, dir)
		c.EncryptionKey = redact.NewSecret(current)
		for _, k := range old {
			c.OldEncryptionKeys = append(c.OldEncryptionKeys, redact.NewSecret(k))
		}
		return start(t, c)
	}
	s = with(other, key)
	s.want(t, "POST", "/api/keys/rewrap", "{}", 200)
	s.stop()
	s.wait(t)
	s = with(other)
	s.want(t, "GET", "/api/tf-states/net/state", "", 200)
	if text := s.want(t, "GET", "/api/audit/verify", "", 200); !strings.Contains(text, `"intact":true`) {
		t.Errorf("the audit chain without the old key: %s", text)
	}
}

// Without any key the server starts and says so: what has to be sealed is refused before it is begun, with a status that
// no tool repeats, and the rest works. Once there is a key, all works and the audit chain goes on.
func TestWithoutAKey(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	with := func(sealed bool) *server {
		s := settings(t, dir, "HOLDFAST_BOOTSTRAP_TOKEN="+admin)
		if !sealed {
			s.EncryptionKey = redact.Secret{}
		}
		a, err := build(t.Context(), s, &log)
		if err != nil {
			t.Fatal(err)
		}
		return run(t, a)
	}
	const doc = `{"version":4,"serial":1,"lineage":"l"}`
	s := with(false)
	for _, c := range [][3]string{
		{"GET", "/api/tf-states/net/state"},
		{"LOCK", "/api/tf-states/net/lock", `{"ID":"A"}`},
		{"POST", "/api/tf-states/net/import", doc},
		{"POST", "/api/tf-states/net/rollback", `{"version":1}`},
		{"GET", "/api/tf-states/net/versions/1/content"},
		{"POST", "/api/sources", "\x28\xb5\x2f\xfd"},
		{"POST", "/api/stacks/shop/runs", `{"kind":"deploy","components":[{"name":"main","source":"x"}]}`},
	} {
		status, text, header := s.ask(t, c[0], c[1], c[2])
		if status != 501 || !strings.Contains(text, `"no_key"`) || !strings.Contains(text, "HOLDFAST_TF_STATE_ENCRYPTION_KEY") || header.Get("Retry-After") != "" {
			t.Errorf("%s %s: %d %s, want 501 with the reason and the setting", c[0], c[1], status, text)
		}
	}
	// A save whose lock was taken while there was a key must not be given up.
	if status, text, header := s.ask(t, "POST", "/api/tf-states/net/state", doc); status != 503 || header.Get("Retry-After") == "" || !strings.Contains(text, `"no_key"`) {
		t.Errorf("a save: %d %s, want it told to try again", status, text)
	}
	if text := s.want(t, "GET", "/readyz", "", 503); !strings.Contains(text, "no_key") {
		t.Errorf("readiness: %s", text)
	}
	s.want(t, "GET", "/healthz", "", 200)
	s.want(t, "GET", "/api/tf-states", "", 200)
	s.want(t, "POST", "/api/accounts", `{"name":"dev"}`, 201)
	if text := s.want(t, "GET", "/api/audit/verify", "", 200); !strings.Contains(text, `"intact":true`) || strings.Contains(text, `"unkeyed":0`) {
		t.Errorf("the audit chain without a key: %s", text)
	}
	s.stop()
	s.wait(t)
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "HOLDFAST_TF_STATE_ENCRYPTION_KEY") {
		t.Errorf("the log does not say what is missing: %s", log.String())
	}

	s = with(true)
	s.want(t, "GET", "/readyz", "", 200)
	s.want(t, "POST", "/api/tf-states/net/state", doc, 200)
	if text := s.want(t, "GET", "/api/audit/verify", "", 200); !strings.Contains(text, `"intact":true`) || strings.Contains(text, `"unkeyed":0`) {
		t.Errorf("the audit chain with a key: %s", text)
	}
	s.stop()
	s.wait(t)

	s = with(false) // the key was forgotten: nothing of what it sealed is taken for empty
	s.want(t, "GET", "/api/tf-states/net/state", "", 501)
	s.want(t, "GET", "/api/tf-states/net", "", 200)
	s.want(t, "POST", "/api/accounts", `{"name":"other"}`, 503) // which would be recorded, and the chain has a key
}

func TestWrongKeysStopTheStart(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings(t, t.TempDir())
	s.OldEncryptionKeys = []redact.Secret{s.EncryptionKey}
	s.EncryptionKey = redact.Secret{}
	_, err := build(t.Context(), s, io.Discard)
	if f := fault.From(err); f.Kind != fault.Invalid || !strings.Contains(f.Public, "HOLDFAST_TF_STATE_ENCRYPTION_KEY") || !strings.Contains(f.Hint, "HOLDFAST_TF_STATE_KEY_BACKEND") {
		t.Errorf("with an earlier key alone: %v, hint %q", err, fault.From(err).Hint)
	}
	for name, more := range map[string]string{"a CA file that is none": "HOLDFAST_SECRET_BACKEND_INTERNAL_CA_FILE=" + ca} {
		s := settings(t, t.TempDir(), append(backendSettings(t, "https://bao.example.com"), more)...)
		s.EncryptionKey = redact.Secret{}
		if _, err := build(t.Context(), s, io.Discard); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want it refused", name, err)
		} else if fault.Code(err) != config.CodeInvalid || !strings.Contains(err.Error(), "HOLDFAST_SECRET_BACKEND_INTERNAL_CA_FILE") {
			t.Errorf("%s: %v, want the setting named", name, err)
		}
	}
}
