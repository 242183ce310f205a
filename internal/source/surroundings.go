package source

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// steering lists what the tool obeys when it stands in the folder it runs in, with the reason why a source may not
// bring it along.
var steering = []struct {
	name        string
	why         string
	workingCopy bool // Pack leaves it out, so a working copy may have it
}{
	{".terraform", "providers, modules and the backend in it would be used unseen", true},
	{"terraform.d", "the tool would run the provider programs in it", false},
	{".terraformrc", "it configures the tool itself", false},
	{".tofurc", "it configures the tool itself", false},
	{"terraform.rc", "it configures the tool itself", false},
	{"tofu.rc", "it configures the tool itself", false},
}

// ours are the names, without extension, of the files the agent writes beside a source.
var ours = []string{"backend_override", "holdfast_provenance_override", "holdfast_azure_signin_override", "holdfast_imports", "generated.auto"}

// surroundings looks at what stands beside the configuration.
func (c *checker) surroundings() {
	for _, s := range steering {
		if _, there := exists(c.root, s.name); there && !(s.workingCopy && c.o.WorkingCopy) {
			c.find(Finding{Code: "source_steering", File: s.name, What: "is shipped with the source", Why: s.why, Hint: "Remove it from the source."})
		}
	}
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return // the module was just read from it
	}
	for _, e := range entries {
		stem := strings.TrimSuffix(e.Name(), ".json")
		ext := path.Ext(stem)
		if slices.Contains(ours, strings.TrimSuffix(stem, ext)) && slices.Contains([]string{".tf", ".tofu", ".tfvars"}, ext) {
			c.find(Finding{Code: "source_reserved", File: e.Name(), What: "has the name of a file the agent writes", Why: "one would hide the other", Hint: "Rename it."})
		}
	}
	_, c.report.LockFile = exists(c.root, ".terraform.lock.hcl")
	c.report.LocalState = c.localState()
}

// localState is the state that commands run by hand left in the folder, or "".
func (c *checker) localState() string {
	for _, name := range []string{"terraform.tfstate", "errored.tfstate"} {
		if info, there := exists(c.root, name); there && info.Size() > 0 {
			return name
		}
	}
	if info, there := exists(c.root, "terraform.tfstate.d"); there && info.IsDir() {
		entries, _ := fs.ReadDir(c.root.FS(), "terraform.tfstate.d")
		for _, e := range entries {
			name := path.Join("terraform.tfstate.d", e.Name(), "terraform.tfstate")
			if info, there := exists(c.root, name); there && info.Size() > 0 {
				return name
			}
		}
	}
	return ""
}

// maxEntries bounds the walk over a source's tree.
const maxEntries = 100_000

// links refuses links that leave the source, wherever they stand.
func (c *checker) links() error {
	n := 0
	return fs.WalkDir(c.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if n++; n > maxEntries {
			return tooMany(maxEntries)
		}
		if name != "." && e.IsDir() && excluded(path.Base(name)) != "" && c.o.WorkingCopy {
			return fs.SkipDir
		}
		if e.Type() != fs.ModeSymlink {
			return nil
		}
		target, err := c.root.Readlink(name)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if err := insideLink(c.root, name, target); err != nil {
			c.find(Finding{Code: "source_link", File: name, What: fmt.Sprintf("is a link to %.200s", target), Why: "that is outside the source", Hint: fault.From(err).Hint})
		}
		return nil
	})
}

// valueFiles lists the files of values that the tool loads by itself, in its order.
func (c *checker) valueFiles() {
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if name == "terraform.tfvars" || name == "terraform.tfvars.json" {
			names = slices.Insert(names, firstAuto(names), name)
		} else if !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.valueFile(name)
	}
}

func firstAuto(names []string) int {
	i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, ".auto.") })
	if i < 0 {
		return len(names)
	}
	return i
}

func (c *checker) valueFile(name string) {
	f := file{path: name, json: strings.HasSuffix(name, ".json")}
	p, findings := parse(c.root, f)
	c.report.Findings = append(c.report.Findings, findings...)
	if p == nil {
		return
	}
	attrs, _ := p.body.JustAttributes()
	v := ValueFile{Path: name, Variables: []string{}}
	for n := range attrs {
		v.Variables = append(v.Variables, n)
	}
	slices.Sort(v.Variables)
	c.report.ValueFiles = append(c.report.ValueFiles, v)
}

// InputsFile is where the agent writes a run's inputs. The tool loads the files of values by name, so a shipped one
// that sorts behind it would win.
const InputsFile = "generated.auto.tfvars.json"

// CheckInputs reports why a run with inputs of these names cannot use the source, or nil: an input that is not
// declared, a required variable that gets no value, and an input to which a shipped file of values would give
// another value. The rule is that a run's inputs win, and that nobody has to guess.
func (r *Report) CheckInputs(names []string) error {
	var findings []Finding
	declared := map[string]bool{}
	given := map[string]bool{}
	for _, n := range names {
		given[n] = true
	}
	shipped := map[string]bool{}
	for _, f := range r.ValueFiles {
		for _, v := range f.Variables {
			shipped[v] = true
			if given[v] && f.Path > InputsFile && strings.Contains(f.Path, ".auto.") {
				findings = append(findings, Finding{
					Code: "source_value_file", File: f.Path, What: fmt.Sprintf("gives a value to %q, which is an input of the run", v),
					Why: "the tool loads the file after the run's inputs, so its value would win", Hint: "Remove the value from the file, or the input from the run.",
				})
			}
		}
	}
	for _, v := range r.Variables {
		declared[v.Name] = true
		if v.Required && !given[v.Name] && !shipped[v.Name] {
			findings = append(findings, Finding{
				Code: "input_missing", File: v.File, Line: v.Line, Column: 1, What: fmt.Sprintf("variable %q has no value", v.Name),
				Why: "it has no default and is not among the inputs", Hint: fmt.Sprintf("Give the input %q.", v.Name),
			})
		}
	}
	for _, n := range names {
		if !declared[n] {
			findings = append(findings, Finding{
				Code: "input_unknown", File: ".", What: fmt.Sprintf("input %q is given", n), Why: "the configuration declares no variable of that name",
				Hint: "Correct the name, or declare the variable.",
			})
		}
	}
	return refusal(findings)
}
