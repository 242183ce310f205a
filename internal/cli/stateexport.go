package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

type stateExportCmd struct {
	remote
	Args  []string `arg:"" name:"what" help:"NAME… DIR, or with --all only DIR."`
	All   bool     `help:"All states that are not deleted."`
	Force bool     `help:"Write over files with other bytes."`
}

// Help has examples.
func (stateExportCmd) Help() string {
	return `Writes each state's current document to DIR/NAME.tfstate, mode 0600, byte for byte, whole or not
at all: tofu state push takes them, and so does holdfast state import. A state holds secrets.
A file that is there already is left alone; with the same bytes it counts as done.

Examples:
  holdfast state export shop.main .
  holdfast state export --all ./states`
}

// Run exports states.
func (cmd *stateExportCmd) Run(ctx context.Context, c *call) error {
	names, dir := cmd.Args[:len(cmd.Args)-1], cmd.Args[len(cmd.Args)-1]
	if cmd.All == (len(names) > 0) {
		return fault.New(fault.Invalid, codeUsage, "Either names of states and a folder, or --all and a folder.").WithHint("holdfast state export --help has examples.")
	}
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	if cmd.All {
		for st, err := range client.All(ctx, 0, func(ctx context.Context, page client.Page) (api.List[api.State], error) {
			return server.States(ctx, client.StateFilter{}, page)
		}) {
			if err != nil {
				return err
			}
			names = append(names, st.Name)
		}
	}
	rows := make([]moved, len(names))
	for i, name := range names {
		if err := state.CheckName(name); err != nil { // it becomes a part of a path
			return err
		}
		rows[i] = moved{State: name, Place: filepath.Join(dir, name+stateSuffix)}
	}
	if err := unique(rows); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(err, fault.Invalid, codeUsage, "The folder %s cannot be made: %v.", dir, err)
	}
	for i := range rows {
		if ctx.Err() != nil {
			rows[i].fail(context.Cause(ctx))
			continue
		}
		if err := cmd.move(ctx, server, &rows[i]); err != nil {
			rows[i].fail(err)
		}
	}
	return c.reportMoved(rows, false, len(rows) == 1 && !cmd.All)
}

func (cmd *stateExportCmd) move(ctx context.Context, server *client.Client, m *moved) error {
	st, err := server.State(ctx, m.State)
	if err == nil && st.DeletedAt != nil {
		asked, _ := asRules(st)
		err = state.Present(asked)
	}
	if err != nil {
		return err
	}
	if st.Version == 0 {
		m.Outcome = "empty"
		return nil
	}
	m.Version, m.Serial, m.Size, m.SHA256 = st.Version, st.Serial, st.Size, st.SHA256
	if sum, err := fileSum(m.Place); err == nil && sum == st.SHA256 {
		m.Outcome = "unchanged"
		return nil
	}
	if _, err := storeFile(m.Place, cmd.Force, func(w io.Writer) (int64, error) {
		return server.PullState(ctx, m.State, st.Version, st.SHA256, w)
	}); err != nil {
		return err
	}
	m.Outcome = "exported"
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// storeFile writes a file of mode 0600, all of it or nothing. Without over, a file of that name is left alone.
func storeFile(path string, over bool, write func(io.Writer) (int64, error)) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil && !over {
		return 0, fileExists(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".holdfast-*") // made with mode 0600
	if err != nil {
		return 0, fault.Wrap(err, fault.Invalid, codeUsage, "The file %s cannot be written: %v.", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // not there any more after a rename
	n, err = write(f)
	if err != nil {
		return n, errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return n, fmt.Errorf("write %s: %w", path, err)
	}
	if over {
		err = os.Rename(f.Name(), path)
	} else if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) { // a rename would replace what came meanwhile
		return n, fileExists(path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return n, fmt.Errorf("write %s: %w", path, err)
	}
	return n, nil
}

// syncFolder makes the names in a folder durable, where the system can.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrInvalid) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

func fileExists(path string) error {
	return fault.New(fault.Conflict, "file_exists", "The file %s is there already, with other bytes.", path).
		WithHint("Move it away, export to another folder, or say --force.")
}
