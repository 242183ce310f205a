package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

type runCmd struct {
	Start   runStartCmd   `cmd:"" help:"Start a run of a stack that is there, and leave it."`
	List    runListCmd    `cmd:"" help:"List runs, newest first."`
	Show    runShowCmd    `cmd:"" help:"Show a run: how it stands, its plan, attempts and outputs."`
	Watch   runWatchCmd   `cmd:"" help:"Watch a run until it ends."`
	Logs    runLogsCmd    `cmd:"" help:"Print what the tool said."`
	Approve runApproveCmd `cmd:"" help:"Approve a run's plan: exactly that plan is applied."`
	Reject  runRejectCmd  `cmd:"" help:"Reject a run's plan: nothing is applied."`
	Cancel  runCancelCmd  `cmd:"" help:"Stop a run."`
}

type runStartCmd struct {
	remote
	inputFlags
	Stack    string `arg:"" help:"Name of the stack."`
	Dir      string `arg:"" optional:"" default:"." help:"Folder with the configuration."`
	Kind     string `enum:"deploy,destroy,preview" default:"deploy" help:"deploy, destroy, or preview: plan and never apply."`
	Approval string `enum:",always,high_risk,never" default:"" placeholder:"WHEN" help:"Stricter than the stack's: always, high_risk or never."`
	Key      string `help:"A repeat with the same key answers the run that the first one started."`
}

// Help has examples.
func (runStartCmd) Help() string {
	return `Unlike holdfast up it changes no settings of the stack, keeps to the stack's own approval
rules, and does not wait.

Examples:
  holdfast run start shop ./shop
  holdfast run start shop . --kind preview
  holdfast run start shop . --key "$CI_PIPELINE_ID" --json`
}

// Run starts a run.
func (cmd *runStartCmd) Run(ctx context.Context, c *call) error {
	p, err := c.prepare(ctx, cmd.Dir, cmd.Stack, cmd.inputFlags)
	if err != nil {
		return err
	}
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	stored, err := uploadSource(ctx, server, p.archive)
	if err != nil {
		return err
	}
	key := cmd.Key
	if key == "" {
		key = rand.Text()
	}
	r, err := server.StartRun(ctx, cmd.Stack, api.StartRun{
		Kind: cmd.Kind, Approval: cmd.Approval, Key: key,
		Components: []api.StartComponent{{Name: p.component, Source: stored.ID, StateName: p.state, Inputs: p.inputs}},
	})
	if err != nil {
		return err
	}
	return c.detached(server, r)
}

type runListCmd struct {
	remote
	Limit  int      `default:"50" placeholder:"N" help:"Print at most N; 0 for all."`
	Stack  string   `placeholder:"NAME" help:"Only those of this stack."`
	Query  string   `short:"q" placeholder:"TEXT" help:"Only where the stack's name or the run's id holds this."`
	Status []string `placeholder:"STATUS" help:"Only with one of these, e.g. awaiting_approval."`
}

// Help has examples.
func (runListCmd) Help() string {
	return `Examples:
  holdfast run list
  holdfast run list --status awaiting_approval
  holdfast run list --stack shop --limit 5 --json`
}

// Run lists runs.
func (cmd *runListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	f := client.RunFilter{Stack: cmd.Stack, Query: cmd.Query, Statuses: cmd.Status}
	runs, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.RunListed], error) {
		return server.Runs(ctx, f, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(runs)
	}
	showRuns(c.out, c.Now(), runs)
	return nil
}

type runShowCmd struct {
	remote
	ID   string `arg:"" name:"run" help:"Id of the run."`
	Plan bool   `help:"Also all of its plan; without it, the plan is shown while it waits for approval."`
}

// Help has examples.
func (runShowCmd) Help() string {
	return `Examples:
  holdfast run show run_01jzv3k9q2c8w4n6m0r5t7x1ab
  holdfast run show run_01jzv3k9q2c8w4n6m0r5t7x1ab --plan --json`
}

// Run shows a run.
func (cmd *runShowCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	r, err := server.Run(ctx, cmd.ID)
	if err != nil {
		return err
	}
	waits := r.Status == "awaiting_approval"
	var p api.RunPlan
	if cmd.Plan || waits && !c.json {
		if p, err = server.RunPlan(ctx, r.ID); err != nil {
			return err
		}
	}
	if c.json {
		doc := linkedRun{Run: r, URL: runURL(server.Address(), r.ID)}
		if cmd.Plan {
			if doc.View, err = json.Marshal(p); err != nil {
				return err
			}
		}
		return c.printJSON(doc)
	}
	views, err := readPlan(p)
	if err != nil {
		return err
	}
	showRun(c.out, server.Address(), r)
	if len(views) > 0 {
		c.out.print("\n")
		showPlan(c.out, views, cmd.Plan)
	}
	if waits {
		c.out.print("\nholdfast run approve %s --digest %s\n", r.ID, r.PlanDigest)
	}
	return nil
}

type runWatchCmd struct {
	remote
	ID string `arg:"" name:"run" help:"Id of the run."`
}

// Help has an example.
func (runWatchCmd) Help() string {
	return `Ends with the run, and with its exit code: 0 done, 1 failed, 3 rejected, cancelled or refused.
Ctrl-C ends the watching and nothing else.

Example:
  holdfast run watch run_01jzv3k9q2c8w4n6m0r5t7x1ab`
}

func (runWatchCmd) takesInterrupts() {}

// Run watches a run.
func (cmd *runWatchCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	starting, stop := c.untilInterrupt(ctx)
	r, err := server.Run(starting, cmd.ID)
	stop()
	if err != nil {
		return err
	}
	return c.see(ctx, server, r, decision{watches: true})
}

type runLogsCmd struct {
	Addr      string `name:"addr" placeholder:"URL" help:"The server to call; default HOLDFAST_ADDR, else the one signed in to last."`
	ID        string `arg:"" name:"run" help:"Id of the run."`
	Follow    bool   `short:"f" help:"Go on until the run ends."`
	Component string `placeholder:"NAME" help:"Only this component."`
	Kind      string `enum:",plan,apply" default:"" help:"Only of the plan, or of the apply."`
}

// Help has examples.
func (runLogsCmd) Help() string {
	return `Secrets were removed before the log left the agent.

Examples:
  holdfast run logs run_01jzv3k9q2c8w4n6m0r5t7x1ab
  holdfast run logs run_01jzv3k9q2c8w4n6m0r5t7x1ab --follow --kind apply`
}

// Run prints logs.
func (cmd *runLogsCmd) Run(ctx context.Context, c *call) error {
	server, err := remote{Addr: cmd.Addr}.connect(c)
	if err != nil {
		return err
	}
	want := func(a api.Attempt) bool {
		return (cmd.Component == "" || a.Component == cmd.Component) && (cmd.Kind == "" || a.Kind == cmd.Kind)
	}
	out := bufio.NewWriter(c.Stdout)
	for chunk, err := range server.WithPatience(watchPatience).RunLogs(ctx, cmd.ID, cmd.Follow, want) {
		if err != nil {
			_ = out.Flush()
			return err
		}
		if _, err := out.WriteString(redact.PlainLines(chunk.Text)); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// lastLines of a log are shown where a run has failed.
const lastLines = 25

// tail is the last n lines of a text.
func tail(text string, n int) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return all[max(len(all)-n, 0):]
}

// showLastLog shows the end of the log of a run's last attempt: mostly the tool's own words for what is wrong.
func showLastLog(ctx context.Context, s *screen, server *client.Client, r api.Run) {
	if len(r.Attempts) == 0 {
		return
	}
	last := r.Attempts[len(r.Attempts)-1]
	var text strings.Builder
	for chunk, err := range server.RunLogs(ctx, r.ID, false, func(a api.Attempt) bool { return a.ID == last.ID }) {
		if err != nil {
			return // the run's own message has been or will be shown
		}
		text.WriteString(chunk.Text)
	}
	s.print("\n")
	for _, line := range tail(text.String(), lastLines) {
		s.print("  %s %s\n", s.dim("|"), lines(line))
	}
	s.print("\n")
}

type runApproveCmd struct {
	remote
	ID     string `arg:"" name:"run" help:"Id of the run."`
	Digest string `placeholder:"sha256:…" help:"The plan that you have seen. Without it the plan is shown, and asked about."`
}

// Help has examples.
func (runApproveCmd) Help() string {
	return `Exactly the plan of that digest is applied, or nothing: where the plan has changed since it was
looked at, the approval is refused.

Examples:
  holdfast run approve run_01jzv3k9q2c8w4n6m0r5t7x1ab
  holdfast run approve run_01jzv3k9q2c8w4n6m0r5t7x1ab --digest sha256:9f86d0…`
}

// Run approves a plan.
func (cmd *runApproveCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	digest := cmd.Digest
	if digest == "" {
		if digest, err = cmd.lookAtIt(ctx, c, server); err != nil {
			return err
		}
	}
	r, err := server.ApproveRun(ctx, cmd.ID, digest)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(linkedRun{Run: r, URL: runURL(server.Address(), r.ID)})
	}
	c.out.print("Approved: exactly %s is applied.\nWatch it: holdfast run watch %s\n", digest, r.ID)
	return nil
}

// lookAtIt shows the plan and asks. The digest is that of what was shown.
func (cmd *runApproveCmd) lookAtIt(ctx context.Context, c *call, server *client.Client) (string, error) {
	if !c.interactive() {
		return "", fault.New(fault.Invalid, codeUsage, "An approval names the plan that was looked at, and there is no terminal to show it on.").
			WithHint("holdfast run show %s --plan, then --digest with what it says.", cmd.ID)
	}
	r, err := server.Run(ctx, cmd.ID)
	if err != nil {
		return "", err
	}
	if r.Status != "awaiting_approval" {
		return "", fault.New(fault.Conflict, "not_awaiting_approval", "The run %s is %s: there is nothing to approve.", r.ID, strings.ReplaceAll(r.Status, "_", " "))
	}
	p, err := server.RunPlan(ctx, r.ID)
	if err != nil {
		return "", err
	}
	views, err := readPlan(p)
	if err != nil {
		return "", err
	}
	showPlan(c.msg, views, false)
	question, word := questionOf(r, p.PlanDigest)
	return p.PlanDigest, c.confirm(ctx, question, "--digest", word)
}

type runRejectCmd struct {
	remote
	ID     string `arg:"" name:"run" help:"Id of the run."`
	Reason string `placeholder:"TEXT" help:"Why, for the record."`
}

// Help has an example.
func (runRejectCmd) Help() string {
	return `Example:
  holdfast run reject run_01jzv3k9q2c8w4n6m0r5t7x1ab --reason "not on a Friday"`
}

// Run rejects a plan.
func (cmd *runRejectCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	r, err := server.RejectRun(ctx, cmd.ID, cmd.Reason)
	if err != nil {
		return err
	}
	return c.told(server, r)
}

type runCancelCmd struct {
	remote
	ID string `arg:"" name:"run" help:"Id of the run."`
}

// Help has an example.
func (runCancelCmd) Help() string {
	return `No new step begins; what runs is interrupted and saves its state. The run ends when its agent
has stopped.

Example:
  holdfast run cancel run_01jzv3k9q2c8w4n6m0r5t7x1ab`
}

// Run cancels a run.
func (cmd *runCancelCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	r, err := server.CancelRun(ctx, cmd.ID)
	if err != nil {
		return err
	}
	return c.told(server, r)
}

// told says how a run stands after what was done to it.
func (c *call) told(server *client.Client, r api.Run) error {
	if c.json {
		return c.printJSON(linkedRun{Run: r, URL: runURL(server.Address(), r.ID)})
	}
	c.out.print("Run %s is %s.\n", r.ID, c.out.status(r.RunListed))
	return nil
}
