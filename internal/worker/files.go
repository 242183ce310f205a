package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holdfast.dev/holdfast/internal/link"
)

// The worker's own directories in an attempt's directory. The broker cannot enter them.
const (
	homeDir    = ".home"
	tempDir    = ".tmp"
	scratchDir = ".scratch" // output files
)

// scratch makes a file that has no name: nothing can find it, and it goes with its last descriptor. Writers append.
func scratch(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "out-")
	if err != nil {
		return nil, fmt.Errorf("make an output file: %w", err)
	}
	name := f.Name()
	_ = f.Close()
	defer func() { _ = os.Remove(name) }()
	f, err = os.OpenFile(name, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("make an output file: %w", err)
	}
	return f, nil
}

// maxDocument bounds what is read whole of a command's output.
const maxDocument = 64 << 20

// whole reads a scratch file from its start.
func whole(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read a command's output: %w", err)
	}
	if info.Size() > maxDocument {
		return nil, fmt.Errorf("read a command's output: it has %d bytes, more than %d", info.Size(), maxDocument)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), b); err != nil {
		return nil, fmt.Errorf("read a command's output: %w", err)
	}
	return b, nil
}

// digest is the hex SHA-256 of a regular file.
func digest(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// clean removes what is this user's own in an attempt's directory and opens every directory of this user to the
// broker, which removes the rest. An unsaved state and the plan stay: they may have to be delivered first.
func clean(workDir, attempt string) error {
	root, err := os.OpenRoot(filepath.Join(workDir, attempt))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open an attempt's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	var failed []error
	for _, name := range []string{homeDir, tempDir, scratchDir} {
		failed = append(failed, open(root, name), root.RemoveAll(name))
	}
	failed = append(failed, open(root, link.ModuleDir))
	return errors.Join(failed...)
}

// open lets the group into every directory of this user below name. It follows no link.
func open(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o770 != 0o770 {
		if err := root.Chmod(name, 0o770|info.Mode()&os.ModeSetgid); err != nil {
			return err
		}
	}
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := open(root, filepath.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// configHash is the hex SHA-256 over every file of the module as it was prepared: names, links and contents. The
// provider lock file is not part of it, since init may write it; it has a hash of its own.
func configHash(module string) (string, error) {
	var names []string
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != filepath.Join(module, lockFile) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the configuration: %w", err)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, path := range names {
		rel, err := filepath.Rel(module, path)
		if err != nil {
			return "", fmt.Errorf("hash the configuration: %w", err)
		}
		kind, sum := "file", ""
		if target, err := os.Readlink(path); err == nil {
			kind, sum = "link", target
		} else if sum, err = digest(path); err != nil {
			return "", fmt.Errorf("hash the configuration: %w", err)
		}
		fmt.Fprintf(h, "%s %q %q\n", kind, rel, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
