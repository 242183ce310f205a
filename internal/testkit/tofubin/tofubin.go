// Package tofubin tells tests which tofu to run.
package tofubin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-version"

	"holdfast.dev/holdfast/internal/testkit/repo"
)

// versionTimeout bounds the question for a version.
const versionTimeout = 30 * time.Second

// Path returns the absolute path of the tofu to test with: HOLDFAST_TOFU_BIN, else tofu 1.8 or later on PATH, else the
// one built into bin/. The same rule as scripts/tofu, which also builds. Without any the test fails.
func Path(t testing.TB) string {
	t.Helper()
	dir, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	path, err := find(t.Context(), os.Getenv("HOLDFAST_TOFU_BIN"), dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Terraform returns the path of terraform 1.9 or later on PATH. It is not free software and therefore never built here, so
// ok is false where there is none.
func Terraform(t testing.TB) (path string, ok bool) {
	t.Helper()
	path, err := exec.LookPath("terraform")
	if err != nil {
		return "", false
	}
	return path, atLeast(t.Context(), path, "1.9")
}

func find(ctx context.Context, named, repository string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("HOLDFAST_TOFU_BIN: %w; correct or unset it", err)
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("tofu"); err == nil && atLeast(ctx, path, "1.8") {
		return filepath.Abs(path)
	}
	built := filepath.Join(repository, "bin", "tofu")
	if _, err := exec.LookPath(built); err == nil {
		return built, nil
	}
	return "", errors.New("no tofu to test with: none in HOLDFAST_TOFU_BIN, none of 1.8 or later on PATH, none in bin/; " +
		"`make test` and `scripts/tofu` build the pinned one")
}

// atLeast is false also for what does not say a version.
func atLeast(ctx context.Context, path, minimum string) bool {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version", "-json").Output()
	if err != nil {
		return false
	}
	var report struct {
		Version string `json:"terraform_version"` // tofu says it by this name, too
	}
	if json.Unmarshal(out, &report) != nil {
		return false
	}
	has, err := version.NewVersion(report.Version)
	return err == nil && has.Core().GreaterThanOrEqual(version.Must(version.NewVersion(minimum)))
}
