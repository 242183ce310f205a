package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
)

type stackCmd struct {
	List   stackListCmd   `cmd:"" help:"List stacks."`
	Show   stackShowCmd   `cmd:"" help:"Show a stack and its last runs."`
	Delete stackDeleteCmd `cmd:"" help:"Forget a stack; what it deployed goes on existing."`
}

type stackListCmd struct {
	remote
	paging
	Query string `short:"q" placeholder:"TEXT" help:"Only names that hold this."`
}

// Help has examples.
func (stackListCmd) Help() string {
	return `Examples:
  holdfast stack list
  holdfast stack list -q shop --json`
}

// Run lists stacks.
func (cmd *stackListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	stacks, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.Stack], error) {
		return server.Stacks(ctx, cmd.Query, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(stacks)
	}
	showStacks(c.out, c.Now(), stacks)
	return nil
}

func showStacks(s *screen, now time.Time, stacks []api.Stack) {
	if len(stacks) == 0 {
		s.none("stacks")
		return
	}
	var rows [][]any
	for _, st := range stacks {
		last, at := s.style("", "-"), "-"
		if st.LastRun != nil {
			last, at = s.status(*st.LastRun), ago(now, &st.LastRun.CreatedAt)
		}
		rows = append(rows, []any{st.Name, st.Account, yes(st.Production), st.Approval, last, at})
	}
	s.grid([]string{"STACK", "ACCOUNT", "PRODUCTION", "APPROVAL", "LAST RUN", "AGE"}, rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type stackShowCmd struct {
	remote
	Stack string `arg:"" help:"Name of the stack."`
}

// Help has an example.
func (stackShowCmd) Help() string {
	return `Example:
  holdfast stack show shop`
}

// Run shows a stack.
func (cmd *stackShowCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	stack, err := server.Stack(ctx, cmd.Stack)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(stack)
	}
	const lastRuns = 10
	runs, err := server.Runs(ctx, client.RunFilter{Stack: cmd.Stack}, client.Page{Limit: lastRuns})
	if err != nil {
		return err
	}
	showStack(c.out, stack)
	c.out.print("\n")
	showRuns(c.out, c.Now(), runs.Items)
	return nil
}

func showStack(s *screen, st api.Stack) {
	s.pairs("stack", st.Name, "account", st.Account, "production", yes(st.Production), "approval", st.Approval, "hold", yes(st.Hold),
		"created", moment(&st.CreatedAt), "changed", moment(&st.UpdatedAt))
}

type stackDeleteCmd struct {
	remote
	Stack string `arg:"" help:"Name of the stack."`
	Yes   bool   `short:"y" help:"Do not ask."`
}

// Help has examples.
func (stackDeleteCmd) Help() string {
	return `The stack's states stay, and so does what it deployed: destroy that first, with
holdfast up DIR --destroy.

Examples:
  holdfast stack delete shop
  holdfast stack delete shop --yes`
}

// Run deletes a stack.
func (cmd *stackDeleteCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	if !cmd.Yes {
		if err := c.confirm(ctx, "Forget the stack "+cmd.Stack+"? What it deployed goes on existing. [y/N] ", "--yes", false); err != nil {
			return err
		}
	}
	if err := server.DeleteStack(ctx, cmd.Stack); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"name": cmd.Stack, "status": "deleted"})
	}
	c.out.print("Stack %s is forgotten.\n", cmd.Stack)
	return nil
}

// confirm asks a yes-or-no question; with word, only the whole word is a yes. Without a terminal nobody can answer, and
// flag says how to do without.
func (c *call) confirm(ctx context.Context, question, flag string, word bool) error {
	if !c.interactive() {
		return fault.New(fault.Invalid, codeUsage, "This asks before it does anything, and there is no terminal to ask on.").WithHint("Say %s.", flag)
	}
	answers := make(chan string)
	dropTyped(c.Stdin.(*os.File))
	go readLines(c.Stdin.(*os.File), answers)
	c.msg.print("%s", c.msg.bold(question))
	var line string
	select {
	case line = <-answers: // an end of input is no yes
	case <-ctx.Done():
		c.msg.print("\n")
		return context.Cause(ctx)
	}
	if !agrees(line, word) {
		c.msg.print("Nothing was changed.\n")
		return ended{exitRefused}
	}
	return nil
}

// agrees reads an answer: y or yes or, where the whole word is asked for, yes alone.
func agrees(line string, word bool) bool {
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "yes" || !word && answer == "y"
}
