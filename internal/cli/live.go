package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"holdfast.dev/holdfast/internal/api"
)

// live shows a run while it happens. On a terminal that is a line per component, written over as it goes on, below
// whatever is said for good; elsewhere it is a line for each thing that is new.
type live struct {
	s    *screen
	now  func() time.Time
	run  api.Run
	has  bool                 // run is there
	said map[string]string    // component -> what was last said of it, where lines are not written over
	idle map[string]time.Time // component -> since when it waits for an agent, as seen from here

	drawn  int  // lines on the terminal that the next drawing writes over
	paused bool // while a question is open
}

func newLive(s *screen, now func() time.Time) *live {
	return &live{s: s, now: now, said: map[string]string{}, idle: map[string]time.Time{}}
}

// update takes the run as it is now.
func (l *live) update(r api.Run) {
	l.run, l.has = r, true
	for _, c := range r.Components {
		if !l.waits(c) {
			delete(l.idle, c.Name)
		} else if _, since := l.idle[c.Name]; !since {
			l.idle[c.Name] = l.now()
		}
	}
	l.tick()
}

// tick brings what is shown up to date.
func (l *live) tick() {
	if l.s.terminal() {
		l.draw()
		return
	}
	for _, c := range l.run.Components {
		if doing := l.doing(c); doing != "" && l.said[c.Name] != doing {
			l.said[c.Name] = doing
			l.s.print("%s: %s\n", c.Name, doing)
		}
	}
}

// event says what people should know of; what is ordinary shows as the state of things.
func (l *live) event(e api.Event) {
	switch e.Level {
	case "WARN":
		l.note(l.s.yellow("Warning:"), e.Text)
	case "ERROR":
		l.note(l.s.red("Error:"), e.Text)
	}
}

// note says something for good.
func (l *live) note(of styled, what string) {
	l.erase()
	if of != "" {
		of += " "
	}
	l.s.print("%s%s\n", of, what)
	l.draw()
}

// pause takes the lines away, so that something else can be printed.
func (l *live) pause() { l.erase(); l.paused = true }

func (l *live) resume() { l.paused = false; l.draw() }

func (l *live) erase() {
	if l.drawn > 0 {
		// To the first of the lines, then clear to the end of the screen.
		_, _ = fmt.Fprintf(l.s.w, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

func (l *live) draw() {
	if !l.s.terminal() || l.paused || !l.has || l.run.EndedAt != nil {
		return
	}
	l.erase()
	width := l.s.width() - 1 // the last column would wrap
	wide := 0
	for _, c := range l.run.Components {
		wide = max(wide, min(len(c.Name), 30))
	}
	for _, c := range l.run.Components {
		line := fmt.Sprintf("  %-*s  %s", wide, c.Name, strings.Join([]string{l.doing(c), l.elapsed(c), l.progress(c)}, "  "))
		l.s.print("%s\n", text.Trim(strings.TrimRight(line, " "), width))
		l.drawn++
	}
}

// patientFor is how long a component may wait for an agent before that is worth a word.
const patientFor = 3 * time.Second

// waits reports whether a component has work that no agent has taken.
func (l *live) waits(c api.RunComponent) bool {
	return (c.Status == "planning" || c.Status == "applying") && !l.atWork(c)
}

func (l *live) atWork(c api.RunComponent) bool {
	a := attemptOf(l.run, c.Name)
	return a.AcceptedAt != nil && a.EndedAt == nil
}

// doing says what a component does.
func (l *live) doing(c api.RunComponent) string {
	stage := ""
	if l.atWork(c) {
		stage = attemptOf(l.run, c.Name).Stage
	}
	since, idle := l.idle[c.Name]
	switch {
	case l.run.WaitsFor != "" && l.run.Status == "queued":
		return "waits for run " + l.run.WaitsFor
	case l.run.Status == "awaiting_approval" && c.Status == "planned":
		return "planned, waits for approval"
	case idle && l.now().Sub(since) >= patientFor:
		return c.Status + ": waits for an agent of " + l.run.Account
	case stage == "":
		return c.Status
	case l.run.Status == "cancelling":
		return "stopping: " + stage
	}
	return c.Status + ": " + stage
}

// progress is how far the attempt that is at work has come, in its agent's words.
func (l *live) progress(c api.RunComponent) string {
	if !l.atWork(c) {
		return ""
	}
	return attemptOf(l.run, c.Name).Progress
}

// elapsed is how long the attempt that is at work has been so.
func (l *live) elapsed(c api.RunComponent) string {
	since := l.run.CreatedAt
	if l.atWork(c) {
		since = *attemptOf(l.run, c.Name).AcceptedAt
	}
	return max(l.now().Sub(since), 0).Truncate(time.Second).String()
}

// attemptOf is the newest attempt of a component, or the zero one.
func attemptOf(r api.Run, component string) (newest api.Attempt) {
	for _, a := range r.Attempts {
		if a.Component == component {
			newest = a // they are in the order in which they were made
		}
	}
	return newest
}
