package cli

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
)

type stateCmd struct {
	List     stateListCmd     `cmd:"" help:"List states."`
	Show     stateShowCmd     `cmd:"" help:"Show a state: its size, lock and hold."`
	Pull     statePullCmd     `cmd:"" help:"Print a state's document, byte for byte."`
	Versions stateVersionsCmd `cmd:"" help:"List what was stored of a state."`

	Diff stateDiffCmd `cmd:"" help:"Show what differs between two versions, by resource."`

	Resources stateResourcesCmd `cmd:"" help:"List the resources of a state, or of all, by name."`
	Outputs   stateOutputsCmd   `cmd:"" help:"Show a state's outputs."`

	Push     statePushCmd     `cmd:"" help:"Store a document as a state's next version, an errored.tfstate for example."`
	Import   stateImportCmd   `cmd:"" help:"Make states of documents from elsewhere, many at once."`
	Export   stateExportCmd   `cmd:"" help:"Write states to files that can be pushed anywhere."`
	Rollback stateRollbackCmd `cmd:"" help:"Make an older version current again."`
	Accept   stateAcceptCmd   `cmd:"" help:"Make a version current that was refused and kept aside."`
	Unlock   stateUnlockCmd   `cmd:"" help:"Take a lock from whoever holds it."`
	Delete   stateDeleteCmd   `cmd:"" help:"Delete a state; it can be restored for a time."`
	Restore  stateRestoreCmd  `cmd:"" help:"Bring a deleted state back."`

	BackendConfig stateBackendCmd `cmd:"" help:"Print the backend block that keeps a configuration's state here."`
}

type stateListCmd struct {
	remote
	paging
	Query   string `short:"q" placeholder:"TEXT" help:"Only names that hold this."`
	Locked  bool   `help:"Only those that are locked."`
	Held    bool   `help:"Only those that a run holds until its apply."`
	Deleted bool   `help:"The deleted ones instead of the others."`

	Stale           bool `help:"Only those whose lock's holder is gone or not known to live."`
	ClientEncrypted bool `help:"Only those whose current document the tool itself encrypted."`
}

// Help has examples.
func (stateListCmd) Help() string {
	return `Examples:
  holdfast state list
  holdfast state list --locked
  holdfast state list --deleted
  holdfast state list -q shop. --limit 20 --json`
}

// Run lists states.
func (cmd *stateListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	f := client.StateFilter{Query: cmd.Query, Locked: cmd.Locked, Held: cmd.Held, Deleted: cmd.Deleted, Stale: cmd.Stale, ClientEncrypted: cmd.ClientEncrypted}
	states, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.State], error) {
		return server.States(ctx, f, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(states)
	}
	showStates(c.out, c.Now(), states)
	return nil
}

func showStates(s *screen, now time.Time, states []api.State) {
	if len(states) == 0 {
		s.none("states")
		return
	}
	var rows [][]any
	for _, st := range states {
		lock := s.style("", "-")
		switch {
		case st.Lock != nil && st.Lock.Holder.Alive == "no":
			lock = s.red("locked, " + st.Lock.Holder.Name + " is gone")
		case st.Lock != nil:
			lock = s.yellow("locked by " + st.Lock.Holder.Name)
		case st.Hold != nil:
			lock = s.yellow("held for " + st.Hold.Run)
		}
		version := strconv.FormatInt(st.Version, 10)
		if st.Version == 0 {
			version = "none yet"
		}
		rows = append(rows, []any{st.Name, version, serial(st.Serial), bytesText(st.Size), ago(now, &st.UpdatedAt), lock})
	}
	s.grid([]string{"STATE", "VERSION", "SERIAL", "SIZE", "AGE", "LOCK"}, rows)
}

func serial(n *uint64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatUint(*n, 10)
}

type stateShowCmd struct {
	remote
	State string `arg:"" help:"Name of the state."`
}

// Help has an example.
func (stateShowCmd) Help() string {
	return `Example:
  holdfast state show shop.main`
}

// Run shows a state.
func (cmd *stateShowCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	state, err := server.State(ctx, cmd.State)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(state)
	}
	showState(c.out, c.Now(), state)
	return nil
}

func showState(s *screen, now time.Time, st api.State) {
	encrypted := ""
	if st.ClientEncrypted {
		encrypted = "by the client: its resources cannot be read here"
	}
	by := ""
	if st.UpdatedBy != nil {
		by = " by " + st.UpdatedBy.Name
	}
	s.pairs("state", st.Name, "version", strconv.FormatInt(st.Version, 10), "serial", serial(st.Serial), "lineage", st.Lineage, "size", bytesText(st.Size),
		"sha256", st.SHA256, "encrypted", encrypted, "created", moment(&st.CreatedAt), "changed", moment(&st.UpdatedAt)+by, "deleted", moment(st.DeletedAt))
	if l := st.Lock; l != nil {
		s.print("\n%s\n", s.bold("Locked"))
		seen := ""
		if l.Holder.LastSeen != nil {
			seen = ago(now, l.Holder.LastSeen) + " ago"
		}
		s.pairs("by", l.Holder.Kind+" "+l.Holder.Name, "since", moment(&l.TakenAt)+" ("+ago(now, &l.TakenAt)+")", "for", l.Operation, "who", l.Who,
			"run", l.Holder.Run, "still lives", holderLife(s, l.Holder), "last seen", seen, "id", l.ID, "to release it", l.Unlock)
	}
	if h := st.Hold; h != nil {
		s.print("\n%s\n", s.bold("Held"))
		s.pairs("for run", h.Run, "since", moment(&h.Since), "id", h.ID, "to end it", "holdfast state unlock "+st.Name+" --id "+h.ID+" --force")
	}
}

func holderLife(s *screen, h api.Holder) styled {
	text := h.Alive
	if h.Evidence != "" {
		text += ": " + h.Evidence
	}
	switch h.Alive {
	case "no":
		return s.red(text)
	case "yes":
		return s.green(text)
	}
	return s.yellow(text)
}

type stateVersionsCmd struct {
	remote
	paging
	State       string `arg:"" help:"Name of the state."`
	Quarantined bool   `help:"Only those that were refused and kept aside."`
}

// Help has examples.
func (stateVersionsCmd) Help() string {
	return `Examples:
  holdfast state versions shop.main
  holdfast state versions shop.main --quarantined
  holdfast state versions shop.main --limit 5 --json`
}

// Run lists a state's versions.
func (cmd *stateVersionsCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	versions, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.StateVersion], error) {
		return server.StateVersions(ctx, cmd.State, cmd.Quarantined, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(versions)
	}
	showVersions(c.out, c.Now(), versions)
	return nil
}

func showVersions(s *screen, now time.Time, versions []api.StateVersion) {
	if len(versions) == 0 {
		s.none("versions")
		return
	}
	var rows [][]any
	for _, v := range versions {
		source := s.style("", v.Source)
		switch {
		case v.Quarantined:
			source = s.yellow(v.Source + ", kept aside")
		case v.Current:
			source = s.green(v.Source + ", current")
		}
		by := v.CreatedBy.Name
		if v.CreatedBy.Run != "" {
			by = v.CreatedBy.Run
		}
		rows = append(rows, []any{v.Version, serial(v.Serial), source, bytesText(v.Size), by, dash(v.ToolVersion), ago(now, &v.CreatedAt)})
	}
	s.grid([]string{"VERSION", "SERIAL", "SOURCE", "SIZE", "BY", "TOOL", "AGE"}, rows)
}

type statePullCmd struct {
	Addr    string `name:"addr" placeholder:"URL" help:"The server to call; default HOLDFAST_ADDR, else the one signed in to last."`
	State   string `arg:"" help:"Name of the state."`
	Version int64  `placeholder:"N" help:"This version instead of the current one."`
	Out     string `short:"o" placeholder:"FILE" help:"Write to a file (mode 0600) instead of standard output: all of it or nothing."`
}

// Help has examples.
func (statePullCmd) Help() string {
	return `A state holds secrets. What arrives is checked against what is stored; a document that was
damaged on its way is exit code 1.

Examples:
  holdfast state pull shop.main --out shop.tfstate
  holdfast state pull shop.main --version 3 | jq .serial`
}

// Run prints a state's document.
func (cmd *statePullCmd) Run(ctx context.Context, c *call) error {
	server, err := remote{Addr: cmd.Addr}.connect(c)
	if err != nil {
		return err
	}
	version, sum, err := cmd.find(ctx, server)
	if err != nil {
		return err
	}
	if cmd.Out != "" {
		return cmd.toFile(ctx, c, server, version, sum)
	}
	if !c.out.terminal() {
		_, err := server.PullState(ctx, cmd.State, version, sum, c.Stdout)
		return err
	}
	var b bytes.Buffer
	if _, err := server.PullState(ctx, cmd.State, version, sum, &b); err != nil {
		return err
	}
	_, err = c.Stdout.Write(visible(b.Bytes()))
	return err
}

// find is the version that is meant, and the SHA-256 of its document.
func (cmd *statePullCmd) find(ctx context.Context, server *client.Client) (int64, string, error) {
	if cmd.Version == 0 {
		state, err := server.State(ctx, cmd.State)
		if err == nil && state.Version == 0 {
			err = fault.New(fault.NotFound, "state_empty", "Nothing is stored in the state %s yet.", cmd.State)
		}
		return state.Version, state.SHA256, err
	}
	for v, err := range client.All(ctx, 0, func(ctx context.Context, page client.Page) (api.List[api.StateVersion], error) {
		return server.StateVersions(ctx, cmd.State, false, page)
	}) {
		if err != nil {
			return 0, "", err
		}
		if v.Version == cmd.Version {
			return v.Version, v.SHA256, nil
		}
	}
	return 0, "", fault.New(fault.NotFound, "version_not_found", "The state %s has no version %d.", cmd.State, cmd.Version).
		WithHint("holdfast state versions %s shows which there are.", cmd.State)
}

func (cmd *statePullCmd) toFile(ctx context.Context, c *call, server *client.Client, version int64, sum string) error {
	n, err := storeFile(cmd.Out, true, func(w io.Writer) (int64, error) { return server.PullState(ctx, cmd.State, version, sum, w) })
	if err != nil {
		return err
	}
	c.msg.print("Version %d of %s is in %s (%s).\n", version, cmd.State, cmd.Out, bytesText(n))
	return nil
}
