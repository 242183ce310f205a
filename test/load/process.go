package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds the start of a server and stopTimeout its end.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

const token = "the-administrator-of-the-load-test-0123456789"

// Process is a server as a process of its own, so that what it uses can be told from what the clients use.
type Process struct {
	Server
	cmd   *exec.Cmd
	ended chan error
}

// Start starts the program (holdfast) as a server with its data in dir. database is "" for SQLite in dir, or a
// postgres:// URL. logFile takes what it prints.
func Start(ctx context.Context, program, dir, database, logFile string, more ...string) (*Process, error) {
	return StartOn(ctx, nil, program, dir, database, logFile, more...)
}

// StartOn is Start with a last change of the command before it begins, for what a process can stand on: a small disk,
// for example.
func StartOn(ctx context.Context, ground func(*exec.Cmd) error, program, dir, database, logFile string, more ...string) (*Process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(logFile) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()     // the process has its own
	cmd := exec.Command(program, "server") //nolint:gosec // ends by Stop, which lets it drain
	cmd.Env = append([]string{
		"HOLDFAST_LISTEN_ADDR=" + addr, "HOLDFAST_DATA_DIR=" + dir, "HOLDFAST_BOOTSTRAP_TOKEN=" + token, "HOLDFAST_LOG_LEVEL=warn",
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "HOLDFAST_TF_STATE_MAX_BYTES=134217728",
	}, more...)
	if database != "" {
		cmd.Env = append(cmd.Env, "HOLDFAST_DATABASE_URL="+database)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if ground != nil {
		if err := ground(cmd); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &Process{Server: Server{URL: "http://" + addr, Token: token}, cmd: cmd, ended: make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }()
	if err := p.ready(ctx, addr, logFile); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the server takes connections.
func (p *Process) ready(ctx context.Context, addr, logFile string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not listen: %w; see %s", context.Cause(ctx), logFile)
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("the server ended (%w); see %s", err, logFile)
		case <-poll.C:
		}
	}
}

// PID is the server's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the server as a power cut would.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	p.ended <- <-p.ended
	return err
}

// Stop ends the server in good order.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-p.ended:
		p.ended <- err
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(errors.New("the server did not stop in time"), p.Kill())
	}
}

// CPU is the processor time that a process has used.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have spaces; what follows has none. utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ on every Linux that Go runs on
	return time.Duration(ticks) * time.Second / perSecond, nil
}

// ResetPeak makes Memory's peak begin again at what is resident now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)
}

// Memory is the resident memory of a process and its peak, in bytes.
func Memory(pid int) (resident, peak int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %w", pid, err)
		}
		if fields[0] == "VmRSS:" {
			resident = n << 10
		} else {
			peak = n << 10
		}
	}
	return resident, peak, nil
}
