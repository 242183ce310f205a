package cli

import (
	"context"
	"fmt"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

type adminRestoreCmd struct {
	offline
	File string `arg:"" help:"What holdfast admin backup wrote."`
}

// Help has examples.
func (adminRestoreCmd) Help() string {
	return `Checks the whole file, then stores it in the database that HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR names:
an SQLite file that is not there yet, or a PostgreSQL database without tables, whichever the backup came from.
A backup of an older Holdfast is brought up to date. What dies on the way is begun anew by the same command.

No server takes the database before holdfast admin after-restore was run. Stop the servers of the old
database first: two installations with one past would both change the same infrastructure.

Example:
  HOLDFAST_DATABASE_URL=postgres://holdfast@db/holdfast holdfast admin restore holdfast.backup`
}

// Run restores a backup.
func (cmd *adminRestoreCmd) Run(ctx context.Context, c *call) error {
	a, err := cmd.admin(ctx, c)
	if err != nil {
		return err
	}
	made, err := a.Restore(ctx, cmd.File)
	if err != nil {
		return err
	}
	m := describeBackup(cmd.File, 0, made)
	if info, err := fileSize(cmd.File); err == nil {
		m.Size = info
	}
	if c.json {
		return c.printJSON(m)
	}
	showRestored(c.out, m)
	return nil
}

func showRestored(s *screen, m madeBackup) {
	s.print("%s %s\n\n", s.green("Restored:"), m.File)
	s.pairs("backup", m.ID, "taken", moment(&m.CreatedAt), "by", "holdfast "+m.Holdfast, "rows", fmt.Sprint(m.Rows), "states", fmt.Sprint(m.States))
	showElsewhere(s, m.Elsewhere)
	showKeys(s, m.Keys)
	showAnchors(s, m.Audit)
	s.print("\n%s holdfast admin after-restore, with the keys that the server will have.\n", s.bold("Now run:"))
}

type adminAfterRestoreCmd struct {
	offline
	Force bool `help:"The database came back by its own means: a copy of the file, pg_restore, a snapshot."`
}

// Help has examples.
func (adminAfterRestoreCmd) Help() string {
	return `Run it once after a restore, with the server's settings and before a server starts. Nobody knows how what was
under way went on after the backup, so nothing of it goes on by itself:

  - attempts that were at work are lost, and runs that were under way end;
  - runs that wait for an approval still do: look whether that plan was applied since;
  - locks stay, since a tool may still be running. An attempt's ends after its grace, as always; a person's
    is listed, to be released by hand;
  - each organization's audit log gets a record admin.restored.

After a restore by the database's own means there is nothing that says so: use --force, with all servers stopped.
Running it again changes nothing.

Examples:
  holdfast admin after-restore
  holdfast admin after-restore --force`
}

// settled is what the command prints as JSON.
type settled struct {
	Done         bool            `json:"done"` // false: no restore waited
	AttemptsLost int             `json:"attempts_lost"`
	RunsEnded    []settledRun    `json:"runs_ended"`
	RunsWaiting  []settledRun    `json:"runs_waiting"`
	Locks        []settledLock   `json:"locks"`
	Holds        []settledHold   `json:"holds"`
	Anchors      []settledAnchor `json:"anchors"`
}

type settledRun struct {
	ID     string `json:"id"`
	Stack  string `json:"stack"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
}

type settledLock struct {
	Organization string `json:"organization"`
	State        string `json:"state"`
	ID           string `json:"id"`
	Kind         string `json:"holder_kind"`
	Holder       string `json:"holder"`
	TakenAt      string `json:"taken_at"`
	Unlock       string `json:"unlock"`
}

type settledHold struct {
	Organization string `json:"organization"`
	State        string `json:"state"`
	Run          string `json:"run"`
}

type settledAnchor struct {
	Organization string `json:"organization"`
	Anchor       string `json:"anchor"`
}

func describeSettled(r engine.RestoreReport, done bool) settled {
	out := settled{Done: done, AttemptsLost: r.AttemptsLost, RunsEnded: []settledRun{}, RunsWaiting: []settledRun{}, Locks: []settledLock{}, Holds: []settledHold{}, Anchors: []settledAnchor{}}
	listed := func(runs []run.Run, into *[]settledRun) {
		for _, x := range runs {
			*into = append(*into, settledRun{ID: x.ID, Stack: x.StackName, Kind: string(x.Kind), Status: string(x.Status)})
		}
	}
	listed(r.Ended, &out.RunsEnded)
	listed(r.Waiting, &out.RunsWaiting)
	names := map[string]string{}
	for _, o := range r.Organizations {
		names[o.ID] = o.Name
		out.Anchors = append(out.Anchors, settledAnchor{Organization: o.Name, Anchor: o.Anchor})
	}
	for _, s := range r.Locked {
		out.Locks = append(out.Locks, lockLeft(names[s.Org], s))
	}
	for _, s := range r.Held {
		out.Holds = append(out.Holds, settledHold{Organization: names[s.Org], State: s.Name, Run: s.Hold.Run})
	}
	return out
}

func lockLeft(organization string, s state.State) settledLock {
	l := s.Lock
	return settledLock{
		Organization: organization,
		State:        s.Name, ID: l.Info.ID, Kind: l.Holder.Kind, Holder: l.Holder.Name, TakenAt: moment(&l.TakenAt),
		Unlock: "holdfast state unlock " + s.Name + " --id " + l.Info.ID + " --force",
	}
}

// Run settles a restored installation.
func (cmd *adminAfterRestoreCmd) Run(ctx context.Context, c *call) error {
	a, err := cmd.admin(ctx, c)
	if err != nil {
		return err
	}
	report, done, err := a.AfterRestore(ctx, cmd.Force)
	if err != nil {
		return err
	}
	out := describeSettled(report, done)
	if c.json {
		return c.printJSON(out)
	}
	showSettled(c.out, out)
	return nil
}

func showSettled(s *screen, r settled) {
	if !r.Done {
		s.print("No restore waits for this; nothing was changed. If the database came back by its own means, say --force.\n")
		return
	}
	s.print("%s A server may start.\n\n", s.green("Ready:"))
	s.pairs("attempts lost", fmt.Sprint(r.AttemptsLost), "runs ended", fmt.Sprint(len(r.RunsEnded)), "runs waiting", fmt.Sprint(len(r.RunsWaiting)))
	showSettledRuns(s, "These runs ended, and have to be started anew where they are still wanted:", r.RunsEnded)
	showSettledRuns(s, "These runs wait for an approval. Look whether the plan was applied after the backup; then reject it:", r.RunsWaiting)
	if len(r.Locks) > 0 {
		s.print("\n%s\n", s.bold("These states are locked. Where the tool does not run any more:"))
		var rows [][]any
		for _, l := range r.Locks {
			rows = append(rows, []any{l.Organization, l.State, l.Kind + " " + l.Holder, l.TakenAt, l.Unlock})
		}
		s.grid([]string{"ORGANIZATION", "STATE", "HOLDER", "SINCE", "RELEASE"}, rows)
	}
	var anchors [][]any
	for _, a := range r.Anchors {
		anchors = append(anchors, []any{a.Organization, a.Anchor})
	}
	if len(anchors) > 0 {
		s.print("\n%s\n", s.bold("The audit logs end now at:"))
		s.grid([]string{"ORGANIZATION", "ANCHOR"}, anchors)
	}
	s.print("\nTokens and users that were revoked after the backup are valid again: revoke them again.\nTokens made after it are unknown.\n")
}

func showSettledRuns(s *screen, heading string, runs []settledRun) {
	if len(runs) == 0 {
		return
	}
	s.print("\n%s\n", s.bold(heading))
	var rows [][]any
	for _, r := range runs {
		rows = append(rows, []any{r.ID, r.Stack, r.Kind, r.Status})
	}
	s.grid([]string{"RUN", "STACK", "KIND", "STATUS"}, rows)
}
