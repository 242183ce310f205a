package main

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestTableJudgesByGoals(t *testing.T) {
	tb := newTable()
	tb.set("up", onSQLite, 151)
	tb.set("up", onPostgres, 150)
	tb.set("cycles-1", onSQLite, 599)
	tb.set("cycles-1", onPostgres, 450)
	tb.set("up-tool", onSQLite, 900, 850)
	tb.set("more-32", onSQLite, 8, 16, 17)
	tb.set("more-32", onPostgres, 8, 16, 16)
	var out strings.Builder
	tb.print(&out, "here")
	rows := map[string][]string{}
	for _, row := range strings.Split(out.String(), "\n") {
		if at := strings.Index(row, "  "); at > 0 {
			rows[strings.TrimSpace(row[:at])] = strings.Fields(row[at:])
		}
	}
	for what, want := range map[string]string{
		"`up`, over the tofu commands in it (ms)": "151 * ≤ 150 150 ≤ 150",
		"10 KB cycles/s, 1 worker":                "599 * ≥ 600 450 ≥ 450",
		"memory of one more save of 32 MiB (MiB)": "8 / 16 / 17 * ≤ 16 8 / 16 / 16 ≤ 16",
	} {
		if got := strings.Join(rows[what], " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if !strings.Contains(out.String(), "900 / 850") {
		t.Errorf("a second figure is not shown:\n%s", out.String())
	}
	if strings.Contains(out.String(), "claim") {
		t.Errorf("a line that was not measured is shown:\n%s", out.String())
	}
}

func TestGoalsAreThoseOfBothDatabases(t *testing.T) {
	for _, l := range lines() {
		if n := len(l.goals); n != 0 && n != 2 {
			t.Errorf("%s has %d goals, want none or two", l.key, n)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if values[0] != 5 {
		t.Error("the values were sorted in place")
	}
}

func TestDescendants(t *testing.T) {
	// A shell with a child, which lives until the shell's input ends.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo ready; read end; kill $!")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	all, err := descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	below, err := descendants(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(below) != 1 || !slices.Contains(all, cmd.Process.Pid) || !slices.Contains(all, below[0]) {
		t.Errorf("below this process are %v, below the shell %d are %v; want the shell and one child of it", all, cmd.Process.Pid, below)
	}
}

func TestUnknownPartIsRefused(t *testing.T) {
	if _, err := chosen("cycles,speed"); err == nil || !strings.Contains(err.Error(), "speed") {
		t.Errorf("chosen = %v, want an error that names the part", err)
	}
	if p, err := chosen(""); err != nil || len(p) != len(parts()) {
		t.Errorf("chosen without names = %d parts, %v", len(p), err)
	}
}
