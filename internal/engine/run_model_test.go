package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/run"
)

// model drives one account's stacks with random events, and knows what must hold whatever happens.
type model struct {
	t       *rapid.T
	w       *runWorld
	agents  []access.Actor
	stacks  []string
	runs    []string
	offers  []modelOffer
	workers []*worker
	ended   map[string]run.Run // as they were when they ended
	serial  int
}

type modelOffer struct {
	agent access.Actor
	engine.Offer
}

// TestRunsRandomly: people, agents, silence and restarts in any order. After each event the rows keep their promises,
// and once everybody does their part again every run comes to an end.
func TestRunsRandomly(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		var worlds atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			n := worlds.Add(1)
			if n > 15 && strings.HasSuffix(t.Name(), "/postgres") {
				return // what is tried does not differ; the time it takes does
			}
			account := fmt.Sprintf("%012d", n)
			w.addAccount(w.alice, account)
			m := &model{
				t: rt, w: w, ended: map[string]run.Run{},
				agents: []access.Actor{w.addAgent(w.alice, "a"+account, account), w.addAgent(w.alice, "b"+account, account)},
			}
			for i, p := range []engine.PutStack{{Approval: run.Always, Hold: true}, {Production: true}, {}} {
				p.Name, p.Account = fmt.Sprintf("s%d-%s", i, account), account
				w.putStack(p)
				m.stacks = append(m.stacks, p.Name)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"":        func(*rapid.T) { m.check() },
				"start":   m.start,
				"claim":   m.claim,
				"accept":  m.accept,
				"beat":    m.beat,
				"plan":    m.plan,
				"save":    m.save,
				"report":  m.report,
				"approve": m.approve,
				"reject":  m.decide(func(id string) error { _, err := w.engine.Reject(t.Context(), w.alice, id, "no"); return err }),
				"cancel":  m.decide(func(id string) error { _, err := w.engine.CancelRun(t.Context(), w.alice, id); return err }),
				"person":  m.person,
				"time":    m.time,
				"restart": func(*rapid.T) { w.restart() },
			})
			m.settle()
		})
	})
}

// may accepts what can rightly be refused; anything else is a failure of the engine.
func (m *model) may(err error) bool {
	if err == nil {
		return true
	}
	switch fault.From(err).Kind {
	case fault.Conflict, fault.NotFound, fault.Locked, fault.Unprocessable, fault.Forbidden, fault.Unauthenticated:
		return false
	}
	m.t.Fatalf("unexpected: %v", err)
	return false
}

func pick[T any](t *rapid.T, from []T, what string) T {
	if len(from) == 0 {
		t.Skip() // rapid draws another step
	}
	return rapid.SampledFrom(from).Draw(t, what)
}

func (m *model) start(t *rapid.T) {
	if len(m.runs) >= 8 {
		t.Skip() // rapid draws another step
	}
	in := m.w.startRun(pick(t, m.stacks, "stack"))
	in.Kind = rapid.SampledFrom([]run.Kind{run.Deploy, run.Deploy, run.Destroy, run.Preview}).Draw(t, "kind")
	in.Components[0].Inputs = json.RawMessage(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(t, "input")))
	v, err := m.w.engine.StartRun(m.w.t.Context(), m.w.alice, in)
	if m.may(err) {
		m.runs = append(m.runs, v.Run.ID)
	}
}

func (m *model) claim(t *rapid.T) {
	agent := pick(t, m.agents, "agent")
	if o, ok, err := m.w.engine.Claim(m.w.t.Context(), agent, engine.Claim{}); m.may(err) && ok {
		m.offers = append(m.offers, modelOffer{agent, o})
	}
}

func (m *model) accept(t *rapid.T) {
	m.take(pick(t, m.offers, "offer"))
}

// take accepts an offer. It may be one that was accepted before: then it is the same attempt again.
func (m *model) take(o modelOffer) {
	w, err := m.w.engine.Accept(m.w.t.Context(), o.agent, o.Task, o.Attempt)
	if !m.may(err) {
		return
	}
	token, err := m.w.engine.Authenticate(m.w.t.Context(), w.Token)
	if err != nil {
		m.t.Fatalf("the fresh token: %v", err)
	}
	for _, k := range m.workers {
		if k.work.Attempt.ID == w.Attempt.ID {
			k.work, k.token = w, token
			return
		}
	}
	m.serial++
	k := &worker{w: m.w, agent: o.agent, work: w, token: token, view: oneChange(), plan: "plan " + w.Attempt.ID, doc: ""}
	if w.Task.Kind == run.TaskApply {
		m.checkApply(w)
		k.plan = "plan of another attempt"
	}
	m.workers = append(m.workers, k)
}

// checkApply is promise 1: what is handed out to be applied is what was approved, or what needed no approval.
func (m *model) checkApply(w engine.Work) {
	r := m.w.run(w.Run.ID)
	digest, err := run.PlanDigest(r)
	if err != nil || digest != r.PlanDigest {
		m.t.Fatalf("run %s is applied with the digest %s, it says %s (%v)", r.ID, digest, r.PlanDigest, err)
	}
	switch {
	case r.Approval.Required && (r.Approval.Status != run.ApprovalGiven || r.Approval.Digest != digest):
		m.t.Fatalf("run %s is applied with the approval %+v", r.ID, r.Approval)
	case !r.Approval.Required && r.Approval.Status != run.ApprovalSkipped:
		m.t.Fatalf("run %s is applied with the approval %+v", r.ID, r.Approval)
	case r.Kind == run.Preview:
		m.t.Fatalf("the preview %s is applied", r.ID)
	}
	s := m.w.state(w.State)
	head := ""
	if s.Head != nil {
		head = s.Head.SHA256
	}
	if head != w.Component.Plan.BaseSHA256 {
		m.t.Fatalf("run %s is applied on the state %s, planned on %s", r.ID, head, w.Component.Plan.BaseSHA256)
	}
}

func (m *model) beat(t *rapid.T) {
	k := pick(t, m.workers, "worker")
	stage := rapid.SampledFrom([]string{"prepare", "plan", "apply"}).Draw(t, "stage")
	_, err := m.w.engine.Heartbeat(m.w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Heartbeat{Stage: stage})
	m.may(err)
}

func (m *model) plan(t *rapid.T) {
	k := pick(t, m.workers, "worker")
	k.view = rapid.SampledFrom([]plan.View{oneChange(), noChange(), oneReplace()}).Draw(t, "view")
	m.deliver(k)
}

func (m *model) deliver(k *worker) {
	base, err := m.base(k)
	if !m.may(err) {
		return
	}
	if _, err := m.w.engine.PutPlanFile(m.w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, reader(k.plan)); !m.may(err) {
		return
	}
	view, err := json.Marshal(k.view)
	if err != nil {
		m.t.Fatal(err)
	}
	m.may(m.w.engine.TakePlan(m.w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.PlanMade{
		Digest: "sha256:" + sum(k.plan),
		Tool:   "tofu", Version: "1.12.6", BaseSHA256: base, View: view,
	}))
}

// base is the hash of the state as it is now, whoever reads it.
func (m *model) base(k *worker) (string, error) {
	s, err := m.w.engine.State(m.w.t.Context(), m.w.alice, k.work.State)
	if err != nil || s.Head == nil {
		return "", err
	}
	return s.Head.SHA256, nil
}

func (m *model) save(t *rapid.T) {
	k := pick(t, m.workers, "worker")
	if k.work.Task.Kind == run.TaskApply {
		m.saveOf(k)
	}
}

func (m *model) saveOf(k *worker) {
	token, err := m.w.engine.Authenticate(m.w.t.Context(), k.work.Token)
	if err != nil {
		m.t.Fatal(err)
	}
	if k.doc == "" {
		m.serial++
		k.doc = document(m.serial, k.work.Attempt.ID)
	}
	lock := "lock-" + k.work.Attempt.ID
	m.may(writeState(m.w.t.Context(), m.w.engine, token, k.work.State, lock, k.doc, engine.UnlockRequest{ID: lock}))
}

func (m *model) report(t *rapid.T) {
	k := pick(t, m.workers, "worker")
	in := engine.Report{
		Outcome:      rapid.SampledFrom([]string{"succeeded", "succeeded", "failed", "cancelled"}).Draw(t, "outcome"),
		PartialApply: rapid.Bool().Draw(t, "partial"),
	}
	_, err := m.w.engine.Report(m.w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, in)
	m.may(err)
}

func (m *model) approve(t *rapid.T) {
	r := m.w.run(pick(t, m.runs, "run"))
	digest := r.PlanDigest
	if rapid.IntRange(0, 4).Draw(t, "old tab") == 0 {
		digest = "sha256:" + sum("old")
	}
	_, err := m.w.engine.Approve(m.w.t.Context(), m.w.alice, r.ID, digest)
	if m.may(err) && digest != r.PlanDigest {
		m.t.Fatalf("the approval of a plan that is not there was taken")
	}
}

func (m *model) decide(do func(id string) error) func(*rapid.T) {
	return func(t *rapid.T) { m.may(do(pick(t, m.runs, "run"))) }
}

// person changes a state with a tool, where nobody else has it.
func (m *model) person(t *rapid.T) {
	m.serial++
	name := pick(t, m.stacks, "stack") + ".main"
	m.may(writeState(m.w.t.Context(), m.w.engine, m.w.alice, name, "of-a-person", document(m.serial, "person"), engine.UnlockRequest{ID: "of-a-person"}))
}

func (m *model) time(t *rapid.T) {
	m.w.pass(rapid.SampledFrom([]time.Duration{time.Second, 11 * time.Second, time.Minute, longSilence}).Draw(t, "time"))
}

// check is what holds after every event.
func (m *model) check() {
	busy := map[string]string{}
	for _, id := range m.runs {
		v := m.w.view(id)
		r := v.Run
		m.checkHistory(r)
		m.checkAttempts(v)
		if r.Status.Final() {
			m.checkFinal(r)
			continue
		}
		if r.Kind != run.Preview && r.Status != run.Queued {
			if other := busy[r.StackName]; other != "" {
				m.t.Fatalf("runs %s and %s change the stack %s at once", other, r.ID, r.StackName)
			}
			busy[r.StackName] = r.ID
		}
		m.checkOpen(r)
	}
}

// checkHistory: what has ended stays as it ended, but for the correction of a lost apply.
func (m *model) checkHistory(r run.Run) {
	before, ended := m.ended[r.ID]
	if r.Status.Final() {
		m.ended[r.ID] = r
	}
	if !ended {
		return
	}
	corrected := before.Status == run.Failed && before.Class == run.ClassLost && (r.Status == run.Succeeded || r.Status == run.Failed)
	if r.Status != before.Status && !corrected {
		m.t.Fatalf("run %s had ended as %s (%s) and is %s now", r.ID, before.Status, before.Class, r.Status)
	}
	if r.Class != before.Class && !corrected {
		m.t.Fatalf("run %s had ended with class %s and has %s now", r.ID, before.Class, r.Class)
	}
}

// checkAttempts: one attempt of a task at work, and one apply of a run ever.
func (m *model) checkAttempts(v engine.RunView) {
	atWork, applies := map[string]int{}, 0
	for _, a := range v.Attempts {
		if a.Status == run.AttemptAccepted || a.Status == run.AttemptCancelling || a.Status == run.AttemptOffered {
			atWork[a.Task]++
		}
		if a.TaskKind == run.TaskApply && !a.AcceptedAt.IsZero() {
			applies++
		}
	}
	for task, n := range atWork {
		if n > 1 {
			m.t.Fatalf("task %s has %d attempts at work", task, n)
		}
	}
	if applies > 1 {
		m.t.Fatalf("run %s was applied %d times", v.Run.ID, applies)
	}
}

func (m *model) tasks(id string) (tasks []run.Task) {
	err := m.w.store.View(m.w.t.Context(), func(tx engine.Tx) (err error) {
		tasks, err = tx.Tasks(m.w.t.Context(), id)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return tasks
}

// checkFinal: nothing is kept for a run that has ended.
func (m *model) checkFinal(r run.Run) {
	if r.EndedAt.IsZero() || r.WaitsFor != "" {
		m.t.Fatalf("run %s is %s, ended at %s, waits for %q", r.ID, r.Status, r.EndedAt, r.WaitsFor)
	}
	if p := r.Components[0].Plan; p != nil && p.Object != "" {
		m.t.Fatalf("run %s is %s and keeps its plan file", r.ID, r.Status)
	}
	for _, t := range m.tasks(r.ID) {
		if !t.Status.Final() {
			m.t.Fatalf("run %s is %s and has a task that is %s", r.ID, r.Status, t.Status)
		}
	}
	if hold := m.w.state(r.Components[0].StateName).Hold; hold != nil && hold.Run == r.ID {
		m.t.Fatalf("run %s is %s and holds its state", r.ID, r.Status)
	}
	if (r.Status == run.Rejected || r.Status == run.Discarded) && r.PartialApply {
		m.t.Fatalf("run %s is %s, and yet partial", r.ID, r.Status)
	}
}

// checkOpen: somebody has to do something about a run that has not ended, and it is said who.
func (m *model) checkOpen(r run.Run) {
	tasks := m.tasks(r.ID)
	open := slices.ContainsFunc(tasks, func(t run.Task) bool { return !t.Status.Final() })
	switch r.Status {
	case run.Planning, run.Applying, run.Cancelling:
		if !open {
			m.t.Fatalf("run %s is %s, and nobody has to do anything", r.ID, r.Status)
		}
	case run.AwaitingApproval:
		if open || r.Approval.Status != run.ApprovalPending || r.Components[0].Plan.Object == "" {
			m.t.Fatalf("run %s waits for approval: open tasks %t, approval %+v", r.ID, open, r.Approval)
		}
	case run.Queued:
		ahead, ok := m.ended[r.WaitsFor]
		if r.WaitsFor == "" || open || ok && ahead.Status.Final() {
			m.t.Fatalf("run %s is queued and waits for %q, which has ended: %t", r.ID, r.WaitsFor, ok)
		}
	}
}

// settle has everybody do their part: then every run ends.
func (m *model) settle() {
	for round := 0; ; round++ {
		m.w.pass(longSilence) // whoever fell silent is given up, and offers go back
		open := m.open()
		if len(open) == 0 {
			break
		}
		if round > 60 {
			m.t.Fatalf("runs do not come to an end: %s", strings.Join(open, ", "))
		}
		for _, agent := range m.agents {
			if o, ok, err := m.w.engine.Claim(m.w.t.Context(), agent, engine.Claim{}); m.may(err) && ok {
				m.take(modelOffer{agent, o})
				m.finish(m.workers[len(m.workers)-1])
			}
		}
		for _, id := range m.runs {
			if r := m.w.run(id); r.Status == run.AwaitingApproval {
				_, err := m.w.engine.Approve(m.w.t.Context(), m.w.alice, id, r.PlanDigest)
				m.may(err)
			}
		}
		m.check()
	}
	m.check()
	for _, agent := range m.agents {
		if o, ok, err := m.w.engine.Claim(m.w.t.Context(), agent, engine.Claim{}); err != nil || ok {
			m.t.Fatalf("after all runs have ended agent %s is offered %+v, %v", agent.Name, o, err)
		}
	}
}

func (m *model) finish(k *worker) {
	if k.work.Task.Kind == run.TaskPlan {
		m.deliver(k)
	} else {
		m.saveOf(k)
	}
	_, err := m.w.engine.Report(m.w.t.Context(), k.agent, k.work.Task.ID, k.work.Attempt.ID, engine.Report{Outcome: "succeeded"})
	m.may(err)
}

func (m *model) open() (open []string) {
	for _, id := range m.runs {
		if r := m.w.run(id); !r.Status.Final() {
			open = append(open, fmt.Sprintf("%s is %s", id, r.Status))
		}
	}
	return open
}
