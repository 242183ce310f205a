package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

type serverKey struct{}

// TestScripts runs the command lines in testdata/script, each against a server of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			s := newServer(scripted{TB: t, defers: e.Defer}, t.TempDir())
			e.Values[serverKey{}], e.Values[testingKey{}] = s, t
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("SERVER", s.url())
			e.Setenv("DATA", s.dir)
			e.Setenv("KEY", platformKey)
			e.Setenv("ADMIN", adminToken)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "json": jsonOnly, "agent": startAgent, "token": makeToken, "signedin": signedIn, "mode": mode, "tofu": realTofu,
		},
	})
}

// scripted ends what it started with the script, not with the test of all scripts.
type scripted struct {
	testing.TB
	defers func(func())
}

func (s scripted) Cleanup(f func()) { s.defers(f) }

// exits runs a program that is to end with that exit code: exits CODE PROGRAM ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// jsonOnly checks that standard output is one JSON document and standard error is empty. Given a place and a value, it
// compares; given a place and $NAME, it keeps the value there: json status succeeded; json items.0.id $RUN
func jsonOnly(ts *testscript.TestScript, neg bool, args []string) {
	if text := ts.ReadFile("stderr"); text != "" {
		ts.Fatalf("standard error holds %q", text)
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		ts.Fatalf("standard output is no JSON: %v", err)
	}
	if rest, _ := io.ReadAll(d.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		ts.Fatalf("after the document stands %q", rest)
	}
	if len(args) == 0 {
		return
	}
	for _, step := range strings.Split(args[0], ".") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(v) {
				ts.Fatalf("%s: no item %s of %d", args[0], step, len(v))
			}
			doc = v[n]
		default:
			doc = nil
		}
	}
	got := fmt.Sprint(doc)
	if name, keep := strings.CutPrefix(args[1], "keep:"); keep {
		ts.Setenv(name, got)
	} else if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q (not: %v)", args[0], got, args[1], neg)
	}
}

func serverOf(ts *testscript.TestScript) (*server, scripted) {
	return ts.Value(serverKey{}).(*server), scripted{TB: ts.Value(testingKey{}).(testing.TB), defers: ts.Defer}
}

// startAgent starts an agent whose plans fail, find no change, or replace something.
func startAgent(ts *testscript.TestScript, _ bool, args []string) {
	s, t := serverOf(ts)
	newAgent(t, s, func(a *agent) {
		for _, arg := range args {
			switch arg {
			case "failing":
				a.fails = "plan failed: Invalid reference"
			case "unchanged":
				a.view = noChange
			case "stuck":
				a.applies = make(chan struct{})
			}
		}
	})
}

// makeToken makes the token of a service user: token NAME ROLE, kept as $NAME. With expired it has ended.
func makeToken(ts *testscript.TestScript, _ bool, args []string) {
	s, t := serverOf(ts)
	in := api.CreateToken{Name: strings.ToLower(args[0]), Role: args[1]}
	expired := len(args) > 2 && args[2] == "expired"
	if expired {
		in.ExpiresIn = "1h"
	}
	made, err := s.client(t, adminToken).CreateToken(t.Context(), in)
	ts.Check(err)
	ts.Setenv(args[0], made.Token)
	if expired {
		s.ahead.Add(int64(2 * time.Hour))
	}
}

// signedIn makes the administrator's token the one that the commands use.
func signedIn(ts *testscript.TestScript, _ bool, _ []string) {
	s, _ := serverOf(ts)
	ts.Setenv("HOLDFAST_ADDR", s.url())
	ts.Setenv("HOLDFAST_TOKEN", adminToken)
}

// realTofu makes a real tofu the one that the commands run, and $TOFU.
func realTofu(ts *testscript.TestScript, _ bool, _ []string) {
	path := tofubin.Path(ts.Value(testingKey{}).(testing.TB))
	ts.Setenv("TOFU", path)
	ts.Setenv("HOLDFAST_TOFU_BIN", path)
}

// mode compares a file's permissions: mode 0600 FILE
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

type testingKey struct{}
