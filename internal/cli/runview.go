package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/api"
)

// linkedRun is a run as --json prints it.
type linkedRun struct {
	api.Run
	URL  string          `json:"url"`            // of its page
	View json.RawMessage `json:"view,omitempty"` // of its plan, where that was asked for
}

func runURL(address, id string) string { return address + "/runs/" + id }

// status is a run's status for people, in the colour of how it stands.
func (s *screen) status(r api.RunListed) styled {
	text := strings.ReplaceAll(r.Status, "_", " ")
	switch r.Status {
	case "succeeded":
		return s.green(text)
	case "failed", "rejected", "cancelled", "discarded":
		return s.red(text)
	case "awaiting_approval", "cancelling":
		return s.yellow(text)
	}
	return s.cyan(text)
}

func showRuns(s *screen, now time.Time, runs []api.RunListed) {
	if len(runs) == 0 {
		s.none("runs")
		return
	}
	var rows [][]any
	for _, r := range runs {
		risk := s.style("", dash(r.Risk))
		if r.Risk == "high" {
			risk = s.red(r.Risk)
		}
		rows = append(rows, []any{r.ID, r.Stack, s.status(r), dash(shortCounts(r.Totals)), risk, ago(now, &r.CreatedAt), r.CreatedBy.Name, r.Kind})
	}
	s.grid([]string{"RUN", "STACK", "STATUS", "PLAN", "RISK", "AGE", "BY", "KIND"}, rows)
}

// showRun prints all there is to know of a run but its plan, events and log.
func showRun(s *screen, address string, r api.Run) {
	production := ""
	if r.Production {
		production = "yes"
	}
	s.pairs("run", r.ID, "stack", r.Stack, "account", r.Account, "production", production, "kind", r.Kind, "status", s.status(r.RunListed),
		"waits for", r.WaitsFor, "risk", r.Risk, "plan", r.PlanDigest, "approval", approvalText(r.Approval),
		"started", moment(&r.CreatedAt)+" by "+r.CreatedBy.Name, "ended", moment(r.EndedAt), "class", r.Class, "message", r.Message,
		"page", runURL(address, r.ID))
	if r.PartialApply {
		s.print("%s\n", s.red("Something may have been left half-made. Its log says how far it came: holdfast run logs "+r.ID))
	}
	s.print("\n")
	var rows [][]any
	for _, c := range r.Components {
		plan := "-"
		if c.Plan != nil {
			plan = dash(shortCounts(c.Plan.Counts))
		}
		rows = append(rows, []any{c.Name, c.Status, plan, c.State, c.Message})
	}
	s.grid([]string{"COMPONENT", "STATUS", "PLAN", "STATE", "MESSAGE"}, rows)
	if len(r.Attempts) > 0 {
		s.print("\n")
		showAttempts(s, r.Attempts)
	}
	if hasOutputs(r) {
		s.print("\n")
		showOutputs(s, r.Components)
	}
}

func hasOutputs(r api.Run) bool {
	for _, c := range r.Components {
		if len(c.Outputs) > len("{}") && string(c.Outputs) != "null" {
			return true
		}
	}
	return false
}

func showAttempts(s *screen, attempts []api.Attempt) {
	var rows [][]any
	for _, a := range attempts {
		took := "-"
		if a.AcceptedAt != nil && a.EndedAt != nil {
			took = duration(a.EndedAt.Sub(*a.AcceptedAt))
		}
		rows = append(rows, []any{a.Component, a.Kind, a.Number, a.Status, took, a.Agent, a.Message})
	}
	s.grid([]string{"ATTEMPT", "KIND", "NO", "STATUS", "TOOK", "AGENT", "MESSAGE"}, rows)
}

// approvalText says who approved what, or why nobody had to.
func approvalText(a api.Approval) string {
	switch a.Status {
	case "approved":
		return fmt.Sprintf("approved by %s at %s, exactly %s", a.By, moment(a.At), a.Digest)
	case "rejected":
		return strings.TrimSuffix(fmt.Sprintf("rejected by %s at %s: %s", a.By, moment(a.At), a.Reason), ": ")
	case "skipped":
		return "not needed: " + a.Reason
	case "pending":
		return "waited for: " + a.Reason
	case "void":
		return "void: " + a.Reason
	}
	return ""
}

// summary ends up and run watch: how the run ended, how long its parts took, where its page is.
func summary(s *screen, address string, r api.Run) {
	if r.Status == "succeeded" {
		s.print("%s %s%s\n", s.green("Done."), outcome(r), s.dim(phases(r)))
	} else {
		said, rest := ending(r)
		s.print("%s%s%s\n", s.red(said), rest, s.dim(phases(r)))
	}
	if r.PartialApply {
		s.print("%s\n", s.red("Something may have been left half-made."))
	}
	if r.Status == "failed" {
		s.print("Its log: holdfast run logs %s\n", r.ID)
	}
	s.print("%s\n", s.dim(runURL(address, r.ID)))
}

// ending is a run's status as the beginning of a sentence, and its message as the rest.
func ending(r api.Run) (said, rest string) {
	said = strings.ToUpper(r.Status[:1]) + r.Status[1:]
	if more, same := strings.CutPrefix(r.Message, r.Status); same {
		return said, more + "."
	}
	if r.Message == "" {
		return said + ".", ""
	}
	return said + ":", " " + r.Message
}

func outcome(r api.Run) string {
	switch {
	case r.Kind == "preview":
		return "Previewed: " + planWords(r) + "; nothing was applied."
	case r.Totals == api.Counts{}:
		return "No changes: what is there is as configured."
	}
	return "Applied: " + doneCounts(r.Totals) + "."
}

func planWords(r api.Run) string {
	return counted(r.Totals, 0, words{"to destroy", "to replace", "to forget", "to change", "to create", "to import", "to move", "to change"})
}

// phases is how long planning, approval and applying took, by the server's clock.
func phases(r api.Run) string {
	if r.EndedAt == nil {
		return ""
	}
	parts := []string{duration(r.EndedAt.Sub(r.CreatedAt)) + " in all"}
	for _, p := range []struct{ kind, name string }{{"plan", "planning"}, {"apply", "applying"}} {
		var from, to time.Time
		for _, a := range r.Attempts {
			if a.Kind != p.kind || a.AcceptedAt == nil || a.EndedAt == nil {
				continue
			}
			if from.IsZero() || a.AcceptedAt.Before(from) {
				from = *a.AcceptedAt
			}
			if a.EndedAt.After(to) {
				to = *a.EndedAt
			}
		}
		if !from.IsZero() {
			parts = append(parts, p.name+" "+duration(to.Sub(from)))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// runEnd is the exit code of a run that is over.
func runEnd(r api.Run) error {
	switch {
	case r.Status == "succeeded":
		return nil
	case r.Status == "rejected", r.Status == "cancelled", r.Status == "discarded", r.Class == "refused", r.Class == "cancelled":
		return ended{exitRefused}
	}
	return ended{exitFailed}
}
