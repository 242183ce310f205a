package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

const archive = "\x28\xb5\x2f\xfd an archive"

func sumOf(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// shop is a server with an account, an agent that is registered, and a stack.
type shop struct {
	*server
	agentToken string
	source     api.Source
}

func newShop(t *testing.T, stack api.PutStack) *shop {
	t.Helper()
	s := &shop{server: newServer(t)}
	s.agentToken = s.agent(t, "worker", "111122223333").Token
	into[api.Registered](t, s.work(t, "register", api.Register{Version: "1.0.0", Capabilities: []string{"executor:process"}}), 200)
	stack.Account = "111122223333"
	into[api.Stack](t, s.as(t, s.admin, "PUT", "/api/stacks/shop", stack), 200)
	s.source = into[api.Source](t, s.do(t, "POST", "/api/sources", archive, bearer(s.admin), header("Content-Type", "application/zstd")), 201)
	return s
}

// work is a request of the agent.
func (s *shop) work(t *testing.T, path string, body any) answer {
	t.Helper()
	return s.as(t, s.agentToken, "POST", "/api/agent/v1/"+path, body)
}

func (s *shop) starting() api.StartRun {
	return api.StartRun{Components: []api.StartComponent{{Name: "main", Source: s.source.ID, Inputs: json.RawMessage(`{"size":1}`)}}}
}

func (s *shop) start(t *testing.T, in api.StartRun) api.Run {
	t.Helper()
	return into[api.Run](t, s.as(t, s.admin, "POST", "/api/stacks/shop/runs", in), 201)
}

func (s *shop) run(t *testing.T, id string) api.Run {
	t.Helper()
	return into[api.Run](t, s.as(t, s.admin, "GET", "/api/runs/"+id, nil), 200)
}

// take claims and accepts.
func (s *shop) take(t *testing.T) api.Work {
	t.Helper()
	o := into[api.Offer](t, s.work(t, "claim", api.Claim{Capabilities: []string{}}), 200)
	return into[api.Work](t, s.work(t, "tasks/"+o.Task+"/accept", api.Accept{Attempt: o.Attempt}), 200)
}

const changeView = `{"format":1,"tool_version":"1.12.6","change":1,"changes":[{"address":"terraform_data.a","class":"update","actions":["update"]}]}`

// plan plans a task with the view.
func (s *shop) plan(t *testing.T, w api.Work, view string) {
	t.Helper()
	const file = "a plan file"
	put := s.do(t, "PUT", "/api/agent/v1/tasks/"+w.Task+"/plan-file?attempt="+w.Attempt, file, bearer(s.agentToken), header("Content-Type", "application/octet-stream"))
	if put.StatusCode != 204 {
		t.Fatalf("PUT plan-file = %d %s", put.StatusCode, put.body)
	}
	made := s.work(t, "tasks/"+w.Task+"/plan", api.PlanMade{
		Attempt: w.Attempt, Digest: "sha256:" + sumOf(file), Tool: "tofu", Version: "1.12.6",
		LockFile: sumOf("lock"), ConfigHash: sumOf("config"), View: json.RawMessage(view),
	})
	if made.StatusCode != 204 {
		t.Fatalf("POST plan = %d %s", made.StatusCode, made.body)
	}
	s.report(t, w, api.Report{Outcome: "succeeded"})
}

func (s *shop) report(t *testing.T, w api.Work, in api.Report) {
	t.Helper()
	in.Attempt = w.Attempt
	into[api.Reported](t, s.work(t, "tasks/"+w.Task+"/report", in), 200)
}

func TestRunOverHTTP(t *testing.T) {
	s := newShop(t, api.PutStack{Production: true, Approval: "always", Hold: true})
	in := s.starting()
	in.Key = "one"
	r := s.start(t, in)
	if again := s.start(t, in); again.ID != r.ID {
		t.Errorf("the repeat started %s, want %s", again.ID, r.ID)
	}
	if r.Status != "planning" || r.Account != "111122223333" || r.Stack != "shop" || !r.Hold || !r.Production || r.CreatedBy.Kind != "user" || r.EndedAt != nil {
		t.Errorf("the new run: %+v", r)
	}
	if c := r.Components[0]; c.Name != "main" || c.State != "shop.main" || c.Plan != nil || c.Source.SHA256 != sumOf(archive) || c.Task == "" {
		t.Errorf("its component: %+v", c)
	}
	w := s.take(t)
	if w.Run != r.ID || w.Kind != "plan" || w.RunKind != "deploy" || w.Timeout != 0 && w.Timeout < 60 || string(w.Inputs) != `{"size":1}` ||
		w.State.Address != "/api/tf-states/shop.main/state" || w.State.Lock != "/api/tf-states/shop.main/lock" || !strings.HasPrefix(w.State.Token, access.AttemptPrefix) {
		t.Errorf("the work order: %+v", w)
	}
	source := s.as(t, s.agentToken, "GET", "/api/agent/v1/tasks/"+w.Task+"/source?attempt="+w.Attempt, nil)
	if string(source.body) != archive || source.Header.Get("Content-Length") != strconv.Itoa(len(archive)) {
		t.Errorf("source = %q, %v", source.body, source.Header)
	}
	s.plan(t, w, changeView)
	r = s.run(t, r.ID)
	if r.Status != "awaiting_approval" || r.Risk != "low" || !strings.HasPrefix(r.PlanDigest, "sha256:") || r.Approval.Status != "pending" || r.Totals.Change != 1 {
		t.Fatalf("the planned run: %+v", r.RunListed)
	}
	p := into[api.RunPlan](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/plan", nil), 200)
	if p.PlanDigest != r.PlanDigest || len(p.Components) != 1 || !strings.Contains(string(p.Components[0].View), "terraform_data.a") {
		t.Errorf("the plan: %+v", p)
	}
	stale := wantProblem(t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/approve", api.Approve{PlanDigest: "sha256:old"}), 409, "plan_changed")
	if !strings.Contains(stale.Detail, r.PlanDigest) {
		t.Errorf("the refusal does not name the current plan: %q", stale.Detail)
	}
	r = into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/approve", api.Approve{PlanDigest: r.PlanDigest}), 200)
	if r.Status != "applying" || r.Approval.At == nil || r.Approval.By != "admin" {
		t.Errorf("the approved run: %+v", r.RunListed)
	}
	w = s.take(t)
	if w.Kind != "apply" || w.Plan == nil || w.Plan.Digest != "sha256:"+sumOf("a plan file") || w.Plan.LockFile != sumOf("lock") {
		t.Errorf("the apply's work order: %+v", w)
	}
	if file := s.as(t, s.agentToken, "GET", "/api/agent/v1/tasks/"+w.Task+"/plan-file", nil); string(file.body) != "a plan file" {
		t.Errorf("plan file = %d %q", file.StatusCode, file.body)
	}
	beat := into[api.HeartbeatAnswer](t, s.work(t, "tasks/"+w.Task+"/heartbeat", api.Heartbeat{Attempt: w.Attempt, Stage: "apply", Progress: "1 of 1"}), 200)
	if beat.Order != "continue" {
		t.Errorf("heartbeat = %q", beat.Order)
	}
	if a := s.run(t, r.ID).Attempts[1]; a.Stage != "apply" || a.Progress != "1 of 1" || a.Agent != "worker" || a.Kind != "apply" {
		t.Errorf("the attempt: %+v", a)
	}
	s.report(t, w, api.Report{Outcome: "succeeded", Outputs: json.RawMessage(`{"url":{"value":"http://a","type":"string","sensitive":false}}`)})
	r = s.run(t, r.ID)
	if r.Status != "succeeded" || r.EndedAt == nil || !strings.Contains(string(r.Components[0].Outputs), "http://a") {
		t.Errorf("the ended run: %+v", r)
	}
	wantProblem(t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/cancel", nil), 409, "run_ended")
	stack := into[api.Stack](t, s.as(t, s.admin, "GET", "/api/stacks/shop", nil), 200)
	if stack.LastRun == nil || stack.LastRun.ID != r.ID {
		t.Errorf("the stack's last run: %+v", stack.LastRun)
	}
}

func TestRunDecisionsOverHTTP(t *testing.T) {
	s := newShop(t, api.PutStack{Approval: "always"})
	_, viewer := s.user(t, "viewer", access.Viewer)
	r := s.start(t, s.starting())
	s.plan(t, s.take(t), changeView)
	for _, verb := range []string{"approve", "reject", "cancel"} {
		wantProblem(t, s.as(t, viewer, "POST", "/api/runs/"+r.ID+"/"+verb, api.Approve{PlanDigest: "x"}), 403, "forbidden")
		wantProblem(t, s.as(t, s.agentToken, "POST", "/api/runs/"+r.ID+"/"+verb, api.Approve{PlanDigest: "x"}), 403, "forbidden")
	}
	wantProblem(t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/approve", `{}`), 422, "invalid_request")
	rejected := into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/reject", api.Reject{Reason: "too late"}), 200)
	if rejected.Status != "rejected" || !strings.HasSuffix(rejected.Message, "too late") {
		t.Errorf("rejected: %+v", rejected.RunListed)
	}
	second := s.start(t, s.starting())
	cancelled := into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+second.ID+"/cancel", nil), 200)
	if cancelled.Status != "cancelled" || cancelled.Class != "cancelled" {
		t.Errorf("cancelled: %+v", cancelled.RunListed)
	}
	third := s.start(t, s.starting())
	s.plan(t, s.take(t), changeView)
	if bare := s.do(t, "POST", "/api/runs/"+third.ID+"/reject", nil, bearer(s.admin)); bare.StatusCode != 200 {
		t.Errorf("a reject without a body = %d %s", bare.StatusCode, bare.body)
	}
	for path, want := range map[string][]string{
		"/api/runs":                                   {third.ID, second.ID, r.ID},
		"/api/runs?stack=shop":                        {third.ID, second.ID, r.ID},
		"/api/runs?status=cancelled":                  {second.ID},
		"/api/runs?status=cancelled&status=rejected":  {third.ID, second.ID, r.ID},
		"/api/runs?status=planning":                   {},
		"/api/runs?q=HO":                              {third.ID, second.ID, r.ID},
		"/api/runs?q=" + r.ID:                         {r.ID},
		"/api/stacks/shop/runs?status=rejected":       {third.ID, r.ID},
		"/api/stacks/shop/runs?status=rejected&q=nix": {},
	} {
		var got []string
		for _, item := range into[api.List[api.RunListed]](t, s.as(t, viewer, "GET", path, nil), 200).Items {
			got = append(got, item.ID)
		}
		if !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("GET %s = %q, want %q", path, got, want)
		}
	}
	wantProblem(t, s.as(t, viewer, "GET", "/api/runs?status=odd", nil), 422, "invalid_request")
	wantProblem(t, s.as(t, viewer, "GET", "/api/runs?stack=nope", nil), 404, "stack_not_found")
	var paged []string
	for cursor := ""; ; {
		page := into[api.List[api.RunListed]](t, s.as(t, viewer, "GET", "/api/runs?limit=1&cursor="+cursor, nil), 200)
		for _, item := range page.Items {
			paged = append(paged, item.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(paged, []string{third.ID, second.ID, r.ID}) {
		t.Errorf("paged: %q", paged)
	}
}

func TestRunRefusalsOverHTTP(t *testing.T) {
	s := newShop(t, api.PutStack{})
	start := func(change func(*api.StartRun)) answer {
		in := s.starting()
		change(&in)
		return s.as(t, s.admin, "POST", "/api/stacks/shop/runs", in)
	}
	wantProblem(t, start(func(in *api.StartRun) { in.Kind = "drift" }), 422, "invalid_request")
	wantProblem(t, start(func(in *api.StartRun) { in.Components = []api.StartComponent{} }), 422, "invalid_request")
	wantProblem(t, start(func(in *api.StartRun) { in.Components[0].Source = "obj_none" }), 404, "source_not_found")
	wantProblem(t, start(func(in *api.StartRun) { in.Components[0].Inputs = json.RawMessage(`[1]`) }), 400, "invalid_inputs")
	wantProblem(t, s.as(t, s.admin, "POST", "/api/stacks/nope/runs", s.starting()), 404, "stack_not_found")
	wantProblem(t, s.do(t, "POST", "/api/sources", "PK no zstd", bearer(s.admin)), 400, "invalid_source")
	wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/run_none", nil), 404, "run_not_found")
	wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/run_none/events", nil), 404, "run_not_found")
	wantProblem(t, s.do(t, "GET", "/api/runs/run_none/events", nil, bearer(s.admin), header("Accept", "text/event-stream")), 404, "run_not_found")
	wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/run_none/logs", nil), 404, "run_not_found")
	wantProblem(t, s.as(t, s.admin, "PUT", "/api/stacks/a.b", api.PutStack{Account: "111122223333"}), 400, "invalid_name")
	wantProblem(t, s.as(t, s.admin, "PUT", "/api/stacks/new", api.PutStack{Account: "999"}), 409, "account_not_managed")
	wantProblem(t, s.as(t, s.admin, "PUT", "/api/stacks/new", api.PutStack{Account: "111122223333", Production: true, Approval: "never"}), 422, "production_needs_approval")
	wantProblem(t, s.as(t, s.admin, "DELETE", "/api/stacks/nope", nil), 404, "stack_not_found")
	r := s.start(t, s.starting())
	wantProblem(t, s.as(t, s.admin, "DELETE", "/api/stacks/shop", nil), 409, "stack_busy")
	into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/cancel", nil), 200)
	if gone := s.as(t, s.admin, "DELETE", "/api/stacks/shop", nil); gone.StatusCode != 204 {
		t.Errorf("DELETE stack = %d %s", gone.StatusCode, gone.body)
	}
}

// sse is a stream of events being read.
type sse struct {
	cancel context.CancelFunc
	lines  *bufio.Scanner
	body   io.Closer
}

type sseMessage struct{ id, event, data string }

func (s *shop) stream(t *testing.T, path string, opts ...with) *sse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(opts, bearer(s.admin), header("Accept", "text/event-stream"), header("Accept-Encoding", "gzip")) {
		o(req)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream is answered %d, %v", resp.StatusCode, resp.Header)
	}
	return &sse{cancel, bufio.NewScanner(resp.Body), resp.Body}
}

// next is the next message; ok is false at the stream's end.
func (e *sse) next() (m sseMessage, ok bool) {
	for e.lines.Scan() {
		field, value, _ := strings.Cut(e.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data, ok = value, true
		case "":
			if ok {
				return m, true
			}
		}
	}
	return m, false
}

// until reads to the event of the type, and gives the seqs of what came before and itself.
func (e *sse) until(t *testing.T, kind string) (seqs []string) {
	t.Helper()
	for {
		m, ok := e.next()
		if !ok {
			t.Fatalf("the stream ended before %s: %v", kind, e.lines.Err())
		}
		if m.event == "run" {
			continue
		}
		var event api.Event
		if err := json.Unmarshal([]byte(m.data), &event); err != nil || m.id != strconv.FormatInt(event.Seq, 10) {
			t.Fatalf("message %+v: %v", m, err)
		}
		if seqs = append(seqs, m.id); event.Type == kind {
			return seqs
		}
	}
}

func TestEventStream(t *testing.T) {
	s := newShop(t, api.PutStack{Approval: "always"})
	r := s.start(t, s.starting())
	e := s.stream(t, "/api/runs/"+r.ID+"/events")
	seen := e.until(t, "run.planning")
	w := s.take(t) // seen live
	seen = append(seen, e.until(t, "task.accepted")...)
	s.plan(t, w, changeView)
	seen = append(seen, e.until(t, "run.awaiting_approval")...)
	for i, seq := range seen {
		if seq != strconv.Itoa(i+1) {
			t.Fatalf("the stream's seqs are %q, want them without a gap", seen)
		}
	}
	e.cancel() // and connected again, from the middle
	e = s.stream(t, "/api/runs/"+r.ID+"/events", header("Last-Event-ID", "2"))
	if rest := e.until(t, "run.awaiting_approval"); !slices.Equal(rest, seen[2:]) {
		t.Errorf("after a break the stream gives %q, want %q", rest, seen[2:])
	}
	into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/reject", api.Reject{}), 200)
	e.until(t, "run.rejected")
	last := sseMessage{}
	for {
		m, ok := e.next()
		if !ok {
			break
		}
		last = m
	}
	if e.lines.Err() != nil || last.event != "run" {
		t.Errorf("the stream of an ended run ended with %+v, %v, want the event run and an end", last, e.lines.Err())
	}
	list := into[api.List[api.Event]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/events?after=1&limit=2", nil), 200)
	if len(list.Items) != 2 || list.Items[0].Seq != 2 || list.Next != "3" {
		t.Errorf("the list: %+v", list)
	}
	list = into[api.List[api.Event]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/events?limit=200&cursor="+list.Next, nil), 200)
	if list.Items[0].Seq != 4 || list.Next != "" {
		t.Errorf("the next list: %+v", list)
	}
	for _, query := range []string{"after=x", "after=-1", "limit=0", "limit=201", "cursor=x"} {
		wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/events?"+query, nil), 400, "invalid_request")
	}
}

// A server that goes away ends its streams, and the client comes back elsewhere.
func TestEventStreamEndsWithTheServer(t *testing.T) {
	s := newShop(t, api.PutStack{Approval: "always"})
	r := s.start(t, s.starting())
	e := s.stream(t, "/api/runs/"+r.ID+"/events")
	e.until(t, "run.planning")
	s.api.Drain()
	for {
		if _, ok := e.next(); !ok {
			break
		}
	}
	if err := e.lines.Err(); err != nil {
		t.Errorf("the stream ended with %v, want a clean end", err)
	}
	if got := s.work(t, "claim", api.Claim{Capabilities: []string{}, WaitSeconds: 30}); got.StatusCode != 204 && got.StatusCode != 200 {
		t.Errorf("a claim of a server that is going away = %d %s", got.StatusCode, got.body)
	}
}

func TestLogsOverHTTP(t *testing.T) {
	s := newShop(t, api.PutStack{Approval: "always"})
	r := s.start(t, s.starting())
	w := s.take(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	followed := make(chan string, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/runs/"+r.ID+"/logs?follow=true", nil)
		req.Header.Set("Authorization", "Bearer "+s.admin)
		req.Header.Set("Accept", "text/plain")
		resp, err := s.Client().Do(req)
		if err != nil {
			followed <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			text = append(text, err.Error()...)
		}
		followed <- string(text)
	}()
	send := func(chunks ...api.AttemptLog) int64 {
		return into[api.LogsAcknowledged](t, s.work(t, "tasks/"+w.Task+"/logs", api.AppendLogs{Attempt: w.Attempt, Chunks: chunks}), 200).Next
	}
	if next := send(api.AttemptLog{Seq: 0, Stage: "init", Text: "one\n"}, api.AttemptLog{Seq: 1, Stage: "plan", Text: "two\n"}); next != 2 {
		t.Errorf("next = %d, want 2", next)
	}
	if next := send(api.AttemptLog{Seq: 3, Text: "after a gap"}); next != 2 {
		t.Errorf("after a gap next = %d, want 2", next)
	}
	s.plan(t, w, changeView)
	first := w.Attempt
	r = s.run(t, r.ID)
	into[api.Run](t, s.as(t, s.admin, "POST", "/api/runs/"+r.ID+"/approve", api.Approve{PlanDigest: r.PlanDigest}), 200)
	w = s.take(t)
	send(api.AttemptLog{Seq: 0, Stage: "apply", Text: "three\n"})
	s.report(t, w, api.Report{Outcome: "failed", Class: "infrastructure", Message: "no quota", PartialApply: true})
	if got := <-followed; got != "one\ntwo\nthree\n" {
		t.Errorf("followed: %q", got)
	}
	logs := into[api.List[api.LogChunk]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs", nil), 200)
	if len(logs.Items) != 3 || logs.Next != "" || logs.Items[0].Text != "one\n" || logs.Items[0].Stage != "init" || logs.Items[2].Kind != "apply" || logs.Items[2].Attempt != w.Attempt {
		t.Errorf("logs: %+v", logs)
	}
	var paged []string
	for cursor := ""; ; {
		page := into[api.List[api.LogChunk]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs?limit=1&cursor="+cursor, nil), 200)
		for _, c := range page.Items {
			paged = append(paged, c.Text)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(paged, []string{"one\n", "two\n", "three\n"}) {
		t.Errorf("paged: %q", paged)
	}
	one := into[api.List[api.LogChunk]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs?attempt="+first+"&after=0", nil), 200)
	if len(one.Items) != 1 || one.Items[0].Text != "two\n" {
		t.Errorf("of one attempt: %+v", one)
	}
	if text := s.do(t, "GET", "/api/runs/"+r.ID+"/logs?attempt="+first, nil, bearer(s.admin), header("Accept", "text/plain")); string(text.body) != "one\ntwo\n" {
		t.Errorf("text of one attempt: %q", text.body)
	}
	wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs?attempt=att_none", nil), 404, "attempt_not_found")
	wantProblem(t, s.do(t, "GET", "/api/runs/"+r.ID+"/logs?attempt=att_none", nil, bearer(s.admin), header("Accept", "text/plain")), 404, "attempt_not_found")
	wantProblem(t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs?cursor=x", nil), 400, "invalid_cursor")
	if r = s.run(t, r.ID); r.Status != "failed" || !r.PartialApply || r.Class != "infrastructure" || r.Message != "no quota" {
		t.Errorf("the failed run: %+v", r.RunListed)
	}
	// R26: late, and then too late.
	send(api.AttemptLog{Seq: 1, Text: "late\n"})
	s.advance(16 * time.Minute)
	wantProblem(t, s.work(t, "tasks/"+w.Task+"/logs", api.AppendLogs{Attempt: w.Attempt, Chunks: []api.AttemptLog{{Seq: 2, Text: "too late"}}}), 409, "log_closed")
}

func TestAgentProtocolRefusals(t *testing.T) {
	s := newShop(t, api.PutStack{})
	if empty := s.work(t, "claim", api.Claim{Capabilities: []string{}}); empty.StatusCode != 204 || len(empty.body) != 0 {
		t.Errorf("a claim with nothing to do = %d %q", empty.StatusCode, empty.body)
	}
	for _, path := range []string{"register", "claim", "tasks/tsk_none/accept", "tasks/tsk_none/report"} {
		wantProblem(t, s.as(t, s.admin, "POST", "/api/agent/v1/"+path, `{}`), 403, "forbidden")
	}
	s.start(t, s.starting())
	// X08: no header, query or body says who the agent is.
	o := into[api.Offer](t, s.work(t, "claim", api.Claim{Capabilities: []string{}}), 200)
	thief := s.agent(t, "thief", "111122223333").Token
	as := func(path string, body any, opts ...with) answer {
		return s.do(t, "POST", "/api/agent/v1/tasks/"+o.Task+"/"+path, body, append(opts, bearer(thief))...)
	}
	pretend := []with{header("X-Agent-Id", "worker"), func(r *http.Request) { r.Header.Add("Agent-Id", "thief"); r.Header.Add("Agent-Id", "worker") }}
	wantProblem(t, as("accept", api.Accept{Attempt: o.Attempt}, pretend...), 404, "task_not_found")
	wantProblem(t, as("heartbeat", api.Heartbeat{Attempt: o.Attempt}, pretend...), 404, "task_not_found")
	wantProblem(t, as("logs", api.AppendLogs{Attempt: o.Attempt, Chunks: []api.AttemptLog{{Text: "evil"}}}, pretend...), 404, "task_not_found")
	wantProblem(t, as("report", api.Report{Attempt: o.Attempt, Outcome: "succeeded"}, pretend...), 404, "task_not_found")
	w := into[api.Work](t, s.work(t, "tasks/"+o.Task+"/accept", api.Accept{Attempt: o.Attempt}), 200)
	for _, query := range []string{"", "?attempt=" + o.Attempt, "?attempt=" + o.Attempt + "&agent=worker", "?agent=thief&agent=worker"} {
		wantProblem(t, s.do(t, "GET", "/api/agent/v1/tasks/"+o.Task+"/source"+query, nil, bearer(thief)), 404, "task_not_found")
		wantProblem(t, s.do(t, "PUT", "/api/agent/v1/tasks/"+o.Task+"/plan-file"+query, "evil", bearer(thief)), 404, "task_not_found")
	}
	// The attempt's own token opens no route of the protocol.
	wantProblem(t, s.as(t, w.State.Token, "POST", "/api/agent/v1/tasks/"+w.Task+"/report", api.Report{Attempt: w.Attempt, Outcome: "succeeded"}), 403, "forbidden")
	wantProblem(t, s.work(t, "tasks/"+w.Task+"/report", `{"attempt":"`+w.Attempt+`","outcome":"exploded"}`), 422, "invalid_request")
	into[api.Registered](t, s.work(t, "register", api.Register{Version: "0.0.1", Capabilities: []string{}}), 200)
	wantProblem(t, s.work(t, "claim", api.Claim{Capabilities: []string{}}), 426, "upgrade_required")
	into[api.Account](t, s.as(t, s.admin, "PATCH", "/api/accounts/111122223333", api.SetAccount{}), 200)
	wantProblem(t, s.work(t, "claim", api.Claim{Capabilities: []string{}}), 403, "account_disabled")
}

// A plan as large as agents make them, and a batch of log chunks as large as they send them.
func TestLargeDeliveries(t *testing.T) {
	s := newShop(t, api.PutStack{Approval: "always"})
	r := s.start(t, s.starting())
	w := s.take(t)
	text := strings.Repeat("x", engine.LogChunkBytes)
	var chunks []api.AttemptLog
	for i := range int64(64) {
		chunks = append(chunks, api.AttemptLog{Seq: i, Text: text})
	}
	if next := into[api.LogsAcknowledged](t, s.work(t, "tasks/"+w.Task+"/logs", api.AppendLogs{Attempt: w.Attempt, Chunks: chunks}), 200).Next; next != 64 {
		t.Errorf("next = %d", next)
	}
	view := `{"format":1,"change":1,"changes":[{"address":"terraform_data.a","class":"update","actions":["update"],"attributes":[` +
		strings.Repeat(`{"path":"input","before":"1","after":"2"},`, 100_000) + `{"path":"last"}]}]}`
	s.plan(t, w, view)
	p := into[api.RunPlan](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/plan", nil), 200)
	if got := string(p.Components[0].View); got != view {
		t.Errorf("the view of %d bytes came back as %d bytes", len(view), len(got))
	}
	// The list of a log of 16 MiB comes in pieces.
	total, pages := 0, 0
	for cursor := ""; ; pages++ {
		page := into[api.List[api.LogChunk]](t, s.as(t, s.admin, "GET", "/api/runs/"+r.ID+"/logs?cursor="+cursor, nil), 200)
		for _, c := range page.Items {
			total += len(c.Text)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if total != 64*engine.LogChunkBytes || pages < 3 {
		t.Errorf("%d bytes in %d more pages", total, pages)
	}
}
