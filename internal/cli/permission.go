package cli

import (
	"context"

	"holdfast.dev/holdfast/internal/api"
)

type permissionCmd struct {
	List permissionListCmd `cmd:"" help:"List what each role may do."`
	Set  permissionSetCmd  `cmd:"" help:"Allocate a permission on states to another role, or disable it."`
}

type permissionListCmd struct {
	remote
}

// Help has an example.
func (permissionListCmd) Help() string {
	return `A role has a permission when it is the one shown or a higher one: viewer, operator, admin.

Example:
  holdfast permission list`
}

// Run lists permissions.
func (cmd *permissionListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	permissions, err := server.Permissions(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(permissions)
	}
	showPermissions(c.out, permissions)
	return nil
}

func showPermissions(s *screen, permissions []api.Permission) {
	var rows [][]any
	for _, p := range permissions {
		role, fixed := s.style("", p.Role), "no"
		if p.Role != p.DefaultRole {
			role = s.yellow(p.Role)
		}
		if p.Allocatable {
			fixed = "yes"
		}
		rows = append(rows, []any{p.Permission, role, p.DefaultRole, fixed})
	}
	s.grid([]string{"PERMISSION", "LOWEST ROLE", "BY DEFAULT", "ALLOCATABLE"}, rows)
}

type permissionSetCmd struct {
	remote
	Permission string `arg:"" help:"tf_state:read, tf_state:write or tf_state:manage."`
	Role       string `arg:"" enum:"viewer,operator,admin,disabled" help:"viewer, operator or admin, for that role and those above it; disabled, for nobody."`
}

// Help has examples.
func (permissionSetCmd) Help() string {
	return `It holds at once, for people and for runs. The steps of a run act as operator: with tf_state:read
or tf_state:write above that, or disabled, they are refused as well.

Examples:
  holdfast permission set tf_state:manage operator
  holdfast permission set tf_state:write disabled`
}

// Run allocates a permission.
func (cmd *permissionSetCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	set, err := server.SetPermission(ctx, cmd.Permission, api.SetPermission{Role: cmd.Role})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(set)
	}
	name := c.out.bold(set.Permission)
	if set.Role == "disabled" {
		c.out.print("Nobody has %s now.\n", name)
	} else {
		c.out.print("The lowest role with %s is %s now.\n", name, set.Role)
	}
	if !stepsMay(set) {
		c.msg.print("%s the steps of runs act as operator and are refused with this.\n", c.msg.yellow("Warning:"))
	}
	return nil
}

// stepsMay reports whether the steps of runs, which act as operator, have what they need of p.
func stepsMay(p api.Permission) bool {
	return p.Permission == "tf_state:manage" || p.Role == "viewer" || p.Role == "operator"
}
