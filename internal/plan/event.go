package plan

import (
	"fmt"
	"strings"

	"holdfast.dev/holdfast/internal/redact"
)

// Event is the line about a component's plan in the events of its run.
type Event struct {
	Level string // INFO, or WARN for a high risk
	Text  string
}

func (e Event) String() string { return fmt.Sprintf("%-4s  %s", e.Level, e.Text) }

// maxNamed is the number of addresses an event names.
const maxNamed = 10

// Event tells the plan of component in one line, counted as the tools count: a replacement is one to add and one to
// destroy. Replaced and forgotten addresses are named. routine is as for Risk.
func (v *View) Event(component string, routine ...string) Event {
	e := Event{Level: "INFO"}
	if v.Risk(routine...) == RiskHigh {
		e.Level = "WARN"
	}
	if v.Errored {
		e.Text = fmt.Sprintf("[phase:plan] %s: could not be planned", component)
		return e
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[phase:plan] %s: %d to add, %d to change, %d to destroy", component, v.Add+v.Replace, v.Change, v.Destroy+v.Replace)
	for _, more := range []struct {
		n    int
		what string
	}{
		{v.Import, "to import"}, {v.Move, "to move"}, {v.Forget, "to forget"}, {v.Unknown, "with unknown actions"},
	} {
		if more.n > 0 {
			fmt.Fprintf(&b, ", %d %s", more.n, more.what)
		}
	}
	switch {
	case v.Outputs == 1:
		b.WriteString(", 1 output to change")
	case v.Outputs > 1:
		fmt.Fprintf(&b, ", %d outputs to change", v.Outputs)
	}
	for _, class := range []struct {
		verb string
		is   []Class
	}{
		{"replace", []Class{Replace}}, {"forget", []Class{Forget, ForgetCreate}}, {"unknown", []Class{Unknown}},
	} {
		if names := v.named(class.is...); len(names) > 0 {
			b.WriteString("; " + class.verb + " " + capped(names, ", "))
		}
	}
	e.Text = b.String()
	return e
}

func (v *View) named(classes ...Class) []string {
	var out []string
	for _, c := range v.Changes {
		for _, class := range classes {
			if c.Class == class {
				out = append(out, redact.Plain(c.Address))
			}
		}
	}
	return out
}

func capped(names []string, sep string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], sep) + fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return strings.Join(names, sep)
}
