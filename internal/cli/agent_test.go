package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/plan"
)

// agent speaks the agents' protocol to a real server and does what a test says instead of running tofu: the command
// line sees no difference, and the test decides when what happens.
type agent struct {
	t     testing.TB
	s     *server
	token string

	view    func(w api.Work) plan.View // what it plans
	fails   string                     // of plans: the message they fail with
	plans   chan struct{}              // a plan waits for one; closed: none waits
	applies chan struct{}              // likewise
	deaf    bool                       // hears no order to cancel
}

// newAgent begins to work until the test ends. Its plans and applies wait for the test where it makes the channels.
func newAgent(t testing.TB, s *server, set func(*agent)) *agent {
	t.Helper()
	issued, err := s.client(t, adminToken).IssueAgent(t.Context(), api.IssueAgent{Name: "runner", AccountID: "local"})
	if err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	close(free)
	a := &agent{t: t, s: s, token: issued.Token, view: func(api.Work) plan.View { return oneReplace() }, plans: free, applies: free}
	if set != nil {
		set(a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); a.work(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	return a
}

func oneReplace() plan.View {
	return plan.View{
		Format: plan.Format, ToolVersion: "1.12.6", Counts: plan.Counts{Replace: 1, Change: 1},
		Changes: []plan.Change{
			{
				Address: "terraform_data.plaque", Class: plan.Replace, Actions: []string{"delete", "create"}, Reason: "replace_because_cannot_update", ReplacePaths: []string{"engraving"},
				Attributes: []plan.Attribute{{Path: "engraving", Before: `"old"`, After: `"new"`}, {Path: "id", Before: `"1"`, Unknown: true}},
			},
			{
				Address: "terraform_data.greeting", Class: plan.Update, Actions: []string{"update"},
				Attributes: []plan.Attribute{{Path: "password", Sensitive: true}, {Path: "text", Before: `"a\u001b[31m"`, After: `"b"`}},
			},
		},
	}
}

func noChange(api.Work) plan.View { return plan.View{Format: plan.Format, ToolVersion: "1.12.6"} }

// call repeats a request while the server is away, as agents do. ok is false when the agent is to end.
func (a *agent) call(ctx context.Context, method, path, token string, body, out any) (ok bool) {
	var sent []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		sent = b
	default:
		sent, _ = json.Marshal(b)
	}
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, method, a.s.url()+path, bytes.NewReader(sent))
		if err != nil {
			a.t.Error(err)
			return false
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err != nil, answer.StatusCode == http.StatusServiceUnavailable:
			continue
		case answer.StatusCode == http.StatusNotFound && method == http.MethodGet, answer.StatusCode == http.StatusNoContent:
			return true
		case answer.StatusCode > 299:
			a.t.Errorf("the agent's %s %s = %d %s", method, path, answer.StatusCode, text)
			return false
		}
		if raw, is := out.(*[]byte); is {
			*raw = text
		} else if out != nil && json.Unmarshal(text, out) != nil {
			a.t.Errorf("the agent's %s %s = %s", method, path, text)
			return false
		}
		return true
	}
	return false
}

const agentPath = "/api/agent/v1/"

func (a *agent) work(ctx context.Context) {
	if !a.call(ctx, "POST", agentPath+"register", a.token, api.Register{Version: "1.2.3", Capabilities: []string{}}, nil) {
		return
	}
	for {
		var o api.Offer
		if !a.call(ctx, "POST", agentPath+"claim", a.token, api.Claim{Capabilities: []string{}, WaitSeconds: 5}, &o) {
			return
		}
		if o.Task == "" {
			continue
		}
		var w api.Work
		if !a.call(ctx, "POST", agentPath+"tasks/"+o.Task+"/accept", a.token, api.Accept{Attempt: o.Attempt}, &w) || !a.do(ctx, w) {
			return
		}
	}
}

// do does one attempt.
func (a *agent) do(ctx context.Context, w api.Work) bool {
	gate, stage := a.plans, "plan"
	if w.Kind == "apply" {
		gate, stage = a.applies, "apply"
	}
	task := agentPath + "tasks/" + w.Task + "/"
	for waiting := true; waiting; {
		var heard api.HeartbeatAnswer
		if !a.call(ctx, "POST", task+"heartbeat", a.token, api.Heartbeat{Attempt: w.Attempt, Stage: stage, Progress: "1 of 2 done, 1 running"}, &heard) {
			return false
		}
		if heard.Order == "cancel" && !a.deaf {
			return a.report(ctx, w, api.Report{Outcome: "cancelled", Class: "cancelled", Message: "interrupted"})
		}
		select {
		case <-gate:
			waiting = false
		case <-time.After(20 * time.Millisecond): // the next heartbeat
		case <-ctx.Done():
			return false
		}
	}
	text := fmt.Sprintf("%s of %s\n\x1b[1mbold\x1b[0m\n", w.Kind, w.Component)
	chunk := api.AttemptLog{Stage: stage, At: time.Now(), Text: text}
	if !a.call(ctx, "POST", task+"logs", a.token, api.AppendLogs{Attempt: w.Attempt, Chunks: []api.AttemptLog{chunk}}, nil) {
		return false
	}
	if w.Kind == "apply" {
		return a.apply(ctx, w)
	}
	return a.plan(ctx, w, task)
}

func (a *agent) plan(ctx context.Context, w api.Work, task string) bool {
	if a.fails != "" {
		return a.report(ctx, w, api.Report{Outcome: "failed", Class: "configuration", Message: a.fails})
	}
	var base []byte
	if !a.call(ctx, "GET", w.State.Address, w.State.Token, nil, &base) {
		return false
	}
	view, err := json.Marshal(a.view(w))
	if err != nil {
		a.t.Error(err)
		return false
	}
	file := []byte("the plan of attempt " + w.Attempt)
	made := api.PlanMade{
		Attempt: w.Attempt, Digest: "sha256:" + sum(file), Tool: "tofu", Version: "1.12.6", ConfigHash: sum([]byte("configuration")), View: view,
	}
	if len(base) > 0 {
		made.BaseSHA256 = sum(base)
	}
	return a.call(ctx, "PUT", task+"plan-file?attempt="+w.Attempt, a.token, file, nil) && a.call(ctx, "POST", task+"plan", a.token, made, nil) &&
		a.report(ctx, w, api.Report{Outcome: "succeeded"})
}

// apply does to the state what the tool does.
func (a *agent) apply(ctx context.Context, w api.Work) bool {
	var before struct {
		Serial uint64 `json:"serial"`
	}
	var base []byte
	lock := map[string]string{"ID": "lock-" + w.Attempt, "Operation": "OperationTypeApply", "Who": "the test", "Version": "1.12.6", "Created": "2026-01-02T03:04:05Z"}
	if !a.call(ctx, "POST", w.State.Lock, w.State.Token, lock, nil) || !a.call(ctx, "GET", w.State.Address, w.State.Token, nil, &base) {
		return false
	}
	if len(base) > 0 && json.Unmarshal(base, &before) != nil {
		a.t.Errorf("the agent read the state %q", base)
		return false
	}
	doc := fmt.Appendf(nil, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"11111111-2222-3333-4444-555555555555","outputs":{},"resources":[]}`, before.Serial+1)
	outputs := `{"greeting":{"value":"hello \u001b[31mred","type":"string"},"list":{"value":[1,2],"type":["list","number"]},"password":{"sensitive":true,"type":"string"}}`
	return a.call(ctx, "POST", w.State.Address+"?ID=lock-"+w.Attempt, w.State.Token, doc, nil) && a.call(ctx, "DELETE", w.State.Lock, w.State.Token, lock, nil) &&
		a.report(ctx, w, api.Report{Outcome: "succeeded", Outputs: json.RawMessage(outputs)})
}

func (a *agent) report(ctx context.Context, w api.Work, r api.Report) bool {
	r.Attempt = w.Attempt
	return a.call(ctx, "POST", agentPath+"tasks/"+w.Task+"/report", a.token, r, nil)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
