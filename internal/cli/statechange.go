package cli

import (
	"context"
	"os"
	"strings"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

type stateRollbackCmd struct {
	remote
	State   string `arg:"" help:"Name of the state."`
	Version int64  `arg:"" help:"Number of the version to go back to."`
}

// Help has an example.
func (stateRollbackCmd) Help() string {
	return `The document of that version becomes the current one again: as a new version, with a serial
higher than the present one. Nothing that is deployed changes; plan afterwards.

Example:
  holdfast state versions shop.main
  holdfast state rollback shop.main 3`
}

// Run rolls a state back.
func (cmd *stateRollbackCmd) Run(ctx context.Context, c *call) error {
	return changeVersion(c, cmd.remote, cmd.State, func(server *client.Client) (api.StateVersion, error) {
		return server.RollbackState(ctx, cmd.State, cmd.Version)
	})
}

type stateAcceptCmd struct {
	remote
	State   string `arg:"" help:"Name of the state."`
	Version int64  `arg:"" help:"Number of the version that was kept aside."`
}

// Help has an example.
func (stateAcceptCmd) Help() string {
	return `A save that was refused while its sender held the lock is kept aside. Accepting it makes it the
current version.

Example:
  holdfast state versions shop.main --quarantined
  holdfast state accept shop.main 7`
}

// Run accepts a version.
func (cmd *stateAcceptCmd) Run(ctx context.Context, c *call) error {
	return changeVersion(c, cmd.remote, cmd.State, func(server *client.Client) (api.StateVersion, error) {
		return server.AcceptVersion(ctx, cmd.State, cmd.Version)
	})
}

func changeVersion(c *call, r remote, name string, change func(*client.Client) (api.StateVersion, error)) error {
	server, err := r.connect(c)
	if err != nil {
		return err
	}
	v, err := change(server)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(v)
	}
	showCurrent(c.out, name, v)
	return nil
}

func showCurrent(s *screen, name string, v api.StateVersion) {
	s.print("Version %d of %s is current (%s, serial %s, %s).\n", v.Version, name, v.Source, serial(v.Serial), bytesText(v.Size))
}

type stateUnlockCmd struct {
	remote
	State  string `arg:"" help:"Name of the state."`
	ID     string `name:"id" placeholder:"ID" help:"Release this lock, or end this hold, and no other; default whatever is held."`
	Reason string `placeholder:"TEXT" help:"Why, for the audit log. This takes the permission to force, for a lock of one's own too."`
	Force  bool   `help:"Do it. Without, this says who holds the state."`
}

// Help has examples.
func (stateUnlockCmd) Help() string {
	return `Whoever holds the lock may still be writing: look with holdfast state show first. What they save
after this is kept aside and listed by holdfast state versions --quarantined.

Examples:
  holdfast state show shop.main
  holdfast state unlock shop.main --id 2655019c-90f5-6c4c-2b7e-7d1e8f3a4b5c --force
  holdfast state unlock shop.main --id hold-run_01j --force --reason "rejected by phone"
  holdfast state unlock shop.main --force --reason "the laptop is gone"`
}

// Run releases a lock by force.
func (cmd *stateUnlockCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	before, err := server.State(ctx, cmd.State)
	if err != nil {
		return err
	}
	if !cmd.Force {
		if !c.json {
			showState(c.out, c.Now(), before)
		}
		return fault.New(fault.Invalid, codeUsage, "This takes the lock from whoever holds it, and nothing was done yet.").
			WithHint("Make sure that they are not writing any more, then say --force.")
	}
	after := before
	if cmd.ID == "" || cmd.Reason != "" {
		after, err = server.ForceUnlock(ctx, cmd.State, api.ForceUnlock{ID: cmd.ID, Reason: cmd.Reason})
	} else if err = server.BreakLock(ctx, cmd.State, cmd.ID); err == nil {
		after, err = server.State(ctx, cmd.State)
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(after)
	}
	showReleased(c.out, before, after)
	return nil
}

func showReleased(s *screen, before, after api.State) {
	said := false
	if l := before.Lock; l != nil && (after.Lock == nil || after.Lock.ID != l.ID) {
		s.print("The lock %s of %s on %s is released.\n", l.ID, l.Holder.Name, after.Name)
		said = true
	}
	if h := before.Hold; h != nil && after.Hold == nil {
		s.print("%s is not held for %s any more.\n", after.Name, h.Run)
		said = true
	}
	if !said {
		s.print("%s had no such lock.\n", after.Name)
	}
}

type stateDeleteCmd struct {
	remote
	State string `arg:"" help:"Name of the state."`
	Purge bool   `help:"Delete its bytes and keys at once, those of a deleted state too; nothing brings them back."`
	Yes   bool   `short:"y" help:"Do not ask for the name."`
}

// Help has examples.
func (stateDeleteCmd) Help() string {
	return `What is deployed goes on existing, and nothing knows it any more. A deleted state can be restored
for a time (holdfast state list --deleted), unless it is purged.

Examples:
  holdfast state delete shop.main
  holdfast state delete shop.main --purge --yes`
}

// Run deletes a state.
func (cmd *stateDeleteCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	if err := state.CheckName(cmd.State); err != nil {
		return err
	}
	if !cmd.Yes {
		question := "Delete the state " + cmd.State + "? It can be restored for a time. Type its name: "
		if cmd.Purge {
			question = "Delete the state " + cmd.State + " and its versions for good? Type its name: "
		}
		if err := c.confirmName(ctx, question, cmd.State); err != nil {
			return err
		}
	}
	if err := server.DeleteState(ctx, cmd.State, cmd.Purge); err != nil {
		return err
	}
	status, text := "deleted", "State %s is deleted. To bring it back: holdfast state restore %[1]s\n"
	if cmd.Purge {
		status, text = "purged", "State %s is deleted for good.\n"
	}
	if c.json {
		return c.printJSON(map[string]string{"name": cmd.State, "status": status})
	}
	c.out.print(text, cmd.State)
	return nil
}

// confirmName asks for a name to be typed. Without a terminal nobody can, and --yes says how to do without.
func (c *call) confirmName(ctx context.Context, question, name string) error {
	if !c.interactive() {
		return fault.New(fault.Invalid, codeUsage, "This asks for the name to be typed, and there is no terminal to ask on.").WithHint("Say --yes.")
	}
	answers := make(chan string)
	go readLines(c.Stdin.(*os.File), answers) // left behind where the question is interrupted, which ends the program
	c.msg.print("%s", c.msg.bold(question))
	var line string
	select {
	case line = <-answers: // an end of input is not the name
	case <-ctx.Done():
		c.msg.print("\n")
		return context.Cause(ctx)
	}
	if strings.TrimSpace(line) != name {
		c.msg.print("That is not its name. Nothing was changed.\n")
		return ended{exitRefused}
	}
	return nil
}

type stateRestoreCmd struct {
	remote
	State string `arg:"" help:"Name of the deleted state."`
}

// Help has an example.
func (stateRestoreCmd) Help() string {
	return `Example:
  holdfast state list --deleted
  holdfast state restore shop.main`
}

// Run restores a state.
func (cmd *stateRestoreCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	st, err := server.RestoreState(ctx, cmd.State)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(st)
	}
	c.out.print("State %s is back, with version %d.\n", st.Name, st.Version)
	return nil
}
