package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/plan"
)

// Bounds of what a plan shows where somebody waits for it; all of it is behind holdfast run show --plan.
const (
	shownChanges    = 200
	shownAttributes = 40
	shownDrift      = 10
)

// planned is a component and its plan, as it is shown.
type planned struct {
	name string
	view plan.View
}

// readPlan takes the views out of a run's plan.
func readPlan(p api.RunPlan) ([]planned, error) {
	out := make([]planned, 0, len(p.Components))
	for _, c := range p.Components {
		v := planned{name: c.Name}
		if err := json.Unmarshal(c.View, &v.view); err != nil {
			return nil, fmt.Errorf("read the plan of %s: %w", c.Name, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// showPlan lists what would change: what is destroyed or replaced first, then the rest, each with what differs. whole
// lifts the bounds.
func showPlan(s *screen, components []planned, whole bool) {
	for _, c := range components {
		if len(components) > 1 {
			s.print("%s\n", s.bold(c.name))
		}
		showView(s, &c.view, whole)
	}
}

func showView(s *screen, v *plan.View, whole bool) {
	left := v.LeftOut
	for i, ch := range v.Changes {
		if !whole && i == shownChanges {
			left += len(v.Changes) - i
			break
		}
		showChange(s, ch, whole)
	}
	if left > 0 {
		s.print("  %s\n", s.yellow(fmt.Sprintf("and %d more", left)))
	}
	for _, o := range v.OutputChanges {
		sign, _ := signOf(s, o.Class, false)
		s.print("  %s %s\n", sign, s.bold("output "+o.Name))
		showAttributes(s, o.Attributes, o.AttributesLeftOut, whole)
	}
	if n := v.Drifted; n > 0 {
		s.print("  %s\n", s.yellow(fmt.Sprintf("Changed outside of Holdfast since the last apply: %s", objects(n))))
		for i, d := range v.Drift {
			if !whole && i == shownDrift {
				break
			}
			s.print("      %s\n", d.Address)
		}
	}
	for _, c := range v.Checks {
		s.print("  %s %s: %s\n", s.yellow("check"), c.Address, strings.Join(c.Messages, " "))
	}
	if v.Errored {
		s.print("  %s\n", s.red("Planning failed: this is not all that would change."))
	}
	if v.Incomplete {
		s.print("  %s\n", s.yellow("The tool put changes off to a later plan: this is not all that would change."))
	}
	s.print("%s %s\n", s.bold("Plan:"), planCounts(v.Counts))
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// signOf is the mark in front of a change, always three columns wide, and what it means.
func signOf(s *screen, c plan.Class, createFirst bool) (styled, string) {
	switch c {
	case plan.Delete:
		return s.red("-  "), "destroyed"
	case plan.Replace:
		if createFirst {
			return s.red("+/-"), "replaced: created anew, then destroyed"
		}
		return s.red("-/+"), "replaced: destroyed, then created anew"
	case plan.Forget:
		return s.red(".  "), "forgotten: it goes on existing, managed by nobody"
	case plan.ForgetCreate:
		return s.red("./+"), "forgotten, and another one created"
	case plan.Update:
		return s.yellow("~  "), "changed in place"
	case plan.Create:
		return s.green("+  "), "created"
	case plan.Import:
		return s.cyan("<- "), "imported"
	case plan.Move:
		return s.cyan("-> "), "moved"
	case plan.Read:
		return s.cyan("<= "), "read during the apply"
	case plan.Noop:
		return "   ", ""
	case plan.Unknown:
	}
	return s.red("?  "), "changed in a way that this version does not know"
}

func showChange(s *screen, ch plan.Change, whole bool) {
	sign, means := signOf(s, ch.Class, ch.CreateFirst)
	if why := because(ch); why != "" {
		means += ", " + why
	}
	if ch.Deposed != "" {
		means += " (what an earlier replacement left: " + ch.Deposed + ")"
	}
	s.print("  %s %s  %s\n", sign, s.bold(ch.Address), s.dim(means))
	if ch.PreviousAddress != "" && ch.PreviousAddress != ch.Address {
		s.print("        %s\n", s.dim("was "+ch.PreviousAddress))
	}
	if ch.Importing != "" {
		s.print("        %s\n", s.dim("id "+ch.Importing))
	}
	if ch.Class != plan.Delete && ch.Class != plan.Forget {
		showAttributes(s, ch.Attributes, ch.AttributesLeftOut, whole)
	}
}

// because is the tool's reason in words.
func because(ch plan.Change) string {
	switch ch.Reason {
	case "", "read_because_config_unknown", "read_because_dependency_pending":
		return ""
	case "replace_because_tainted":
		return "because it is tainted"
	case "replace_because_cannot_update":
		if len(ch.ReplacePaths) > 0 {
			return "because it cannot change in place: " + strings.Join(ch.ReplacePaths, ", ")
		}
		return "because it cannot change in place"
	case "replace_by_request":
		return "because that was asked for"
	case "replace_by_triggers":
		return "because of replace_triggered_by"
	case "delete_because_no_resource_config", "delete_because_no_module":
		return "because it is not in the configuration any more"
	case "delete_because_each_key", "delete_because_count_index", "delete_because_wrong_repetition":
		return "because the configuration has no such instance any more"
	case "delete_because_no_move_target":
		return "because what it was moved to is not in the configuration"
	}
	return strings.ReplaceAll(ch.Reason, "_", " ")
}

func showAttributes(s *screen, attributes []plan.Attribute, left int, whole bool) {
	if !whole && len(attributes) > shownAttributes {
		left += len(attributes) - shownAttributes
		attributes = attributes[:shownAttributes]
	}
	wide := 0
	for _, a := range attributes {
		wide = max(wide, min(utf8.RuneCountInString(a.Path), 40))
	}
	for _, a := range attributes {
		if a.Path == "" {
			s.print("        %s\n", difference(s, a))
			continue
		}
		s.print("        %s  %s\n", fmt.Sprintf("%-*s", wide, a.Path), difference(s, a))
	}
	if left > 0 {
		s.print("        %s\n", s.dim(fmt.Sprintf("and %d more", left)))
	}
}

// difference is before → after, or only what there is.
func difference(s *screen, a plan.Attribute) styled {
	cut := ""
	if a.Cut {
		cut = " (cut short)"
	}
	before, after := s.red(a.Before), s.green(a.After)
	switch {
	case a.Sensitive && a.Unknown:
		return s.dim("(sensitive, known after the apply)")
	case a.Sensitive:
		return s.dim("(sensitive)")
	case a.Unknown:
		after = s.dim("(known after the apply)")
	}
	switch {
	case a.Before == "" || a.Before == "null" && after != "":
		return after + s.dim(cut)
	case after == "":
		return before + " → " + s.dim("(gone)") + s.dim(cut)
	}
	return before + " → " + after + s.dim(cut)
}

// planCounts says how many objects a plan touches, the dangerous first.
func planCounts(c plan.Counts) string {
	return counted(api.Counts{
		Add: c.Add, Change: c.Change, Destroy: c.Destroy, Replace: c.Replace, Import: c.Import, Move: c.Move, Forget: c.Forget,
		Outputs: c.Outputs,
	}, c.Unknown, words{"to destroy", "to replace", "to forget", "to change", "to create", "to import", "to move", "to change"}) + "."
}

// doneCounts says the same of what was applied.
func doneCounts(c api.Counts) string {
	return counted(c, 0, words{"destroyed", "replaced", "forgotten", "changed", "created", "imported", "moved", "changed"})
}

type words struct{ destroy, replace, forget, change, add, imports, move, outputs string }

func counted(c api.Counts, unknown int, w words) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{unknown, "not understood"},
		{c.Destroy, w.destroy},
		{c.Replace, w.replace},
		{c.Forget, w.forget},
		{c.Change, w.change},
		{c.Add, w.add},
		{c.Import, w.imports},
		{c.Move, w.move},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	switch {
	case c.Outputs == 1:
		parts = append(parts, "1 output "+w.outputs)
	case c.Outputs > 1:
		parts = append(parts, fmt.Sprintf("%d outputs %s", c.Outputs, w.outputs))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// shortCounts is the same for a column of a table: +1 ~2 -3 ±1.
func shortCounts(c api.Counts) string {
	var parts []string
	for _, p := range []struct {
		sign string
		n    int
	}{
		{"-", c.Destroy}, {"±", c.Replace}, {"~", c.Change}, {"+", c.Add}, {"<-", c.Import}, {"->", c.Move}, {".", c.Forget},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", p.sign, p.n))
		}
	}
	if len(parts) == 0 && c.Outputs > 0 {
		return "outputs"
	}
	return strings.Join(parts, " ")
}

// riskOf says what makes a plan one of high risk.
func riskOf(r api.Run) string {
	n := r.Totals.Destroy + r.Totals.Replace
	switch {
	case n > 0 && r.Totals.Forget > 0:
		return ": destroys " + objects(n) + " and forgets " + objects(r.Totals.Forget)
	case n > 0:
		return ": destroys " + objects(n)
	case r.Totals.Forget > 0:
		return ": forgets " + objects(r.Totals.Forget)
	}
	return ""
}
