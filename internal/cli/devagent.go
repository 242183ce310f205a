package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/redact"
)

// agentGrace is how long the agent has to end what it is doing: its own grace for a tofu command, and some.
const agentGrace = 3 * time.Minute

// devAgent is the agent's process; a nil one is none.
type devAgent struct {
	cmd   *exec.Cmd
	ended chan error
	log   string
}

// agentSettings are those that a developer may want to hand through.
var agentSettings = []string{"TOFU_BIN", "PROVIDER_MIRROR", "INTERRUPT_GRACE_SECONDS", "LOG_LEVEL", "LOG_FORMAT"}

// startAgent starts the agent beside this program. Its token goes through a pipe: not into its arguments, environment
// or a file.
func (d *dev) startAgent(server string, token redact.Secret) (*devAgent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	binary := filepath.Join(filepath.Dir(self), "holdfast-agent")
	if _, err := os.Stat(binary); err != nil {
		return nil, config.Invalid("There is no holdfast-agent beside %s.", self).WithHint("make build, or start the server alone with --no-agent.")
	}
	out, err := d.logFile("agent.log")
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the agent's token: %w", err)
	}
	defer read.Close() //nolint:errcheck // the child has its own
	a := &devAgent{cmd: exec.Command(binary, "unisolated"), ended: make(chan error, 1), log: out.Name()}
	a.cmd.Env = d.agentEnvironment(server)
	a.cmd.Stdout, a.cmd.Stderr = out, out
	a.cmd.ExtraFiles = []*os.File{read}
	a.cmd.SysProcAttr = agentProcess()
	if err := a.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the agent: %w", err), write.Close())
	}
	go func() { a.ended <- a.cmd.Wait() }()
	_, err = write.WriteString(token.Reveal()) // a pipe holds it at once
	if err := errors.Join(err, write.Close()); err != nil {
		a.stop()
		return nil, fmt.Errorf("give the agent its token: %w", err)
	}
	return a, nil
}

// agentEnvironment is the developer's own, so that providers find their credentials, without what is Holdfast's.
func (d *dev) agentEnvironment(server string) []string {
	var env []string
	for _, line := range d.Environ {
		name, _, _ := strings.Cut(line, "=")
		short, ours := strings.CutPrefix(name, config.Prefix)
		if !ours || slices.Contains(agentSettings, short) {
			env = append(env, line)
		}
	}
	return append(env, "HOLDFAST_PLATFORM_URL="+server, "HOLDFAST_AGENT_TOKEN_FILE=/dev/fd/3", "HOLDFAST_WORK_DIR="+filepath.Join(d.dir, "work"),
		"HOLDFAST_DEVELOPMENT_UNISOLATED=1", "HOLDFAST_ALLOW_INLINE_SOURCES=true", "HOLDFAST_HEALTH_ADDR=off")
}

// wait is until ctx ends, and then until the agent has ended what it is doing. An agent that ends before is an error.
func (a *devAgent) wait(ctx context.Context) error {
	if a == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case err := <-a.ended:
		return a.endedBySelf(err)
	case <-ctx.Done():
		a.stop()
		return nil
	}
}

// endedBySelf says why an agent ended that was not asked to. What it says of its settings is said here as well, since
// they are those that dev was started with.
func (a *devAgent) endedBySelf(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	said, readErr := os.ReadFile(a.log)
	if ok && exit.ExitCode() == exitUsage && readErr == nil {
		return config.Invalid("The agent cannot be started: %s", strings.Join(tail(string(said), agentSaid), "\n"))
	}
	why := "no error"
	if err != nil {
		why = err.Error()
	}
	return fmt.Errorf("the agent ended by itself (%s); its log is %s", why, a.log)
}

// agentSaid is how many lines at the end of its log an agent needs to say what is wrong with its settings.
const agentSaid = 4

// stop asks the agent to end, and ends it where it does not.
func (a *devAgent) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-a.ended:
	case <-time.After(agentGrace):
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL) // its group
		<-a.ended
	}
}
