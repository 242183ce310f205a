package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// scan is what a hostile template runs: it looks at everything that its user can look at, and writes it down.
const scan = `
{ for p in /proc/[0-9]* /proc/self /proc/thread-self; do
    for f in environ cmdline status maps mountinfo; do cat $p/$f; done
    for d in $p/fd/* $p/task/*/fd/*; do
      case "$(readlink $d)" in *socket*|*pipe*|*anon*|/dev/*|*/found*|*inotify*) ;; *) head -c 1000000 "$d" ;; esac
    done
    head -c 100000 $p/root/proc/1/environ $p/cwd/environ
  done
  env; id
  for d in "%s" "$HOME" "$TMPDIR" "$PWD" /run /home /root; do
    find "$d" -xdev -type f ! -name 'found*' -size -2000k -exec head -c 1000000 {} +
  done
  cat /dev/fd/3 /dev/fd/4 /dev/fd/5 < /dev/null
} > "%s/found" 2> "%s/found.err" < /dev/null
echo done > "%s/done"
`

// hostile is a template that scans when it is applied; what is done to the state is right.
func hostile(t *testing.T, work, where string) []byte {
	t.Helper()
	script := fmt.Sprintf(scan, work, where, where, where)
	return pack(t, map[string]string{
		"main.tf": `resource "terraform_data" "x" {
  provisioner "local-exec" { command = "sh ./scan.sh" }
}
output "environment" { value = replace(file("/proc/self/environ"), "\u0000", "\n") }
output "parent" { value = try(file("/proc/1/environ"), "") }
`,
		"scan.sh": script,
	})
}

// TestX02_TokenThroughProc runs the scan in every way an agent can be run, and wants neither the agent's token nor the
// attempt's to be found.
func TestX02_TokenThroughProc(t *testing.T) {
	t.Run("two users", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		a.share()
		a.worker()
		a.broker(p)
		searched(t, p, a)
	})
	// Unisolated not as root, whom nothing can be hidden from. The token comes through a descriptor.
	for name, token := range map[string]func(*testing.T) *os.File{"unisolated, by a pipe": tokenPipe, "unisolated, by a file": tokenFile} {
		t.Run(name, func(t *testing.T) {
			p, a := newPlatform(t), newAgent(t)
			if err := os.Chown(a.dir, workerUID, groupID); err != nil {
				t.Fatal(err)
			}
			f := token(t)
			if err := f.Chown(workerUID, groupID); err != nil {
				t.Fatal(err)
			}
			a.files = []*os.File{f}
			a.start(workerUID, []string{
				"HOLDFAST_PLATFORM_URL=" + p.url, "HOLDFAST_AGENT_TOKEN_FILE=/dev/fd/3", "HOLDFAST_HEALTH_ADDR=off", "HOLDFAST_TOFU_BIN=" + a.tool,
				"HOLDFAST_DEVELOPMENT_UNISOLATED=1", "HOLDFAST_ALLOW_INLINE_SOURCES=true",
			}, "holdfast-agent", "unisolated")
			_ = f.Close()
			searched(t, p, a)
		})
	}
}

func tokenPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, err = write.WriteString(agentToken)
	if err := errors.Join(err, write.Close()); err != nil {
		t.Fatal(err)
	}
	return read
}

// tokenFile has no name any more, so that nothing but the descriptor leads to it. Unlike the pipe it can be read twice.
func tokenFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp("", "hf-token-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(agentToken)
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		t.Fatal(err)
	}
	return f
}

func searched(t *testing.T, p *platform, a *agent) {
	t.Helper()
	where := place(t)
	planned := p.plan(hostile(t, a.dir, where), `{}`)
	applied := p.apply(planned)
	r := p.reported(applied)
	if r.Outcome != "succeeded" {
		t.Fatalf("apply: got %+v\n%s", r, p.describe())
	}
	file(t, filepath.Join(where, "done"))
	found, err := os.ReadFile(filepath.Join(where, "found"))
	if err != nil {
		t.Fatal(err)
	}
	everything := string(found) + string(r.Outputs) + string(planned.plan.View) + text(planned.log) + text(applied.log) + string(planned.planFile)
	if !strings.Contains(string(found), "TF_HTTP_PASSWORD=") || !strings.Contains(string(found), "terraform_data") || len(found) < 10_000 {
		t.Fatalf("the scan saw nothing: %d bytes", len(found))
	}
	for _, canary := range []string{agentToken, "hf_run_canary-state-token"} {
		if i := strings.Index(everything, canary); i >= 0 {
			t.Errorf("found a token: %q", everything[max(i-200, 0):min(i+100, len(everything))])
		}
	}
	a.empty()
}

// TestR22_NothingSurvives leaves processes behind in every way a shell knows, and wants none of them to be there once
// the attempt is over, and the attempt after it not to see them.
func TestR22_NothingSurvives(t *testing.T) {
	leave := func(where string) []byte {
		return pack(t, map[string]string{"main.tf": fmt.Sprintf(`resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = <<-EOT
      setsid sh -c 'trap "" INT TERM HUP; echo $$ > %[1]s/stubborn; exec sleep 998' >/dev/null 2>&1 </dev/null &
      setsid setsid sh -c 'trap "" INT TERM HUP; (echo $$ > %[1]s/double; exec sleep 999) &' >/dev/null 2>&1 </dev/null
      while [ ! -s %[1]s/stubborn ] || [ ! -s %[1]s/double ]; do sleep 0.01; done
    EOT
  }
}`, where)})
	}
	for _, way := range []string{"two users", "unisolated"} {
		t.Run(way, func(t *testing.T) {
			p, a := newPlatform(t), newAgent(t)
			if way == "two users" {
				a.share()
				a.worker()
				a.broker(p)
			} else {
				a.unisolated(p)
			}
			where := place(t)
			if r := p.reported(p.apply(p.plan(leave(where), `{}`))); r.Outcome != "succeeded" {
				t.Fatalf("apply: got %+v\n%s", r, p.describe())
			}
			a.empty()
			for _, who := range []string{"stubborn", "double"} {
				gone(t, file(t, filepath.Join(where, who)))
			}
			if way == "two users" {
				alone(t)
			}
		})
	}
}

// alone waits until the worker is the only process of its user. What it starts itself bears its name for a moment.
func alone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command("ps", "-u", strconv.Itoa(workerUID), "-o", "pid=,ppid=,stat=,comm=").Output()
		if err != nil {
			t.Fatal(err)
		}
		if list := strings.TrimSpace(string(out)); strings.HasSuffix(list, "holdfast-worker") && !strings.Contains(list, "\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes of the worker's user:\n%s\nwant the worker alone", out)
		}
	}
}

func gone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

// TestHostileWorkDirectory lets a template put things where the broker will look: the broker must not be led astray.
func TestHostileWorkDirectory(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.share()
	a.worker()
	a.broker(p)
	where := place(t)
	secret := filepath.Join(where, "secret")
	if err := os.WriteFile(secret, []byte("only the broker reads this"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(secret, brokerUID, groupID); err != nil {
		t.Fatal(err)
	}
	src := pack(t, map[string]string{"main.tf": fmt.Sprintf(`resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = <<-EOT
      set -x
      ln -s %[1]s errored.tfstate
      mkdir -p deep/er && chmod 0500 deep/er deep && ln -s %[2]s "$HOME/link"
      chmod 0 "$HOME" || true
      mv %[3]s/.broker %[3]s/elsewhere; rm -rf %[3]s/.broker; mv .. %[3]s/elsewhere
      exit 1
    EOT
  }
}`, secret, where, a.dir)})
	r := p.reported(p.apply(p.plan(src, `{}`)))
	if r.Outcome != "failed" || !r.PartialApply {
		t.Errorf("apply: got %+v, want failed and partial", r)
	}
	a.empty()
	if strings.Contains(string(p.state), "only the broker") {
		t.Error("the broker delivered what a link of the template named")
	}
	if b, err := os.ReadFile(secret); err != nil || len(b) == 0 {
		t.Errorf("removing the directory followed a link: %v", err)
	}
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".broker" && e.Name() != "worker.sock" {
			t.Errorf("left in the work directory: %s", e.Name())
		}
	}
	// And the agent goes on.
	p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"x"}`)
}

// TestSourceCannotMoveTheState tries to send the state somewhere else, and to pass files off as the generated ones.
func TestSourceCannotMoveTheState(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.unisolated(p)
	elsewhere := filepath.Join(place(t), "stolen.tfstate")
	local := fmt.Sprintf("terraform {\n  backend \"local\" { path = %q }\n}\n", elsewhere)
	remote := "terraform {\n  backend \"http\" { address = \"http://127.0.0.1:1/stolen\" }\n}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a backend of its own is replaced":  {map[string]string{"main.tf": local + hello}, "succeeded"},
		"an http backend, too":              {map[string]string{"main.tf": remote + hello}, "succeeded"},
		"our name is taken":                 {map[string]string{"main.tf": hello, "backend_override.tf": local}, "failed"},
		"our name is shadowed":              {map[string]string{"main.tf": hello, "backend_override.tofu": local}, "failed"},
		"a later override":                  {map[string]string{"main.tf": hello, "zz_override.tf": remote}, "failed"},
		"a later override in JSON":          {map[string]string{"main.tf": hello, "zz_override.tf.json": `{"terraform":{"backend":{"http":{"address":"http://127.0.0.1:1/"}}}}`}, "failed"},
		"a shipped backend memory":          {map[string]string{"main.tf": hello, ".terraform/terraform.tfstate": `{"version":3,"backend":{"type":"local"}}`}, ""},
		"an input file that would win ours": {map[string]string{"main.tf": hello, "z.auto.tfvars": `name = "stolen"`}, "failed"},
		"no configuration":                  {map[string]string{"readme.md": "nothing"}, "failed"},
		"a syntax error":                    {map[string]string{"main.tf": "resource {{"}, "failed"},
	} {
		k := p.offer(&task{Work: api.Work{Kind: "plan", Inputs: []byte(`{"name":"world"}`)}, source: pack(t, c.files)})
		r := p.reported(k)
		if c.want != "" && r.Outcome != c.want || c.want == "failed" && (r.Class != "configuration" || r.Message == "") {
			t.Errorf("%s: got %+v, want %s\n%s", name, r, c.want, text(k.log))
		}
		if r.Outcome == "succeeded" && !strings.Contains(string(k.plan.View), "hello world") {
			t.Errorf("%s: another value won: %s", name, k.plan.View)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a state was written where the source wanted it")
	}
}

// TestX13_VariablesThatSteer starts a worker whose own environment would steer the tool, and wants the tool to see
// nothing of it but who it is in a cloud.
func TestX13_VariablesThatSteer(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	a.share()
	a.env = []string{
		"TF_CLI_ARGS_plan=-destroy", "TF_VAR_name=mallory", "TF_LOG=trace", "TF_DATA_DIR=/nowhere", "TF_WORKSPACE=other", "TF_PLUGIN_CACHE_DIR=/nowhere",
		"TF_REATTACH_PROVIDERS={}", "TF_HTTP_ADDRESS=http://127.0.0.1:1/", "LD_PRELOAD=/nowhere", "GIT_SSH_COMMAND=false", "HTTPS_PROXY=http://127.0.0.1:1",
		"AWS_SECRET_ACCESS_KEY=canary-static-key", "WORKERS_OWN=canary", "AWS_REGION=eu-north-1",
	}
	a.worker()
	a.env = nil
	a.broker(p)
	planned := p.plan(pack(t, map[string]string{"main.tf": `
variable "name" { default = "right" }
output "name" { value = var.name }
output "environment" { value = sort([for l in split("\u0000", file("/proc/self/environ")) : split("=", l)[0] if l != ""]) }
output "values" { value = replace(file("/proc/self/environ"), "/TF_HTTP_PASSWORD=[^\u0000]*/", "") }
`}), `{}`)
	r := p.reported(p.apply(planned))
	if r.Outcome != "succeeded" {
		t.Fatalf("apply: got %+v\n%s", r, p.describe())
	}
	var outputs struct {
		Name        struct{ Value string }
		Environment struct{ Value []string }
		Values      struct{ Value string }
	}
	if err := json.Unmarshal(r.Outputs, &outputs); err != nil {
		t.Fatal(err)
	}
	want := "AWS_REGION CHECKPOINT_DISABLE HOME PATH TF_CLI_CONFIG_FILE TF_HTTP_ADDRESS TF_HTTP_LOCK_ADDRESS TF_HTTP_PASSWORD TF_HTTP_UNLOCK_ADDRESS TF_HTTP_USERNAME TF_INPUT TF_IN_AUTOMATION TMPDIR"
	if got := strings.Join(outputs.Environment.Value, " "); got != want {
		t.Errorf("the tool's variables:\n got %s\nwant %s", got, want)
	}
	if outputs.Name.Value != "right" || strings.Contains(outputs.Values.Value, "canary") || !strings.Contains(outputs.Values.Value, "eu-north-1") {
		t.Errorf("name %q, environment %q; want nothing of the worker's own", outputs.Name.Value, outputs.Values.Value)
	}
}
