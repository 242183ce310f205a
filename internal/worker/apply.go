package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/tofu"
)

// askTimeout is how long the answer to the heartbeat before an apply is waited for.
const askTimeout = 2 * time.Minute

// apply applies the approved plan, or nothing.
func (a *attempt) apply(ctx context.Context) error {
	file := filepath.Join(a.dir, link.PlanFile)
	if err := a.checkPlan(ctx, file); err != nil {
		return err
	}
	if err := a.ask(ctx); err != nil {
		return err
	}
	if err := write(filepath.Join(a.private, applyingFile), []byte(a.forward.port())); err != nil {
		return err
	}
	a.begun = true
	said, err := a.speaking(ctx, tofu.ApplyArgs(file, 0), true, a.applied.see)
	a.removePlan()
	if err != nil {
		return err
	}
	if said.Exit.Kind != tofu.ExitOK {
		return fail(classOf(said, link.ClassInfrastructure), "%s", said.why("apply"))
	}
	a.applied.whole = true
	return nil
}

// checkPlan makes sure that what would be applied is what was approved, down to the byte.
func (a *attempt) checkPlan(ctx context.Context, file string) error {
	p := a.Plan
	if tool := a.worker.tool; p.Tool != toolName(tool) || p.Version != tool.Version {
		return fail(link.ClassRefused, "The plan was made with %s %s, and this agent has %s. Nothing was applied; start a new run, or give the agent that version.", p.Tool, p.Version, tool)
	}
	sum, err := digest(file)
	if err != nil {
		return fmt.Errorf("hash the plan: %w", err)
	}
	if "sha256:"+sum != p.Digest {
		return fail(link.ClassRefused, "The plan file is not the one that was approved: its digest is sha256:%.12s, approved was %.19s. Nothing was applied; start a new run.", sum, p.Digest)
	}
	var approved plan.View
	if err := json.Unmarshal(p.View, &approved); err != nil {
		return &failure{link.ClassRefused, "What was approved cannot be read", err}
	}
	actual, err := a.show(ctx, file)
	if err != nil {
		return err
	}
	if err := plan.Permits(&approved, actual); err != nil {
		return &failure{link.ClassRefused, "The plan does more than was approved", err}
	}
	return nil
}

// ask wants one answered heartbeat right before the apply: an attempt that the server has given up must not begin one.
func (a *attempt) ask(ctx context.Context) error {
	if err := a.session.conn.Send(link.Message{Ask: &link.Ask{}}); err != nil {
		return err
	}
	t := time.NewTimer(askTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fail(link.ClassInfrastructure, "The server did not answer right before the apply, so it was not begun. Start a new run.")
	case ok := <-a.session.answers:
		if !ok {
			return cancelled{link.ReasonAsked}
		}
		return nil
	}
}

// outputs reads the outputs. Sensitive values stay here.
func (a *attempt) outputs(ctx context.Context) error {
	doc, said, err := a.printing(ctx, tofu.OutputArgs())
	if err != nil {
		return err
	}
	defer func() { _ = doc.Close() }()
	if said.Exit.Kind != tofu.ExitOK {
		return fail(link.ClassInfrastructure, "Everything was applied and the state is saved, but the outputs could not be read: %s", said.why("output"))
	}
	text, err := whole(doc)
	if err != nil {
		return err
	}
	outputs, err := tofu.ParseOutputs(text)
	if err != nil {
		return err
	}
	type public struct {
		Value     json.RawMessage `json:"value,omitempty"`
		Type      json.RawMessage `json:"type"`
		Sensitive bool            `json:"sensitive"`
	}
	all := map[string]public{}
	for name, o := range outputs {
		all[name] = public{o.Value, o.Type, o.Sensitive}
	}
	a.result.Outputs, err = json.Marshal(all)
	if err != nil {
		return errors.Join(errors.New("write the outputs"), err)
	}
	return nil
}

// applied counts what an apply has done, from its lines.
type applied struct {
	started bool // some change was begun
	whole   bool // it ended well
	done    map[string]map[string]bool
	summary *tofu.Summary
}

func (p *applied) see(l tofu.Line) {
	switch l.Type {
	case "change_summary":
		if l.Changes != nil && l.Changes.Operation == "apply" {
			p.summary = l.Changes
		}
		return
	case "apply_start", "apply_complete":
	default:
		return
	}
	if l.Action != "create" && l.Action != "update" && l.Action != "delete" {
		return
	}
	p.started = true
	if l.Type == "apply_complete" {
		if p.done[l.Resource] == nil {
			p.done[l.Resource] = map[string]bool{}
		}
		p.done[l.Resource][l.Action] = true
	}
}

func (p *applied) counts() *link.Applied {
	if !p.started && p.summary == nil {
		return nil
	}
	c := &link.Applied{}
	for _, actions := range p.done {
		switch {
		case actions["create"] && actions["delete"]:
			c.Replace++
		case actions["create"]:
			c.Add++
		case actions["delete"]:
			c.Destroy++
		}
		if actions["update"] {
			c.Change++
		}
	}
	if p.summary != nil {
		c.Import, c.Forget = p.summary.Import, p.summary.Forget
	}
	return c
}
