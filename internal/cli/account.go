package cli

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

type accountCmd struct {
	List    accountListCmd    `cmd:"" help:"List accounts."`
	Add     accountAddCmd     `cmd:"" help:"Add an account."`
	Enable  accountEnableCmd  `cmd:"" help:"Let runs into an account again."`
	Disable accountDisableCmd `cmd:"" help:"Let no more runs into an account."`
}

type accountListCmd struct {
	remote
	paging
}

// Help has an example.
func (accountListCmd) Help() string {
	return `Example:
  holdfast account list`
}

// Run lists accounts.
func (cmd *accountListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	accounts, err := client.Collect(client.All(ctx, cmd.Limit, server.Accounts))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(accounts)
	}
	showAccounts(c.out, c.Now(), accounts)
	return nil
}

func showAccounts(s *screen, now time.Time, accounts []api.Account) {
	if len(accounts) == 0 {
		s.none("accounts")
		return
	}
	var rows [][]any
	for _, a := range accounts {
		enabled := s.green("enabled")
		if !a.Enabled {
			enabled = s.yellow("disabled")
		}
		rows = append(rows, []any{a.Name, enabled, ago(now, &a.CreatedAt), a.ID})
	}
	s.grid([]string{"ACCOUNT", "RUNS", "AGE", "ID"}, rows)
}

type accountAddCmd struct {
	remote
	Name string `arg:"" help:"AWS account id, Google Cloud project id, Azure subscription id, or local."`
}

// Help has an example.
func (accountAddCmd) Help() string {
	return `Example:
  holdfast account add 111122223333`
}

// Run adds an account.
func (cmd *accountAddCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	account, err := server.AddAccount(ctx, api.AddAccount{Name: cmd.Name})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(account)
	}
	c.out.print("Added account %s. Give it an agent: holdfast agent issue NAME --account %s\n", c.out.bold(account.Name), account.Name)
	return nil
}

type accountEnableCmd struct {
	remote
	Name string `arg:"" help:"Name of the account."`
}

// Help has an example.
func (accountEnableCmd) Help() string {
	return `Example:
  holdfast account enable 111122223333`
}

// Run enables an account.
func (cmd *accountEnableCmd) Run(ctx context.Context, c *call) error {
	return setAccount(ctx, c, cmd.remote, cmd.Name, true)
}

type accountDisableCmd struct {
	remote
	Name string `arg:"" help:"Name of the account."`
}

// Help has an example.
func (accountDisableCmd) Help() string {
	return `Example:
  holdfast account disable 111122223333`
}

// Run disables an account.
func (cmd *accountDisableCmd) Run(ctx context.Context, c *call) error {
	return setAccount(ctx, c, cmd.remote, cmd.Name, false)
}

func setAccount(ctx context.Context, c *call, r remote, name string, enabled bool) error {
	server, err := r.connect(c)
	if err != nil {
		return err
	}
	account, err := server.SetAccount(ctx, name, api.SetAccount{Enabled: enabled})
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(account)
	}
	what := "disabled: no run starts in it any more"
	if account.Enabled {
		what = "enabled"
	}
	c.out.print("Account %s is %s.\n", account.Name, what)
	return nil
}
