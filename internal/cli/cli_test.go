package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/stack"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("disk"), 1},
		{errInterrupted, 1},
		{ended{3}, 3},
		{fmt.Errorf("watch: %w", ended{3}), 3},
		{config.Invalid("x"), 2},
		{fault.New(fault.Invalid, codeUsage, "x"), 2},
		{fault.New(fault.Unprocessable, "source_syntax", "x"), 2},
		{fault.New(fault.TooLarge, "source_bytes", "x"), 2},
		{fault.New(fault.Unauthenticated, "token_expired", "x"), 4},
		{fault.New(fault.Forbidden, "forbidden", "x"), 4},
		{fault.New(fault.NotFound, "x", "x"), 1},
		{fault.New(fault.Conflict, "plan_changed", "x"), 1},
		{fault.New(fault.Unavailable, "server_unreachable", "x"), 1},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "succeeded"}}), 0},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "failed", Class: "configuration"}}), 1},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "failed", Class: "lost"}}), 1},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "failed", Class: "refused"}}), 3},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "rejected"}}), 3},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "cancelled"}}), 3},
		{runEnd(api.Run{RunListed: api.RunListed{Status: "discarded"}}), 3},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exit code of %v = %d, want %d", c.err, got, c.want)
		}
	}
}

// Whoever meets a command for the first time finds out how it is used.
func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	k, err := kong.New(&root{}, kong.Name("holdfast"))
	if err != nil {
		t.Fatal(err)
	}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, child := range n.Children {
			visit(child)
		}
		if len(n.Children) > 0 || n.Hidden || n.Name == "version" {
			return
		}
		if n.Help == "" || !strings.Contains(n.Detail, "Example") || !strings.Contains(n.Detail, "holdfast "+strings.TrimPrefix(n.Path(), "holdfast ")) && n.Name != "server" {
			t.Errorf("%s: help %q, details %q", n.Path(), n.Help, n.Detail)
		}
	}
	visit(k.Model.Node)
}

func TestInputValues(t *testing.T) {
	for _, c := range []struct{ value, declared, want string }{
		{"3", "number", `"3"`},
		{"true", "bool", `"true"`},
		{"[1]", "string", `"[1]"`},
		{"null", "string", `"null"`},
		{"[1]", "list(number)", `[1]`},
		{`{"a":1}`, "object({ a = number })", `{"a":1}`},
		{`{"a":1}`, "", `{"a":1}`},
		{"{a", "any", `"{a"`},
		{"12345678901234567890", "", `"12345678901234567890"`},
		{"null", "list(string)", `null`},
		{"x y", "list(string)", `"x y"`},
		{"", "string", `""`},
	} {
		if got := inputValue(c.value, c.declared); string(got) != c.want {
			t.Errorf("%q for %q = %s, want %s", c.value, c.declared, got, c.want)
		}
	}
}

func TestInputsAreMergedAndChecked(t *testing.T) {
	declared := []source.Variable{{Name: "region", Type: "string", Required: true}, {Name: "sizes", Type: "list(number)"}, {Name: "n", Type: "number"}}
	f := inputFlags{Input: []string{"region=eu=1", "n=3"}, Inputs: "-"}
	got, err := f.read(strings.NewReader(`{"region":"us","sizes":[12345678901234567890]}`), declared, map[string]json.RawMessage{"n": json.RawMessage("1"), "sizes": json.RawMessage("[]")})
	want := `{"n":"3","region":"eu=1","sizes":[12345678901234567890]}`
	if err != nil || string(got) != want {
		t.Errorf("inputs = %s, %v, want %s", got, err, want)
	}
	for name, c := range map[string]struct {
		flags inputFlags
		stdin string
		code  string
		names string
	}{
		"no pair":      {inputFlags{Input: []string{"s3cr3t-value"}}, "", codeUsage, "NAME=VALUE"},
		"unknown":      {inputFlags{Input: []string{"regoin=s3cr3t-value"}}, "", "unknown_input", "regoin"},
		"missing":      {inputFlags{Input: []string{"n=1"}}, "", "missing_input", "region"},
		"no JSON":      {inputFlags{Inputs: "-"}, "s3cr3t-value", codeUsage, "JSON"},
		"no object":    {inputFlags{Inputs: "-"}, `["s3cr3t-value"]`, codeUsage, "JSON"},
		"missing file": {inputFlags{Inputs: "no-such-file.json"}, "", codeUsage, "no-such-file.json"},
	} {
		_, err := c.flags.read(strings.NewReader(c.stdin), declared, nil)
		if fault.Code(err) != c.code || !strings.Contains(err.Error(), c.names) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: error %v, want %s that names %s and no value", name, err, c.code, c.names)
		}
	}
}

// What the flags and the file do not say stays as the stack has it: an up without --production must not take a stack
// out of production.
func TestSettingsOfAStack(t *testing.T) {
	yes, no := true, false
	have := api.PutStack{Account: "prod", Production: true, Approval: "always", Hold: true}
	for name, c := range map[string]struct {
		flags stackFlags
		file  *stack.Stack
		want  api.PutStack
	}{
		"nothing said":          {stackFlags{}, nil, have},
		"account":               {stackFlags{Account: "b"}, nil, api.PutStack{Account: "b", Production: true, Approval: "always", Hold: true}},
		"still production":      {stackFlags{Production: &yes}, nil, have},
		"out of production":     {stackFlags{Production: &no}, nil, api.PutStack{Account: "prod", Hold: true}},
		"no hold":               {stackFlags{Hold: &no}, nil, api.PutStack{Account: "prod", Production: true, Approval: "always"}},
		"the file":              {stackFlags{}, &stack.Stack{Approval: "never"}, api.PutStack{Account: "prod", Approval: "never"}},
		"flags before the file": {stackFlags{Approval: "always", Account: "c"}, &stack.Stack{Account: "b", Approval: "never"}, api.PutStack{Account: "c", Approval: "always"}},
	} {
		if got := c.flags.over(have, c.file); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for line, want := range map[string][2]bool{"y\n": {true, false}, "Yes\r\n": {true, true}, "yes": {true, true}, "": {}, "n": {}, "yy": {}, "yes please": {}} {
		if got := [2]bool{agrees(line, false), agrees(line, true)}; got != want {
			t.Errorf("%q agrees: %v, want %v", line, got, want)
		}
	}
}

// JSON on a terminal steers it no more than text does, and is the same document.
func TestJSONIsVisible(t *testing.T) {
	text := "a\x00\x1b[31m\u0085\u202e\u200d\U000e0041é\n\t\"\\<&>"
	var b bytes.Buffer
	c := &call{out: &screen{w: &b}}
	if err := c.printJSON(map[string]string{"text": text}); err != nil {
		t.Fatal(err)
	}
	wantPlain(t, "JSON", b.String()[:strings.Index(b.String(), `\u202e`)], false)
	for _, r := range b.String() {
		if r == 0x85 || r == 0x202e || r == 0xe0041 || r == 0x1b {
			t.Errorf("%U is in the document: %q", r, b.String())
		}
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["text"] != text {
		t.Errorf("read back: %q, %v, want %q", got["text"], err, text)
	}
	if !strings.Contains(b.String(), "<&>") {
		t.Errorf("ordinary characters are escaped: %s", b.String())
	}
}

func TestPrintMakesEveryArgumentPlain(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b}
	s.print("%s|%s|%v|%s|%d\n", evil, errors.New(evil), time.Duration(1), styled("\x1b[1mown\x1b[0m"), 3)
	want := `a\x1b[31m\u202eb\r\nc|a\x1b[31m\u202eb\r\nc|1ns|` + "\x1b[1mown\x1b[0m|3\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	if got := s.red(evil); strings.ContainsAny(string(got), "\x1b\r\n") {
		t.Errorf("styled text steers: %q", got)
	}
}

// The plan that was fetched is another one than the run told of: it is neither approved nor asked about.
func TestAPlanThatChangedBeforeItWasShownIsNotAskedAbout(t *testing.T) {
	server, err := client.New(client.Config{Address: "http://127.0.0.1:1", Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	c := &call{Env: Env{Now: time.Now, Stdin: strings.NewReader("yes\n")}, out: &screen{w: &b}, msg: &screen{w: &b}}
	r := api.Run{RunListed: api.RunListed{ID: "run_1", Status: "awaiting_approval", PlanDigest: "sha256:old"}}
	d := &deciding{watching: c.watching(server, r.ID, c.out)}
	d.decided = r.PlanDigest
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := d.show(ctx, r, api.RunPlan{PlanDigest: "sha256:new"}); err != nil {
		t.Fatalf("got %v, want to look again", err)
	}
	if d.decided != "" || !d.fetching || strings.Contains(b.String(), "sha256:old") {
		t.Errorf("decided %q, fetching %v; printed %q", d.decided, d.fetching, b.String())
	}
}

// Two interrupts in a row: what the first one asked for has arrived before the second one leaves.
func TestLeavingDoesNotTakeTheCancelBack(t *testing.T) {
	second := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-second
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"cancelling"}`)
	}))
	defer s.Close()
	server, err := client.New(client.Config{Address: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &call{Env: Env{Now: time.Now}, out: &screen{w: io.Discard}}
	w := c.watching(server, "run_1", c.out)
	w.cancels = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := w.interrupt(ctx); err != nil {
		t.Fatal(err)
	}
	close(second)
	if err := w.interrupt(ctx); !errors.Is(err, errLeft) {
		t.Fatalf("the second interrupt = %v", err)
	}
	select {
	case <-w.cancelled:
	default:
		t.Error("left before the server had answered")
	}
}
