package cli

import (
	"context"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
)

type agentCmd struct {
	List   agentListCmd   `cmd:"" help:"List agents."`
	Issue  agentIssueCmd  `cmd:"" help:"Make an agent and its token, which is shown once."`
	Revoke agentRevokeCmd `cmd:"" help:"End an agent's token at once."`
}

type agentListCmd struct {
	remote
	paging
	Account string `help:"Only those of this account."`
	All     bool   `help:"Also those that are revoked."`
}

// Help has an example.
func (agentListCmd) Help() string {
	return `Examples:
  holdfast agent list
  holdfast agent list --account 111122223333 --all`
}

// Run lists agents.
func (cmd *agentListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	agents := []api.Agent{}
	for a, err := range eachAgent(ctx, server, cmd.Account) {
		if err != nil {
			return err
		}
		if a.RevokedAt != nil && !cmd.All {
			continue
		}
		if agents = append(agents, a); len(agents) == cmd.Limit {
			break
		}
	}
	if c.json {
		return c.printJSON(agents)
	}
	showAgents(c.out, c.Now(), agents)
	return nil
}

func eachAgent(ctx context.Context, server *client.Client, account string) func(func(api.Agent, error) bool) {
	return client.All(ctx, 0, func(ctx context.Context, page client.Page) (api.List[api.Agent], error) {
		return server.Agents(ctx, account, page)
	})
}

func showAgents(s *screen, now time.Time, agents []api.Agent) {
	if len(agents) == 0 {
		s.none("agents")
		return
	}
	var rows [][]any
	for _, a := range agents {
		status := styled(s.style("", a.Status))
		switch a.Status {
		case "online":
			status = s.green(a.Status)
		case "offline", "revoked":
			status = s.red(a.Status)
		case "draining", "never_seen":
			status = s.yellow(strings.ReplaceAll(a.Status, "_", " "))
		}
		rows = append(rows, []any{a.Name, a.Account, status, ago(now, a.LastSeenAt), dash(a.Version), a.ID})
	}
	s.grid([]string{"AGENT", "ACCOUNT", "STATUS", "LAST SEEN", "VERSION", "ID"}, rows)
}

type agentIssueCmd struct {
	remote
	Name    string `arg:"" help:"Name of the agent, e.g. the host it will run on."`
	Account string `required:"" help:"Account that the agent serves."`
}

// Help has an example.
func (agentIssueCmd) Help() string {
	return `The token alone goes to standard output, so that it can be kept in a file and given to the
agent as HOLDFAST_AGENT_TOKEN_FILE.

Example:
  holdfast agent issue build-host --account 111122223333 > agent-token`
}

// Run issues an agent.
func (cmd *agentIssueCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	issued, err := server.IssueAgent(ctx, api.IssueAgent{Name: cmd.Name, AccountID: cmd.Account})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(issued)
	}
	c.msg.print("Agent %s of account %s. Its token is shown this once:\n", c.msg.bold(issued.Agent.Name), issued.Agent.Account)
	c.out.print("%s\n", issued.Token)
	return nil
}

type agentRevokeCmd struct {
	remote
	Agent string `arg:"" help:"Id of the agent, or its name where no other has it."`
}

// Help has an example.
func (agentRevokeCmd) Help() string {
	return `What it is doing is lost with it: a plan is done again by another agent, an apply ends its run.

Example:
  holdfast agent revoke build-host`
}

// Run revokes an agent.
func (cmd *agentRevokeCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	agent, err := findAgent(ctx, server, cmd.Agent)
	if err != nil {
		return err
	}
	if err := server.RevokeAgent(ctx, agent); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"id": agent, "status": "revoked"})
	}
	c.out.print("Agent %s is revoked.\n", cmd.Agent)
	return nil
}

// findAgent is the id of an agent that is given by id or by name. Names may be used again once an agent is revoked.
func findAgent(ctx context.Context, server *client.Client, given string) (string, error) {
	if id.Valid(id.Agent, given) {
		return given, nil
	}
	var found []string
	for a, err := range eachAgent(ctx, server, "") {
		if err != nil {
			return "", err
		}
		if a.Name == given && a.RevokedAt == nil {
			found = append(found, a.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "agent_not_found", "There is no agent %q that is not revoked.", given).WithHint("holdfast agent list shows them.")
	case 1:
		return found[0], nil
	}
	return "", fault.New(fault.Invalid, codeUsage, "%d agents have the name %q.", len(found), given).WithHint("Give the id: %s.", strings.Join(found, " or "))
}
