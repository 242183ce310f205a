package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

const (
	stateSuffix = ".tfstate"
	pullWait    = 10 * time.Minute // for one tofu state pull
	pullGrace   = 15 * time.Second // from its interrupt to its end
)

type stateImportCmd struct {
	remote
	Args        []string `arg:"" optional:"" name:"what" help:"NAME FILE, or any number of *.tfstate files and folders of them; a state is named after its file."`
	FromBackend []string `sep:"none" placeholder:"DIR" help:"Import what tofu state pull prints in this folder, named after the folder, or NAME where there is one. May be repeated."`
	ReplaceDel  bool     `name:"replace-deleted" help:"Purge a deleted state of the same name, which could still be restored."`
	DryRun      bool     `help:"Say what would happen, and change nothing."`
}

// Help has examples.
func (stateImportCmd) Help() string {
	return `Makes states of documents from elsewhere, byte for byte. A name in use is never changed; with the
same bytes it counts as done, so that an import can be repeated. One that fails does not stop
the others, and makes the exit code 1.

NAME FILE is two words of which the first is no *.tfstate and holds no slash: write a folder
that stands first as ./folder.

--from-backend runs the tool as you would (HOLDFAST_TOFU_BIN; default tofu) in a folder where
init was done, with your environment. What the configuration encrypts arrives in clear.

Examples:
  holdfast state import shop.main terraform.tfstate
  holdfast state import ./states --dry-run
  holdfast state import --from-backend network --from-backend dns
  holdfast state import shop.main --from-backend ./shop`
}

// Run imports states.
func (cmd *stateImportCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	rows, alone, err := cmd.plan()
	if err == nil {
		err = unique(rows)
	}
	if err != nil {
		return err
	}
	for i := range rows {
		if ctx.Err() != nil { // what was not begun is said to be so
			rows[i].fail(context.Cause(ctx))
			continue
		}
		if err := cmd.move(ctx, c, server, &rows[i]); err != nil {
			rows[i].fail(err)
		}
	}
	return c.reportMoved(rows, cmd.DryRun, alone)
}

// plan is which states there are to be; alone is that one was named.
func (cmd *stateImportCmd) plan() (rows []moved, alone bool, err error) {
	named := func(w string) bool { return state.CheckName(w) == nil && !strings.HasSuffix(w, stateSuffix) }
	switch a := cmd.Args; {
	case len(cmd.FromBackend) > 0:
		return cmd.planBackends()
	case len(a) == 0:
		return nil, false, fault.New(fault.Invalid, codeUsage, "Nothing to import was named.").WithHint("holdfast state import --help has examples.")
	case len(a) == 2 && named(a[0]):
		return []moved{{State: a[0], Place: a[1]}}, true, nil
	}
	for _, place := range cmd.Args {
		files := []string{place}
		if info, err := os.Stat(place); err == nil && info.IsDir() {
			if files, err = stateFiles(place); err != nil {
				return nil, false, err
			}
		} else if !strings.HasSuffix(place, stateSuffix) {
			return nil, false, fault.New(fault.Invalid, codeUsage, "%s is no *.tfstate and no folder, so there is no name for its state.", place).
				WithHint("Give it one: holdfast state import NAME %s", place)
		}
		for _, f := range files {
			rows = append(rows, moved{State: strings.TrimSuffix(filepath.Base(f), stateSuffix), Place: f})
		}
	}
	return rows, false, nil
}

func (cmd *stateImportCmd) planBackends() (rows []moved, alone bool, err error) {
	if len(cmd.Args) > 1 || len(cmd.Args) == 1 && len(cmd.FromBackend) > 1 {
		return nil, false, fault.New(fault.Invalid, codeUsage, "With --from-backend, one name for one folder may be given and nothing else.").
			WithHint("holdfast state import NAME --from-backend DIR")
	}
	for _, dir := range cmd.FromBackend {
		full, err := filepath.Abs(dir)
		if err != nil {
			return nil, false, fmt.Errorf("find the folder %s: %w", dir, err)
		}
		rows = append(rows, moved{State: filepath.Base(full), Place: dir})
	}
	if len(cmd.Args) == 1 {
		rows[0].State = cmd.Args[0]
	}
	return rows, len(cmd.Args) == 1, nil
}

// stateFiles is the *.tfstate that stand in a folder itself, by name.
func stateFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), stateSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fault.New(fault.Invalid, codeUsage, "No *.tfstate stands in %s.", dir).WithHint("Name the files, or the folder that they stand in.")
	}
	return files, nil
}

func (cmd *stateImportCmd) move(ctx context.Context, c *call, server *client.Client, m *moved) error {
	if err := state.CheckName(m.State); err != nil {
		return err
	}
	doc, err := cmd.document(ctx, c, m.Place)
	if err != nil {
		return err
	}
	m.Serial, m.Size, m.SHA256 = doc.serial(), doc.send.Size, doc.sha256
	if done, err := foreseeImport(ctx, server, m, cmd.ReplaceDel); err != nil || done {
		return err
	}
	if cmd.DryRun {
		m.Outcome = "would_import"
		return nil
	}
	v, err := server.ImportState(ctx, m.State, doc.send, cmd.ReplaceDel)
	if fault.Code(err) == "state_exists" { // by the first try of a call whose answer was lost, perhaps
		if done, err := foreseeImport(ctx, server, m, cmd.ReplaceDel); err != nil || done {
			return err
		}
	}
	if err != nil {
		return err
	}
	m.Outcome, m.Version = "imported", v.Version
	return nil
}

func (cmd *stateImportCmd) document(ctx context.Context, c *call, place string) (document, error) {
	if len(cmd.FromBackend) == 0 {
		return fileDocument(place)
	}
	b, err := c.pullBackend(ctx, place)
	if err != nil {
		return document{}, err
	}
	d, err := bytesDocument(b)
	if err != nil {
		return document{}, unreadable("What the tool printed in "+place, err)
	}
	return d, nil
}

// foreseeImport refuses what the server would; done is that the state has these bytes already.
func foreseeImport(ctx context.Context, server *client.Client, m *moved, replaceDeleted bool) (done bool, err error) {
	st, err := stateOrNone(ctx, server, m.State)
	switch {
	case err != nil:
		return false, err
	case st.DeletedAt != nil && replaceDeleted:
		return false, nil
	case st.DeletedAt != nil:
		return false, fault.New(fault.Conflict, "name_deleted", "A deleted state of the name %s can still be restored; an import would end that.", m.State).
			WithHint("Import under another name, restore it, or purge it by the import: --replace-deleted")
	case st.Version > 0 && st.SHA256 == m.SHA256:
		m.Outcome, m.Version = "unchanged", st.Version
		return true, nil
	case st.Version > 0:
		return false, fault.New(fault.Conflict, "state_exists", "There is a state %s already, with other bytes; an import changes none.", m.State).
			WithHint("Import under another name. To store a newer document in it: holdfast state push %s FILE", m.State)
	}
	s, gone := asRules(st)
	return false, state.MayChange(s, state.Sender{}, gone)
}

// pullBackend is what tofu state pull prints in a folder. It stays in memory: no copy is left on a disk.
func (c *call) pullBackend(ctx context.Context, dir string) ([]byte, error) {
	tool := c.lookup("HOLDFAST_TOFU_BIN")
	if tool == "" {
		tool = "tofu"
	}
	if strings.ContainsRune(tool, filepath.Separator) { // from here, not from the folder
		full, err := filepath.Abs(tool)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", tool, err)
		}
		tool = full
	}
	ctx, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	var out, said bytes.Buffer
	pull := exec.CommandContext(ctx, tool, "state", "pull") //nolint:gosec // the tool that the person chose
	pull.Dir, pull.Env, pull.Stdout, pull.Stderr = dir, c.Environ, &out, &said
	pull.Cancel = func() error { return pull.Process.Signal(os.Interrupt) }
	pull.WaitDelay = pullGrace
	err := pull.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s state pull in %s: %w", tool, dir, context.Cause(ctx))
	case err != nil:
		return nil, fault.Wrap(err, fault.NotFound, "pull_failed", "%s state pull in %s failed: %v.\n%s", tool, dir, err, strings.TrimSpace(said.String())).
			WithHint("Do %s init there, until %[1]s state pull prints the state. HOLDFAST_TOFU_BIN names the tool.", tool)
	case len(bytes.TrimSpace(out.Bytes())) == 0:
		return nil, fault.New(fault.NotFound, "backend_empty", "%s state pull in %s printed nothing: that backend holds no state.", tool, dir).
			WithHint("Check the folder, its workspace (TF_WORKSPACE) and its backend block.")
	}
	return out.Bytes(), nil
}
