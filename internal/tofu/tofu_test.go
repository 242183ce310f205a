package tofu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

var tools = []string{"opentofu", "terraform"}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestArgs(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  []string
		want string
	}{
		{"init", InitArgs(false), "init -input=false -no-color -reconfigure"},
		{"init, lock file shipped", InitArgs(true), "init -input=false -no-color -reconfigure -lockfile=readonly"},
		{"get", GetArgs(), "get -no-color"},
		{"validate", ValidateArgs(), "validate -json -no-color"},
		{"plan", PlanArgs(PlanOptions{Out: "hf.tfplan"}), "plan -input=false -no-color -json -out=hf.tfplan -lock-timeout=0s"},
		{
			"plan to destroy", PlanArgs(PlanOptions{Out: "p", Mode: Destroy, LockTimeout: 90 * time.Second}),
			"plan -input=false -no-color -json -out=p -lock-timeout=1m30s -destroy",
		},
		{
			"drift scan", PlanArgs(PlanOptions{Out: "p", Mode: RefreshOnly, NoLock: true, VarFile: "v.json"}),
			"plan -input=false -no-color -json -out=p -lock=false -refresh-only -var-file=v.json",
		},
		{"show", ShowArgs("p"), "show -json -no-color p"},
		{"apply", ApplyArgs("p", time.Minute), "apply -input=false -no-color -json -lock-timeout=1m0s p"},
		{"output", OutputArgs(), "output -json -no-color"},
		{"version", VersionArgs(), "version -json"},
	} {
		if got := strings.Join(tc.got, " "); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	host := []string{
		"PATH=/bin", "HOME=/home/worker", "TMPDIR=/t", "TZ=UTC", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=s",
		"HOLDFAST_AGENT_TOKEN=hf_agt_x", "TF_CLI_ARGS_plan=-destroy", "TF_LOG=trace", "TF_DATA_DIR=/elsewhere", "LD_PRELOAD=/x.so", "TF_CLI_CONFIG_FILE=/mine",
		"HTTPS_PROXY=http://p", "ARM_TENANT_ID=", "broken",
	}
	got, err := Environment(EnvironmentOptions{
		Host: host, Home: "/w/.home", TempDir: "/w/.tmp",
		Backend: &Backend{Address: "http://127.0.0.1:1/state", Username: "u", Password: redact.NewSecret("one-attempt")},
		Set:     map[string]string{"AWS_PROFILE": "runner", "AWS_REGION": "eu-north-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ARM_TENANT_ID=", "AWS_PROFILE=runner", "AWS_REGION=eu-north-1", "CHECKPOINT_DISABLE=1", "HOME=/w/.home", "PATH=/bin",
		"TF_CLI_CONFIG_FILE=/dev/null", "TF_HTTP_ADDRESS=http://127.0.0.1:1/state", "TF_HTTP_LOCK_ADDRESS=http://127.0.0.1:1/state/lock",
		"TF_HTTP_PASSWORD=one-attempt", "TF_HTTP_UNLOCK_ADDRESS=http://127.0.0.1:1/state/lock", "TF_HTTP_USERNAME=u",
		"TF_INPUT=0", "TF_IN_AUTOMATION=1", "TMPDIR=/w/.tmp", "TZ=UTC",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEnvironmentOptions(t *testing.T) {
	base := EnvironmentOptions{Home: "/h", TempDir: "/t"}
	for _, tc := range []struct {
		name       string
		change     func(*EnvironmentOptions)
		want, code string
	}{
		{"no PATH", func(*EnvironmentOptions) {}, "PATH=" + defaultPath, ""},
		{"data dir", func(o *EnvironmentOptions) { o.DataDir = "/d" }, "TF_DATA_DIR=/d", ""},
		{"CLI config", func(o *EnvironmentOptions) { o.CLIConfig = "/c" }, "TF_CLI_CONFIG_FILE=/c", ""},
		{"lock elsewhere", func(o *EnvironmentOptions) { o.Backend = &Backend{Address: "a", Lock: "l"} }, "TF_HTTP_UNLOCK_ADDRESS=l", ""},
		{"no home", func(o *EnvironmentOptions) { o.Home = "" }, "", "environment_incomplete"},
		{"steering", func(o *EnvironmentOptions) { o.Set = map[string]string{"TF_CLI_ARGS": "-destroy"} }, "", "variable_refused"},
		{"NUL", func(o *EnvironmentOptions) { o.Set = map[string]string{"AWS_PROFILE": "a\x00b"} }, "", "variable_value"},
	} {
		o := base
		tc.change(&o)
		got, err := Environment(o)
		if fault.Code(err) != tc.code || tc.code == "" && !slices.Contains(got, tc.want) {
			t.Errorf("%s: got %q, %v; want %q, code %q", tc.name, got, err, tc.want, tc.code)
		}
	}
	o := base
	o.Backend = &Backend{Address: "a", NoLock: true}
	got, err := Environment(o)
	if err != nil || strings.Contains(strings.Join(got, " "), "LOCK_ADDRESS") {
		t.Errorf("without a lock: %q, %v", got, err)
	}
}

func TestX13_VariablesThatSteerTofu(t *testing.T) {
	for _, name := range []string{
		"TF_CLI_ARGS", "TF_CLI_ARGS_apply", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_PLUGIN_CACHE_DIR", "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE",
		"TF_REATTACH_PROVIDERS", "TF_ENCRYPTION", "TF_HTTP_ADDRESS", "TF_HTTP_PASSWORD", "TF_WORKSPACE", "TF_LOG", "TF_LOG_PATH", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
		"GIT_EXTERNAL_DIFF", "LD_PRELOAD", "PATH", "HOME", "SSL_CERT_FILE", "HTTPS_PROXY", "NETRC", "BASH_ENV", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"TERRAFORM_CONFIG", "TOFU_CPU_PROFILE", "TOFU_X_EXPERIMENTAL_RUNTIME", "TF_STATE_PERSIST_INTERVAL", "TF_FORCE_LOCAL_BACKEND", "TF_TOKEN_example_com", "TF_VAR_x",
		"TMPDIR", "TF_INPUT", "GODEBUG", "BROWSER", "XDG_CONFIG_HOME", "tf_cli_args", "http_proxy", "HOLDFAST_AGENT_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"", "A=B", "AWS_PROFILE ", "AWS_PROFILE\x00", "aws_profile", "UNKNOWN",
	} {
		err := CheckVariableName(name)
		if fault.Code(err) != "variable_refused" || fault.From(err).Hint == "" {
			t.Errorf("CheckVariableName(%q) = %v, want a refusal with a hint", name, err)
		}
	}
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "ARM_CLIENT_ID", "GOOGLE_CLOUD_PROJECT", "TZ"} {
		if err := CheckVariableName(name); err != nil {
			t.Errorf("CheckVariableName(%q) = %v, want nil", name, err)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for _, tc := range []struct{ in, want, code string }{
		{string(recorded(t, "opentofu.version.json")), "OpenTofu 1.12.6", ""},
		{string(recorded(t, "terraform.version.json")), "Terraform 1.11.4", ""},
		{`{"terraform_version":"1.8.0"}`, "OpenTofu 1.8.0", ""},
		{`{"terraform_version":"1.12.6-dev"}`, "OpenTofu 1.12.6-dev", ""},
		{`{"terraform_version":"2.0.0"}`, "OpenTofu 2.0.0", ""},
		{`{"terraform_version":"1.9.0","terraform_outdated":true}`, "Terraform 1.9.0", ""},
		{`{"terraform_version":"1.7.9"}`, "OpenTofu 1.7.9", "tofu_too_old"},
		{`{"terraform_version":"0.15.5"}`, "OpenTofu 0.15.5", "tofu_too_old"},
		{`{"terraform_version":"1.8.5","terraform_outdated":true}`, "Terraform 1.8.5", "tofu_too_old"},
		{`{"terraform_version":"1.8"}`, "", "tofu_unknown"},
		{`{"terraform_version":"99999999999999999999.1.1"}`, "", "tofu_unknown"},
		{`{}`, "", "tofu_unknown"},
		{`GNU bash 5`, "", "tofu_unknown"},
		{``, "", "tofu_unknown"},
	} {
		v, err := ParseVersion([]byte(tc.in))
		if fault.Code(err) != tc.code {
			t.Errorf("ParseVersion(%.60q) = %v, want code %q", tc.in, err, tc.code)
		}
		if got := v.String(); tc.want != "" && got != tc.want {
			t.Errorf("ParseVersion(%.60q) = %q, want %q", tc.in, got, tc.want)
		}
		if err != nil && fault.From(err).Hint == "" {
			t.Errorf("ParseVersion(%.60q): no hint", tc.in)
		}
	}
}

func decodeAll(t testing.TB, in io.Reader) []Line {
	t.Helper()
	var lines []Line
	d := NewDecoder(in)
	for {
		l, err := d.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
}

func TestProgressOfRealStreams(t *testing.T) {
	for _, tool := range tools {
		var p Progress
		for _, l := range decodeAll(t, iotest.OneByteReader(bytes.NewReader(recorded(t, tool+".plan.jsonl")))) {
			if l.Type == Text {
				t.Errorf("%s: not understood: %q", tool, l.Message)
			}
			p.See(l)
		}
		if want := (Progress{Planned: 1, Last: "terraform_data.a"}); p != want {
			t.Errorf("%s: progress of the plan = %+v, want %+v", tool, p, want)
		}
		p = Progress{} // the apply of a saved plan is a command of its own
		for _, l := range decodeAll(t, bytes.NewReader(recorded(t, tool+".apply.jsonl"))) {
			p.See(l)
			if l.Type == "provision_progress" && p.Running != 1 {
				t.Errorf("%s: running = %d while provisioning, want 1", tool, p.Running)
			}
		}
		if want := (Progress{Planned: 1, Done: 1, Last: "terraform_data.a"}); p != want {
			t.Errorf("%s: progress = %+v, want %+v", tool, p, want)
		}
	}
}

func TestProgressNeverRunsOver(t *testing.T) {
	var p Progress
	for _, l := range []Line{
		{Type: "planned_change", Action: "replace"},
		{Type: "planned_change", Action: "move"},
		{Type: "apply_start", Action: "read"},
		{Type: "apply_complete", Action: "read"},
		{Type: "apply_complete", Action: "delete"},
		{Type: "apply_start", Action: "create"},
		{Type: "apply_errored", Action: "create"},
		{Type: "apply_complete", Action: "update"},
		{Type: "refresh_complete", Resource: "a.b"},
		{Type: "change_summary", Changes: &Summary{Add: 9, Operation: "apply"}},
		{Type: "change_summary"},
	} {
		p.See(l)
	}
	if want := (Progress{Planned: 3, Done: 2, Failed: 1, Refreshed: 1, Last: "a.b"}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	p = Progress{}
	p.See(Line{Type: "planned_change", Action: "create"})
	p.See(Line{Type: "change_summary", Changes: &Summary{Add: 1, Remove: 1, Forget: 3, Operation: "plan"}})
	if p.Planned != 2 {
		t.Errorf("planned = %d, want the summary's 2", p.Planned)
	}
}

func TestDiagnosticText(t *testing.T) {
	for _, tool := range tools {
		lines := decodeAll(t, bytes.NewReader(recorded(t, tool+".failed.jsonl")))
		want := strings.Join([]string{
			"Error: Resource precondition failed",
			`  at main.tf:7:23, in resource "terraform_data" "a"`,
			`      7:       condition     = var.size == "two"`,
			`                               ^^^^^^^^^^^^^^^^^`,
			`    var.size is "three"`,
			"  size must be two",
		}, "\n")
		if got := lines[len(lines)-1].Text(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tool, got, want)
		}
	}
	for _, tc := range []struct {
		in   Diagnostic
		want string
	}{
		{Diagnostic{Severity: "warning", Summary: "Two\nlines", Address: "a.b"}, "Warning: Two lines\n  with a.b"},
		{Diagnostic{Severity: "error", Summary: "S", Detail: "\none\r\n\ntwo\n"}, "Error: S\n  one\n  \n  two"},
		{
			Diagnostic{Severity: "error", Summary: "S", Snippet: &Snippet{Code: "\tα = βγ", StartLine: 3, HighlightStart: 6, HighlightEnd: 10}},
			"Error: S\n      3: \tα = βγ\n         \t    ^^",
		},
		{
			Diagnostic{Severity: "error", Summary: "S", Snippet: &Snippet{Code: "a\nbb\nc", StartLine: 1, HighlightStart: 2, HighlightEnd: 99}},
			"Error: S\n      1: a\n      2: bb\n         ^^\n      3: c\n         ^",
		},
		{Diagnostic{Severity: "error", Summary: "S", Snippet: &Snippet{Code: "a", HighlightStart: -5, HighlightEnd: -1}}, "Error: S\n      0: a"},
	} {
		if got := tc.in.Text(); got != tc.want {
			t.Errorf("got\n%q\nwant\n%q", got, tc.want)
		}
	}
	long := Diagnostic{Snippet: &Snippet{Code: strings.Repeat("x\n", 1000), Values: make([]Value, 1000)}}
	if got := long.Text(); len(got) > 1000 {
		t.Errorf("an endless snippet renders to %d bytes", len(got))
	}
}

func TestLineText(t *testing.T) {
	for _, tc := range []struct{ in, kind, want string }{
		{`{"@level":"info","@message":"a.b: Creating...","type":"apply_start","hook":{"resource":{"addr":"a.b"},"action":"create"}}`, "apply_start", "a.b: Creating..."},
		{`{"@level":"info","@message":"\nInterrupt received.\nPlease wait\n","type":"log"}`, "log", "Interrupt received.\nPlease wait"},
		{`{"@message":"future","type":"brand_new","hook":[1,2],"changes":"odd"}`, "brand_new", "future"},
		{`{"@message":"cut in the mid`, Text, `{"@message":"cut in the mid`},
		{`{"@message":"said","type":"outputs","outputs":{"x":{"value":"cut here`, "outputs", "said"},
		{`{"some":"json"}`, Text, `{"some":"json"}`},
		{`  indented warning`, Text, "  indented warning"},
		{"windows\r\n", Text, "windows"},
		{``, Text, ""},
		{`[]`, Text, "[]"},
		{`{`, Text, "{"},
		{"\xff\xfe", Text, "\xff\xfe"},
	} {
		l := ParseLine([]byte(tc.in))
		if l.Type != tc.kind || l.Text() != tc.want {
			t.Errorf("ParseLine(%q) = %q %q, want %q %q", tc.in, l.Type, l.Text(), tc.kind, tc.want)
		}
	}
}

func TestR27_DecoderIsBounded(t *testing.T) {
	long := `{"@level":"info","@message":"Outputs: 1","type":"outputs","outputs":{"o":{"value":"` + strings.Repeat("0123456789", 1_000_000) + `"}}}`
	in := "first\n" + long + "\n" + strings.Repeat("x", MaxLineBytes) + "\nlast"
	lines := decodeAll(t, strings.NewReader(in))
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want 4", len(lines))
	}
	if l := lines[1]; !l.Cut || l.Type != "outputs" || !strings.HasPrefix(l.Text(), "Outputs: 1 [line cut at ") {
		t.Errorf("long line: cut %v, type %q, %.80q", l.Cut, l.Type, l.Text())
	}
	if l := lines[2]; l.Cut || len(l.Text()) != MaxLineBytes {
		t.Errorf("line at the limit: cut %v, %d bytes", l.Cut, len(l.Text()))
	}
	if got := lines[3].Text(); got != "last" {
		t.Errorf("last line = %q", got)
	}
	endless := NewDecoder(strings.NewReader(long))
	if _, err := endless.Next(); err != nil || cap(endless.buf) > 2*MaxLineBytes {
		t.Errorf("a line of 10 MB took %d bytes, %v", cap(endless.buf), err)
	}
	d := NewDecoder(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("broken disk"))))
	if _, err := d.Next(); err == nil || !strings.Contains(err.Error(), "broken disk") {
		t.Errorf("a reading error gives %v", err)
	}
}

func TestParseValidation(t *testing.T) {
	for _, tool := range tools {
		v, err := ParseValidation(recorded(t, tool+".validate.json"))
		if err != nil || v.Valid || v.Errors != 1 || len(v.Diagnostics) != 1 || v.Diagnostics[0].Range.Start != (Pos{7, 23}) {
			t.Errorf("%s: %+v, %v", tool, v, err)
		}
	}
	if _, err := ParseValidation([]byte("panic: oops")); err == nil {
		t.Error("text is taken for a validation")
	}
}

func TestOutputs(t *testing.T) {
	for _, tool := range tools {
		o, err := ParseOutputs(recorded(t, tool+".output.json"))
		if err != nil {
			t.Fatal(err)
		}
		values, withheld := o.Public()
		if string(values["o"]) != "12345678901234567890" || len(values) != 1 || !slices.Equal(withheld, []string{"s"}) {
			t.Errorf("%s: public %s, withheld %v", tool, values, withheld)
		}
		if printed := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(printed, "sensitive-value") {
			t.Errorf("%s: printing shows a sensitive value: %s", tool, printed)
		}
		if got := o["s"].Secret.Reveal(); got != `"sensitive-value"` {
			t.Errorf("%s: Reveal = %s", tool, got)
		}
	}
	if _, err := ParseOutputs([]byte("x")); err == nil {
		t.Error("text is taken for outputs")
	}
}

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		status, signal int
		want           Exit
		says           string
	}{
		{0, 0, Exit{ExitOK, 0, 0}, "finished"},
		{1, 0, Exit{ExitFailed, 1, 0}, "status 1"},
		{127, 0, Exit{ExitFailed, 127, 0}, "status 127"},
		{2, 0, Exit{ExitCrashed, 2, 0}, "crashed"},
		{11, 0, Exit{ExitCrashed, 11, 0}, "crashed"},
		{137, 0, Exit{ExitKilled, -1, 9}, "signal 9"},
		{141, 0, Exit{ExitKilled, -1, 13}, "output was closed"},
		{129, 0, Exit{ExitKilled, -1, 1}, "hang-up"},
		{-1, 9, Exit{ExitKilled, -1, 9}, "out of memory"},
		{0, 15, Exit{ExitKilled, -1, 15}, "terminated"},
		{255, 0, Exit{ExitFailed, 255, 0}, "status 255"},
	} {
		got := Classify(tc.status, tc.signal)
		if got != tc.want || !strings.Contains(got.String(), tc.says) {
			t.Errorf("Classify(%d, %d) = %+v %q, want %+v %q", tc.status, tc.signal, got, got, tc.want, tc.says)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	for _, tool := range tools {
		for _, name := range []string{".plan.jsonl", ".apply.jsonl", ".failed.jsonl"} {
			for line := range bytes.Lines(recorded(f, tool+name)) {
				f.Add(line)
			}
		}
	}
	f.Add([]byte(`{"type":"x","@message":{"a":[[[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := ParseLine(raw)
		_ = l.Text()
		var p Progress
		p.See(l)
		if l.Type == "" {
			t.Fatalf("no type for %q", raw)
		}
	})
}
