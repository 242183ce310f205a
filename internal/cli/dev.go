package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/web"
)

// devName is the account and the agent of a server for development.
const devName = "local"

type devCmd struct {
	Listen  string `placeholder:"HOST:PORT" default:"127.0.0.1:8480" help:"Where to listen; port 0 takes a free one."`
	Data    string `placeholder:"DIR" default:".holdfast" help:"Folder for everything it keeps."`
	NoAgent bool   `help:"Start the server alone."`
	Samples bool   `negatable:"" default:"true" help:"Begin with a stack that has a run to look at, and one to approve."`
}

// Help has examples.
func (devCmd) Help() string {
	return `Everything is kept in one folder: the database, the platform key, the agent's work and the logs.
The agent runs as you, without isolation: run nothing that you would not run yourself.
An administrator's token is kept for the other commands, as login does, so that holdfast up works at once.

Examples:
  holdfast dev
  holdfast dev --listen 127.0.0.1:0 --data /tmp/try --no-samples`
}

// Run serves until an interrupt.
func (cmd *devCmd) Run(ctx context.Context, c *call) error {
	d, err := cmd.prepare(c)
	if err != nil {
		return err
	}
	defer d.close()
	server, err := app.New(ctx, app.Config{Settings: d.settings, Version: c.Version, UI: web.FS(), Log: d.log, Now: c.Now})
	if err != nil {
		return err
	}
	// The server outlives the interrupt: the agent says its last words to it.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	g, running := errgroup.WithContext(serving)
	g.Go(func() error { return server.Run(running) })
	g.Go(func() error {
		defer stop()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(running, cancel)() // the server failed
		return d.settle(ctx, server)
	})
	return g.Wait()
}

// dev is a server for development, made ready.
type dev struct {
	*call
	cmd      *devCmd
	dir      string // absolute
	settings config.Server
	token    redact.Secret
	log      *slog.Logger
	files    []*os.File
}

func (d *dev) close() {
	for _, f := range d.files {
		_ = f.Close() // logs
	}
}

// prepare makes the folder, the platform key and the administrator's token where they are not there yet.
func (cmd *devCmd) prepare(c *call) (_ *dev, err error) {
	d := &dev{call: c, cmd: cmd}
	if d.dir, err = filepath.Abs(cmd.Data); err != nil {
		return nil, fmt.Errorf("find the folder %s: %w", cmd.Data, err)
	}
	if err := os.MkdirAll(filepath.Join(d.dir, "work"), 0o700); err != nil {
		return nil, config.Invalid("--data: the folder %s cannot be made: %v.", d.dir, err)
	}
	// Nothing in it belongs in a repository.
	if err := once(filepath.Join(d.dir, ".gitignore"), func() string { return "*\n" }); err != nil {
		return nil, err
	}
	key, token := filepath.Join(d.dir, "platform.key"), filepath.Join(d.dir, "token")
	if err := once(key, newPlatformKey); err != nil {
		return nil, err
	}
	if err := once(token, func() string { return access.NewToken(access.PersonalPrefix).Reveal() + "\n" }); err != nil {
		return nil, err
	}
	environ := replaced(c.Environ, map[string]string{
		"HOLDFAST_LISTEN_ADDR": cmd.Listen, "HOLDFAST_DATA_DIR": d.dir, "HOLDFAST_DATABASE_URL": "",
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY_FILE": key, "HOLDFAST_TF_STATE_ENCRYPTION_KEY": "",
		"HOLDFAST_BOOTSTRAP_TOKEN_FILE": token, "HOLDFAST_BOOTSTRAP_TOKEN": "",
	})
	settings, warnings, err := config.LoadServer(environ)
	for _, w := range warnings {
		c.msg.print("%s %s\n", c.msg.yellow("Warning:"), w)
	}
	if err != nil {
		return nil, err
	}
	d.settings, d.token = settings, settings.BootstrapToken
	out, err := d.logFile("server.log")
	if err != nil {
		return nil, err
	}
	d.log = config.Logger(out, settings.LogLevel, settings.LogFormat)
	return d, nil
}

func newPlatformKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:])
	return base64.StdEncoding.EncodeToString(key[:]) + "\n"
}

// once writes a file that only its owner may read, unless it is there.
func once(path string, content func() string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return config.Invalid("--data: %v.", err)
	}
	_, err = f.WriteString(content())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// replaced is environ with other values; an empty one takes the name out.
func replaced(environ []string, values map[string]string) []string {
	var out []string
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		if _, other := values[name]; !other {
			out = append(out, line)
		}
	}
	for name, value := range values {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// logFile is a log of this start.
func (d *dev) logFile(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, config.Invalid("--data: %v.", err)
	}
	d.files = append(d.files, f)
	return f, nil
}

// settle makes the account and the agent, says where everything is, and watches over the agent until ctx ends.
func (d *dev) settle(ctx context.Context, server *app.App) error {
	api, err := d.client(server.BaseURL(), d.token)
	if err != nil {
		return err
	}
	agentToken, err := d.settleAgent(ctx, api)
	if err != nil {
		return err
	}
	link, err := d.settleUser(ctx, api)
	if err != nil {
		return err
	}
	if err := d.remember(server.BaseURL()); err != nil {
		return err
	}
	var agent *devAgent
	if !d.cmd.NoAgent {
		if agent, err = d.startAgent(server.BaseURL(), agentToken); err != nil {
			return err
		}
	}
	d.greet(server.BaseURL(), link)
	if agent != nil && d.cmd.Samples {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			if err := d.samples(ctx, api); err != nil && ctx.Err() == nil {
				d.log.WarnContext(ctx, "the samples could not be made", "error", err)
			}
		}()
	}
	return agent.wait(ctx)
}

// settleAgent makes the account, revokes the agent of an earlier start, and issues one anew: its token is kept
// nowhere.
func (d *dev) settleAgent(ctx context.Context, server *client.Client) (redact.Secret, error) {
	if _, err := server.AddAccount(ctx, api.AddAccount{Name: devName}); err != nil && !fault.Is(err, fault.Conflict) {
		return redact.Secret{}, fmt.Errorf("add the account: %w", err)
	}
	if d.cmd.NoAgent {
		return redact.Secret{}, nil
	}
	agents, err := client.Collect(client.All(ctx, 0, func(ctx context.Context, p client.Page) (api.List[api.Agent], error) {
		return server.Agents(ctx, devName, p)
	}))
	if err != nil {
		return redact.Secret{}, fmt.Errorf("list the agents: %w", err)
	}
	for _, a := range agents {
		if a.Name == devName && a.RevokedAt == nil {
			if err := server.RevokeAgent(ctx, a.ID); err != nil {
				return redact.Secret{}, fmt.Errorf("revoke the agent of an earlier start: %w", err)
			}
		}
	}
	issued, err := server.IssueAgent(ctx, api.IssueAgent{Name: devName, AccountID: devName})
	if err != nil {
		return redact.Secret{}, fmt.Errorf("issue the agent: %w", err)
	}
	return redact.NewSecret(issued.Token), nil
}

// settleUser is a link that signs a browser in as the administrator.
func (d *dev) settleUser(ctx context.Context, server *client.Client) (string, error) {
	who, err := server.Whoami(ctx)
	if err != nil {
		return "", fmt.Errorf("sign in with the token in %s: %w", d.dir, err)
	}
	linked, err := server.LinkUser(ctx, who.ID)
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	return linked.SignInLink, nil
}

// remember keeps the token for the other commands. The server becomes the one that is meant without a word, unless
// that is a server elsewhere.
func (d *dev) remember(addr string) error {
	if _, err := d.credentialsPath(); err != nil {
		return nil //nolint:nilerr // without a home there is no place to keep it, and the token file is there
	}
	kept, err := d.credentials()
	if err != nil {
		return err
	}
	kept.Servers[addr] = d.token.Reveal()
	current, err := client.ParseAddress(kept.Current)
	if err != nil || loopback(current) {
		kept.Current = addr
	}
	return d.keep(kept)
}

// greet says where everything is.
func (d *dev) greet(addr, link string) {
	agent := "with an agent for the account " + devName
	if d.cmd.NoAgent {
		agent = "without an agent"
	}
	d.out.print("Holdfast is at %s, %s.\n\n", d.out.bold(addr), agent)
	d.out.print("Sign a browser in, once:  %s\n", link)
	d.out.print("Try it:                   holdfast up DIR\n")
	if d.cmd.Samples && !d.cmd.NoAgent {
		d.out.print("Something to look at:     the stack %s, with a run that waits for an approval\n", sampleStack)
	}
	d.out.print("Platform key:             %s (without it, nothing that is kept can be read)\n", filepath.Join(d.dir, "platform.key"))
	d.out.print("Administrator's token:    %s\n", filepath.Join(d.dir, "token"))
	d.out.print("Logs:                     %s\n\nCtrl-C ends both.\n", filepath.Join(d.dir, "*.log"))
}
