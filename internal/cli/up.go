package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/source"
)

// component is the name of the one component of a folder without a stack file.
const component = "main"

type upCmd struct {
	remote
	stackFlags
	inputFlags
	Dir      string `arg:"" help:"Folder with the configuration."`
	Yes      bool   `short:"y" help:"Approve the plan without asking, under the same rules."`
	Destroy  bool   `help:"Destroy all that the stack has deployed."`
	Detach   bool   `short:"d" help:"Start the run and leave it; its plan waits for holdfast run approve."`
	NewState bool   `help:"Begin with an empty state though the folder has one, or names another backend."`
}

// Help has examples.
func (upCmd) Help() string {
	return `Packs the folder, plans it, shows what would change, asks, and applies exactly that plan.
Settings that are not given stay as the stack has them. One Ctrl-C asks the run to cancel, a
second one leaves it running. Without a terminal and without --yes the plan is left waiting.

Exit codes: 0 done, or nothing to change; 1 failed; 2 wrong usage or configuration; 3 rejected,
cancelled, refused, or waiting for an approval; 4 not allowed or not signed in.

Examples:
  holdfast up examples/hello
  holdfast up . --stack shop --account 111122223333 --production
  holdfast up . --input replicas=3 --inputs values.json
  holdfast up . --yes --json > run.json
  holdfast up . --destroy`
}

func (upCmd) takesInterrupts() {}

// stackFlags are a stack's settings. What is not given stays as it is.
type stackFlags struct {
	Stack      string `placeholder:"NAME" help:"Name of the stack; default the folder's."`
	Account    string `placeholder:"NAME" help:"Account to provision into; default the stack's, local, or the only one."`
	Production *bool  `negatable:"" help:"Production: approvals cannot be switched off."`
	Hold       *bool  `negatable:"" help:"Keep the state for the run from its plan to its apply."`
	Approval   string `enum:",always,high_risk,never" default:"" placeholder:"WHEN" help:"When runs of the stack that others start need an approval: always, high_risk or never."`
}

// Run does the main job.
func (cmd *upCmd) Run(ctx context.Context, c *call) error {
	p, err := cmd.prepare(c)
	if err != nil {
		return err
	}
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	starting, stop := c.untilInterrupt(ctx)
	r, err := cmd.start(starting, server, p)
	stop()
	if err != nil {
		return err
	}
	if cmd.Detach {
		return c.detached(server, r)
	}
	return c.see(ctx, server, r, decision{yes: cmd.Yes, rejects: true})
}

// prepared is all that can be known without the server.
type prepared struct {
	dir    string
	stack  string
	report *source.Report
	inputs json.RawMessage
}

func (cmd *upCmd) prepare(c *call) (p prepared, err error) {
	p.dir = cmd.Dir
	if err := folder(cmd.Dir); err != nil {
		return p, err
	}
	if p.report, err = checkSource(cmd.Dir); err != nil {
		return p, err
	}
	if p.stack = cmd.Stack; p.stack == "" {
		if p.stack, err = stackNameOf(cmd.Dir); err != nil {
			return p, err
		}
	}
	if run.CheckName("stack", p.stack) != nil {
		return p, fault.New(fault.Invalid, "invalid_name", "%q is no name for a stack.", p.stack).
			WithHint("Give one with --stack: 1 to %d letters, digits, _ and -, starting with a letter or digit.", run.MaxNameBytes)
	}
	p.inputs, err = cmd.read(c.Stdin, p.report.Variables, nil)
	return p, err
}

// start stores source and stack side by side, and starts the run.
func (cmd *upCmd) start(ctx context.Context, server *client.Client, p prepared) (api.Run, error) {
	var stored api.Source
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		archive, _, err := packSource(both, p.dir)
		if err != nil {
			return err
		}
		stored, err = uploadSource(both, server, archive)
		return err
	})
	g.Go(func() error {
		if err := cmd.stateElsewhere(both, server, p); err != nil {
			return err
		}
		return cmd.stackFlags.store(both, server, p.stack)
	})
	if err := g.Wait(); err != nil {
		return api.Run{}, err
	}
	kind := run.Deploy
	if cmd.Destroy {
		kind = run.Destroy
	}
	return server.StartRun(ctx, p.stack, api.StartRun{
		Kind: string(kind), Approval: string(run.Always), Key: rand.Text(),
		Components: []api.StartComponent{{Name: component, Source: stored.ID, Inputs: p.inputs}},
	})
}

// stateElsewhere refuses a folder whose state is somewhere else, unless its managed state has something in it
// already: a run would begin with nothing and make all again that is there.
func (cmd *upCmd) stateElsewhere(ctx context.Context, server *client.Client, p prepared) error {
	if cmd.NewState || p.report.Backend == nil && p.report.LocalState == "" {
		return nil
	}
	name := p.stack + "." + component
	state, err := server.State(ctx, name)
	if err == nil && state.Version > 0 {
		return nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	what := "The folder has a state of its own, " + p.report.LocalState
	if b := p.report.Backend; b != nil {
		what = "The configuration names another backend, " + b.Type + " (" + b.File + ")"
	}
	return fault.New(fault.Unprocessable, "state_elsewhere", "%s, and the managed state %s is empty: a run would make again what that state holds.", what, name).
		WithHint("Push that state into the managed one first, or say --new-state where none is wanted.")
}

// store creates the stack, or changes what is to be changed.
func (f stackFlags) store(ctx context.Context, server *client.Client, name string) error {
	have, err := server.Stack(ctx, name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	isNew := err != nil
	want := api.PutStack{Account: have.Account, Production: have.Production, Approval: have.Approval, Hold: have.Hold}
	if f.Account != "" {
		want.Account = f.Account
	}
	if f.Production != nil && *f.Production != have.Production {
		want.Production, want.Approval = *f.Production, "" // the default of the one is none of the other
	}
	if f.Approval != "" {
		want.Approval = f.Approval
	}
	if f.Hold != nil {
		want.Hold = *f.Hold
	}
	if isNew && want.Account == "" {
		if want.Account, err = onlyAccount(ctx, server); err != nil {
			return err
		}
	}
	same := api.PutStack{Account: have.Account, Production: have.Production, Approval: have.Approval, Hold: have.Hold}
	if !isNew && want == same {
		return nil
	}
	_, err = server.PutStack(ctx, name, want)
	return err
}

// onlyAccount is local where there is one, else the only account.
func onlyAccount(ctx context.Context, server *client.Client) (string, error) {
	var names []string
	for a, err := range client.All(ctx, 0, server.Accounts) {
		if err != nil {
			return "", err
		}
		if a.Enabled && a.Name == "local" {
			return a.Name, nil
		}
		if a.Enabled {
			names = append(names, a.Name)
		}
	}
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		return "", fault.New(fault.Invalid, codeUsage, "The organization has no account to provision into.").
			WithHint("An administrator adds one: holdfast account add NAME.")
	}
	return "", fault.New(fault.Invalid, codeUsage, "The organization has %d accounts, and this is a new stack.", len(names)).
		WithHint("Choose one with --account; holdfast account list shows them.")
}

// untilInterrupt is a context that an interrupt ends, for commands that take interrupts themselves later.
func (c *call) untilInterrupt(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-c.Interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-over }
}

// interactive reports whether a person can be asked.
func (c *call) interactive() bool {
	f, ok := c.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && c.msg.terminal()
}

// detached says what to do with a run that nobody here waits for.
func (c *call) detached(server *client.Client, r api.Run) error {
	if c.json {
		return c.printJSON(linkedRun{Run: r, URL: runURL(server.Address(), r.ID)})
	}
	c.out.print("Started run %s of stack %s.\n", c.out.bold(r.ID), r.Stack)
	c.out.print("Watch it: holdfast run watch %s\n%s\n", r.ID, runURL(server.Address(), r.ID))
	return nil
}

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
	end, err := w.follow(ctx)
	w.live.pause()
	switch {
	case errors.Is(err, errLeft):
		s.print("Left running. Watch it: holdfast run watch %s\n", r.ID)
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
	if end.Status == "succeeded" {
		showOutputs(s, end.Components)
	}
	summary(s, server.Address(), end)
	return runEnd(end)
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
		s.print("%s %s\n", s.red("High risk."), r.Approval.Reason)
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
	word := r.Production && r.Totals.Destroy+r.Totals.Replace > 0
	question := "Apply exactly this plan (" + r.PlanDigest + ")? [y/N] "
	if word {
		question = "Apply exactly this plan (" + r.PlanDigest + ")? It destroys something in production: type yes, or anything else to reject it: "
	}
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
