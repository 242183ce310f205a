// Package cli is the commands of holdfast. Each is a struct whose fields are its flags and arguments and whose Run
// does it; what it prints for people and what it prints as JSON are functions of their own, apart from the calls.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"holdfast.dev/holdfast/internal/fault"
)

// root is the tree of commands.
type root struct {
	Server  serverCmd  `cmd:"" help:"Serve the API and the web UI; settings come from the environment."`
	Dev     devCmd     `cmd:"" help:"Serve on this machine with an agent beside, everything in one folder."`
	Version versionCmd `cmd:"" help:"Say what this program is."`
	OpenAPI openapiCmd `cmd:"" name:"openapi" hidden:"" help:"Print the description of the HTTP API."`

	Completion completionCmd `cmd:"" help:"Print what makes a shell complete commands and names."`
	Complete   completeCmd   `cmd:"" hidden:"" passthrough:"" help:"What the last of some words may become."`

	Login  loginCmd  `cmd:"" help:"Sign in to a server and keep the token."`
	Logout logoutCmd `cmd:"" help:"Forget a server's token."`
	Whoami whoamiCmd `cmd:"" help:"Say who you are to the server."`

	Up    upCmd    `cmd:"" help:"Plan a folder, show what would change, ask, and apply exactly that."`
	Run   runCmd   `cmd:"" help:"Runs: one change to a stack each."`
	Stack stackCmd `cmd:"" help:"Stacks: what is deployed together into one account."`
	State stateCmd `cmd:"" help:"Managed states."`

	Account accountCmd `cmd:"" help:"Cloud accounts that the organization provisions into."`
	Agent   agentCmd   `cmd:"" help:"Agents: what runs in the accounts."`
	Token   tokenCmd   `cmd:"" help:"Tokens of people and service users."`
	User    userCmd    `cmd:"" help:"Users of the organization."`

	Permission permissionCmd `cmd:"" help:"What each role may do."`

	Audit auditCmd `cmd:"" help:"The audit log."`
	Admin adminCmd `cmd:"" help:"What the installation needs as a whole."`
}

// call is one execution of the program.
type call struct {
	Env
	out  *screen // what was asked for
	msg  *screen // everything said beside it
	json bool    // out gets one JSON document and nothing else
}

// Run does what env.Args say and returns the exit code: 0 done; 1 failed; 2 wrong usage or configuration; 3 the run
// was rejected, cancelled or refused; 4 not allowed or not signed in.
func Run(ctx context.Context, env Env) int {
	c := &call{Env: env, out: newScreen(env, env.Stdout), msg: newScreen(env, env.Stderr)}
	exited, code := false, 0
	parser, err := kong.New(&root{}, kong.Name("holdfast"),
		kong.Description("Plan, approve and apply OpenTofu configurations, exactly as approved, and keep their state."),
		kong.Writers(env.Stdout, env.Stderr), kong.Exit(func(n int) { exited, code = true, n }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.ShortUsageOnError(),
		kong.Bind(c))
	if err != nil {
		return c.fail(fmt.Errorf("build the commands: %w", err))
	}
	selected, err := parser.Parse(env.Args)
	if exited { // help was asked for and given, whatever else is wrong with the line
		return code
	}
	if err != nil {
		return c.fail(usage(err))
	}
	ctx, stop := c.interruptible(ctx, selected)
	defer stop()
	selected.BindTo(ctx, (*context.Context)(nil))
	return c.fail(selected.Run())
}

// usage is an error of the command line itself.
func usage(err error) error {
	f := fault.New(fault.Invalid, codeUsage, "%s", err.Error())
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil {
		if n := p.Context.Selected(); n != nil {
			return f.WithHint("holdfast %s --help shows how it is used.", n.Path())
		}
	}
	return f.WithHint("holdfast --help lists the commands.")
}

// takesInterrupts marks commands that read Interrupts themselves.
type takesInterrupts interface{ takesInterrupts() }

var errInterrupted = errors.New("interrupted")

// interruptible is a context that the first interrupt ends, unless the command takes them itself.
func (c *call) interruptible(ctx context.Context, selected *kong.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if n := selected.Selected(); n != nil && n.Target.CanAddr() {
		if _, ok := n.Target.Addr().Interface().(takesInterrupts); ok {
			return ctx, func() { cancel(context.Canceled) }
		}
	}
	go func(signals <-chan os.Signal) {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}(c.Interrupts)
	return ctx, func() { cancel(context.Canceled) }
}
