// Command seed puts into the database of a server that is not running what the browser tests look at and what would
// take too long, or a broken machine, to come about: many runs, a run whose agent was lost in its apply with a log of
// 100,000 lines, the lock and the hold it left, and agents of every standing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/sqlite"
)

const (
	manyRuns  = 10_000
	fewStacks = 40
	batch     = 500
	logChunks = 400
	logLines  = 250 // of a chunk
)

// hostile is a text as a template, a tool or a person may give it: markup, a right-to-left override, an escape
// sequence, a line separator.
const hostile = "<img src=x onerror=alert(1)> \u202egnp.exe\u202c \x1b[31mred \u2028 end"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: seed DATABASE")
		os.Exit(2)
	}
	lost, err := seed(context.Background(), os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(map[string]string{"lost": lost})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

// seeder knows the organization and account that the server made at its first start.
type seeder struct {
	store engine.Store
	org   access.Organization
	acc   access.Account
	now   time.Time
}

func seed(ctx context.Context, database string) (lost string, err error) {
	store, err := sqlite.Open(ctx, database)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := store.Close(); err == nil {
			err = e
		}
	}()
	s := seeder{store: store, now: time.Now()}
	err = store.View(ctx, func(tx engine.Tx) error {
		if s.org, err = tx.Organization(ctx, "default"); err != nil {
			return err
		}
		s.acc, err = tx.Account(ctx, s.org.ID, "local")
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read what the first start made: %w", err)
	}
	if err := s.agents(ctx); err != nil {
		return "", fmt.Errorf("make agents: %w", err)
	}
	if err := s.runs(ctx); err != nil {
		return "", fmt.Errorf("make runs: %w", err)
	}
	return s.lostRun(ctx)
}

func (s seeder) agents(ctx context.Context) error {
	return s.store.Update(ctx, func(tx engine.Tx) error {
		for _, a := range []access.AgentRecord{
			{Name: "never-seen"},
			{Name: hostile, Version: "0.0.9", RegisteredAt: s.ago(time.Hour), LastSeenAt: s.ago(time.Hour)},
			{Name: "gone", Version: "0.0.9", RegisteredAt: s.ago(time.Hour), LastSeenAt: s.ago(time.Hour), RevokedAt: s.ago(time.Minute)},
		} {
			a.ID, a.Org, a.Account, a.CreatedAt, a.Capabilities = id.New(id.Agent, s.now), s.org.ID, s.acc.ID, s.ago(2*time.Hour), []string{"executor:process"}
			if err := tx.CreateAgent(ctx, a); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s seeder) ago(d time.Duration) time.Time { return s.now.Add(-d) }

func (s seeder) stack(ctx context.Context, tx engine.Tx, name string, production bool) (run.Stack, error) {
	return tx.PutStack(ctx, run.Stack{
		ID: id.New(id.Stack, s.now), Org: s.org.ID, Name: name, Account: s.acc.ID, Production: production,
		Approval: run.HighRisk, CreatedAt: s.ago(48 * time.Hour), UpdatedAt: s.ago(48 * time.Hour),
	})
}

// runs are old, ended runs of a fleet of stacks, a minute apart.
func (s seeder) runs(ctx context.Context) error {
	var stacks []run.Stack
	err := s.store.Update(ctx, func(tx engine.Tx) error {
		stacks = nil
		for i := range fewStacks {
			st, err := s.stack(ctx, tx, fmt.Sprintf("fleet-%02d", i), i%4 == 0)
			if err != nil {
				return err
			}
			stacks = append(stacks, st)
		}
		return nil
	})
	for at := 0; at < manyRuns && err == nil; at += batch {
		err = s.store.Update(ctx, func(tx engine.Tx) error {
			for i := at; i < at+batch; i++ {
				if err := tx.CreateRun(ctx, s.endedRun(i, stacks[i%fewStacks])); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

func (s seeder) endedRun(i int, st run.Stack) run.Run {
	at := s.ago(time.Hour + time.Duration(manyRuns-i)*time.Minute)
	r := run.Run{
		ID: id.New(id.Run, at), Org: s.org.ID, Stack: st.ID, StackName: st.Name, Account: s.acc.ID, Kind: run.Deploy,
		Status: run.Succeeded, Risk: "low", PlanDigest: "sha256:" + strings.Repeat(fmt.Sprintf("%04x", i), 16), Production: st.Production,
		CreatedBy: run.Person{Kind: "user", ID: "usr_seed", Name: "ci"}, CreatedAt: at, EndedAt: at.Add(40 * time.Second),
		Approval: run.Approval{Policy: run.HighRisk, Status: run.ApprovalSkipped, Reason: "nothing is destroyed"},
	}
	c := run.Component{
		Run: r.ID, Name: "main", StateName: st.Name + ".main", Action: "update", Status: run.ComponentDone,
		Plan: &run.Plan{Digest: r.PlanDigest, View: json.RawMessage("{}"), Tool: "tofu", Version: "1.12.6", Add: i % 5, Change: 1, HasChanges: true, Risk: "low"},
	}
	switch i % 10 {
	case 7:
		r.Status, r.Class, r.Message, c.Status = run.Failed, run.Configuration, "Error: "+hostile, run.ComponentFailed
	case 8:
		r.Status, r.Risk, c.Plan.Destroy, c.Plan.Replace, c.Plan.Risk = run.Rejected, "high", 2, 1, "high"
		r.Approval = run.Approval{Policy: run.HighRisk, Required: true, Status: run.ApprovalRejected, By: "usr_seed", ByName: hostile, At: r.EndedAt}
	case 9:
		r.Status, r.Class = run.Cancelled, run.ClassCancelled
	}
	r.Components = []run.Component{c}
	return r
}

// lostRun is a production run whose agent went away in the apply, twenty minutes ago.
func (s seeder) lostRun(ctx context.Context) (string, error) {
	started, ended := s.ago(30*time.Minute), s.ago(20*time.Minute)
	runID := id.New(id.Run, started)
	attempt := run.Attempt{
		ID: id.New(id.Attempt, started), Org: s.org.ID, Task: id.New(id.Task, started), Run: runID, Component: "main",
		TaskKind: run.TaskApply, Number: 1, AgentName: "prod-eu-1", Status: run.AttemptLost, Stage: "apply", Progress: "3 of 7 resources",
		OfferedAt: started, AcceptedAt: started, HeartbeatAt: s.ago(22 * time.Minute), EndedAt: ended, Class: run.ClassLost,
		Message: "no heartbeat for 2 minutes", PartialApply: true,
	}
	err := s.store.Update(ctx, func(tx engine.Tx) error {
		st, err := s.stack(ctx, tx, "billing", true)
		if err != nil {
			return err
		}
		agents, _, err := tx.Agents(ctx, s.org.ID, engine.Page{Limit: 10})
		if err != nil {
			return err
		}
		attempt.Agent = agents[0].ID
		r := run.Run{
			ID: runID, Org: s.org.ID, Stack: st.ID, StackName: st.Name, Account: s.acc.ID, Kind: run.Deploy, Status: run.Failed, Risk: "high",
			PlanDigest: "sha256:" + strings.Repeat("ab", 32), Production: true, Hold: true, CreatedAt: started, EndedAt: ended, Class: run.ClassLost,
			PartialApply: true, Message: "The agent prod-eu-1 was not heard of for 2 minutes in the apply.",
			CreatedBy: run.Person{Kind: "user", ID: "usr_seed", Name: "ci"},
			Approval: run.Approval{
				Policy: run.HighRisk, Required: true, Status: run.ApprovalGiven, Digest: "sha256:" + strings.Repeat("ab", 32),
				By: "usr_seed", ByName: "Ana", At: started,
			},
		}
		r.Components = []run.Component{{Run: runID, Name: "main", StateName: "billing.main", Action: "update", Status: run.ComponentFailed, Message: r.Message}}
		if err := tx.CreateRun(ctx, r); err != nil {
			return err
		}
		task := run.Task{
			ID: attempt.Task, Org: s.org.ID, Run: runID, Component: "main", Account: s.acc.ID, Kind: run.TaskApply,
			Status: run.TaskFailed, Attempts: 1, CreatedAt: started, EndedAt: ended,
		}
		if err := tx.CreateTask(ctx, task); err != nil {
			return err
		}
		if err := tx.CreateAttempt(ctx, attempt); err != nil {
			return err
		}
		for _, e := range []run.Event{
			{Level: "INFO", Type: "run.approved", Phase: "approval", Text: "[phase:approval] Ana approved " + r.PlanDigest, By: "Ana", At: started},
			{Level: "ERROR", Type: "run.failed", Phase: "end", Text: "[phase:end] " + r.Message, At: ended},
		} {
			e.Run = runID
			if _, err := tx.AppendEvent(ctx, e); err != nil {
				return err
			}
		}
		return s.leftState(ctx, tx, attempt)
	})
	if err != nil {
		return "", fmt.Errorf("make the lost run: %w", err)
	}
	return runID, s.log(ctx, attempt)
}

// leftState is the state as the lost run left it: locked by its attempt and held for it.
func (s seeder) leftState(ctx context.Context, tx engine.Tx, a run.Attempt) error {
	st := state.State{ID: id.New(id.State, s.now), Org: s.org.ID, Name: "billing.main", CreatedAt: a.AcceptedAt, UpdatedAt: a.AcceptedAt}
	if err := tx.CreateState(ctx, st); err != nil {
		return err
	}
	st.Lock = &state.Lock{
		Key: id.New(id.Lock, s.now), TakenAt: a.AcceptedAt,
		Info: state.LockInfo{
			ID: "7c0e4f9a-5a5e-4c3b-8d3f-1f2e3d4c5b6a", Operation: "OperationTypeApply", Who: "Žofie@日本-host\u202eevil",
			Version: "1.12.6", Created: a.AcceptedAt.UTC().Format(time.RFC3339Nano),
		},
		Holder: state.Holder{Kind: state.HolderAttempt, ID: a.ID, Name: a.AgentName, Run: a.Run, Task: a.Task, Attempt: a.ID},
	}
	st.Hold = &state.Hold{Run: a.Run, Since: a.AcceptedAt}
	return tx.UpdateState(ctx, st)
}

func (s seeder) log(ctx context.Context, a run.Attempt) error {
	for at := 0; at < logChunks; at += 50 {
		err := s.store.Update(ctx, func(tx engine.Tx) error {
			var chunks []run.LogChunk
			for i := at; i < at+50; i++ {
				stage, text := "apply", &strings.Builder{}
				if i == 0 {
					stage = "init"
				}
				for l := range logLines {
					fmt.Fprintf(text, "\x1b[1mterraform_data.item[%d]\x1b[0m: Still creating... %s\n", i*logLines+l, "[10s elapsed]")
				}
				if i == logChunks-1 {
					text.WriteString("│ Error: " + hostile + "\n")
				}
				chunks = append(chunks, run.LogChunk{Attempt: a.ID, Seq: int64(i), Stage: stage, At: a.AcceptedAt, Text: text.String()})
			}
			return tx.AppendLog(ctx, chunks)
		})
		if err != nil {
			return fmt.Errorf("store the log: %w", err)
		}
	}
	return nil
}
