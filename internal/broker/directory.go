package broker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/id"
)

// privateDir, in the work directory, is the broker's own. unsavedDir, within it, keeps states that nobody would take.
const (
	privateDir = ".broker"
	unsavedDir = "unsaved"
)

// openWorkDir checks the work directory and makes the broker's own in it.
func (b *Broker) openWorkDir() error {
	info, err := os.Stat(b.WorkDir)
	if err != nil || !info.IsDir() {
		return config.Invalid("HOLDFAST_WORK_DIR: there is no directory %s.", b.WorkDir).
			WithHint("Make it, owned by the broker's user and the group it shares with the worker, with mode 2770.")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !b.Unisolated && ok && int(st.Uid) == os.Getuid() {
		// With the sticky bit the worker cannot rename or remove what is the broker's in it.
		if err := os.Chmod(b.WorkDir, 0o770|os.ModeSetgid|os.ModeSticky); err != nil {
			return fmt.Errorf("set the mode of the work directory: %w", err)
		}
	}
	b.private = filepath.Join(b.WorkDir, privateDir)
	if err := os.Mkdir(b.private, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return config.Invalid("HOLDFAST_WORK_DIR: nothing can be written in %s (%v).", b.WorkDir, errors.Unwrap(err)).
			WithHint("Give it to the broker's user, with mode 2770.")
	}
	info, err = os.Lstat(b.private)
	if err != nil {
		return fmt.Errorf("look at the broker's own directory: %w", err)
	}
	st, ok = info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return config.Invalid("HOLDFAST_WORK_DIR: %s is not the broker's own, with mode 0700.", b.private).
			WithHint("Find out who made it, then remove it.")
	}
	probe, err := os.CreateTemp(b.private, ".probe-")
	if err != nil {
		return config.Invalid("HOLDFAST_WORK_DIR: nothing can be written in %s.", b.private).WithHint("Is the disk full, or read-only?")
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// makeDir makes an attempt's directory, which the worker's group may write in.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o770); err != nil {
		return fmt.Errorf("make the attempt's directory: %w", err)
	}
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		return fmt.Errorf("make the attempt's directory: %w", err)
	}
	return nil
}

// newFile makes a file for the worker to read.
func newFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o640)
}

// openWorkers opens a file that the worker was to make. Whatever else may stand in its place is refused: a link to
// something of the broker's, a pipe that never ends, a file of somebody else, one larger than limit.
func (b *Broker) openWorkers(dir, name string, limit int64) (*os.File, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok || !info.Mode().IsRegular():
			err = fmt.Errorf("%s is no file", name)
		case int(st.Uid) != b.WorkerUID:
			err = fmt.Errorf("%s belongs to user %d and not to the worker", name, st.Uid)
		case info.Size() > limit:
			err = fmt.Errorf("%s has %d bytes, more than the %d allowed", name, info.Size(), limit)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// attemptsIn lists the attempts' directories in dir.
func attemptsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for attempts: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && id.Valid(id.Attempt, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// removeIn removes name within dir, following no link out of it.
func removeIn(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return root.RemoveAll(name)
}

// keepAside copies an unsaved state to where it stays until a person has dealt with it.
func (b *Broker) keepAside(attempt string, f io.ReadSeeker) (string, error) {
	dir := filepath.Join(b.private, unsavedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep an unsaved state: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("keep an unsaved state: %w", err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return "", fmt.Errorf("keep an unsaved state: %w", err)
	}
	path := filepath.Join(dir, attempt+".tfstate")
	return path, replace(path, text)
}
