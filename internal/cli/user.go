package cli

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
)

type userCmd struct {
	List    userListCmd    `cmd:"" help:"List users."`
	Add     userAddCmd     `cmd:"" help:"Add a person; answers a link that signs them in, once."`
	SetRole userSetRoleCmd `cmd:"" help:"Change what a user may do."`
	Link    userLinkCmd    `cmd:"" help:"Make another sign-in link for a person."`
}

type userListCmd struct {
	remote
	paging
}

// Help has an example.
func (userListCmd) Help() string {
	return `Example:
  holdfast user list`
}

// Run lists users.
func (cmd *userListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	users, err := client.Collect(client.All(ctx, cmd.Limit, server.Users))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(users)
	}
	showUsers(c.out, c.Now(), users)
	return nil
}

func showUsers(s *screen, now time.Time, users []api.User) {
	if len(users) == 0 {
		s.none("users")
		return
	}
	var rows [][]any
	for _, u := range users {
		kind, status := "person", s.style("", "active")
		if u.Service {
			kind = "service"
		}
		if u.DisabledAt != nil {
			status = s.yellow("disabled")
		}
		rows = append(rows, []any{u.Name, u.Role, kind, status, ago(now, &u.CreatedAt), u.ID})
	}
	s.grid([]string{"USER", "ROLE", "KIND", "STATUS", "AGE", "ID"}, rows)
}

type userAddCmd struct {
	remote
	Name string `arg:"" help:"Name of the person."`
	Role string `enum:"viewer,operator,admin" default:"viewer" help:"viewer, operator or admin."`
}

// Help has an example.
func (userAddCmd) Help() string {
	return `The link alone goes to standard output. It works once; the token of their own that the
person makes after signing in is what holdfast login asks for.

Example:
  holdfast user add ada --role operator`
}

// Run adds a user.
func (cmd *userAddCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	added, err := server.AddUser(ctx, api.AddUser{Name: cmd.Name, Role: cmd.Role})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(added)
	}
	c.msg.print("Added %s as %s. This link signs them in, once:\n", c.msg.bold(added.User.Name), added.User.Role)
	c.out.print("%s\n", added.SignInLink)
	return nil
}

type userSetRoleCmd struct {
	remote
	User string `arg:"" help:"Name or id of the user."`
	Role string `arg:"" enum:"viewer,operator,admin" help:"viewer, operator or admin."`
}

// Help has an example.
func (userSetRoleCmd) Help() string {
	return `Example:
  holdfast user set-role ada admin`
}

// Run changes a role.
func (cmd *userSetRoleCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	user, err := findUser(ctx, server, cmd.User)
	if err != nil {
		return err
	}
	set, err := server.SetUser(ctx, user, api.SetUser{Role: cmd.Role})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(set)
	}
	c.out.print("%s is %s now.\n", c.out.bold(set.Name), set.Role)
	return nil
}

type userLinkCmd struct {
	remote
	User string `arg:"" help:"Name or id of the user."`
}

// Help has an example.
func (userLinkCmd) Help() string {
	return `The link alone goes to standard output. It works once.

Example:
  holdfast user link ada`
}

// Run makes a link.
func (cmd *userLinkCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	user, err := findUser(ctx, server, cmd.User)
	if err != nil {
		return err
	}
	linked, err := server.LinkUser(ctx, user)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(linked)
	}
	c.msg.print("This link signs %s in, once:\n", c.msg.bold(linked.User.Name))
	c.out.print("%s\n", linked.SignInLink)
	return nil
}

// findUser is the id of a user that is given by id or by name; names are unique.
func findUser(ctx context.Context, server *client.Client, given string) (string, error) {
	if id.Valid(id.User, given) {
		return given, nil
	}
	for u, err := range client.All(ctx, 0, server.Users) {
		if err != nil {
			return "", err
		}
		if u.Name == given {
			return u.ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "user_not_found", "There is no user %q.", given).WithHint("holdfast user list shows them.")
}
