package cli

import (
	"bytes"
	"context"
	"io"
	"os"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/fault"
)

type adminExportCmd struct {
	offline
	State        string `arg:"" optional:"" help:"Name of the state."`
	Backup       string `required:"" placeholder:"FILE" help:"What holdfast admin backup wrote."`
	Version      int64  `placeholder:"N" help:"This version instead of the current one."`
	Organization string `placeholder:"NAME" help:"Where several organizations have a state of that name."`
	Out          string `name:"output" short:"o" placeholder:"FILE" help:"Write to a file (mode 0600) instead of standard output: all of it or nothing."`
	Force        bool   `help:"Write over a file that is there."`
	List         bool   `help:"List the states of the backup, or the versions of the one that is named. No key is needed."`
}

// Help has examples.
func (adminExportCmd) Help() string {
	return `Opens one document, byte for byte, from a backup file and the key. No server and no database are needed, so this
works when nothing else does any more. The key is HOLDFAST_TF_STATE_ENCRYPTION_KEY, as the server had it;
HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS and the settings of a key service count too. Size and SHA-256 are
checked; with the wrong key, or from a damaged file, nothing comes out but an error.

Examples:
  holdfast admin export-state --backup holdfast.backup --list
  holdfast admin export-state shop.main --backup holdfast.backup --list
  holdfast admin export-state shop.main --backup holdfast.backup --output shop.tfstate
  holdfast admin export-state shop.main --backup holdfast.backup --version 3 | tofu state push -`
}

// Run exports a state.
func (cmd *adminExportCmd) Run(ctx context.Context, c *call) error {
	if !cmd.List && (cmd.State == "" || c.json && cmd.Out == "") || cmd.List && (cmd.Out != "" || cmd.Version != 0) || cmd.Version < 0 {
		return fault.New(fault.Invalid, codeUsage, "Name a state, or say --list; with --json also a file for the document.").
			WithHint("holdfast admin export-state --help has examples.")
	}
	a, err := cmd.admin(ctx, c)
	if err != nil {
		return err
	}
	choice := app.StateChoice{Organization: cmd.Organization, Name: cmd.State, Version: cmd.Version}
	if cmd.List {
		return cmd.list(ctx, c, a, choice)
	}
	var x app.Exported
	write := func(w io.Writer) (int64, error) {
		n := &counter{w: w}
		x, err = a.ExportState(ctx, cmd.Backup, choice, n)
		return n.n, err
	}
	switch {
	case cmd.Out != "":
		_, err = storeFile(cmd.Out, cmd.Force, write)
	case c.out.terminal():
		var b bytes.Buffer
		if _, err = write(&b); err == nil {
			_, err = c.Stdout.Write(visible(b.Bytes()))
		}
	default:
		_, err = write(c.Stdout)
	}
	if err != nil || cmd.Out == "" {
		return err
	}
	if c.json {
		return c.printJSON(x)
	}
	c.out.print("%s %s version %d (%s) to %s\n", c.out.green("Exported:"), x.State.Name, x.Version.Version, bytesText(x.Version.Size), cmd.Out)
	return nil
}

func (cmd *adminExportCmd) list(ctx context.Context, c *call, a app.Admin, choice app.StateChoice) error {
	if cmd.State == "" {
		states, err := a.BackupStates(ctx, cmd.Backup, choice)
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON(append([]app.BackupState{}, states...))
		}
		showBackupStates(c.out, states)
		return nil
	}
	_, versions, err := a.BackupVersions(ctx, cmd.Backup, choice)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(append([]app.BackupVersion{}, versions...))
	}
	showBackupVersions(c.out, versions)
	return nil
}

func showBackupStates(s *screen, states []app.BackupState) {
	if len(states) == 0 {
		s.none("states")
		return
	}
	var rows [][]any
	for _, st := range states {
		note := ""
		if st.Deleted {
			note = "deleted"
		}
		rows = append(rows, []any{st.Organization, st.Name, st.Version, st.Versions, bytesText(st.Size), moment(&st.UpdatedAt), note})
	}
	s.grid([]string{"ORGANIZATION", "STATE", "VERSION", "VERSIONS", "SIZE", "UPDATED", ""}, rows)
}

func showBackupVersions(s *screen, versions []app.BackupVersion) {
	if len(versions) == 0 {
		s.none("versions")
		return
	}
	var rows [][]any
	for _, v := range versions {
		note := ""
		switch {
		case v.Current:
			note = "current"
		case v.Quarantined:
			note = "quarantined"
		}
		rows = append(rows, []any{v.Version, v.Source, bytesText(v.Size), moment(&v.CreatedAt), v.KeyKind + " " + v.KeyName + " " + v.KeyVersion, note})
	}
	s.grid([]string{"VERSION", "SOURCE", "SIZE", "CREATED", "KEY", ""}, rows)
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
