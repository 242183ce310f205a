package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// maxToken bounds what is read as a token, in bytes.
const maxToken = 4096

type loginCmd struct {
	output
	URL        string `arg:"" help:"Address of the server, e.g. https://holdfast.example.com."`
	TokenStdin bool   `help:"Read the token from standard input instead of asking for it."`
}

// Help has examples.
func (loginCmd) Help() string {
	return `The token is asked for without showing it, tried, and kept in holdfast/config.json in your
configuration folder (mode 0600). Tokens of several servers are kept side by side; the last
login is the one that other commands call, and --addr calls another.

Examples:
  holdfast login https://holdfast.example.com
  holdfast login http://127.0.0.1:8480 --token-stdin < token.txt`
}

// Run signs in.
func (cmd *loginCmd) Run(ctx context.Context, c *call) error {
	base, err := client.ParseAddress(cmd.URL)
	if err != nil {
		return err
	}
	addr := base.String()
	kept, err := c.credentials()
	if err != nil {
		return err
	}
	if base.Scheme == "http" && !loopback(base) {
		c.msg.print("%s %s has no TLS: everybody on the way can read the token.\n", c.msg.yellow("Warning:"), addr)
	}
	token, err := c.askToken(addr, cmd.TokenStdin)
	if err != nil {
		return err
	}
	server, err := c.client(addr, token)
	if err != nil {
		return err
	}
	who, err := server.Whoami(ctx)
	if err != nil {
		return err
	}
	kept.Current, kept.Servers[addr] = addr, token.Reveal()
	if err := c.keep(kept); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(signedIn{Whoami: who, Address: addr})
	}
	c.out.print("Signed in to %s as %s.\n", addr, c.out.bold(who.Name))
	return nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// askToken reads a token from a terminal without showing it, or from standard input.
func (c *call) askToken(addr string, stdin bool) (redact.Secret, error) {
	read := c.readToken
	if !stdin {
		f, ok := c.Stdin.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) {
			return redact.Secret{}, fault.New(fault.Invalid, codeUsage, "There is no terminal to ask for the token on.").
				WithHint("Give it on standard input: holdfast login %s --token-stdin", addr)
		}
		read = func() (string, error) { return c.typeToken(f, addr) }
	}
	text, err := read()
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Invalid, codeUsage, "The token cannot be read: %v.", err)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return redact.Secret{}, fault.New(fault.Invalid, codeUsage, "No token was given.").
			WithHint("An administrator makes one with holdfast token create; the web UI does, too.")
	}
	return redact.NewSecret(text), nil
}

func (c *call) readToken() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(c.Stdin, maxToken)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// typeToken asks on a terminal. It shows nothing from before the question is there: a token may be pasted at once.
func (c *call) typeToken(f *os.File, addr string) (text string, err error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(f.Fd()), before)) }()
	text, err = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, c.Stderr}, "").ReadPassword("Token for " + redact.Plain(addr) + ": ")
	if errors.Is(err, io.EOF) { // Ctrl-C and Ctrl-D, which are only keys here
		err = nil
	}
	return text, err
}

type logoutCmd struct {
	output
	URL string `arg:"" optional:"" help:"Address of the server; default the one signed in to last."`
	All bool   `help:"Forget the tokens of all servers."`
}

// Help has examples.
func (logoutCmd) Help() string {
	return `Only the copy kept here is forgotten; holdfast token revoke ends a token for everybody.

Examples:
  holdfast logout
  holdfast logout https://holdfast.example.com
  holdfast logout --all`
}

// Run forgets tokens. Forgetting what is not kept is no failure.
func (cmd *logoutCmd) Run(c *call) error {
	kept, err := c.credentials()
	if err != nil {
		return err
	}
	forget := []string{kept.Current}
	switch {
	case cmd.All:
		forget = kept.addresses()
	case cmd.URL != "":
		base, err := client.ParseAddress(cmd.URL)
		if err != nil {
			return err
		}
		forget = []string{base.String()}
	}
	forgotten := []string{}
	for _, addr := range forget {
		if _, ok := kept.Servers[addr]; ok {
			delete(kept.Servers, addr)
			forgotten = append(forgotten, addr)
		}
		if kept.Current == addr {
			kept.Current = ""
		}
	}
	if err := c.keep(kept); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string][]string{"forgotten": forgotten})
	}
	if len(forgotten) == 0 {
		c.out.print("There was no token to forget.\n")
	}
	for _, addr := range forgotten {
		c.out.print("Signed out of %s.\n", addr)
	}
	return nil
}

type whoamiCmd struct{ remote }

// Help has an example.
func (whoamiCmd) Help() string {
	return `Example:
  holdfast whoami --json`
}

// signedIn is who one is, and where.
type signedIn struct {
	api.Whoami
	Address string `json:"address"`
}

// Run says who one is.
func (cmd *whoamiCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	who, err := server.Whoami(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(signedIn{Whoami: who, Address: server.Address()})
	}
	showWhoami(c.out, server.Address(), who)
	return nil
}

func showWhoami(s *screen, addr string, who api.Whoami) {
	s.pairs("server", addr, "organization", who.Organization, who.Kind, who.Name, "role", who.Role, "id", who.ID)
}
