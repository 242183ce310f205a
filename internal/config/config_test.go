package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

func TestServerDefaults(t *testing.T) {
	c, warnings, err := config.LoadServer(nil)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("LoadServer = %v, warnings %q, want neither", err, warnings)
	}
	if c.ListenAddr != "127.0.0.1:8480" || c.StateMaxBytes != 33554432 || c.KeepVersions != 50 || c.StepTimeout != 45*time.Minute ||
		c.DeletedKeep != 7*24*time.Hour || c.RunEndGrace != 10*time.Minute || c.HeartbeatTimeout != 2*time.Minute || c.PlanMaxAge != 0 {
		t.Errorf("defaults = %+v", c)
	}
	if got, want := c.DatabaseURL.Reveal(), "sqlite:/var/lib/holdfast/holdfast.db"; got != want {
		t.Errorf("DatabaseURL = %q, want %q", got, want)
	}
}

func TestEveryServerDefaultIsShownWithHelp(t *testing.T) {
	s := config.ServerSettings(&config.Server{})
	help := s.Help()
	for _, x := range s.Settings() {
		if !strings.Contains(help, x.Name+" (") || x.Help == "" {
			t.Errorf("%s is not in the help, or has none", x.Name)
		}
		if x.Default != "" && !strings.Contains(help, "("+x.Default+")") {
			t.Errorf("the help does not show the default %q of %s", x.Default, x.Name)
		}
	}
}

func TestMalformedSettingsAreAllNamed(t *testing.T) {
	const secret = "short-but-secret"
	for _, line := range []string{
		"HOLDFAST_LISTEN_ADDR=8480", "HOLDFAST_LISTEN_ADDR=localhost:http", "HOLDFAST_BASE_URL=holdfast.example.com",
		"HOLDFAST_BASE_URL=https://u:p@host", "HOLDFAST_DATABASE_URL=mysql://" + secret, "HOLDFAST_BOOTSTRAP_TOKEN=" + secret,
		"HOLDFAST_TF_STATE_MAX_BYTES=134217729", "HOLDFAST_TF_STATE_MAX_BYTES=32MB", "HOLDFAST_TF_STATE_KEEP_VERSIONS=0",
		"HOLDFAST_TOFU_TIMEOUT_MINUTES=-1", "HOLDFAST_LOG_LEVEL=loud", "HOLDFAST_TRUSTED_PROXIES=proxy.local",
		"HOLDFAST_TF_STATE_KEY_BACKEND=vault", "HOLDFAST_BOOTSTRAP_TOKEN_FILE=/nonexistent/token",
	} {
		name, _, _ := strings.Cut(line, "=")
		_, _, err := config.LoadServer([]string{"HOLDFAST_PLAN_MAX_AGE_HOURS=x", line})
		if fault.Code(err) != config.CodeInvalid {
			t.Errorf("%s: error %v, want code %s", line, err, config.CodeInvalid)
			continue
		}
		text := fault.From(err).Public
		if !strings.Contains(text, strings.TrimSuffix(name, "_FILE")) || !strings.Contains(text, "HOLDFAST_PLAN_MAX_AGE_HOURS") {
			t.Errorf("%s: error %q does not name both settings", line, text)
		}
		if strings.Contains(text, secret) {
			t.Errorf("%s: error %q shows the secret", line, text)
		}
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	token := strings.Repeat("x", 40)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := config.LoadServer([]string{"HOLDFAST_BOOTSTRAP_TOKEN_FILE=" + path})
	if err != nil || len(warnings) != 0 {
		t.Fatalf("LoadServer = %v, warnings %q", err, warnings)
	}
	if got := c.BootstrapToken.Reveal(); got != token {
		t.Errorf("token = %q, want %q", got, token)
	}
	_, _, err = config.LoadServer([]string{"HOLDFAST_BOOTSTRAP_TOKEN_FILE=" + path, "HOLDFAST_BOOTSTRAP_TOKEN=" + token})
	if err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("both forms: error %v, want one that says given twice", err)
	}
}

func TestUnknownSettingsAreWarnedOf(t *testing.T) {
	_, warnings, err := config.LoadServer([]string{
		"HOLDFAST_LISTEN_ADR=x", "HOLDFAST_WHATEVER_ELSE_THERE_IS=1", "HOLDFAST_TOKEN=t",
		"HOLDFAST_TEST_DATABASE_URL=x", "OTHER=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"unknown setting HOLDFAST_LISTEN_ADR; did you mean HOLDFAST_LISTEN_ADDR?", "unknown setting HOLDFAST_WHATEVER_ELSE_THERE_IS"}
	if strings.Join(warnings, "|") != strings.Join(want, "|") {
		t.Errorf("warnings = %q, want %q", warnings, want)
	}
}

func TestOldKeysAreAList(t *testing.T) {
	c, _, err := config.LoadServer([]string{"HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS=aaa, bbb,"})
	if err != nil || len(c.OldEncryptionKeys) != 2 || c.OldEncryptionKeys[1].Reveal() != "bbb" {
		t.Errorf("old keys = %d, %v, want aaa and bbb", len(c.OldEncryptionKeys), err)
	}
}
