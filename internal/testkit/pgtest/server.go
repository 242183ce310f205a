package pgtest

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed server.sh
var script string

// startTimeout bounds initdb and the start together; they take under a second on an idle machine.
const startTimeout = 2 * time.Minute

// Server is a PostgreSQL that was started for tests. It ends with the process that started it, however that
// process ends, and leaves no file behind.
type Server struct {
	URL string // of the database postgres, as its superuser; postgres://

	supervisor *exec.Cmd
	stdin      io.WriteCloser
	reports    *bufio.Reader // of the supervisor
}

// Start starts a PostgreSQL of its own, listening on a unix socket in a temporary directory. PostgreSQL refuses to
// run as root, so for root it runs as the user postgres or, without one, nobody.
func Start(ctx context.Context) (*Server, error) { return start(ctx, os.TempDir(), nil) }

// StartOn is Start with all of the server's files in dir, which ground makes what it is for the command alone: a small
// disk, for example. The server's journal is in pieces of 1 MiB instead of 16, so that it has room there.
func StartOn(ctx context.Context, dir string, ground func(*exec.Cmd) error) (*Server, error) {
	return start(ctx, dir, ground, "--wal-segsize=1")
}

func start(ctx context.Context, temporary string, ground func(*exec.Cmd) error, initdb ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", append([]string{"-c", script, "server.sh", bin}, initdb...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temporary, "LC_ALL=C"}
	// In a group of its own: Ctrl-C in a terminal must not reach the supervisor before its starter is done.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		if cmd.SysProcAttr.Credential, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	if ground != nil {
		if err := ground(cmd); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s := &Server{supervisor: cmd, stdin: stdin, reports: bufio.NewReader(stdout)}
	dir, err := awaitReady(ctx, s.reports)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL from %s: %w", bin, err), s.Stop())
	}
	s.URL = "postgres://postgres@/postgres?host=" + dir
	if ground != nil { // as seen from outside
		s.URL = fmt.Sprintf("postgres://postgres@/postgres?host=/proc/%d/root%s", s.PID(), dir)
	}
	return s, nil
}

// Crash ends the server without letting it finish anything, as a power cut does, where it has not ended by itself, and
// starts it again. It returns once the server has recovered.
func (s *Server) Crash(ctx context.Context) error {
	if _, err := io.WriteString(s.stdin, "crash\n"); err != nil {
		return fmt.Errorf("crash PostgreSQL: %w", err)
	}
	if _, err := awaitReady(ctx, s.reports); err != nil {
		return fmt.Errorf("start PostgreSQL again: %w", err)
	}
	return nil
}

// PID is the process that the server lives with; it sees the server's files as the server does.
func (s *Server) PID() int { return s.supervisor.Process.Pid }

// Stop ends the server and removes its files. Nothing that it stored survives.
func (s *Server) Stop() error {
	_ = s.stdin.Close()
	if err := s.supervisor.Wait(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// awaitReady reads the supervisor's report: the directory with the server's socket, or what went wrong.
func awaitReady(ctx context.Context, r *bufio.Reader) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	report := make(chan string, 1)
	go func() {
		line, err := r.ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "ready ") {
			rest, _ := io.ReadAll(r)
			line += string(rest)
		}
		report <- line
	}()
	select {
	case text := <-report:
		if dir, ok := strings.CutPrefix(text, "ready "); ok {
			return strings.TrimSpace(dir), nil
		}
		return "", fmt.Errorf("it does not start:\n%s", text)
	case <-ctx.Done():
		return "", fmt.Errorf("not ready: %w", ctx.Err())
	}
}

// binaries finds the directory of initdb and pg_ctl: on PATH, else where distributions put them, the newest first.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb",
		"/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql@*/bin/initdb",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL: %w", err)
		}
		found = append(found, matches...)
	}
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL here: neither initdb on PATH nor under /usr/lib/postgresql; " +
			"`make test` installs it, or name a running server in " + urlVariable)
	}
	slices.Sort(found) // versions of two digits, so the last is the newest
	return filepath.Dir(found[len(found)-1]), nil
}

func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}
