// Package sweep keeps a worker alone: it finds and ends the processes that a template left behind. Nothing of one
// attempt may live on into the next, or beside the hashing of a plan.
package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast.dev/holdfast/internal/link"
)

// patience is how long ending processes may take; a process that is still there then is stuck in the kernel.
const patience = 10 * time.Second

// enough is after how many rounds of killing one by one a crowd that forks faster is killed in one call.
const enough = 5

// Harden makes this process unreadable to others of its user, /proc included, and the parent of every descendant whose
// own parent dies, so that none escapes by making a session of its own.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return link.KeepDescriptors()
}

// Children ends and reaps every child of this process, and theirs. The caller must have no child it still needs.
func Children() error {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(pause*2, 50*time.Millisecond) {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) || pid > 0 {
				continue
			}
			if errors.Is(err, syscall.ECHILD) {
				return nil // the kernel's word that there is none
			}
			if err != nil {
				return fmt.Errorf("wait for orphans: %w", err)
			}
			break
		}
		if time.Now().After(deadline) {
			return errors.New("end the processes a command left behind: some do not end")
		}
		self := os.Getpid()
		err := each(func(p process) error {
			if p.parent == self {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			return nil
		})
		if err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// User ends every other process of this process's user, until none is left.
func User() error {
	uid := os.Getuid()
	deadline := time.Now().Add(patience)
	for round := 0; ; round++ {
		if err := reap(); err != nil {
			return err
		}
		others, err := Others(uid)
		if err != nil || len(others) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("end the other processes of user %d: %d do not end, e.g. process %d", uid, len(others), others[0])
		}
		for _, pid := range others {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if round >= enough {
			if err := all(uid); err != nil {
				return err
			}
		}
		time.Sleep(min(time.Millisecond<<round, 20*time.Millisecond))
	}
}

// all kills everything this process may signal, in one call that nothing can outrun by forking. A process that may
// signal more than its own user's must never do that.
func all(uid int) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read the own capabilities: %w", err)
	}
	if uid == 0 || strings.Trim(field(status, "CapEff"), "0") != "" {
		return nil
	}
	if err := syscall.Kill(-1, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the other processes of user %d: %w", uid, err)
	}
	return nil
}

// Others lists the living processes of uid but this one.
func Others(uid int) ([]int, error) {
	self := os.Getpid()
	var pids []int
	err := each(func(p process) error {
		if p.pid != self && p.of(uid) {
			pids = append(pids, p.pid)
		}
		return nil
	})
	return pids, err
}

// Marked lists the living processes, but this one, that were started with an environment variable HOME somewhere under
// dir: what a worker that shares its user with people may end. A process can hide from this, unlike from User.
func Marked(dir string) ([]int, error) {
	self := os.Getpid()
	mark := []byte("HOME=" + filepath.Clean(dir) + "/")
	all, err := running()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, pid := range all {
		if pid == self {
			continue
		}
		// This alone tells: what has ended, and a zombie too, has no environment any more. The status, which costs the
		// kernel more than all else here, is not needed.
		env, err := os.ReadFile(proc(pid, "environ"))
		if err != nil {
			continue // gone, or another user's
		}
		if bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// KillMarked ends what Marked lists.
func KillMarked(dir string) error {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(pause*2, 20*time.Millisecond) {
		if err := reap(); err != nil {
			return err
		}
		pids, err := Marked(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("end what earlier attempts left behind: process %d does not end", pids[0])
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(pause)
	}
}

// Runs reports whether pid executes the file at path.
func Runs(pid int, path string) bool {
	target, err := os.Readlink(proc(pid, "exe"))
	if err != nil {
		return false
	}
	want, err := filepath.EvalSymlinks(path)
	return err == nil && target == want
}

// reap collects children that have ended.
func reap() error {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR), pid > 0:
		case err == nil, errors.Is(err, syscall.ECHILD):
			return nil
		default:
			return fmt.Errorf("reap children: %w", err)
		}
	}
}

type process struct {
	pid, parent int
	uids        []string // real, effective, saved, of the file system
}

func (p process) of(uid int) bool {
	for _, u := range p.uids {
		if u == strconv.Itoa(uid) {
			return true
		}
	}
	return false
}

func proc(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// each calls f with every living process that can be seen. Not the owner of /proc/<pid> is asked but the process's own
// users: an undumpable process seems to be root's.
func each(f func(process) error) error {
	pids, err := running()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		status, err := os.ReadFile(proc(pid, "status"))
		if err != nil {
			continue // it has ended
		}
		if state := field(status, "State"); strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
			continue
		}
		parent, err := strconv.Atoi(field(status, "PPid"))
		if err != nil {
			continue
		}
		if err := f(process{pid: pid, parent: parent, uids: strings.Fields(field(status, "Uid"))}); err != nil {
			return err
		}
	}
	return nil
}

// running lists the processes that can be seen, this one and zombies among them.
func running() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func field(status []byte, name string) string {
	for line := range bytes.SplitSeq(status, []byte{'\n'}) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}
