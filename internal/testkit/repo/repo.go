// Package repo finds the repository that a test runs in, and what is built into its bin.
package repo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Root is the repository's folder: the nearest one with a go.mod, from the working directory up.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no go.mod above the working directory")
		}
		dir = parent
	}
}

// Built is the path of a program in the repository's bin. Where it is missing, the error names the command that builds it.
func Built(program, command string) (string, error) {
	dir, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", program)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("there is no bin/%s to test with: `make test` and `%s` build it: %w", program, command, err)
	}
	return path, nil
}
