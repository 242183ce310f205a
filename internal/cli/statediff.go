package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/api"
)

type stateDiffCmd struct {
	remote
	State string `arg:"" help:"Name of the state."`
	From  int64  `placeholder:"N" help:"Number of a version; default: the one before the other."`
	To    int64  `placeholder:"N" help:"Number of a version; default: the current one."`
}

// Help has examples.
func (stateDiffCmd) Help() string {
	return `Shows what differs between two versions, by resource: + added, - removed, ~ changed. A version that was
kept aside can be compared too. Sensitive values are never shown; that they differ is.

Examples:
  holdfast state diff shop.main
  holdfast state diff shop.main --from 3 --to 5
  holdfast state diff shop.main --to 7 --json`
}

// Run shows a diff. That there are differences is no failure.
func (cmd *stateDiffCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	d, err := server.DiffState(ctx, cmd.State, cmd.From, cmd.To)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(d)
	}
	showDiff(c.out, cmd.State, d)
	return nil
}

func showDiff(s *screen, name string, d api.StateDiff) {
	from := fmt.Sprintf("version %d (serial %s)", d.From, serial(d.SerialFrom))
	if d.From == 0 {
		from = "nothing"
	}
	s.print("%s\n", s.bold(fmt.Sprintf("%s: from %s to version %d (serial %s)", name, from, d.To, serial(d.SerialTo))))
	if d.LineageChanged {
		s.print("  %s\n", s.red("The lineage differs: they are states of two configurations."))
	}
	if d.Unreadable != "" {
		s.print("  %s\n", s.yellow(clientEncrypted))
		return
	}
	for _, r := range d.Resources {
		showResourceChange(s, r)
	}
	for _, o := range d.Outputs {
		s.print("  %s %s\n", actionSign(s, o.Action), s.bold("output "+o.Name))
		showStateChange(s, "", o.Before, o.After, o.Sensitive, o.Cut)
	}
	if d.More > 0 {
		s.print("  %s\n", s.yellow(fmt.Sprintf("and %d more", d.More)))
	}
	s.print("%s %s\n", s.bold("Differences:"), diffCounts(d))
}

// clientEncrypted is what there is to say of a document that OpenTofu encrypted.
const clientEncrypted = "Encrypted by the client: what is in it cannot be read here."

func actionSign(s *screen, action string) styled {
	switch action {
	case "added":
		return s.green("+")
	case "removed":
		return s.red("-")
	}
	return s.yellow("~")
}

func showResourceChange(s *screen, r api.ResourceChange) {
	about := r.Action
	if r.Deposed != "" {
		about += " (what an unfinished replacement left: " + r.Deposed + ")"
	}
	s.print("  %s %s  %s\n", actionSign(s, r.Action), s.bold(r.Address), s.dim(about))
	for _, a := range r.About {
		showStateChange(s, "("+a.Path+")", a.Before, a.After, a.Sensitive, a.Cut)
	}
	if r.Action != "removed" {
		wide := 0
		for _, a := range r.Attributes {
			wide = max(wide, min(utf8.RuneCountInString(a.Path), 40))
		}
		for _, a := range r.Attributes {
			showStateChange(s, a.Path+strings.Repeat(" ", max(0, wide-utf8.RuneCountInString(a.Path))), a.Before, a.After, a.Sensitive, a.Cut)
		}
	}
	if r.AttributesMore > 0 {
		s.print("      %s\n", s.yellow("and more attributes than can be listed"))
	}
}

func showStateChange(s *screen, path string, before, after json.RawMessage, sensitive, cut bool) {
	if path != "" {
		path += "  "
	}
	more := styled("")
	if cut {
		more = s.dim(" (cut)")
	}
	switch {
	case sensitive:
		s.print("      %s%s\n", path, s.dim("(sensitive)"))
	case before == nil:
		s.print("      %s%s%s\n", path, oneLine(after), more)
	case after == nil:
		s.print("      %s%s → %s%s\n", path, oneLine(before), s.dim("(gone)"), more)
	default:
		s.print("      %s%s → %s%s\n", path, oneLine(before), oneLine(after), more)
	}
}

// oneLine is a value as JSON without line breaks.
func oneLine(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

func diffCounts(d api.StateDiff) string {
	counts := map[string]int{}
	for _, r := range d.Resources {
		counts[r.Action]++
	}
	var parts []string
	for _, action := range []string{"removed", "changed", "added"} {
		if n := counts[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, action))
		}
	}
	switch n := len(d.Outputs); {
	case n == 1:
		parts = append(parts, "1 output")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d outputs", n))
	}
	if d.More > 0 {
		parts = append(parts, fmt.Sprintf("%d not listed", d.More))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	return strings.Join(parts, ", ") + fmt.Sprintf("; %d unchanged.", d.Unchanged)
}
