package cli

import (
	"bufio"
	"context"
	"errors"
	"os"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

// decision is how a plan is decided on from here.
type decision struct {
	yes     bool // approve without asking
	rejects bool // a no rejects the run; else it is left waiting
	watches bool // only look on: somebody else decides
}

var errWaiting = errors.New("waiting for approval")

// see watches a run to its end, decides on its plan, and says how it ended.
func (c *call) see(ctx context.Context, server *client.Client, r api.Run, d decision) error {
	s := c.progress()
	s.print("%s %s of stack %s in account %s\n", s.bold("Run"), r.ID, r.Stack, r.Account)
	w := c.watching(server, r.ID, s)
	w.cancels = !d.watches
	w.live.update(r)
	deciding := &deciding{watching: w, decision: d}
	w.decide = deciding.decide
	w.known = toldOtherwise(d.watches, len(r.Components) == 1)
	end, err := w.follow(ctx)
	w.live.pause()
	switch {
	case errors.Is(err, errLeft):
		s.print("%s Watch it: holdfast run watch %s\n", w.left(), r.ID)
		return c.leftRunning(server, end, d)
	case errors.Is(err, errWaiting):
		return c.leftRunning(server, end, d)
	case err != nil:
		if !errors.Is(err, context.Canceled) {
			s.print("The run goes on without this command: holdfast run watch %s\n", r.ID)
		}
		return err
	}
	if c.json {
		if err := c.printJSON(linkedRun{Run: end, URL: runURL(server.Address(), end.ID)}); err != nil {
			return err
		}
		return runEnd(end)
	}
	switch end.Status {
	case "succeeded":
		showOutputs(s, end.Components)
	case "failed":
		showLastLog(ctx, s, server, end)
	}
	summary(s, server.Address(), end)
	return runEnd(end)
}

// toldOtherwise are the events that say what the plan, the question, the log and the summary say better.
func toldOtherwise(watches, alone bool) func(api.Event) bool {
	return func(e api.Event) bool {
		switch {
		case e.Type == "run.cancel_asked":
			return !watches
		case e.Phase == "end", alone && e.Type == "task.failed":
			return true
		case watches:
			return false
		}
		return e.Type == "run.planned" || e.Type == "run.rejected"
	}
}

// leftRunning is the end of a command whose run is not over. Only looking on and having seen enough is no failure.
func (c *call) leftRunning(server *client.Client, r api.Run, d decision) error {
	if c.json {
		if err := c.printJSON(linkedRun{Run: r, URL: runURL(server.Address(), r.ID)}); err != nil {
			return err
		}
	}
	if d.watches {
		return nil
	}
	return ended{exitRefused}
}

// progress is where the run is told of while it happens: with --json not where the document goes, and nowhere
// where nobody looks.
func (c *call) progress() *screen {
	switch {
	case !c.json:
		return c.out
	case c.msg.terminal():
		return c.msg
	}
	return &screen{w: nowhere{}}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// deciding is the question of one run's plan, and the answer to it.
type deciding struct {
	*watching
	decision
	answers chan string // lines of the terminal
}

// decide is called when a plan waits. The plan is shown before anybody is asked.
func (d *deciding) decide(ctx context.Context, r api.Run) error {
	if d.watches {
		d.live.note(d.live.s.yellow("Waits for approval:"), "holdfast run approve "+r.ID)
		return nil
	}
	if d.yes {
		d.approve(ctx, r)
	}
	d.beside(ctx, func() func() error {
		p, err := d.server.RunPlan(ctx, r.ID)
		return func() error {
			if err != nil {
				return err
			}
			return d.show(ctx, r, p)
		}
	})
	return nil
}

func (d *deciding) show(ctx context.Context, r api.Run, p api.RunPlan) error {
	views, err := readPlan(p)
	if err != nil {
		return err
	}
	s := d.live.s
	d.live.pause()
	showPlan(s, views, false)
	if r.Risk == "high" {
		s.print("%s\n", s.red("High risk"+riskOf(r)+"."))
	}
	switch {
	case d.yes:
		s.print("Approved with --yes: %s\n", r.PlanDigest)
		d.live.resume()
		return nil
	case p.PlanDigest != r.PlanDigest: // it was planned again in between: what was shown is not what is asked about
		d.decided = ""
		d.fetch(ctx)
		return nil
	case !d.c.interactive():
		s.print("The plan waits for approval; nothing is applied before. Approve exactly this plan, or reject it:\n")
		s.print("  holdfast run approve %s --digest %s\n  holdfast run reject %s\n%s\n", r.ID, r.PlanDigest, r.ID, s.dim(runURL(d.server.Address(), r.ID)))
		return errWaiting
	}
	d.ask(ctx, r)
	return nil
}

// ask puts the question and waits for a line beside the loop: the run may end, or be decided on elsewhere, first.
func (d *deciding) ask(ctx context.Context, r api.Run) {
	question, word := questionOf(r, r.PlanDigest)
	// What was typed before the plan could be seen is no answer to it.
	dropTyped(d.c.Stdin.(*os.File))
	d.live.s.print("%s", d.live.s.bold(question))
	d.question = true
	if d.answers == nil {
		d.answers = make(chan string)
		go readLines(d.c.Stdin.(*os.File), d.answers)
	}
	d.beside(ctx, func() func() error {
		var line string
		var ok bool
		select {
		case line, ok = <-d.answers:
		case <-ctx.Done():
		}
		return func() error { return d.answer(ctx, r, line, ok, word) }
	})
}

// questionOf is how an approver is asked, and whether only the whole word yes will do.
func questionOf(r api.Run, digest string) (question string, word bool) {
	question = "Apply exactly this plan (" + digest + ") in " + r.Stack + "?"
	if r.Production && r.Totals.Destroy+r.Totals.Replace > 0 {
		return question + " It destroys something in production: type yes, or anything else for no: ", true
	}
	return question + " [y/N] ", false
}

// readLines gives the lines of a terminal until its end. It cannot be stopped while it waits for one; it ends with
// the program.
func readLines(f *os.File, to chan<- string) {
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			close(to)
			return
		}
		to <- line
	}
}

func (d *deciding) answer(ctx context.Context, r api.Run, line string, ok, word bool) error {
	s := d.live.s
	if !d.question || d.asked { // too late: answered elsewhere, or cancelled here
		return nil
	}
	d.question = false
	switch {
	case !ok:
		s.print("\nNo answer: the plan goes on waiting. holdfast run approve %s\n", r.ID)
		return errWaiting
	case agrees(line, word):
		d.approve(ctx, r)
		d.live.resume()
		return nil
	case !d.rejects:
		s.print("Nothing was approved; the plan goes on waiting.\n")
		return errWaiting
	}
	d.beside(ctx, func() func() error {
		rejected, err := d.server.RejectRun(ctx, r.ID, "")
		return func() error {
			if err != nil {
				return err
			}
			return d.see(ctx, rejected)
		}
	})
	return nil
}

func (d *deciding) approve(ctx context.Context, r api.Run) {
	d.beside(ctx, func() func() error {
		approved, err := d.server.ApproveRun(ctx, r.ID, r.PlanDigest)
		return func() error {
			if err != nil {
				return err
			}
			return d.see(ctx, approved)
		}
	})
}
