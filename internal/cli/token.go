package cli

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

type tokenCmd struct {
	List   tokenListCmd   `cmd:"" help:"List tokens."`
	Create tokenCreateCmd `cmd:"" help:"Make a token, which is shown once."`
	Revoke tokenRevokeCmd `cmd:"" help:"End a token at once."`
}

type tokenListCmd struct {
	remote
	paging
	All bool `help:"Everybody's in the organization, for administrators."`
}

// Help has examples.
func (tokenListCmd) Help() string {
	return `Examples:
  holdfast token list
  holdfast token list --all`
}

// Run lists tokens.
func (cmd *tokenListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	tokens, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.Token], error) {
		return server.Tokens(ctx, cmd.All, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(tokens)
	}
	showTokens(c.out, c.Now(), tokens)
	return nil
}

func showTokens(s *screen, now time.Time, tokens []api.Token) {
	if len(tokens) == 0 {
		s.none("tokens")
		return
	}
	var rows [][]any
	for _, t := range tokens {
		rows = append(rows, []any{t.Name, t.UserName, t.Role, tokenStatus(s, now, t), ago(now, t.LastUsedAt), t.ID})
	}
	s.grid([]string{"TOKEN", "USER", "ROLE", "STATUS", "LAST USED", "ID"}, rows)
}

func tokenStatus(s *screen, now time.Time, t api.Token) styled {
	switch {
	case t.RevokedAt != nil:
		return s.red("revoked")
	case t.ExpiresAt != nil && !t.ExpiresAt.After(now):
		return s.yellow("expired")
	case t.ExpiresAt != nil:
		return s.style("", "until "+t.ExpiresAt.UTC().Format("2006-01-02"))
	}
	return s.style("", "no end")
}

type tokenCreateCmd struct {
	remote
	Name         string `arg:"" help:"What the token is for, e.g. laptop or ci."`
	Role         string `enum:",viewer,operator,admin" default:"" help:"With it, an administrator makes a service user of that name and its token: viewer, operator or admin."`
	ExpiresIn    string `placeholder:"DURATION" help:"E.g. 12h or 30d; default 90d."`
	Organization string `help:"Platform administrators only: name of another organization."`
}

// Help has examples.
func (tokenCreateCmd) Help() string {
	return `Without --role it is a token of your own. The token alone goes to standard output.

Examples:
  holdfast token create laptop
  holdfast token create ci --role operator --expires-in 30d > token.txt`
}

// Run makes a token.
func (cmd *tokenCreateCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	created, err := server.CreateToken(ctx, api.CreateToken{Name: cmd.Name, Role: cmd.Role, Organization: cmd.Organization, ExpiresIn: cmd.ExpiresIn})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(created)
	}
	c.msg.print("Token %s (%s). It is shown this once:\n", c.msg.bold(cmd.Name), created.ID)
	c.out.print("%s\n", created.Token)
	return nil
}

type tokenRevokeCmd struct {
	remote
	ID string `arg:"" help:"Id of the token."`
}

// Help has an example.
func (tokenRevokeCmd) Help() string {
	return `Example:
  holdfast token revoke tok_01jzv3k9q2c8w4n6m0r5t7x1ab`
}

// Run revokes a token.
func (cmd *tokenRevokeCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	if err := server.RevokeToken(ctx, cmd.ID); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"id": cmd.ID, "status": "revoked"})
	}
	c.out.print("Token %s is revoked.\n", cmd.ID)
	return nil
}
