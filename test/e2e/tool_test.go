package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolMissingOrTooOld: whoever starts Holdfast with a tool that it cannot use is told so at once, by name.
func TestToolMissingOrTooOld(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "tofu")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho '{\"terraform_version\":\"1.5.0\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ tool, want string }{
		"missing": {filepath.Join(t.TempDir(), "nothing"), "HOLDFAST_TOFU_BIN"},
		"too old": {old, "1.5.0 is too old"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "holdfast"), "dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--no-samples")
			cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "HOLDFAST_TOFU_BIN=" + c.tool}
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), c.want) {
				t.Errorf("exit code %d, want 2 and %q in\n%s", code, c.want, out)
			}
		})
	}
}
