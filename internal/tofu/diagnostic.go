package tofu

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Diagnostic is an error or warning of the tool.
type Diagnostic struct {
	Severity string   `json:"severity"` // error or warning
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail"`
	Address  string   `json:"address,omitempty"`
	Range    *Range   `json:"range,omitempty"`
	Snippet  *Snippet `json:"snippet,omitempty"`
}

// Range is a place in a configuration file. Lines and columns count from 1, columns in characters.
type Range struct {
	Filename string `json:"filename"`
	Start    Pos    `json:"start"`
	End      Pos    `json:"end"`
}

// Pos is one end of a Range.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Snippet is the source text of a Range.
type Snippet struct {
	Context        *string `json:"context"` // the block it stands in, e.g. resource "a" "b"
	Code           string  `json:"code"`
	StartLine      int     `json:"start_line"`
	HighlightStart int     `json:"highlight_start_offset"` // bytes into Code
	HighlightEnd   int     `json:"highlight_end_offset"`
	Values         []Value `json:"values"`
}

// Value is what an expression in the snippet was; the tool leaves sensitive ones out.
type Value struct {
	Traversal string `json:"traversal"` // e.g. var.size
	Statement string `json:"statement"` // e.g. is "two"
}

// Bounds of a rendered diagnostic: a template decides what stands in one.
const (
	maxSnippetLines = 12
	maxValues       = 20
)

// Text renders the diagnostic over a few lines: what, where, the source line with a mark under it, and the detail.
func (d *Diagnostic) Text() string {
	var b strings.Builder
	kind := "Error"
	if d.Severity == "warning" {
		kind = "Warning"
	}
	fmt.Fprintf(&b, "%s: %s", kind, oneLine(d.Summary))
	if d.Address != "" {
		fmt.Fprintf(&b, "\n  with %s", d.Address)
	}
	if d.Range != nil {
		fmt.Fprintf(&b, "\n  at %s:%d:%d", d.Range.Filename, d.Range.Start.Line, d.Range.Start.Column)
		if d.Snippet != nil && d.Snippet.Context != nil {
			fmt.Fprintf(&b, ", in %s", *d.Snippet.Context)
		}
	}
	if d.Snippet != nil {
		d.Snippet.write(&b)
	}
	for line := range strings.SplitSeq(strings.Trim(d.Detail, "\r\n"), "\n") {
		if d.Detail != "" {
			b.WriteString("\n  " + strings.TrimRight(line, "\r"))
		}
	}
	return b.String()
}

func (s *Snippet) write(b *strings.Builder) {
	start, end := clamp(s.HighlightStart, len(s.Code)), clamp(s.HighlightEnd, len(s.Code))
	at := 0
	for i, line := range strings.Split(s.Code, "\n") {
		if i == maxSnippetLines {
			b.WriteString("\n         …")
			break
		}
		fmt.Fprintf(b, "\n  %5d: %s", s.StartLine+i, line)
		if from, to := max(start, at)-at, min(end, at+len(line))-at; from < to {
			// Tabs are kept so that the mark stands under its text.
			lead := strings.Map(func(r rune) rune {
				if r == '\t' {
					return r
				}
				return ' '
			}, line[:from])
			fmt.Fprintf(b, "\n         %s%s", lead, strings.Repeat("^", utf8.RuneCountInString(line[from:to])))
		}
		at += len(line) + 1
	}
	for i, v := range s.Values {
		if i == maxValues {
			fmt.Fprintf(b, "\n    and %d more values", len(s.Values)-i)
			break
		}
		fmt.Fprintf(b, "\n    %s %s", v.Traversal, oneLine(v.Statement))
	}
}

func clamp(n, limit int) int { return min(max(n, 0), limit) }

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// Validation is what `validate -json` found.
type Validation struct {
	Valid       bool         `json:"valid"`
	Errors      int          `json:"error_count"`
	Warnings    int          `json:"warning_count"`
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// ParseValidation reads what `validate -json` printed.
func ParseValidation(out []byte) (Validation, error) {
	var v Validation
	if err := json.Unmarshal(out, &v); err != nil {
		return v, fmt.Errorf("read what validate printed: %w", err)
	}
	return v, nil
}
