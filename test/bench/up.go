package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/test/load"
)

const (
	ups          = 9
	agentTimeout = 30 * time.Second // of the agent's start, and of its end
	upTimeout    = 2 * time.Minute  // of one `up`
)

// agent is a broker and its worker.
type agent struct {
	cmd   *exec.Cmd
	ended chan error
}

// up measures what Holdfast adds to the tofu commands that it runs. Each `up` is followed by the same commands by
// hand, with the same server for their state, so that both meet the same machine.
func up(ctx context.Context, b *bench, d database) error {
	return b.serve(ctx, d, "up", func(p *load.Process) (err error) {
		dir := filepath.Join(b.dir, string(d.name)+"-up")
		if err := writeModule(filepath.Join(dir, "measured")); err != nil {
			return err
		}
		a, err := b.startAgent(ctx, p.Server, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.stop()) }()
		u := &upping{bench: b, server: p, agent: a, dir: dir}
		for n := range ups + 1 {
			if err := u.once(ctx, n); err != nil {
				return err
			}
			if n == 0 {
				*u = upping{bench: b, server: p, agent: a, dir: dir} // the first one warms caches
			}
		}
		b.table.set("up", d.name, median(u.over))
		b.table.set("up-hand", d.name, median(u.overHand))
		b.table.set("up-tool", d.name, median(u.tool), median(u.hand))
		b.table.set("up-cpu", d.name, median(u.cpu))
		return nil
	})
}

// startAgent starts an agent as for development, and waits until it is there.
func (b *bench) startAgent(ctx context.Context, s load.Server, dir string) (*agent, error) {
	server, err := newClient(s)
	if err != nil {
		return nil, err
	}
	if _, err := server.AddAccount(ctx, api.AddAccount{Name: account}); err != nil {
		return nil, err
	}
	issued, err := server.IssueAgent(ctx, api.IssueAgent{Name: "bench", AccountID: account})
	if err != nil {
		return nil, err
	}
	token, work := filepath.Join(dir, "agent-token"), filepath.Join(dir, "work")
	if err := errors.Join(os.Mkdir(work, 0o700), os.WriteFile(token, []byte(issued.Token), 0o600)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log")) //nolint:gosec // our own
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	a := &agent{cmd: exec.Command(filepath.Join(b.bin, "holdfast-agent"), "unisolated"), ended: make(chan error, 1)} //nolint:gosec // ends by stop, which lets it drain
	a.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HOLDFAST_PLATFORM_URL=" + s.URL, "HOLDFAST_AGENT_TOKEN_FILE=" + token, "HOLDFAST_WORK_DIR=" + work,
		"HOLDFAST_DEVELOPMENT_UNISOLATED=1", "HOLDFAST_ALLOW_INLINE_SOURCES=true", "HOLDFAST_HEALTH_ADDR=off", "HOLDFAST_TOFU_BIN=" + b.tofu,
	}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { a.ended <- a.cmd.Wait() }()
	if err := a.online(ctx, server); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("%w; its log: %s", err, text), a.stop())
	}
	return a, nil
}

// online waits until the server has seen the agent.
func (a *agent) online(ctx context.Context, server *client.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, agentTimeout, errors.New("the agent does not register"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		have, err := server.Agents(ctx, account, client.Page{})
		if err != nil {
			return err
		}
		if len(have.Items) == 1 && have.Items[0].Status == "online" {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-a.ended:
			a.ended <- err
			return fmt.Errorf("the agent ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *agent) stop() error {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-a.ended:
		return err
	case <-time.After(agentTimeout):
		return errors.Join(errors.New("the agent did not stop in time"), a.cmd.Process.Kill())
	}
}

// upping is a series of ups. All figures are in milliseconds.
type upping struct {
	*bench
	server *load.Process
	agent  *agent
	dir    string

	over, overHand, tool, hand, cpu []float64
}

// once does one `up` that changes something, and the same by hand.
func (u *upping) once(ctx context.Context, n int) error {
	before, err := u.used()
	if err != nil {
		return err
	}
	begun := time.Now()
	tool, own, err := u.up(ctx, n)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	after, err := u.used()
	if err != nil {
		return err
	}
	hand, err := u.byHand(ctx, n)
	if err != nil {
		return err
	}
	u.over = append(u.over, milliseconds(took-tool))
	u.overHand = append(u.overHand, milliseconds(took-hand))
	u.tool, u.hand = append(u.tool, milliseconds(tool)), append(u.hand, milliseconds(hand))
	u.cpu = append(u.cpu, milliseconds(after-before+own))
	return nil
}

// used is the processor time of server, broker and worker, without the tofu commands.
func (u *upping) used() (time.Duration, error) {
	pids := []int{u.server.PID(), u.agent.cmd.Process.Pid}
	children, err := descendants(u.agent.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range append(pids, children...) {
		t, err := load.CPU(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// up runs `holdfast up` and gives how long tofu ran in it, as the agent reported, and its own processor time.
func (u *upping) up(ctx context.Context, n int) (tool, own time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(u.bin, "holdfast"), "up", filepath.Join(u.dir, "measured"), //nolint:gosec // our own
		"--yes", "--json", "--input", "n="+strconv.Itoa(n))
	cmd.Env = []string{"HOME=" + u.dir, "PATH=" + os.Getenv("PATH"), "HOLDFAST_ADDR=" + u.server.URL, "HOLDFAST_TOKEN=" + u.server.Token}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("holdfast up: %w: %s%s", err, out.String(), errs.String())
	}
	var run api.Run
	if err := json.Unmarshal(out.Bytes(), &run); err != nil {
		return 0, 0, err
	}
	if run.Status != "succeeded" || len(run.Attempts) != 2 {
		return 0, 0, fmt.Errorf("the run is %s after %d attempts", run.Status, len(run.Attempts))
	}
	for _, a := range run.Attempts {
		for _, s := range a.Stages {
			tool += time.Duration(s.Tool) * time.Millisecond
		}
	}
	return tool, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// byHand runs the commands that a run consists of and gives how long they took. Plan and apply have a folder each, as
// their tasks have.
func (u *upping) byHand(ctx context.Context, n int) (took time.Duration, err error) {
	planFile := filepath.Join(u.dir, fmt.Sprintf("hand-%d.plan", n))
	for _, half := range []struct {
		name     string
		commands [][]string
	}{
		{"plan", [][]string{tofu.InitArgs(false), tofu.ValidateArgs(), tofu.PlanArgs(tofu.PlanOptions{Out: planFile, VarFile: "inputs.json"}), tofu.ShowArgs(planFile)}},
		{"apply", [][]string{tofu.InitArgs(false), tofu.ShowArgs(planFile), tofu.ApplyArgs(planFile, 0), tofu.OutputArgs()}},
	} {
		dir := filepath.Join(u.dir, fmt.Sprintf("hand-%s-%d", half.name, n))
		env, err := u.prepare(dir, n)
		if err != nil {
			return 0, err
		}
		begun := time.Now()
		for _, args := range half.commands {
			cmd := exec.CommandContext(ctx, u.tofu, args...) //nolint:gosec // what is measured
			cmd.Dir, cmd.Env = dir, env
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, fmt.Errorf("tofu %s: %w: %s", args[0], err, out)
			}
		}
		took += time.Since(begun)
	}
	return took, nil
}

// prepare makes a folder as a worker's, and gives the environment.
func (u *upping) prepare(dir string, n int) ([]string, error) {
	if err := writeModule(dir); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"backend_override.tf": "terraform {\n  backend \"http\" {}\n}\n",
		"inputs.json":         fmt.Sprintf(`{"n": %d}`, n),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	state := u.server.URL + "/api/tf-states/hand"
	return tofu.Environment(tofu.EnvironmentOptions{Host: os.Environ(), Home: home, TempDir: home, Backend: &tofu.Backend{
		Address: state + "/state", Lock: state + "/lock", Username: "bench", Password: redact.NewSecret(u.server.Token),
	}})
}
