package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/id"
)

// The token of the agent under test. Templates look for it.
const agentToken = "hf_agt_canary-1f8e2c-never-to-be-seen"

// platform is a server for one agent: the contract's routes and one state, in memory, with faults on demand. The
// broker under test speaks to it over real HTTP.
type platform struct {
	t   testing.TB
	url string

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	down     bool          // every connection is dropped
	status   map[string]int
	held     map[string]chan struct{} // "METHOD route": answers wait for it to be closed
	work     map[string]*task         // by attempt
	queue    []*task
	state    []byte
	saves    int
	lock     string // the lock document
	requests []string
	register []api.Register
	claims   int
}

// task is one task with its only attempt.
type task struct {
	api.Work
	source, planFile []byte
	cancel           bool
	accepted         bool
	beats            []api.Heartbeat
	beatAt           []time.Time
	log              []api.AttemptLog
	plan             *api.PlanMade
	report           *api.Report
	reports          int
	offers           int
}

func newPlatform(t testing.TB) *platform {
	p := &platform{t: t, changed: make(chan struct{}), work: map[string]*task{}, status: map[string]int{}, held: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	const base = "/api/agent/v1/"
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request){
		"POST register": p.serveRegister, "POST claim": p.serveClaim,
		"POST tasks/{id}/accept": p.serveAccept, "POST tasks/{id}/heartbeat": p.serveHeartbeat, "POST tasks/{id}/logs": p.serveLogs,
		"POST tasks/{id}/plan": p.servePlan, "POST tasks/{id}/report": p.serveReport,
		"GET tasks/{id}/source": p.serveSource, "GET tasks/{id}/plan-file": p.serveGetPlanFile, "PUT tasks/{id}/plan-file": p.servePutPlanFile,
	} {
		method, route, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+base+route, p.around(pattern, true, h))
	}
	for _, pattern := range []string{"GET /state", "POST /state", "LOCK /state/lock", "UNLOCK /state/lock"} {
		mux.HandleFunc(pattern, p.around(pattern, false, p.serveState))
	}
	s := httptest.NewServer(mux)
	p.url = s.URL
	t.Cleanup(s.Close)
	return p
}

// around counts, applies faults, and checks the agent's token.
func (p *platform) around(pattern string, agent bool, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Read to its end: only then does the server notice that a client has gone.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		down, status, hold := p.down, p.status[pattern], p.held[pattern]
		p.requests = append(p.requests, pattern)
		p.announce()
		p.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
			p.mu.Lock()
			down, status = p.down, p.status[pattern]
			p.mu.Unlock()
		}
		switch {
		case down:
			panic(http.ErrAbortHandler)
		case status != 0:
			problem(w, status, "injected")
		case agent && r.Header.Get("Authorization") != "Bearer "+agentToken:
			problem(w, http.StatusUnauthorized, "not the agent's token")
		default:
			h(w, r)
		}
	}
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Detail: detail, Code: "test"})
}

func (p *platform) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// change changes something under the lock.
func (p *platform) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.announce()
}

// until waits for a condition, which is asked under the lock.
func (p *platform) until(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		yes, changed := ok(), p.changed
		p.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			p.t.Fatalf("waited in vain until %s\n%s", what, p.describe())
		}
	}
}

func (p *platform) describe() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, k := range p.work {
		fmt.Fprintf(&b, "%s: accepted %v, report %+v\n%s\n", k.Kind, k.accepted, k.report, text(k.log))
	}
	return b.String()
}

func text(log []api.AttemptLog) string {
	var b strings.Builder
	for _, c := range log {
		b.WriteString(c.Text)
	}
	return b.String()
}

// offer queues a task.
func (p *platform) offer(k *task) *task {
	now := time.Now()
	k.Task, k.Attempt, k.Run = id.New(id.Task, now), id.New(id.Attempt, now), id.New(id.Run, now)
	k.Stack, k.Component, k.Number = "shop", "main", 1
	if k.RunKind == "" {
		k.RunKind = "deploy"
	}
	sum := sha256.Sum256(k.source)
	k.Source = api.WorkSource{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(k.source))}
	k.State = api.WorkState{Name: "shop.main", Address: "/state", Lock: "/state/lock", Token: "hf_run_canary-state-token", ReadOnly: k.State.ReadOnly}
	if k.Timeout == 0 {
		k.Timeout = 300
	}
	p.change(func() { p.queue = append(p.queue, k); p.work[k.Attempt] = k })
	return k
}

// reported waits for the task's report.
func (p *platform) reported(k *task) api.Report {
	p.t.Helper()
	p.until(k.Kind+" has reported", func() bool { return k.report != nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	return *k.report
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func read[T any](r *http.Request) (v T, err error) {
	err = json.NewDecoder(r.Body).Decode(&v)
	return v, err
}

func (p *platform) serveRegister(w http.ResponseWriter, r *http.Request) {
	in, err := read[api.Register](r)
	if err != nil {
		problem(w, 400, err.Error())
		return
	}
	p.change(func() { p.register = append(p.register, in) })
	answer(w, api.Registered{Agent: "agt_1", Name: "test", Account: "local", VersionStatus: "current", Policy: api.AgentPolicy{
		ClaimWaitSeconds: 30, HeartbeatSeconds: 1, LogLineBytes: 4096, LogTotalBytes: 1 << 20, LogChunkBytes: 32 << 10, StateMaxBytes: 4 << 20, SourceMaxBytes: 4 << 20, PlanMaxBytes: 16 << 20,
	}})
}

func (p *platform) serveClaim(w http.ResponseWriter, r *http.Request) {
	p.change(func() { p.claims++ })
	wait := time.NewTimer(30 * time.Second)
	defer wait.Stop()
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.queue, func(k *task) bool { return !k.accepted })
		if i >= 0 {
			k := p.queue[i]
			k.offers++
			p.announce()
			p.mu.Unlock()
			answer(w, api.Offer{Task: k.Task, Attempt: k.Attempt})
			return
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-r.Context().Done():
			return
		case <-wait.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-changed:
		}
	}
}

// of finds the attempt that a request is about.
func (p *platform) of(w http.ResponseWriter, r *http.Request, attempt string) *task {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.work[attempt]
	if k == nil || k.Task != r.PathValue("id") {
		problem(w, http.StatusNotFound, "no such attempt")
		return nil
	}
	return k
}

func (p *platform) serveAccept(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.Accept](r)
	if k := p.of(w, r, in.Attempt); k != nil {
		p.change(func() {
			k.accepted = true
			p.queue = slices.DeleteFunc(p.queue, func(q *task) bool { return q == k })
		})
		answer(w, k.Work)
	}
}

func (p *platform) serveHeartbeat(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.Heartbeat](r)
	k := p.of(w, r, in.Attempt)
	if k == nil {
		return
	}
	order := "continue"
	p.change(func() {
		k.beats, k.beatAt = append(k.beats, in), append(k.beatAt, time.Now())
		if k.cancel {
			order = "cancel"
		}
	})
	answer(w, api.HeartbeatAnswer{Order: order})
}

func (p *platform) serveLogs(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.AppendLogs](r)
	k := p.of(w, r, in.Attempt)
	if k == nil {
		return
	}
	var next int64
	p.change(func() {
		for _, c := range in.Chunks {
			if c.Seq == int64(len(k.log)) {
				k.log = append(k.log, c)
			}
		}
		next = int64(len(k.log))
	})
	answer(w, api.LogsAcknowledged{Next: next})
}

func (p *platform) servePlan(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.PlanMade](r)
	if k := p.of(w, r, in.Attempt); k != nil {
		p.change(func() { k.plan = &in })
		answer(w, struct{}{})
	}
}

func (p *platform) serveReport(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.Report](r)
	if k := p.of(w, r, in.Attempt); k != nil {
		p.change(func() { k.report, k.reports = &in, k.reports+1 })
		answer(w, api.Reported{Status: in.Outcome})
	}
}

func (p *platform) serveSource(w http.ResponseWriter, r *http.Request) {
	if k := p.of(w, r, r.URL.Query().Get("attempt")); k != nil {
		_, _ = w.Write(k.source)
	}
}

func (p *platform) serveGetPlanFile(w http.ResponseWriter, r *http.Request) {
	if k := p.of(w, r, r.URL.Query().Get("attempt")); k != nil {
		_, _ = w.Write(k.planFile)
	}
}

func (p *platform) servePutPlanFile(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if k := p.of(w, r, r.URL.Query().Get("attempt")); k != nil && err == nil {
		p.change(func() { k.planFile = body })
		w.WriteHeader(http.StatusNoContent)
	}
}

// serveState is the state protocol with the least that the tool needs.
func (p *platform) serveState(w http.ResponseWriter, r *http.Request) {
	if _, token, _ := r.BasicAuth(); token != "hf_run_canary-state-token" {
		problem(w, http.StatusUnauthorized, "not an attempt's token")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection broke
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.announce()
	switch r.Method {
	case http.MethodGet:
		if p.state == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(p.state)
	case http.MethodPost:
		p.state = bytes.Clone(body)
		p.saves++
	case "LOCK":
		if p.lock != "" && p.lock != string(body) {
			w.WriteHeader(http.StatusLocked)
			_, _ = io.WriteString(w, p.lock)
			return
		}
		p.lock = string(body)
	case "UNLOCK":
		p.lock = ""
	}
}

// resources are the addresses in the stored state.
func (p *platform) resources() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var doc struct {
		Resources []struct {
			Type, Name string
			Instances  []json.RawMessage
		}
	}
	if p.state == nil {
		return nil
	}
	if err := json.Unmarshal(p.state, &doc); err != nil {
		p.t.Fatalf("the stored state is broken: %v", err)
	}
	var all []string
	for _, r := range doc.Resources {
		if len(r.Instances) > 0 {
			all = append(all, r.Type+"."+r.Name)
		}
	}
	slices.Sort(all)
	return all
}
