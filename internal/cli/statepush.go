package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// unlockWait bounds the release of a lock of our own after whatever ended the command.
const unlockWait = 15 * time.Second

type statePushCmd struct {
	remote
	State  string `arg:"" help:"Name of the state."`
	File   string `arg:"" type:"path" help:"The state document, an errored.tfstate for example."`
	DryRun bool   `help:"Say what would happen, and change nothing."`
}

// Help has examples.
func (statePushCmd) Help() string {
	return `Stores the file as the state's next version, byte for byte: also what OpenTofu encrypted, which
tofu state push does not take. It is done under a lock of its own. The server refuses a lower
serial and another lineage.

Examples:
  holdfast state push shop.main errored.tfstate --dry-run
  holdfast state push shop.main errored.tfstate`
}

// pushed is what became of a document. Outcome is stored, unchanged, would_store or would_be_unchanged.
type pushed struct {
	State   string  `json:"state"`
	Outcome string  `json:"outcome"`
	Version int64   `json:"version"` // now
	Serial  *uint64 `json:"serial"`  // of the document
	Size    int64   `json:"size"`
	SHA256  string  `json:"sha256"`
}

// Run pushes a document.
func (cmd *statePushCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	if err := state.CheckName(cmd.State); err != nil {
		return err
	}
	doc, err := fileDocument(cmd.File)
	if err != nil {
		return err
	}
	p := pushed{State: cmd.State, Serial: doc.serial(), Size: doc.send.Size, SHA256: doc.sha256}
	if cmd.DryRun {
		err = p.foresee(ctx, server, doc)
	} else {
		err = p.store(ctx, c, server, doc)
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(p)
	}
	showPushed(c.out, p)
	return nil
}

// foresee says what the server would do now, by the server's own rules.
func (p *pushed) foresee(ctx context.Context, server *client.Client, doc document) error {
	st, err := stateOrNone(ctx, server, p.State)
	if err != nil {
		return err
	}
	s, gone := asRules(st)
	step, err := state.MayWrite(s, state.Sender{}, state.Write{Document: doc.says, SHA256: doc.sha256}, gone)
	if err != nil {
		return err
	}
	p.Version, p.Outcome = st.Version, "would_store"
	if step.Same {
		p.Outcome = "would_be_unchanged"
	}
	return nil
}

// stateOrNone is a state, or one of that name without anything in it where there is none.
func stateOrNone(ctx context.Context, server *client.Client, name string) (api.State, error) {
	st, err := server.State(ctx, name)
	if fault.Is(err, fault.NotFound) && fault.Code(err) == "state_not_found" {
		return api.State{Name: name}, nil
	}
	return st, err
}

// store locks, writes and unlocks. However it ends, the lock is released: also when the command is interrupted.
func (p *pushed) store(ctx context.Context, c *call, server *client.Client, doc document) (err error) {
	lock := api.LockDocument{ID: "push-" + rand.Text(), Operation: "push", Version: "holdfast " + c.Version, Created: c.Now().UTC().Format(time.RFC3339)}
	defer func() { err = errors.Join(err, unlockOwn(ctx, server, p.State, lock.ID)) }()
	if err := server.LockState(ctx, p.State, lock); err != nil {
		return err
	}
	before, err := server.State(ctx, p.State)
	if err != nil {
		return err
	}
	if err := server.WriteState(ctx, p.State, lock.ID, doc.send); err != nil {
		return err
	}
	after, err := server.State(ctx, p.State)
	if err != nil {
		return fmt.Errorf("the document is stored, but what the state is now cannot be read: %w", err)
	}
	p.Version, p.Outcome = after.Version, "stored"
	if after.Version == before.Version {
		p.Outcome = "unchanged"
	}
	return nil
}

// unlockOwn releases a lock that this command took, or may have taken. That another one is held means that ours is not.
func unlockOwn(ctx context.Context, server *client.Client, name, lockID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWait)
	defer cancel()
	err := server.UnlockState(ctx, name, lockID)
	switch {
	case err == nil, fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound), fault.Is(err, fault.Gone),
		fault.Is(err, fault.Forbidden), fault.Is(err, fault.Unauthenticated), fault.Is(err, fault.Invalid):
		return nil // there is no lock of ours, and what refused it refused the rest as well
	}
	return fault.Wrap(err, fault.Unavailable, "still_locked", "%s may still be locked by this command: %v.", name, err).
		WithHint("holdfast state unlock %s --id %s --force", name, lockID)
}

func showPushed(s *screen, p pushed) {
	what := ""
	switch p.Outcome {
	case "stored":
		what = "is stored as version " + fmt.Sprint(p.Version)
	case "unchanged":
		what = "is the current version already, " + fmt.Sprint(p.Version) + "; nothing was changed"
	case "would_store":
		what = "would be stored as the version after " + fmt.Sprint(p.Version)
	case "would_be_unchanged":
		what = "is the current version already, " + fmt.Sprint(p.Version) + "; nothing would be changed"
	}
	s.print("%s: the document (serial %s, %s) %s.\n", p.State, serial(p.Serial), bytesText(p.Size), what)
}
