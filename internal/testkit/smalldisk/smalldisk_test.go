package smalldisk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"holdfast.dev/holdfast/internal/testkit/smalldisk"
)

func TestMain(m *testing.M) {
	smalldisk.Main()
	os.Exit(m.Run())
}

// A command meets the end of its disk, has room again, and nothing of it is seen outside.
func TestDiskIsSmallAndItsOwn(t *testing.T) {
	dir := t.TempDir()
	// Answers each line with what became of writing 256 KiB.
	script := fmt.Sprintf("while read -r _; do if head -c 262144 /dev/zero >%s/file 2>/dev/null; then what=written; else what=full; fi; rm -f %[1]s/file; echo $what; done", dir)
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := smalldisk.On(cmd, dir, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; where users may make no namespaces, root has to run this", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewScanner(out)
	wants := func(want string) {
		t.Helper()
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || answers.Text() != want {
			t.Fatalf("got %q, want %s", answers.Text(), want)
		}
	}
	wants("written")
	disk := smalldisk.Of(cmd.Process.Pid, dir)
	if err := disk.Fill(128 << 10); err != nil {
		t.Fatal(err)
	}
	wants("full")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("outside, %s has %v, %v; want nothing", dir, entries, err)
	}
	if _, err := os.Stat(filepath.Join(disk.Dir(), "ballast")); err != nil {
		t.Errorf("inside: %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	wants("written")
}
