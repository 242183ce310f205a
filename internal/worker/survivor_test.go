package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/id"
)

// TestASurvivorGetsOneInterrupt lets a tool outlive its worker, and two more workers find it.
func TestASurvivorGetsOneInterrupt(t *testing.T) {
	work := t.TempDir()
	attempt := filepath.Join(work, id.New(id.Attempt, time.Now()))
	tool := filepath.Join(work, "tool")
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(filepath.Join(attempt, scratchDir), 0o700), os.WriteFile(tool, shell, 0o700), //nolint:gosec // it has to run
		os.WriteFile(filepath.Join(attempt, scratchDir, applyingFile), []byte("0"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	// It notes each interrupt, and ends once "done" is there.
	script := fmt.Sprintf(`n=0; trap 'n=$((n+1)); echo $n > %[1]s/count' INT TERM; echo up > %[1]s/up; while [ ! -e %[1]s/done ]; do :; done`, attempt)
	cmd := exec.Command(tool, "-c", script)
	cmd.Env = []string{"HOME=" + filepath.Join(attempt, homeDir)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitFor(t, filepath.Join(attempt, "up"))
	w := &Worker{Settings: Settings{WorkDir: work, TofuBin: tool, InterruptGrace: 300 * time.Millisecond}, log: slog.New(slog.DiscardHandler)}
	for range 2 { // the grace passes; this worker dies, too, and the next one finds the tool
		if err := w.survivors(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, filepath.Join(attempt, "count"))
	w.InterruptGrace = time.Minute
	last := make(chan error, 1)
	go func() { last <- w.survivors(t.Context()) }()
	if err := os.WriteFile(filepath.Join(attempt, "done"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-last, <-ended); err != nil {
		t.Error(err)
	}
	count, err := os.ReadFile(filepath.Join(attempt, "count"))
	if err != nil || strings.TrimSpace(string(count)) != "1" {
		t.Errorf("interrupts: got %q, %v, want 1", count, err)
	}
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", path)
		}
		time.Sleep(time.Millisecond)
	}
}
