// Package smalldisk gives tests a disk that can be full: it runs a command with a file system of a few megabytes in
// memory, which nobody else sees. It needs no privilege where users may make namespaces; root needs nothing.
package smalldisk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// What a child of this package is told.
const (
	dirVariable  = "HOLDFAST_SMALLDISK_DIR"
	sizeVariable = "HOLDFAST_SMALLDISK_BYTES"
	userVariable = "HOLDFAST_SMALLDISK_USER" // uid:gid that the command runs as; "" to stay
)

// ambientAdmin is CAP_SYS_ADMIN, which a child that is not root needs in its namespace to mount.
const ambientAdmin = 21

// On changes cmd, which was not started, to run with a file system of its own of size bytes on the directory dir.
// The test binary is run in between: its TestMain calls Main first.
func On(cmd *exec.Cmd, dir string, size int64) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test binary: %w", err)
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	as := ""
	if c := attr.Credential; c != nil { // the child changes to it once it has mounted
		as = fmt.Sprintf("%d:%d", c.Uid, c.Gid)
		attr.Credential = nil
	}
	attr.Cloneflags |= syscall.CLONE_NEWNS
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{ambientAdmin}
	}
	cmd.Env = append(cmd.Env, dirVariable+"="+dir, sizeVariable+"="+strconv.FormatInt(size, 10), userVariable+"="+as)
	cmd.Args = append([]string{self, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = self
	return nil
}

// Main becomes the command in a process that On has changed, and returns in every other.
func Main() {
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}
	err := become(dir, os.Getenv(sizeVariable), os.Getenv(userVariable), os.Args[1:])
	fmt.Fprintln(os.Stderr, "no small disk:", err)
	os.Exit(1)
}

// become does not return where it succeeds.
func become(dir, size, as string, argv []string) error {
	// Nothing that is mounted here may be seen outside, nor the other way round.
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("a private namespace: %w", err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if as != "" {
		if _, err := fmt.Sscanf(as, "%d:%d", &uid, &gid); err != nil {
			return err
		}
	}
	if err := syscall.Mount("holdfast-small", dir, "tmpfs", 0, fmt.Sprintf("size=%s,uid=%d,gid=%d,mode=0700", size, uid, gid)); err != nil {
		return fmt.Errorf("mount on %s: %w", dir, err)
	}
	if as != "" {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
			return fmt.Errorf("become %s: %w", as, err)
		}
	}
	var env []string
	for _, line := range os.Environ() {
		if !startsWithAny(line, dirVariable, sizeVariable, userVariable) {
			env = append(env, line)
		}
	}
	return syscall.Exec(argv[0], argv, env)
}

func startsWithAny(line string, names ...string) bool {
	for _, name := range names {
		if len(line) > len(name) && line[:len(name)+1] == name+"=" {
			return true
		}
	}
	return false
}

// Disk is the file system of a command that runs, seen from outside.
type Disk struct {
	dir string
}

// Of is the disk that On put on dir for the process.
func Of(pid int, dir string) Disk { return Disk{fmt.Sprintf("/proc/%d/root%s", pid, dir)} }

// Dir is where the disk's files are to be found from outside, as long as the process lives.
func (d Disk) Dir() string { return d.dir }

func (d Disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// Fill leaves room bytes free, give or take a page.
func (d Disk) Fill(room int64) error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &s); err != nil {
			return err
		}
		free := int64(s.Bavail) * s.Bsize //nolint:gosec,unconvert // small
		if free <= room {
			return f.Close()
		}
		if _, err := io.CopyN(f, zeros{}, min(free-room, 1<<20)); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
}

// Free gives back what Fill took.
func (d Disk) Free() error { return os.Remove(d.ballast()) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
