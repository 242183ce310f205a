package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/tofu"
)

// unpack checks the packed source's digest and unpacks it into the module's directory.
func (a *attempt) unpack(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(a.dir, link.SourceArchive), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open the packed source: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("hash the packed source: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != a.SourceSHA256 {
		return fail(link.ClassRefused, "The source is not what the run was started with: its SHA-256 is %.12s…, expected %.12s…. Start a new run.", got, a.SourceSHA256)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the packed source: %w", err)
	}
	return source.Unpack(ctx, f, a.module, source.Limits{Archive: a.SourceMaxBytes})
}

// check looks at the source before any tool runs: what in it would steer the tool, sign in as somebody else, or take
// the place of what is generated. What the source declares sensitive is hidden from the log from here on.
func (a *attempt) check() error {
	report, err := source.Check(a.module, a.sourceOptions())
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	var given []string
	for name := range a.inputs {
		given = append(given, name)
	}
	slices.Sort(given)
	if err := report.CheckInputs(given); err != nil {
		return err
	}
	sensitive := slices.Clone(a.Sensitive)
	for _, v := range report.Variables {
		if v.Sensitive {
			sensitive = append(sensitive, v.Name)
		}
	}
	if err := a.collectSecrets(sensitive); err != nil {
		return err
	}
	a.log.watch(a.secrets)
	return nil
}

// checkModules looks at the modules that init fetched, by the same rules.
func (a *attempt) checkModules() error {
	text, err := os.ReadFile(filepath.Join(a.module, ".terraform", "modules", "modules.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the list of fetched modules: %w", err)
	}
	var doc struct {
		Modules []struct {
			Dir string `json:"Dir"`
		} `json:"Modules"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read the list of fetched modules: %w", err)
	}
	var dirs []string
	for _, m := range doc.Modules {
		dirs = append(dirs, m.Dir)
	}
	report, err := source.CheckFetched(a.module, dirs, a.sourceOptions())
	if err != nil {
		return err
	}
	return report.Err()
}

func (a *attempt) sourceOptions() source.Options {
	if a.worker.tool.Tool == tofu.Terraform {
		return source.Options{Tool: source.Terraform}
	}
	return source.Options{Tool: source.OpenTofu}
}
