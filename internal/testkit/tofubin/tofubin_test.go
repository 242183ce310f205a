package tofubin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tofu writes an executable that says it is of the given version.
func tofu(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bin", "tofu")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho '{\"terraform_version\": \"" + version + "\"}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	tooOld, recent, built := tofu(t, "1.7.9"), tofu(t, "1.8.0-rc1"), tofu(t, "1.12.6")
	builtIn := filepath.Dir(filepath.Dir(built))
	for _, tt := range []struct {
		name, named, onPath, repository, want, wantErr string
	}{
		{name: "named wins", named: tooOld, onPath: recent, repository: builtIn, want: tooOld},
		{name: "named is missing", named: "/nowhere/tofu", onPath: recent, wantErr: "HOLDFAST_TOFU_BIN"},
		{name: "path before built", onPath: recent, repository: builtIn, want: recent},
		{name: "path too old", onPath: tooOld, repository: builtIn, want: built},
		{name: "none", onPath: tooOld, repository: t.TempDir(), wantErr: "make test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PATH", filepath.Dir(tt.onPath)+":/bin:/usr/bin")
			got, err := find(t.Context(), tt.named, tt.repository)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("find = %q, %v; want an error that names %s", got, err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Fatalf("find = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
