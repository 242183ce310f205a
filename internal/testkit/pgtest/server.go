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

	bin, dir   string // of initdb and pg_ctl; of the socket, as the server sees it
	supervisor *exec.Cmd
	stdin      io.Closer
}

// Start starts a PostgreSQL of its own, listening on a unix socket in a temporary directory. PostgreSQL refuses to
// run as root, so for root it runs as the user postgres or, without one, nobody.
func Start(ctx context.Context) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", script, "server.sh", bin)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LC_ALL=C"}
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
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s := &Server{supervisor: cmd, stdin: stdin}
	dir, err := awaitReady(ctx, stdout)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL from %s: %w", bin, err), s.Stop())
	}
	s.bin, s.dir = bin, dir
	s.URL = "postgres://postgres@/postgres?host=" + dir
	return s, nil
}

// Crash ends the server without letting it finish anything, as a power cut does, and starts it again. It returns once
// the server has recovered.
func (s *Server) Crash(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "pg_ctl"), "restart", "-m", "immediate", "-w", "-D", filepath.Join(s.dir, "data"), "-l", filepath.Join(s.dir, "log"))
	cmd.Dir, cmd.Env = "/", s.supervisor.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.supervisor.SysProcAttr.Credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("crash PostgreSQL: %w\n%s", err, out)
	}
	return nil
}

// Stop ends the server and removes its files. Nothing that it stored survives.
func (s *Server) Stop() error {
	_ = s.stdin.Close()
	if err := s.supervisor.Wait(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// awaitReady reads the supervisor's report: the directory with the server's socket, or what went wrong.
func awaitReady(ctx context.Context, stdout io.Reader) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	report := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
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
