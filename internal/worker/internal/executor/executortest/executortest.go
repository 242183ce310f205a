// Package executortest is what every executor has to pass.
package executortest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/executor"
)

// Run tests what open makes. The executor must be able to run /bin/sh.
func Run(t *testing.T, open func(testing.TB) executor.Executor) {
	for name, test := range map[string]func(*testing.T, executor.Executor){
		"statuses and signals are told apart":      statuses,
		"environment and directory are as given":   environment,
		"standard input is closed":                 stdin,
		"a cancel is one interrupt":                cancel,
		"who is done when interrupted has ended":   doneAnyway,
		"who ignores the interrupt is killed":      stubborn,
		"the limit interrupts, then kills":         limit,
		"the limit does not kill too early":        notBefore,
		"nothing survives, in whatever session":    orphans,
		"a cancelled context starts nothing":       cancelledBefore,
		"a program that is missing is an error":    missing,
		"output does not depend on anyone reading": output,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

type ran struct {
	executor.Result
	out, dir string
}

// shell runs a script with a directory of its own; ready is called once the script has made the file "ready".
func shell(t *testing.T, x executor.Executor, script string, change func(*executor.Command), ready func()) ran {
	t.Helper()
	dir := t.TempDir()
	stdout := file(t, dir, "stdout")
	c := executor.Command{
		Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "DIR=" + dir},
		Stdout: stdout, Stderr: file(t, dir, "stderr"), Timeout: time.Minute, Grace: 20 * time.Second,
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if ready != nil {
		old := ready
		ready = func() { old(); stop() }
	}
	if change != nil {
		change(&c)
	}
	if ready != nil {
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
					ready()
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	r, err := x.Run(ctx, c)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	text, err := os.ReadFile(stdout.Name())
	if err != nil {
		t.Fatal(err)
	}
	return ran{r, string(text), dir}
}

func file(t *testing.T, dir, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func statuses(t *testing.T, x executor.Executor) {
	for script, want := range map[string]tofu.Exit{
		"exit 0":       {Kind: tofu.ExitOK},
		"exit 1":       {Kind: tofu.ExitFailed, Status: 1},
		"exit 11":      {Kind: tofu.ExitCrashed, Status: 11},
		"kill -9 $$":   {Kind: tofu.ExitKilled, Status: -1, Signal: 9},
		"kill -HUP $$": {Kind: tofu.ExitKilled, Status: -1, Signal: 1},
	} {
		if r := shell(t, x, script, nil, nil); r.Exit != want || r.Interrupted || r.Killed || r.TimedOut {
			t.Errorf("%s: got %+v, want %+v and nothing else", script, r.Result, want)
		}
	}
}

func environment(t *testing.T, x executor.Executor) {
	t.Setenv("HOLDFAST_CANARY", "inherited")
	r := shell(t, x, "pwd; env", nil, nil)
	if !strings.HasPrefix(r.out, r.dir+"\n") {
		t.Errorf("directory: got %q, want %s", r.out, r.dir)
	}
	if strings.Contains(r.out, "HOLDFAST_CANARY") || !strings.Contains(r.out, "DIR="+r.dir) {
		t.Errorf("environment: got %q, want what was given and nothing inherited", r.out)
	}
}

func stdin(t *testing.T, x executor.Executor) {
	if r := shell(t, x, "cat; echo end", nil, nil); r.out != "end\n" {
		t.Errorf("reading from standard input: got %q, want its end at once", r.out)
	}
}

// counting counts interrupts in a file and goes on.
const counting = `n=0; trap 'n=$((n+1)); echo $n > interrupts' INT TERM; touch ready; `

func cancel(t *testing.T, x executor.Executor) {
	// Four rounds after the interrupt, so that a second one would be counted.
	r := shell(t, x, counting+`while [ $n = 0 ]; do sleep 0.02; done; for i in 1 2 3 4; do sleep 0.05; done; exit 1`, nil, func() {})
	if n, err := os.ReadFile(filepath.Join(r.dir, "interrupts")); err != nil || string(n) != "1\n" {
		t.Errorf("interrupts: got %q, %v, want 1", n, err)
	}
	if r.Exit.Kind != tofu.ExitFailed || !r.Interrupted || r.Killed || r.TimedOut {
		t.Errorf("got %+v, want interrupted and failed by itself", r.Result)
	}
}

func doneAnyway(t *testing.T, x executor.Executor) {
	r := shell(t, x, counting+`while [ $n = 0 ]; do sleep 0.02; done; exit 0`, nil, func() {})
	if r.Exit.Kind != tofu.ExitOK || !r.Interrupted {
		t.Errorf("got %+v, want interrupted, and done", r.Result)
	}
}

func stubborn(t *testing.T, x executor.Executor) {
	r := shell(t, x, `trap "" INT TERM; touch ready; while :; do sleep 0.05; done`,
		func(c *executor.Command) { c.Grace = 200 * time.Millisecond }, func() {})
	if r.Exit.Kind != tofu.ExitKilled || !r.Interrupted || !r.Killed || r.TimedOut {
		t.Errorf("got %+v, want killed after the grace", r.Result)
	}
}

func limit(t *testing.T, x executor.Executor) {
	r := shell(t, x, `trap "echo asked" INT; while :; do sleep 0.02; done`,
		func(c *executor.Command) { c.Timeout, c.Grace = 600*time.Millisecond, 200*time.Millisecond }, nil)
	if r.out != "asked\n" || r.Exit.Kind != tofu.ExitKilled || !r.Interrupted || !r.Killed || !r.TimedOut {
		t.Errorf("got %+v, output %q, want one interrupt and then the kill", r.Result, r.out)
	}
	if r.Took < 600*time.Millisecond {
		t.Errorf("killed after %v, want not before the limit of 600ms", r.Took)
	}
}

func notBefore(t *testing.T, x executor.Executor) {
	r := shell(t, x, `trap "" INT; while :; do sleep 0.02; done`, func(c *executor.Command) {
		c.Timeout, c.Grace, c.NotBefore = 200*time.Millisecond, 50*time.Millisecond, 800*time.Millisecond
	}, nil)
	if !r.Killed || r.Took < 800*time.Millisecond {
		t.Errorf("got %+v, want killed, not before 800ms", r.Result)
	}
}

func orphans(t *testing.T, x executor.Executor) {
	const leave = `setsid sh -c 'trap "" INT TERM HUP; echo $$ > stubborn; while :; do sleep 0.1; done' &
		setsid setsid sh -c 'sleep 999 & echo $! > nested; wait' &
		(sleep 999 & echo $! > plain)
		while [ ! -s stubborn ] || [ ! -s nested ]; do sleep 0.01; done; touch ready; `
	for name, end := range map[string]string{"by itself": "exit 0", "cancelled": "while :; do sleep 0.05; done"} {
		var ready func()
		if name == "cancelled" {
			ready = func() {}
		}
		r := shell(t, x, leave+end, nil, ready)
		for _, who := range []string{"stubborn", "nested", "plain"} {
			text, err := os.ReadFile(filepath.Join(r.dir, who))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("%s: the %s process %d: got %v, want it gone", name, who, pid, err)
			}
		}
	}
}

func cancelledBefore(t *testing.T, x executor.Executor) {
	why := errors.New("not now")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	dir := t.TempDir()
	_, err := x.Run(ctx, executor.Command{Path: "/bin/sh", Args: []string{"-c", "touch ran"}, Dir: dir, Timeout: time.Minute})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

func missing(t *testing.T, x executor.Executor) {
	_, err := x.Run(t.Context(), executor.Command{Path: "/no/such/program", Dir: t.TempDir(), Timeout: time.Minute})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

func output(t *testing.T, x executor.Executor) {
	r := shell(t, x, `i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done`, nil, nil)
	if r.Exit.Kind != tofu.ExitOK || len(r.out) != 20000*41 {
		t.Errorf("got %+v with %d bytes, want all %d", r.Result, len(r.out), 20000*41)
	}
}
