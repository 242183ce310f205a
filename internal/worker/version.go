package worker

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/executor"
)

// versionTimeout bounds the question for the tool's version.
const versionTimeout = time.Minute

// fileIdentity tells whether a file is still the one it was.
type fileIdentity struct {
	device, inode uint64
	size, changed int64
}

// askVersion asks the tool for its version, unless its binary is the one that was asked before.
func (w *Worker) askVersion(ctx context.Context) error {
	info, err := os.Stat(w.TofuBin)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "tofu_missing", "HOLDFAST_TOFU_BIN: %s cannot be run.", w.TofuBin).
			WithHint("Install OpenTofu, or name its path in HOLDFAST_TOFU_BIN.")
	}
	var now fileIdentity
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		now = fileIdentity{st.Dev, st.Ino, st.Size, st.Ctim.Nano()}
	}
	if now == w.seen {
		return nil
	}
	home, err := os.MkdirTemp("", "holdfast-version-")
	if err != nil {
		return fmt.Errorf("ask for the tool's version: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	env, err := tofu.Environment(tofu.EnvironmentOptions{Host: w.host, Home: home, TempDir: home})
	if err != nil {
		return err
	}
	out, err := scratch(home)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	_, err = w.exec.Run(ctx, executor.Command{
		Path: w.TofuBin, Args: tofu.VersionArgs(), Dir: home, Env: env, Stdout: out, Timeout: versionTimeout, Grace: time.Second,
	})
	if err != nil {
		return fmt.Errorf("ask for the tool's version: %w", err)
	}
	text, err := whole(out)
	if err != nil {
		return fmt.Errorf("ask for the tool's version: %w", err)
	}
	v, err := tofu.ParseVersion(text)
	if err != nil {
		return err
	}
	w.tool, w.seen = v, now
	return nil
}

// toolName is the tool's name in the protocol.
func toolName(v tofu.Version) string {
	if v.Tool == tofu.Terraform {
		return "terraform"
	}
	return "tofu"
}
