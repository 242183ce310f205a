package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/tofu"
)

// The files that are made for the tool.
const (
	backendOverride = "backend_override.tf"
	inputsFile      = source.InputsFile
	lockFile        = ".terraform.lock.hcl"
	cliConfig       = "tool.tfrc"
)

// backendText makes the state ours, whatever the source says; the rest comes by environment.
const backendText = `# Written by Holdfast. The state is kept by the control plane, through the agent.
terraform {
  backend "http" {}
}
`

// prepare unpacks the source, checks it, and writes what is generated beside it.
func (a *attempt) prepare(ctx context.Context) error {
	if err := os.Mkdir(a.module, 0o770); err != nil {
		return fmt.Errorf("make the module's directory: %w", err)
	}
	if err := a.unpack(ctx); err != nil {
		return blame(link.ClassConfiguration, "The source cannot be used", err)
	}
	if err := a.check(); err != nil {
		return blame(link.ClassConfiguration, "The source cannot be used", err)
	}
	if err := a.generate(); err != nil {
		return err
	}
	var err error
	if a.configHash, err = configHash(a.module); err != nil {
		return err
	}
	if a.Apply && a.configHash != a.Plan.ConfigHash {
		return fail(link.ClassRefused, "The configuration is not the one that was approved: its hash is %.12s, approved was %.12s. Nothing was applied; start a new run.",
			a.configHash, a.Plan.ConfigHash)
	}
	return a.prepareLockFile()
}

// generate writes the files that are ours. Each name must be free: what the source brings along is never overwritten,
// and must not take the place of ours either, as x.tofu does of x.tf.
func (a *attempt) generate() error {
	for _, name := range []string{backendOverride, inputsFile} {
		base, _, _ := strings.Cut(name, ".")
		taken, err := filepath.Glob(filepath.Join(a.module, base+".*"))
		if err != nil {
			return fmt.Errorf("look for generated files: %w", err)
		}
		if len(taken) > 0 {
			return fail(link.ClassConfiguration, "The source has a file %s; that name is kept for a file Holdfast generates. Rename it.", filepath.Base(taken[0]))
		}
	}
	inputs := a.Inputs
	if len(a.inputs) == 0 {
		inputs = json.RawMessage("{}") // null and nothing are no inputs, too
	}
	if err := write(filepath.Join(a.module, backendOverride), []byte(backendText)); err != nil {
		return err
	}
	if err := write(filepath.Join(a.module, inputsFile), inputs); err != nil {
		return err
	}
	return write(filepath.Join(a.dir, scratchDir, cliConfig), []byte(a.installation()))
}

// installation says where providers come from. Said explicitly, it also keeps the tool from running a provider that
// the source ships in terraform.d/plugins.
func (a *attempt) installation() string {
	if m := a.worker.ProviderMirror; m != "" {
		return "provider_installation {\n  filesystem_mirror {\n    path = " + strconv.Quote(m) + "\n  }\n}\n"
	}
	return "provider_installation {\n  direct {}\n}\n"
}

// prepareLockFile puts the provider lock file of the approved plan in its place: init then installs exactly what the
// plan was made with, or fails.
func (a *attempt) prepareLockFile() error {
	shipped, err := digest(filepath.Join(a.module, lockFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the provider lock file: %w", err)
	}
	a.lock = shipped != ""
	if !a.Apply || a.Plan.LockFile == "" {
		return nil
	}
	text, err := lockFileOfPlan(filepath.Join(a.dir, link.PlanFile))
	if err != nil {
		return &failure{link.ClassRefused, "The approved plan cannot be read", err}
	}
	path := filepath.Join(a.module, lockFile)
	if shipped != "" {
		if shipped != a.Plan.LockFile {
			return fail(link.ClassRefused, "The provider lock file of the source is not the one the plan was made with. Nothing was applied; start a new run.")
		}
	} else if err := write(path, text); err != nil {
		return err
	}
	a.lock = true
	return a.checkLockFile()
}

// checkLockFile compares the lock file on the disk with the approved one.
func (a *attempt) checkLockFile() error {
	got, err := digest(filepath.Join(a.module, lockFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the provider lock file: %w", err)
	}
	if a.Apply && got != a.Plan.LockFile {
		return fail(link.ClassRefused, "The provider lock file is not the one the plan was made with. Nothing was applied; start a new run.")
	}
	a.lockHash = got
	return nil
}

func (a *attempt) init(ctx context.Context) error {
	said, err := a.speaking(ctx, tofu.InitArgs(a.lock), false, nil)
	if err != nil {
		return err
	}
	if said.Exit.Kind != tofu.ExitOK {
		class := link.ClassConfiguration
		if a.Apply {
			class = link.ClassInfrastructure // the same configuration could be initialised for the plan
		}
		return fail(classOf(said, class), "%s", said.why("init"))
	}
	if err := a.checkBackend(); err != nil {
		return err
	}
	if err := a.checkModules(); err != nil {
		return &failure{link.ClassConfiguration, "A module cannot be used", err}
	}
	return a.checkLockFile()
}

// checkBackend looks at which backend really won, and that nothing of it came from the source: a value there would
// win over the environment, and with it the state would go somewhere else.
func (a *attempt) checkBackend() error {
	b, err := os.ReadFile(filepath.Join(a.module, ".terraform", "terraform.tfstate"))
	if err != nil {
		return fmt.Errorf("see which backend init chose: %w", err)
	}
	var doc struct {
		Backend struct {
			Type   string         `json:"type"`
			Config map[string]any `json:"config"`
		} `json:"backend"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("see which backend init chose: %w", err)
	}
	if doc.Backend.Type != "http" {
		return fail(link.ClassConfiguration, "The source replaces the state backend by %q. Remove its backend and cloud blocks.", doc.Backend.Type)
	}
	for name, value := range doc.Backend.Config {
		if value != nil {
			return fail(link.ClassConfiguration, "The source sets %s of the state backend. Remove its backend block.", name)
		}
	}
	return nil
}

// classOf is whose doing the end of a command was: ours or the machine's when it was killed or fell over.
func classOf(s *spoken, otherwise string) string {
	if s.TimedOut || s.Exit.Kind == tofu.ExitCrashed || s.Exit.Kind == tofu.ExitKilled {
		return link.ClassInfrastructure
	}
	return otherwise
}

// write makes a new file.
func write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o660)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
