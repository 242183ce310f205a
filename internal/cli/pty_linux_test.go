package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the program on a terminal of its own, and a person in front of it.
type terminal struct {
	t      testing.TB
	master *os.File
	cmd    *exec.Cmd
	ended  chan error

	mu   sync.Mutex
	seen bytes.Buffer
	read int // up to where expect has read
}

// onTerminal starts holdfast with args on a terminal of 80 columns.
func onTerminal(t testing.TB, environ []string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, cmd: exec.Command(program, args...), ended: make(chan error, 1)}
	term.cmd.Env = append(environ, "TERM=xterm", "PATH="+os.Getenv("PATH"))
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	go term.watch()
	go func() { term.ended <- term.cmd.Wait() }()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill() // it has ended, unless the test failed
		_ = master.Close()
	})
	return term
}

func (p *terminal) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// unstyled are colours and such, and the beginning of one where no more has arrived yet.
var unstyled = regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b(\\[[0-9;]*)?$")

// expect waits until text has appeared since the last expect, whatever its colour.
func (p *terminal) expect(text string) {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		at := strings.Index(unstyled.ReplaceAllString(p.seen.String(), "")[p.read:], text)
		if at >= 0 {
			p.read += at + len(text)
		}
		p.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-deadline:
			p.t.Fatalf("waited in vain for %q; the terminal shows:\n%s", text, p.all())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *terminal) send(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

func (p *terminal) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(p.seen.String(), "\x1b", "␛")
}

// exit waits for the program's end.
func (p *terminal) exit(want int) {
	p.t.Helper()
	select {
	case <-p.ended:
		if got := p.cmd.ProcessState.ExitCode(); got != want {
			p.t.Fatalf("exit code %d, want %d; the terminal shows:\n%s", got, want, p.all())
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the program does not end; the terminal shows:\n%s", p.all())
	}
}

const ctrlC = "\x03"
