package cli

import (
	"fmt"

	"holdfast.dev/holdfast/internal/fault"
)

// moved is what became of one of the states that were to be moved in or out. Outcome is imported, exported,
// would_import, unchanged, empty or failed.
type moved struct {
	State   string   `json:"state"`
	Place   string   `json:"place"` // the file or folder on this side
	Outcome string   `json:"outcome"`
	Version int64    `json:"version,omitempty"`
	Serial  *uint64  `json:"serial"`
	Size    int64    `json:"size"`
	SHA256  string   `json:"sha256,omitempty"`
	Error   *failure `json:"error,omitempty"`

	err error
}

func (m *moved) fail(err error) {
	f := describe(err)
	m.Outcome, m.Error, m.err = "failed", &f, err
}

// movedReport is what --json prints of several.
type movedReport struct {
	DryRun bool    `json:"dry_run"`
	Failed int     `json:"failed"`
	States []moved `json:"states"`
}

// reportMoved says what became of each. One that was asked for by itself and failed is an error like any other.
func (c *call) reportMoved(rows []moved, dryRun, alone bool) error {
	if alone && rows[0].err != nil {
		return rows[0].err
	}
	r := movedReport{DryRun: dryRun, States: rows}
	for _, m := range rows {
		if m.err != nil {
			r.Failed++
		}
	}
	if c.json {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else {
		showMoved(c.out, r)
	}
	if r.Failed > 0 {
		return ended{exitFailed}
	}
	return nil
}

func showMoved(s *screen, r movedReport) {
	if len(r.States) == 0 {
		s.none("states")
		return
	}
	var rows [][]any
	for _, m := range r.States {
		outcome := s.green(m.Outcome)
		switch m.Outcome {
		case "failed":
			outcome = s.red("failed")
		case "would_import":
			outcome = s.yellow("would be imported")
		case "unchanged", "empty":
			outcome = s.dim(m.Outcome)
		}
		rows = append(rows, []any{m.State, outcome, serial(m.Serial), bytesText(m.Size), m.Place})
	}
	s.grid([]string{"STATE", "OUTCOME", "SERIAL", "SIZE", "PLACE"}, rows)
	for _, m := range r.States {
		if m.Error == nil {
			continue
		}
		s.print("\n%s %s\n", s.red(m.State+":"), lines(m.Error.Detail))
		if m.Error.Hint != "" {
			s.print("%s %s\n", s.bold("Do:"), lines(m.Error.Hint))
		}
	}
	if r.Failed > 0 {
		s.print("\n%s\n", s.red(fmt.Sprintf("%d of %d failed.", r.Failed, len(r.States))))
	}
}

// unique refuses two places for one name before anything is done.
func unique(rows []moved) error {
	seen := map[string]string{}
	for _, m := range rows {
		if other, ok := seen[m.State]; ok {
			return fault.New(fault.Invalid, codeUsage, "%s and %s would both be the state %s.", other, m.Place, m.State).
				WithHint("Import one of them by itself, with a name of its own: holdfast state import NAME FILE")
		}
		seen[m.State] = m.Place
	}
	return nil
}
