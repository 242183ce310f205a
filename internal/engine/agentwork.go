package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
)

// MinAgentVersion is the oldest version of agents that may claim tasks.
const MinAgentVersion = "0.1.0"

// What a version is to this server.
const (
	VersionCurrent     = "current"
	VersionUnsupported = "unsupported"
)

// VersionStatus compares with MinAgentVersion. What stands after a - or + never ranks, and a version that is no number
// is one that somebody built for themselves.
func VersionStatus(version string) string {
	have, ok := numbers(version)
	least, _ := numbers(MinAgentVersion)
	if !ok {
		return VersionCurrent
	}
	for i := range least {
		if have[i] != least[i] {
			if have[i] < least[i] {
				return VersionUnsupported
			}
			return VersionCurrent
		}
	}
	return VersionCurrent
}

func numbers(version string) (n [3]int, ok bool) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(n) {
		return n, false
	}
	for i, p := range parts {
		var err error
		if n[i], err = strconv.Atoi(p); err != nil || n[i] < 0 {
			return n, false
		}
	}
	return n, true
}

// What the server expects of agents' logs and heartbeats.
const (
	HeartbeatInterval = 10 * time.Second
	LogLineBytes      = 64 << 10
	LogTotalBytes     = 64 << 20
	LogChunkBytes     = 256 << 10
)

// Registration is what an agent says it is.
type Registration struct {
	Version      string
	Capabilities []string
	SealingKey   string
}

// Registered is who the agent is to the server.
type Registered struct {
	Agent         access.AgentRecord
	Account       access.Account
	VersionStatus string
	Limits        Limits
}

// Register stores what the agent is. It succeeds for versions that may not claim, so that people see what to upgrade.
func (e *Engine) Register(ctx context.Context, actor access.Actor, in Registration) (out Registered, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return out, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		account, err := tx.AccountByID(ctx, actor.Account)
		if err != nil {
			return err
		}
		if !account.Enabled {
			return accountDisabled(account.Name)
		}
		agent, err := tx.Agent(ctx, actor.Org, actor.ID)
		if err != nil {
			return err
		}
		changed := agent.Version != in.Version || agent.RegisteredAt.IsZero()
		now := e.now()
		agent.Version, agent.Capabilities, agent.SealingKey = clean(in.Version, 100), in.Capabilities, in.SealingKey
		agent.RegisteredAt, agent.LastSeenAt, agent.Draining = now, now, false
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		out = Registered{Agent: agent, Account: account, VersionStatus: VersionStatus(agent.Version), Limits: e.limits}
		if !changed {
			return nil
		}
		return e.record(ctx, tx, actor, "agent.register", agent.ID, map[string]any{"name": agent.Name, "version": agent.Version})
	})
	return out, err
}

// Work is what an attempt is to do.
type Work struct {
	Run       run.Run
	Task      run.Task
	Attempt   run.Attempt
	Component run.Component
	State     string        // name of its state
	Token     redact.Secret // opens that state and nothing else
	ReadOnly  bool
	Timeout   time.Duration // of one tofu command
}

// The life of an attempt's token: the step's timeout and a margin for what comes before and after it, at most a day.
const (
	tokenMargin  = 30 * time.Minute
	tokenMaximum = 24 * time.Hour
)

// Accept makes an offered attempt the agent's. Repeating it gives a fresh token for the same attempt, and ends the
// earlier one. An apply whose plan does not fit any more is not handed out: its run is discarded.
func (e *Engine) Accept(ctx context.Context, actor access.Actor, task, attempt string) (work Work, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return work, err
	}
	token := access.NewToken(access.AttemptPrefix)
	var stale error
	var after run.Run
	warned := ""
	err = e.store.Update(ctx, func(tx Tx) error {
		j, err := ownJob(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		stale, after, warned = nil, run.Run{}, ""
		if j.attempt.Status == run.AttemptOffered {
			why, err := e.take(ctx, tx, actor, &j)
			if err != nil {
				return err
			}
			if why != "" {
				stale, after = staleness(&j.run, why), j.run
				return nil
			}
			warned = j.warned
		} else if _, err := j.attempt.Status.On(run.AttemptAccept); err != nil {
			return over(j.attempt)
		}
		work, err = e.arm(ctx, tx, j, token)
		return err
	})
	if after.Status.Final() && err == nil {
		e.beginNext(ctx, after)
	}
	if err == nil && warned != "" {
		e.log.WarnContext(ctx, warned, "run", work.Run.ID, "state", work.State, "org", work.Run.Org)
	}
	if err == nil {
		err = stale
	}
	return work, err
}

// take moves an offered attempt and its task on. stale is why an apply must not be done; its run is discarded then.
func (e *Engine) take(ctx context.Context, tx Tx, actor access.Actor, j *job) (stale string, err error) {
	if j.task.Kind == run.TaskApply {
		why, err := e.moved(ctx, tx, &j.run)
		if err != nil {
			return "", err
		}
		if why != "" {
			return why, e.discard(ctx, tx, &j.run, why)
		}
	}
	if j.attempt.Status, err = j.attempt.Status.On(run.AttemptAccept); err != nil {
		return "", over(j.attempt)
	}
	now := e.now()
	j.attempt.AcceptedAt, j.attempt.HeartbeatAt, j.attempt.Stage = now, now, "prepare"
	if err := tx.UpdateAttempt(ctx, j.attempt); err != nil {
		return "", err
	}
	if err := e.moveTask(ctx, tx, &j.task, run.TaskAccept); err != nil {
		return "", err
	}
	if err := e.forgetEarlier(ctx, tx, j); err != nil {
		return "", err
	}
	err = e.tell(ctx, tx, &j.run, happened{
		level: info, kind: "task.accepted", phase: string(j.task.Kind), component: j.task.Component,
		text: fmt.Sprintf("%s: %s by agent %s", j.task.Component, gerund(j.task.Kind), j.attempt.AgentName),
	})
	if err == nil && j.task.Kind == run.TaskPlan {
		err = e.warnOfSize(ctx, tx, j)
	}
	if err != nil {
		return "", err
	}
	return "", e.record(ctx, tx, actor, "task.accept", j.task.ID, map[string]any{"run": j.run.ID, "attempt": j.attempt.ID, "kind": j.task.Kind})
}

// nearLimit is the share of the limit above which a plan warns of its state's size, in percent: a state that outgrows
// the limit is refused by the save at the end of an apply, when it is too late.
const nearLimit = 80

func (e *Engine) warnOfSize(ctx context.Context, tx Tx, j *job) error {
	c := j.run.Component(j.task.Component)
	if c == nil || c.StateID == "" {
		return nil
	}
	s, err := tx.StateByID(ctx, c.StateID)
	if err != nil {
		return fmt.Errorf("read the state of component %s: %w", c.Name, err)
	}
	if s.Head == nil || s.Head.Size <= e.limits.StateMaxBytes/100*nearLimit {
		return nil
	}
	j.warned = fmt.Sprintf("%s: its state %s has %d bytes, more than %d %% of the %d that are taken (HOLDFAST_TF_STATE_MAX_BYTES); a larger save is refused",
		c.Name, s.Name, s.Head.Size, nearLimit, e.limits.StateMaxBytes)
	return e.tell(ctx, tx, &j.run, happened{level: warning, kind: "state.near_limit", phase: phasePlan, component: c.Name, text: j.warned})
}

func gerund(k run.TaskKind) string {
	if k == run.TaskApply {
		return "applying"
	}
	return "planning"
}

// forgetEarlier ends what earlier attempts of the task could still do, and drops what they have delivered.
func (e *Engine) forgetEarlier(ctx context.Context, tx Tx, j *job) error {
	attempts, err := tx.Attempts(ctx, j.run.ID, j.task.ID)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.Number < j.attempt.Number && !a.AcceptedAt.IsZero() {
			if err := e.disarm(ctx, tx, a); err != nil {
				return err
			}
		}
	}
	c := j.run.Component(j.task.Component)
	if j.task.Kind != run.TaskPlan || c == nil || c.Plan == nil {
		return nil
	}
	if err := tx.DeleteObject(ctx, c.Plan.Object); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	c.Plan = nil
	return tx.UpdateRun(ctx, j.run)
}

// arm gives the attempt its token, in place of any it had.
func (e *Engine) arm(ctx context.Context, tx Tx, j job, token redact.Secret) (Work, error) {
	c := j.run.Component(j.task.Component)
	if c == nil {
		return Work{}, fmt.Errorf("run %s has no component %s", j.run.ID, j.task.Component)
	}
	now := e.now()
	if err := tx.EndTokens(ctx, "", j.attempt.ID, now); err != nil && !fault.Is(err, fault.NotFound) {
		return Work{}, fmt.Errorf("end the earlier token of attempt %s: %w", j.attempt.ID, err)
	}
	readOnly := j.run.Kind == run.Preview
	err := tx.CreateToken(ctx, access.Token{
		ID: id.New(id.Token, now), Org: j.run.Org, Name: "attempt " + strconv.Itoa(j.attempt.Number) + " of " + j.task.ID,
		Hash: access.Hash(token).Hex(), AttemptID: j.attempt.ID, State: c.StateID, ReadOnly: readOnly, CreatedAt: now,
		ExpiresAt: now.Add(min(e.limits.StepTimeout+tokenMargin, tokenMaximum)),
	})
	if err != nil {
		return Work{}, fmt.Errorf("make the token of attempt %s: %w", j.attempt.ID, err)
	}
	return Work{
		Run: j.run, Task: j.task, Attempt: j.attempt, Component: *c, State: c.StateName, Token: token, ReadOnly: readOnly,
		Timeout: e.limits.StepTimeout,
	}, nil
}

// TaskSource opens the packed source of the agent's attempt.
func (e *Engine) TaskSource(ctx context.Context, actor access.Actor, task, attempt string) (Object, io.ReadCloser, error) {
	return e.handOut(ctx, actor, task, attempt, func(c run.Component) (objectID, sum string) { return c.Source.Object, c.Source.SHA256 })
}

// TaskPlanFile opens the approved plan file of the agent's apply.
func (e *Engine) TaskPlanFile(ctx context.Context, actor access.Actor, task, attempt string) (Object, io.ReadCloser, error) {
	return e.handOut(ctx, actor, task, attempt, func(c run.Component) (objectID, sum string) {
		if c.Plan == nil {
			return "", ""
		}
		sum, _ = planFileSum(c.Plan.Digest)
		return c.Plan.Object, sum
	})
}

// handOut opens an object for an attempt that is at work. Its digest has to be the one that the run's rows name; the
// reader checks the bytes against it.
func (e *Engine) handOut(ctx context.Context, actor access.Actor, task, attempt string, which func(run.Component) (objectID, sum string)) (o Object, r io.ReadCloser, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return o, nil, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		a, err := ownAttempt(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		if err := open(ctx, tx, a); err != nil {
			return err
		}
		owner, err := tx.Run(ctx, actor.Org, a.Run)
		if err != nil {
			return err
		}
		c := owner.Component(a.Component)
		if c == nil {
			return fmt.Errorf("run %s has no component %s", a.Run, a.Component)
		}
		objectID, sum := which(*c)
		if objectID == "" {
			return fault.New(fault.NotFound, "plan_not_found", "There is no plan file for this task.")
		}
		o, err = tx.Object(ctx, objectID)
		if fault.Is(err, fault.NotFound) || err == nil && (o.Org != actor.Org || o.SHA256 != sum) {
			return fault.New(fault.Conflict, "digest_mismatch", "What is stored is not what the run was planned with.").
				WithHint("Start a new run.")
		}
		return err
	})
	if err != nil {
		return o, nil, err
	}
	r, err = e.openObject(ctx, o)
	return o, r, err
}

// Heartbeat is an attempt's sign of life.
type Heartbeat struct {
	Stage, Progress string
	Draining        bool
}

// The orders that answer a heartbeat.
const (
	OrderContinue   = "continue"
	OrderCancel     = "cancel"
	OrderSuperseded = "superseded"
)

// Heartbeat takes a sign of life and says whether to go on.
func (e *Engine) Heartbeat(ctx context.Context, actor access.Actor, task, attempt string, in Heartbeat) (order string, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return "", err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		a, err := ownAttempt(ctx, tx, actor, task, attempt)
		if err != nil {
			return err
		}
		if a, err = tx.AttemptForUpdate(ctx, a.ID); err != nil {
			return err
		}
		if err := e.seen(ctx, tx, actor, in.Draining); err != nil {
			return err
		}
		if order, err = orderFor(ctx, tx, a); err != nil {
			return err
		}
		if order == OrderSuperseded {
			return nil
		}
		return e.heard(ctx, tx, a, in)
	})
	return order, err
}

// heard stores the sign of life, and what the attempt is doing unless it has ended.
func (e *Engine) heard(ctx context.Context, tx Tx, a run.Attempt, in Heartbeat) error {
	stage, progress := clean(in.Stage, 40), clean(in.Progress, 200)
	a.HeartbeatAt = e.now()
	changed := !a.Status.Final() && (stage != "" && stage != a.Stage || progress != a.Progress)
	if changed {
		if stage != "" {
			a.Stage = stage
		}
		a.Progress = progress
	}
	if err := tx.UpdateAttempt(ctx, a); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	return tx.Notify(ctx, runTopic(a.Run))
}

func orderFor(ctx context.Context, tx Tx, a run.Attempt) (string, error) {
	switch a.Status {
	case run.AttemptOffered:
		return "", open(ctx, tx, a)
	case run.AttemptCancelling:
		return OrderCancel, nil
	case run.AttemptSuperseded:
		return OrderSuperseded, nil
	case run.AttemptLost:
		gone, err := replaced(ctx, tx, a)
		// An apply that had not begun when it was taken for lost must not begin now: its run has ended.
		if err != nil || gone || a.TaskKind == run.TaskApply && a.Stage != "apply" && a.Stage != "outputs" {
			return OrderSuperseded, err
		}
	case run.AttemptAccepted, run.AttemptSucceeded, run.AttemptFailed, run.AttemptCancelled:
	}
	return OrderContinue, nil
}

// PlanMade is what an attempt has planned. The plan file has been stored before.
type PlanMade struct {
	Digest     string // "sha256:…" of the plan file
	Tool       string
	Version    string
	LockFile   string
	ConfigHash string
	BaseSHA256 string
	View       json.RawMessage
}
