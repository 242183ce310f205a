package cli

import (
	"context"
	"net/url"
	"strconv"

	"holdfast.dev/holdfast/internal/state"
)

type stateBackendCmd struct {
	remote
	State string `arg:"" help:"Name of the state; it need not exist yet."`
	Tool  string `enum:"tofu,terraform" default:"tofu" help:"Which tool the comments speak of: tofu or terraform. The block is the same."`
}

// Help has an example.
func (stateBackendCmd) Help() string {
	return `Prints the file that keeps a configuration's state here. No token is in it: the tools read that
from TF_HTTP_PASSWORD, and what stands in a configuration ends in clear in plan files.

Example:
  holdfast state backend-config shop.main > backend.tf`
}

// backendConfig is the configuration of the http backend for one state.
type backendConfig struct {
	Address       string `json:"address"`
	LockAddress   string `json:"lock_address"`
	UnlockAddress string `json:"unlock_address"`
	LockMethod    string `json:"lock_method"`
	UnlockMethod  string `json:"unlock_method"`
	Username      string `json:"username"`
}

// Run prints a backend's configuration.
func (cmd *stateBackendCmd) Run(_ context.Context, c *call) error {
	if err := state.CheckName(cmd.State); err != nil {
		return err
	}
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	base := server.Address() + "/api/tf-states/" + url.PathEscape(cmd.State)
	b := backendConfig{
		Address: base + "/state", LockAddress: base + "/lock", UnlockAddress: base + "/lock", LockMethod: "LOCK", UnlockMethod: "UNLOCK", Username: "token",
	}
	if c.json {
		return c.printJSON(b)
	}
	showBackend(c.out, cmd.State, cmd.Tool, b)
	return nil
}

func showBackend(s *screen, name, tool string, b backendConfig) {
	s.print("# The state of this configuration is %s. The token stands in no file:\n", name)
	s.print("#   export TF_HTTP_PASSWORD=\"$(holdfast token create %s)\"\n", name)
	s.print("#   %s init\n", tool)
	s.print("terraform {\n  backend \"http\" {\n")
	for _, line := range [][2]string{
		{"address       ", b.Address},
		{"lock_address  ", b.LockAddress},
		{"unlock_address", b.UnlockAddress},
		{"lock_method   ", b.LockMethod},
		{"unlock_method ", b.UnlockMethod},
		{"username      ", b.Username},
	} {
		s.print("    %s = %s\n", line[0], strconv.Quote(line[1]))
	}
	s.print("  }\n}\n")
}
