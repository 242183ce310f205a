package cli

import (
	"context"
	"fmt"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

type stateResourcesCmd struct {
	remote
	paging
	State string `arg:"" optional:"" help:"Name of the state; default: all states."`
	Query string `short:"q" placeholder:"TEXT" help:"Only those whose address or provider holds this."`
	Type  string `placeholder:"TYPE" help:"Only resources of this type."`
}

// Help has examples.
func (stateResourcesCmd) Help() string {
	return `Lists resources of states' current versions by name: their values stay sealed.

Examples:
  holdfast state resources shop.main
  holdfast state resources -q subnet
  holdfast state resources --type aws_vpc --limit 20 --json`
}

// Run lists resources.
func (cmd *stateResourcesCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	f := client.ResourceFilter{Query: cmd.Query, Type: cmd.Type}
	var of api.StateResources // what is said of one state's list
	rs, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.Resource], error) {
		if cmd.State == "" {
			return server.Resources(ctx, f, page)
		}
		of, err = server.StateResources(ctx, cmd.State, f, page)
		return api.List[api.Resource]{Items: of.Items, Next: of.Next}, err
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(rs)
	}
	showResources(c.out, rs, cmd.State == "")
	switch {
	case of.Unreadable != "":
		c.msg.print("%s\n", clientEncrypted)
	case of.Pending:
		c.msg.print("The list of %s has not been made yet; it will be within minutes.\n", cmd.State)
	case of.Truncated:
		c.msg.print("%s has more resources than are listed of one state.\n", cmd.State)
	}
	return nil
}

func showResources(s *screen, rs []api.Resource, all bool) {
	if len(rs) == 0 {
		s.none("resources")
		return
	}
	headings := []string{"ADDRESS", "INSTANCES", "PROVIDER"}
	if all {
		headings = append([]string{"STATE"}, headings...)
	}
	var rows [][]any
	for _, r := range rs {
		row := []any{r.Address, r.Instances, dash(r.Provider)}
		if all {
			row = append([]any{r.State}, row...)
		}
		rows = append(rows, row)
	}
	s.grid(headings, rows)
}

type stateOutputsCmd struct {
	remote
	State string `arg:"" help:"Name of the state."`
}

// Help has examples.
func (stateOutputsCmd) Help() string {
	return `Shows the outputs of the current version. Sensitive values are not shown.

Examples:
  holdfast state outputs shop.main
  holdfast state outputs shop.main --json`
}

// Run shows outputs.
func (cmd *stateOutputsCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	o, err := server.StateOutputs(ctx, cmd.State)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(o)
	}
	showStateOutputs(c.out, o)
	return nil
}

func showStateOutputs(s *screen, o api.StateOutputs) {
	switch {
	case o.Unreadable != "":
		s.print("%s\n", s.yellow(clientEncrypted))
		return
	case len(o.Items) == 0:
		s.none("outputs")
		return
	}
	wide := 0
	for _, v := range o.Items {
		wide = max(wide, min(len(v.Name), 40))
	}
	for _, v := range o.Items {
		more := styled("")
		if v.Cut {
			more = s.dim(" (cut)")
		}
		s.print("%s = %s%s\n", fmt.Sprintf("%-*s", wide, v.Name), outputValue{Value: v.Value, Sensitive: v.Sensitive}.text(s), more)
	}
	if o.More > 0 {
		s.print("%s\n", s.yellow(fmt.Sprintf("and %d more", o.More)))
	}
}
