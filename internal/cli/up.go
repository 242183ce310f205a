package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/stack"
)

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
	return `Packs the folder, plans it, shows what would change, asks, and applies exactly that plan. The
folder's stack.hcl says what the stack is; without one it is named after the folder. Settings
that neither file nor flags give stay as the stack has them. One Ctrl-C asks the run to cancel, a
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
	p, err := c.prepare(ctx, cmd.Dir, cmd.Stack, cmd.inputFlags)
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
	dir       string // of the configuration
	stack     string
	component string
	state     string       // name of its managed state
	settings  *stack.Stack // of the stack file; nil without one
	report    *source.Report
	inputs    json.RawMessage
	archive   []byte // packed
}

// prepare reads, checks and packs a folder. Whatever is wrong with it is found before a server is called.
func (c *call) prepare(ctx context.Context, dir, name string, in inputFlags) (prepared, error) {
	if err := folder(dir); err != nil {
		return prepared{}, err
	}
	p, values, err := readStack(dir, name)
	if err != nil {
		return p, err
	}
	if p.report, err = checkSource(p.dir); err != nil {
		return p, err
	}
	if p.inputs, err = in.read(c.Stdin, p.report.Variables, values); err != nil {
		return p, err
	}
	p.archive, err = c.packSource(ctx, p.dir)
	return p, err
}

// readStack reads the folder's stack file, or does without. name goes before the stack's own name. It gives what the
// file has as inputs, too.
func readStack(dir, name string) (p prepared, values map[string]json.RawMessage, err error) {
	_, err = os.Stat(filepath.Join(dir, stack.FileName))
	hasFile := !errors.Is(err, fs.ErrNotExist)
	s := &stack.Stack{Name: name, Components: []stack.Component{{Name: stack.Main, Source: "."}}}
	if hasFile || name == "" {
		if s, err = stack.Load(dir); err != nil {
			return p, nil, err
		}
	}
	if name == "" {
		name = s.Name
	}
	if run.CheckName("stack", name) != nil {
		return p, nil, fault.New(fault.Invalid, "invalid_name", "%q is no name for a stack.", name).
			WithHint("Give one with --stack: 1 to %d letters, digits, _ and -, starting with a letter or digit.", run.MaxNameBytes)
	}
	if err := oneLocal(s); err != nil {
		return p, nil, err
	}
	of := s.Components[0]
	p = prepared{dir: of.Folder(dir), stack: name, component: of.Name, state: of.StateName}
	if p.state == "" || p.state == s.Name+"."+of.Name {
		p.state = name + "." + of.Name
	}
	if hasFile {
		p.settings = s
	}
	return p, of.Values, folder(p.dir)
}

// oneLocal refuses what a stack file may say and a run cannot do.
func oneLocal(s *stack.Stack) error {
	refuse := func(what string) error {
		return fault.New(fault.Unprocessable, "stack_unsupported", "%s: %s.", stack.FileName, what).
			WithHint("A run deploys one component, from a folder, with its state managed here.")
	}
	of := s.Components[0]
	switch {
	case len(s.Components) != 1:
		return refuse(fmt.Sprintf("the stack has %d components", len(s.Components)))
	case !of.Local():
		return refuse("the source of component " + of.Name + " is not a folder beside the file")
	case len(of.Wired) > 0:
		return refuse("inputs of component " + of.Name + " come from another component")
	case s.State != "" && s.State != stack.Managed:
		return refuse("the state of the stack is " + s.State)
	}
	return nil
}

// start stores source and stack side by side, and starts the run.
func (cmd *upCmd) start(ctx context.Context, server *client.Client, p prepared) (api.Run, error) {
	var stored api.Source
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		stored, err = uploadSource(both, server, p.archive)
		return err
	})
	g.Go(func() error {
		if err := cmd.stateElsewhere(both, server, p); err != nil {
			return err
		}
		return cmd.stackFlags.store(both, server, p)
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
		Components: []api.StartComponent{{Name: p.component, Source: stored.ID, StateName: p.state, Inputs: p.inputs}},
	})
}

// stateElsewhere refuses a folder whose state is somewhere else, unless its managed state has something in it
// already: a run would begin with nothing and make all again that is there.
func (cmd *upCmd) stateElsewhere(ctx context.Context, server *client.Client, p prepared) error {
	if cmd.NewState || p.report.Backend == nil && p.report.LocalState == "" {
		return nil
	}
	state, err := server.State(ctx, p.state)
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
	return fault.New(fault.Unprocessable, "state_elsewhere", "%s, and the managed state %s is empty: a run would make again what that state holds.", what, p.state).
		WithHint("Push that state into the managed one first, or say --new-state where none is wanted.")
}

// store creates the stack, or changes what is to be changed: by the flags, then by the stack file. What neither says
// stays as it is.
func (f stackFlags) store(ctx context.Context, server *client.Client, p prepared) error {
	have, err := server.Stack(ctx, p.stack)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	isNew := err != nil
	same := api.PutStack{Account: have.Account, Production: have.Production, Approval: have.Approval, Hold: have.Hold}
	want := f.over(same, p.settings)
	if want.Account == "" {
		if want.Account, err = onlyAccount(ctx, server); err != nil {
			return err
		}
	}
	if !isNew && want == same {
		return nil
	}
	_, err = server.PutStack(ctx, p.stack, want)
	return err
}

func (f stackFlags) over(have api.PutStack, file *stack.Stack) api.PutStack {
	want := have
	if file != nil {
		want = api.PutStack{Account: file.Account, Production: file.Production, Approval: string(file.Approval), Hold: file.Hold}
		if want.Account == "" {
			want.Account = have.Account
		}
	}
	if f.Production != nil && *f.Production != want.Production {
		want.Production, want.Approval = *f.Production, "" // the default of the one is none of the other
	}
	if f.Approval != "" {
		want.Approval = f.Approval
	}
	if f.Hold != nil {
		want.Hold = *f.Hold
	}
	if f.Account != "" {
		want.Account = f.Account
	}
	return want
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
