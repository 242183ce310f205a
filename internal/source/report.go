package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// Finding is one thing in a source that is refused.
type Finding struct {
	Code    string `json:"code"`
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"` // from 1; 0: the file or folder as such
	Column  int    `json:"column,omitempty"`
	What    string `json:"what"` // e.g. sets profile in provider "aws"
	Why     string `json:"why"`
	Hint    string `json:"hint,omitempty"`
	Snippet string `json:"snippet,omitempty"` // the source line
}

// Text is the finding in one line, and the source line under it.
func (f Finding) Text() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	}
	s := fmt.Sprintf("%s: %s; %s", redact.Plain(where), redact.Plain(f.What), redact.Plain(f.Why))
	if f.Snippet != "" {
		s += "\n    " + redact.Plain(f.Snippet)
	}
	return s
}

// Report is what a source declares, and what is refused in it.
type Report struct {
	Findings   []Finding    `json:"findings"`
	Files      []string     `json:"files"`     // configuration files that the tool reads, local modules included
	Variables  []Variable   `json:"variables"` // of the root module, by name
	Outputs    []Output     `json:"outputs"`   // of the root module, by name
	Modules    []ModuleCall `json:"modules"`   // every call, local modules included
	ValueFiles []ValueFile  `json:"value_files"`
	Backend    *Backend     `json:"backend,omitempty"`     // that the source names; a managed state's replaces it
	LocalState string       `json:"local_state,omitempty"` // a state file in the folder
	LockFile   bool         `json:"lock_file"`             // a dependency lock file is shipped
}

// Variable is an input the root module declares.
type Variable struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"` // as written
	Description string `json:"description,omitempty"`
	Sensitive   bool   `json:"sensitive"` // also when that is an expression
	Ephemeral   bool   `json:"ephemeral,omitempty"`
	Required    bool   `json:"required"` // has no default
	File        string `json:"file"`
	Line        int    `json:"line"`
}

// Output is a value the root module gives.
type Output struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Sensitive   bool   `json:"sensitive"`
}

// Backend is where the source says that its state is.
type Backend struct {
	Type string `json:"type"` // cloud for a cloud block
	File string `json:"file"`
	Line int    `json:"line"`
}

// ModuleCall is one use of a module.
type ModuleCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`  // as written; empty when it is an expression
	Literal bool   `json:"literal"` // false: the tool computes it, so it must be checked after init
	Local   bool   `json:"local"`   // a folder of this source, already checked
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// ValueFile is a file of values that the tool loads by itself.
type ValueFile struct {
	Path      string   `json:"path"`
	Variables []string `json:"variables"`
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	r.Findings = slices.CompactFunc(r.Findings, func(a, b Finding) bool { return a == b })
	slices.SortFunc(r.Variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
}

// Err is the refusal of a source with findings, or nil. Its detail is the list of findings.
func (r *Report) Err() error { return refusal(r.Findings) }

func refusal(findings []Finding) error {
	if len(findings) == 0 {
		return nil
	}
	const shown = 10
	var lines []string
	for i, f := range findings {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(findings)-shown))
			break
		}
		lines = append(lines, f.Text())
	}
	return fault.New(fault.Unprocessable, findings[0].Code, "%s", strings.Join(lines, "\n")).WithHint("%s", findings[0].Hint).WithDetail(findings)
}

// StateElsewhere is the refusal of a folder whose state is not a managed one yet: a state file lies in it, or its
// configuration names another backend. nil when neither is so.
func (r *Report) StateElsewhere() error {
	const hint = "Bring it here with `holdfast state import`, or say with --new-state that none is wanted."
	switch {
	case r.LocalState != "":
		return fault.New(fault.Conflict, "state_elsewhere", "The folder has a state of its own, %s: a run would not know what it manages and would create everything again.", r.LocalState).WithHint(hint)
	case r.Backend != nil:
		return fault.New(fault.Conflict, "state_elsewhere", "The configuration keeps its state elsewhere: backend %q at %s:%d. A run would start from an empty one and create everything again.",
			r.Backend.Type, r.Backend.File, r.Backend.Line).WithHint(hint)
	}
	return nil
}
