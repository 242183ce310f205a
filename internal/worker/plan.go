package worker

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/tofu"
)

// maxLockFile bounds the lock file within a plan.
const maxLockFile = 4 << 20

func (a *attempt) validate(ctx context.Context) error {
	doc, said, err := a.printing(ctx, tofu.ValidateArgs())
	if err != nil {
		return err
	}
	defer func() { _ = doc.Close() }()
	text, err := whole(doc)
	if err != nil {
		return err
	}
	v, err := tofu.ParseValidation(text)
	if err != nil {
		if said.Exit.Kind != tofu.ExitOK {
			return fail(classOf(said, link.ClassConfiguration), "%s", said.why("validate"))
		}
		return err
	}
	for _, d := range v.Diagnostics {
		a.log.line(d.Text())
		if d.Severity == "error" {
			said.remember(sentence(&d))
		}
	}
	if !v.Valid || said.Exit.Kind != tofu.ExitOK {
		return fail(classOf(said, link.ClassConfiguration), "%s", said.why("validate"))
	}
	return nil
}

// plan makes the saved plan, and the view of it.
func (a *attempt) plan(ctx context.Context) error {
	file := filepath.Join(a.dir, link.PlanFile)
	o := tofu.PlanOptions{Out: file, NoLock: a.ReadOnly, VarFile: inputsFile}
	if a.Destroy {
		o.Mode = tofu.Destroy
	}
	said, err := a.speaking(ctx, tofu.PlanArgs(o), true, nil)
	if err != nil {
		return err
	}
	switch {
	case said.Exit.Kind != tofu.ExitOK:
		return fail(classOf(said, link.ClassConfiguration), "%s", said.why("plan"))
	case ctx.Err() != nil:
		return context.Cause(ctx) // an interrupted plan can seem to be done and is not whole
	case said.Interrupted:
		return fail(link.ClassInfrastructure, "%s", said.why("plan"))
	}
	// A plan runs programs of the source's choosing; none may live while the file is hashed and read.
	if err := a.worker.alone(); err != nil {
		return err
	}
	if err := a.checkLockFile(); err != nil {
		return err
	}
	sum, err := digest(file)
	if err != nil {
		return fmt.Errorf("hash the plan: %w", err)
	}
	view, err := a.show(ctx, file)
	if err != nil {
		return err
	}
	if view.Errored || view.Incomplete {
		return fail(link.ClassConfiguration, "The plan is not whole, so it cannot be approved.")
	}
	view.Digest = "sha256:" + sum
	text, err := json.Marshal(view)
	if err != nil {
		return fmt.Errorf("write the plan's view: %w", err)
	}
	return a.session.conn.Send(link.Message{Planned: &link.Planned{
		Digest: view.Digest, Tool: toolName(a.worker.tool), Version: a.worker.tool.Version,
		LockFile: a.lockHash, ConfigHash: a.configHash, View: text,
	}})
}

// show reduces a saved plan to its view.
func (a *attempt) show(ctx context.Context, file string) (*plan.View, error) {
	doc, said, err := a.printing(ctx, tofu.ShowArgs(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = doc.Close() }()
	if said.Exit.Kind != tofu.ExitOK {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fail(link.ClassInfrastructure, "%s", said.why("show"))
	}
	return plan.Reduce(doc, a.known...)
}

// lockFileOfPlan is the provider lock file that a saved plan carries.
func lockFileOfPlan(path string) ([]byte, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("open the plan: %w", err)
	}
	defer func() { _ = z.Close() }()
	f, err := z.Open(lockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it carries no provider lock file")
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan's lock file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxLockFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan's lock file: %w", err)
	}
	if len(text) > maxLockFile {
		return nil, fmt.Errorf("the plan's lock file has more than %d bytes", maxLockFile)
	}
	return text, nil
}

// removePlan ends the plan's life in this directory: it holds the state and every secret, and is used once.
func (a *attempt) removePlan() { _ = os.Remove(filepath.Join(a.dir, link.PlanFile)) }
