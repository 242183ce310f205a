package agent_test

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const hello = `
variable "name" { type = string }
variable "secret" {
  type      = string
  sensitive = true
  default   = "canary-sensitive-default"
}
resource "terraform_data" "greeting" { input = "hello ${var.name}" }
output "greeting" { value = terraform_data.greeting.output }
output "hidden" {
  value     = "${var.secret}!"
  sensitive = true
}
`

func TestPlanAndApply(t *testing.T) {
	p := newPlatform(t)
	a := newAgent(t)
	broker := a.unisolated(p)
	begin := time.Now()
	planned := p.plan(pack(t, map[string]string{"main.tf": hello}), `{"name":"world","secret":"canary-sensitive-input"}`)
	t.Logf("plan: %v, %s", time.Since(begin), stages(planned))
	m := planned.plan
	if m.Digest == "" || m.ConfigHash == "" || m.BaseSHA256 != "" || len(planned.planFile) == 0 {
		t.Errorf("plan made: got %+v with a file of %d bytes", m, len(planned.planFile))
	}
	var view struct{ Add int }
	if err := json.Unmarshal(m.View, &view); err != nil || view.Add != 1 {
		t.Errorf("view: got %s, %v, want one to add", m.View, err)
	}
	begin = time.Now()
	applied := p.apply(planned)
	r := p.reported(applied)
	t.Logf("apply: %v, %s", time.Since(begin), stages(applied))
	if r.Outcome != "succeeded" || r.PartialApply || r.Applied == nil || r.Applied.Add != 1 {
		t.Fatalf("apply: got %+v\n%s", r, p.describe())
	}
	if got := p.resources(); !slices.Equal(got, []string{"terraform_data.greeting"}) {
		t.Errorf("state: got %v", got)
	}
	var outputs map[string]struct {
		Value     json.RawMessage
		Sensitive bool
	}
	if err := json.Unmarshal(r.Outputs, &outputs); err != nil {
		t.Fatal(err)
	}
	if string(outputs["greeting"].Value) != `"hello world"` || !outputs["hidden"].Sensitive || outputs["hidden"].Value != nil {
		t.Errorf("outputs: got %s, want the greeting, and the hidden one without its value", r.Outputs)
	}
	a.empty()
	for _, k := range []*task{planned, applied} {
		if all := text(k.log) + string(m.View) + string(r.Outputs) + r.Message; strings.Contains(all, "canary-sensitive") {
			t.Errorf("%s shows a sensitive input:\n%s", k.Kind, all)
		}
		if !strings.Contains(text(k.log), "terraform_data.greeting") {
			t.Errorf("the log of the %s does not show its work:\n%s", k.Kind, text(k.log))
		}
	}
	if err := broker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := broker.exit(t); code != 0 {
		t.Errorf("stopped as asked: got exit %d, want 0", code)
	}
}

func stages(k *task) string {
	var b strings.Builder
	var all, tool int64
	for _, s := range k.report.Stages {
		all, tool = all+s.Milliseconds, tool+s.Tool
		b.WriteString(s.Stage + " ")
		b.WriteString((time.Duration(s.Milliseconds) * time.Millisecond).String() + " (" + (time.Duration(s.Tool) * time.Millisecond).String() + ") ")
	}
	return b.String() + " in all " + (time.Duration(all) * time.Millisecond).String() + ", tool " + (time.Duration(tool) * time.Millisecond).String()
}

// BenchmarkAttempts measures what an attempt costs beside the tool's own processes, from the moment it is offered to
// the moment its report is stored.
func BenchmarkAttempts(b *testing.B) {
	p := newPlatform(b)
	a := newAgent(b)
	a.unisolated(p)
	src := pack(b, map[string]string{"main.tf": hello})
	p.plan(src, `{"name":"warm"}`)
	var plan, apply time.Duration
	for b.Loop() {
		p.change(func() { p.state = nil })
		begin := time.Now()
		planned := p.plan(src, `{"name":"world"}`)
		plan += time.Since(begin) - tool(planned)
		begin = time.Now()
		applied := p.apply(planned)
		p.reported(applied)
		apply += time.Since(begin) - tool(applied)
	}
	b.ReportMetric(float64(plan.Milliseconds())/float64(b.N), "plan-overhead-ms")
	b.ReportMetric(float64(apply.Milliseconds())/float64(b.N), "apply-overhead-ms")
}

func tool(k *task) (d time.Duration) {
	for _, s := range k.report.Stages {
		d += time.Duration(s.Tool) * time.Millisecond
	}
	return d
}
