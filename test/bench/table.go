package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// engineName is a database the server can be on; the columns of the table.
type engineName string

const (
	onSQLite   engineName = "sqlite"
	onPostgres engineName = "postgres"
)

// line is one line of the table. The goals are facts of the project; a line without goals informs.
type line struct {
	key   string
	what  string
	form  string // of a value, for fmt
	goals map[engineName]float64
	least bool   // a goal is what has to be reached, not what must not be exceeded
	peers string // figures of others, measured the same way
}

func both(goal float64) map[engineName]float64 {
	return map[engineName]float64{onSQLite: goal, onPostgres: goal}
}

func each(sqlite, postgres float64) map[engineName]float64 {
	return map[engineName]float64{onSQLite: sqlite, onPostgres: postgres}
}

func lines() []line {
	return []line{
		{key: "up", what: "`up`, over the tofu commands in it (ms)", form: "%.0f", goals: both(150)},
		{key: "up-hand", what: "`up`, over the same commands by hand (ms)", form: "%.0f", goals: both(150)},
		{key: "up-tool", what: "  the tofu commands in it / by hand (ms)", form: "%.0f"},
		{key: "up-cpu", what: "  CPU of Holdfast's processes (ms)", form: "%.0f"},
		{key: "claim-50", what: "claim among 100 agents, median (ms)", form: "%.1f"},
		{key: "claim-99", what: "claim among 100 agents, p99 (ms)", form: "%.1f", goals: both(50)},
		{key: "cycles-1", what: "10 KB cycles/s, 1 worker", form: "%.0f", goals: each(600, 450), least: true, peers: "nimbolus 1524 files, 304 PG; S3 280; OTF 66"},
		{key: "cycles-8", what: "10 KB cycles/s, 8 workers", form: "%.0f", goals: each(900, 750), least: true, peers: "nimbolus 2029 files, 175 PG; S3 324; OTF 93"},
		{key: "cycles-32", what: "10 KB cycles/s, 32 workers", form: "%.0f", goals: each(1100, 700), least: true, peers: "nimbolus 1671 files, 117 PG; S3 219; OTF fails"},
		{key: "cpu-1", what: "CPU per 10 KB cycle, 1 worker (ms)", form: "%.2f", goals: each(1.0, 1.4), peers: "nimbolus 0.35 files, 2.0 PG; S3 1.7; OTF 10.9"},
		{key: "cpu-8", what: "CPU per 10 KB cycle, 8 workers (ms)", form: "%.2f", goals: each(1.0, 1.4)},
		{key: "cpu-32", what: "CPU per 10 KB cycle, 32 workers (ms)", form: "%.2f", goals: each(1.0, 1.4)},
		{key: "syncs-1", what: "syncs per cycle, 1 worker", form: "%.2f", goals: both(3), peers: "nimbolus files 0; S3 (versitygw) 0"},
		{key: "syncs-32", what: "syncs per cycle, 32 workers", form: "%.2f", goals: both(0.5)},
		{key: "contend", what: "acquisitions/s, 32 lockers on one state", form: "%.0f", goals: each(250, 120), least: true},
		{key: "get-8", what: "10 KB GET/s, 8 workers", form: "%.0f", goals: each(8000, 4000), least: true},
		{key: "post-1M", what: "1 MB POST, median (ms)", form: "%.1f", goals: each(7, 9)},
		{key: "read-1M", what: "1 MB GET, median (ms)", form: "%.1f", goals: both(1.5)},
		{key: "post-32M", what: "32 MiB POST, median (ms)", form: "%.0f", goals: each(260, 330)},
		{key: "read-32M", what: "32 MiB GET, median (ms)", form: "%.0f", goals: each(45, 60)},
		{key: "rss-32", what: "peak RSS, one save of 32 MiB: plain / not Latin / incompressible (MiB)", form: "%.0f", peers: "S3 59; nimbolus 236; OTF 256"},
		{key: "rss-4-32", what: "  four at once (MiB)", form: "%.0f", peers: "S3 62; nimbolus 550; OTF 604"},
		{key: "rss-128", what: "peak RSS, one save of 128 MiB (MiB)", form: "%.0f"},
		{key: "rss-4-128", what: "  four at once (MiB)", form: "%.0f"},
		{key: "idle-128", what: "  four at once, more than before them (MiB)", form: "%.0f", goals: both(100)},
		{key: "more-1", what: "memory of one more save of 1 MiB (MiB)", form: "%.1f", goals: both(16)},
		{key: "more-32", what: "memory of one more save of 32 MiB (MiB)", form: "%.0f", goals: both(16)},
		{key: "more-128", what: "memory of one more save of 128 MiB (MiB)", form: "%.0f", goals: both(16)},
	}
}

// table is what was measured.
type table struct {
	lines []line
	got   map[string]map[engineName]string
	worse map[string]map[engineName]bool
}

func newTable() *table {
	return &table{lines: lines(), got: map[string]map[engineName]string{}, worse: map[string]map[engineName]bool{}}
}

// set keeps figures, which stand beside each other. A line is worse than its goal where one of them is.
func (t *table) set(key string, on engineName, values ...float64) {
	i := slices.IndexFunc(t.lines, func(l line) bool { return l.key == key })
	if i < 0 {
		panic("the table has no line " + key) // a mistake of this program's
	}
	if t.got[key] == nil {
		t.got[key], t.worse[key] = map[engineName]string{}, map[engineName]bool{}
	}
	l := t.lines[i]
	goal, judged := l.goals[on]
	var texts []string
	worse := false
	for _, v := range values {
		texts = append(texts, fmt.Sprintf(l.form, v))
		worse = worse || judged && (l.least && v < goal || !l.least && v > goal)
	}
	t.worse[key][on] = worse
	t.got[key][on] = strings.Join(texts, " / ")
}

func (t *table) print(w io.Writer, where string) {
	_, _ = fmt.Fprintf(w, "\n%s. * is worse than the goal.\n\n", where)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "\tSQLite\tgoal\tPostgreSQL\tgoal\tothers")
	for _, l := range t.lines {
		if t.got[l.key] == nil {
			continue
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", l.what, t.cell(l, onSQLite), l.goal(onSQLite), t.cell(l, onPostgres), l.goal(onPostgres), l.peers)
	}
	_ = out.Flush()
}

func (t *table) cell(l line, on engineName) string {
	text := t.got[l.key][on]
	if text == "" {
		return "-"
	}
	if t.worse[l.key][on] {
		text += " *"
	}
	return text
}

func (l line) goal(on engineName) string {
	goal, ok := l.goals[on]
	switch {
	case !ok:
		return ""
	case l.least:
		return fmt.Sprintf("≥ %g", goal)
	}
	return fmt.Sprintf("≤ %g", goal)
}
