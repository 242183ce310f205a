package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"holdfast.dev/holdfast/internal/redact"
)

// grid prints rows under headings. A cell is text, which is made plain, or styled. Nothing is cut: what a terminal is
// too narrow for wraps, and can still be copied.
func (s *screen) grid(headings []string, rows [][]any) {
	t := table.NewWriter()
	t.SetStyle(table.Style{
		Box: table.BoxStyle{PaddingRight: "  "}, Options: table.OptionsNoBordersAndSeparators,
		Format: table.FormatOptions{Header: text.FormatDefault},
	})
	head := make(table.Row, len(headings))
	for i, h := range headings {
		head[i] = string(s.bold(h))
	}
	t.AppendHeader(head)
	for _, row := range rows {
		cells := make(table.Row, len(row))
		for i, c := range row {
			switch v := c.(type) {
			case styled:
				cells[i] = string(v)
			default:
				cells[i] = redact.Plain(fmt.Sprint(v))
			}
		}
		t.AppendRow(cells)
	}
	for line := range strings.Lines(t.Render()) {
		_, _ = fmt.Fprintln(s.w, strings.TrimRight(line, " \n"))
	}
}

// pairs prints names and values under each other, leaving out empty values.
func (s *screen) pairs(of ...any) {
	widest := 0
	for i := 0; i+1 < len(of); i += 2 {
		widest = max(widest, len(of[i].(string)))
	}
	for i := 0; i+1 < len(of); i += 2 {
		if v := of[i+1]; v != "" && v != styled("") {
			s.print("%s  %s\n", s.dim(fmt.Sprintf("%-*s", widest, of[i])), v)
		}
	}
}

// none says that a list is empty.
func (s *screen) none(what string) { s.print("%s\n", s.dim("No "+what+".")) }

// ago is how long ago something was, in one unit. The zero time is a dash.
func ago(now time.Time, at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	d := max(now.Sub(*at), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// moment is a time for people.
func moment(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// duration is a time that something took, for people: 0.4 s, 12 s, 3m12s.
func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return d.Truncate(time.Second).String()
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// dash stands for an empty value in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
