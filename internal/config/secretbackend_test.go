package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The order of the reference: the named backend, else the internal one, else the platform key; none is always that.
func TestKeyBackendIsChosenBySettings(t *testing.T) {
	token := file(t, "s.token")
	backend := func(tag string) []string {
		return []string{"HOLDFAST_SECRET_BACKEND_" + tag + "_ADDR=https://bao.example.com:8200/", "HOLDFAST_SECRET_BACKEND_" + tag + "_TOKEN_FILE=" + token}
	}
	both := append(backend("INTERNAL"), backend("TEAM_A")...)
	for name, c := range map[string]struct {
		environ []string
		want    string
	}{
		"nothing":                {nil, ""},
		"internal":               {backend("INTERNAL"), "INTERNAL"},
		"another, not named":     {backend("TEAM_A"), ""},
		"another, named":         {append(both, "HOLDFAST_TF_STATE_KEY_BACKEND=TEAM_A"), "TEAM_A"},
		"in small letters":       {append(both, "HOLDFAST_TF_STATE_KEY_BACKEND=team-a"), "TEAM_A"},
		"internal, named":        {append(both, "HOLDFAST_TF_STATE_KEY_BACKEND=internal"), "INTERNAL"},
		"none":                   {append(both, "HOLDFAST_TF_STATE_KEY_BACKEND=none"), ""},
		"an empty value is none": {append(both, "HOLDFAST_TF_STATE_KEY_BACKEND="), "INTERNAL"},
	} {
		s, warnings, err := config.LoadServer(c.environ)
		if err != nil || len(warnings) > 0 || s.KeyBackend != c.want {
			t.Errorf("%s: backend %q, warnings %q, %v; want %q", name, s.KeyBackend, warnings, err, c.want)
		}
	}
	s, _, err := config.LoadServer(append(both, "HOLDFAST_SECRET_BACKEND_TEAM_A_MOUNT=keys", "HOLDFAST_SECRET_BACKEND_TEAM_A_NAMESPACE=ns",
		"HOLDFAST_SECRET_BACKEND_TEAM_A_AUTH_MOUNT=k8s", "HOLDFAST_SECRET_BACKEND_TEAM_A_AUTH=kubernetes", "HOLDFAST_SECRET_BACKEND_TEAM_A_ROLE=holdfast",
		"HOLDFAST_SECRET_BACKEND_TEAM_A_JWT_FILE="+token, "HOLDFAST_SECRET_BACKEND_TEAM_A_CA_FILE="+token))
	if err != nil {
		t.Fatal(err)
	}
	got := s.SecretBackends["TEAM_A"]
	if got.Addr.String() != "https://bao.example.com:8200" {
		t.Errorf("address %s", got.Addr)
	}
	got.Addr = nil
	if want := (config.SecretBackend{Mount: "keys", Namespace: "ns", AuthMount: "k8s", Auth: "kubernetes", Role: "holdfast", JWTFile: token, CAFile: token, TokenFile: token}); got != want {
		t.Errorf("backend = %+v, want %+v", got, want)
	}
	if len(s.SecretBackends) != 2 {
		t.Errorf("%d backends, want 2: AUTH_MOUNT is no setting of a tag TEAM_A_AUTH", len(s.SecretBackends))
	}
}

// Whatever is half set up stops the start, and is named.
func TestHalfSetUpBackendsAreNamed(t *testing.T) {
	token, empty := file(t, "s.token"), file(t, " \n")
	const x = "HOLDFAST_SECRET_BACKEND_X_"
	addr := x + "ADDR=https://bao.example.com"
	for name, c := range map[string]struct {
		environ []string
		want    []string
	}{
		"an unknown tag":       {[]string{"HOLDFAST_TF_STATE_KEY_BACKEND=vault"}, []string{"HOLDFAST_TF_STATE_KEY_BACKEND", "HOLDFAST_SECRET_BACKEND_VAULT_ADDR"}},
		"no tag at all":        {[]string{"HOLDFAST_TF_STATE_KEY_BACKEND=a/b"}, []string{"HOLDFAST_TF_STATE_KEY_BACKEND", "letters"}},
		"no address":           {[]string{x + "TOKEN_FILE=" + token}, []string{x + "ADDR"}},
		"no address, internal": {[]string{"HOLDFAST_SECRET_BACKEND_INTERNAL_MOUNT=x"}, []string{"HOLDFAST_SECRET_BACKEND_INTERNAL_ADDR", "HOLDFAST_SECRET_BACKEND_INTERNAL_TOKEN_FILE"}},
		"a wrong address":      {[]string{x + "ADDR=bao.example.com:8200", x + "TOKEN_FILE=" + token}, []string{x + "ADDR", "bao.example.com:8200"}},
		"no token":             {[]string{addr}, []string{x + "TOKEN_FILE"}},
		"no token file":        {[]string{addr, x + "TOKEN_FILE=/nonexistent/token"}, []string{x + "TOKEN_FILE", "/nonexistent/token", "cannot be read"}},
		"an empty token file":  {[]string{addr, x + "TOKEN_FILE=" + empty}, []string{x + "TOKEN_FILE", "empty"}},
		"no role id":           {[]string{addr, x + "AUTH=approle"}, []string{x + "ROLE_ID_FILE"}},
		"no secret id file":    {[]string{addr, x + "AUTH=approle", x + "ROLE_ID_FILE=" + token, x + "SECRET_ID_FILE=/nonexistent/id"}, []string{x + "SECRET_ID_FILE"}},
		"no role":              {[]string{addr, x + "AUTH=kubernetes", x + "JWT_FILE=" + token}, []string{x + "ROLE "}},
		"no service account":   {[]string{addr, x + "AUTH=kubernetes", x + "ROLE=r"}, []string{x + "JWT_FILE"}},
		"another way":          {[]string{addr, x + "AUTH=password"}, []string{x + "AUTH", "approle"}},
		"no CA file":           {[]string{addr, x + "TOKEN_FILE=" + token, x + "CA_FILE=/nonexistent/ca"}, []string{x + "CA_FILE"}},
	} {
		_, warnings, err := config.LoadServer(append(c.environ, "HOLDFAST_PLAN_MAX_AGE_HOURS=x"))
		if fault.Code(err) != config.CodeInvalid || len(warnings) > 0 {
			t.Errorf("%s: error %v, warnings %q, want code %s", name, err, warnings, config.CodeInvalid)
			continue
		}
		for _, want := range append(c.want, "HOLDFAST_PLAN_MAX_AGE_HOURS") {
			if text := fault.From(err).Public; !strings.Contains(text, want) {
				t.Errorf("%s: error %q does not say %s", name, text, want)
			}
		}
	}
}

func TestUnknownSettingsOfABackendAreWarnedOf(t *testing.T) {
	_, warnings, err := config.LoadServer([]string{"HOLDFAST_SECRET_BACKEND_X_ADRESS=https://x", "HOLDFAST_SECRET_BACKEND_ADDR=https://x", "HOLDFAST_SECRET_BACKEND_x_ADDR=https://x"})
	if err != nil || len(warnings) != 3 || !strings.Contains(strings.Join(warnings, "|"), "did you mean HOLDFAST_SECRET_BACKEND_<TAG>_ADDR?") {
		t.Errorf("warnings %q, %v, want three", warnings, err)
	}
	// Other programs' environments may hold the server's.
	_, warnings, err = config.LoadBroker([]string{"HOLDFAST_SECRET_BACKEND_X_ADDR=https://x", "HOLDFAST_BROKER=x"})
	if strings.Contains(strings.Join(warnings, "|"), "SECRET_BACKEND") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}
