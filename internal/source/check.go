package source

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"holdfast.dev/holdfast/internal/fault"
)

// Options say how a source is checked.
type Options struct {
	Tool Tool // OpenTofu when empty

	// WorkingCopy is for a person's own folder, before it is packed: what Pack leaves out anyway is not refused.
	WorkingCopy bool
}

// Check reads the source in dir as the tool would and reports what it declares and what is refused in it: sign-in
// arguments, renamed providers, other states, override files that touch the ones of the agent, encryption by an
// external command, and files that steer the tool before any of these checks. Local modules are followed; of others
// the calls are listed, for CheckFetched after init. It fails when dir cannot be read or holds no configuration.
func Check(dir string, o Options) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "source_unreadable", "The folder %s cannot be read.", dir).WithHint("Check that it is a folder and that you may read it.")
	}
	defer root.Close() //nolint:errcheck // read only
	c := newChecker(root, o)
	files, err := c.module(".", true)
	if err != nil {
		return nil, err
	}
	if len(c.report.Files) == 0 {
		return nil, fault.New(fault.Unprocessable, "source_empty", "The folder %s holds no configuration: no .tf, .tf.json%s file.", dir, c.alsoReads()).
			WithHint("Name the folder that holds the configuration's root module.")
	}
	c.declarations(files)
	c.valueFiles()
	c.surroundings()
	if err := c.links(); err != nil {
		return nil, err
	}
	c.report.sort()
	return c.report, nil
}

func (c *checker) alsoReads() string {
	if c.o.Tool == Terraform {
		return ""
	}
	return ", .tofu or .tofu.json"
}

// CheckFetched checks the folders of the modules that init fetched, below the source in dir, by the same rules. The
// folders come from the tool's own list, .terraform/modules/modules.json.
func CheckFetched(dir string, folders []string, o Options) (*Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("check the fetched modules: %w", err)
	}
	defer root.Close() //nolint:errcheck // read only
	c := newChecker(root, o)
	for _, folder := range folders {
		clean := path.Clean(folder)
		if clean == "." {
			continue // the root module is Check's
		}
		if !local(clean) {
			c.find(Finding{Code: "source_module", File: folder, What: "is a module outside the source", Why: "it was not approved with it", Hint: "Ship the module in the source, or call it from git or a registry."})
			continue
		}
		if _, err := c.module(clean, false); err != nil {
			return nil, err
		}
	}
	c.report.sort()
	return c.report, nil
}

type checker struct {
	root    *os.Root
	o       Options
	report  *Report
	visited map[string]bool
}

func newChecker(root *os.Root, o Options) *checker {
	return &checker{root: root, o: o, visited: map[string]bool{}, report: &Report{
		Findings: []Finding{}, Files: []string{}, Variables: []Variable{}, Outputs: []Output{}, Modules: []ModuleCall{}, ValueFiles: []ValueFile{},
	}}
}

func (c *checker) find(f Finding) { c.report.Findings = append(c.report.Findings, f) }

// at makes a finding of a place in a file.
func (c *checker) at(p *parsed, r hcl.Range, code, what, why, hint string) {
	c.find(Finding{
		Code: code, File: p.path, Line: r.Start.Line, Column: r.Start.Column, What: what, Why: why, Hint: hint,
		Snippet: sourceLine(p.src, r.Start.Line),
	})
}

// maxModules bounds the folders that are followed.
const maxModules = 1000

// module checks one folder and the local modules it calls.
func (c *checker) module(dir string, isRoot bool) ([]*parsed, error) {
	if c.visited[dir] || len(c.visited) == maxModules {
		return nil, nil
	}
	c.visited[dir] = true
	files, findings, err := readModule(c.root, dir, c.o.Tool)
	if err != nil {
		return nil, err
	}
	c.report.Findings = append(c.report.Findings, findings...)
	for _, f := range findings {
		if !slices.Contains(c.report.Files, f.File) {
			c.report.Files = append(c.report.Files, f.File)
		}
	}
	names := providerNames(files)
	calls := map[string]ModuleCall{}
	var order []string
	for _, p := range files {
		c.report.Files = append(c.report.Files, p.path)
		for _, b := range blocks(p.body, rootSchema) {
			switch b.Type {
			case "terraform":
				c.terraform(p, b, isRoot)
			case "provider":
				c.provider(p, b, names, isRoot)
			case "data":
				c.data(p, b)
			case "check":
				for _, nested := range blocks(b.Body, checkSchema) {
					c.data(p, nested)
				}
			case "module":
				if _, known := calls[b.Labels[0]]; !known {
					order = append(order, b.Labels[0])
				}
				if call, ok := moduleCall(p, b); ok || calls[b.Labels[0]].Name == "" {
					calls[b.Labels[0]] = call // an override's source replaces the other
				}
			}
		}
	}
	for _, name := range order {
		if err := c.follow(dir, calls[name]); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleCall reads a module block; ok is whether it has a source.
func moduleCall(p *parsed, b *hcl.Block) (call ModuleCall, ok bool) {
	call = ModuleCall{Name: b.Labels[0], File: p.path, Line: b.DefRange.Start.Line}
	for _, s := range settings(b.Body) {
		if s.name == "source" {
			call.Source, call.Literal = literal(s.expr)
			return call, true
		}
	}
	return call, false
}

func (c *checker) follow(dir string, call ModuleCall) error {
	call.Local = call.Literal && (call.Source == "." || call.Source == ".." || strings.HasPrefix(call.Source, "./") || strings.HasPrefix(call.Source, "../"))
	absolute := call.Literal && (strings.HasPrefix(call.Source, "/") || strings.HasPrefix(call.Source, "file:"))
	target := path.Join(dir, call.Source)
	if absolute || call.Local && !local(target) {
		c.find(Finding{
			Code: "source_module", File: call.File, Line: call.Line, Column: 1, What: fmt.Sprintf("module %q is in %s", call.Name, call.Source),
			Why: "that is outside the source, which alone is packed and approved", Hint: "Move the module into the source, or call it from git or a registry.",
		})
		call.Local = false
	}
	c.report.Modules = append(c.report.Modules, call)
	if !call.Local {
		return nil
	}
	_, err := c.module(target, false)
	return err
}

func (c *checker) terraform(p *parsed, b *hcl.Block, isRoot bool) {
	for _, inner := range blocks(b.Body, terraformSchema) {
		switch inner.Type {
		case "backend", "cloud":
			if isRoot { // elsewhere the tool ignores it
				c.backend(p, inner)
			}
		case "encryption":
			for _, e := range blocks(inner.Body, encryptionSchema) {
				if e.Labels[0] == "external" {
					c.at(p, e.DefRange, "source_encryption", fmt.Sprintf(`encrypts by %s "external"`, e.Type),
						"its command would run in init already, before there is a plan to approve", "Use another key provider, such as pbkdf2 or a key service.")
				}
			}
		case "required_providers":
			c.requiredProviders(p, inner)
		}
	}
}

func (c *checker) backend(p *parsed, b *hcl.Block) {
	typ := "cloud"
	if b.Type == "backend" {
		typ = b.Labels[0]
	}
	if p.override {
		c.at(p, b.DefRange, "source_override", fmt.Sprintf("declares %s in an override file", blockName(b)),
			"override files are merged by name, and it could replace the state the run is given", "Declare it in a normal file, where the run's own state replaces it.")
	}
	c.report.Backend = &Backend{Type: typ, File: p.path, Line: b.DefRange.Start.Line}
}

func blockName(b *hcl.Block) string {
	s := b.Type
	for _, l := range b.Labels {
		s += fmt.Sprintf(" %q", l)
	}
	return s
}

// data refuses the one data source that reads states, by its type: the name of its provider is the author's choice.
func (c *checker) data(p *parsed, b *hcl.Block) {
	if b.Labels[0] == "terraform_remote_state" {
		c.at(p, b.DefRange, "source_remote_state", fmt.Sprintf("reads another state in data %q %q", b.Labels[0], b.Labels[1]),
			"it would read any state the agent can reach", "Take what it needs as an input, wired from the other component's output.")
	}
}

// declarations lists the root module's variables and outputs, overrides merged in.
func (c *checker) declarations(files []*parsed) {
	variables, outputs := map[string]*Variable{}, map[string]*Output{}
	for _, p := range files {
		for _, b := range blocks(p.body, rootSchema) {
			switch b.Type {
			case "variable":
				v := variables[b.Labels[0]]
				if v == nil {
					v = &Variable{Name: b.Labels[0], Required: true, File: p.path, Line: b.DefRange.Start.Line}
					variables[v.Name] = v
				}
				v.merge(p, b)
			case "output":
				o := outputs[b.Labels[0]]
				if o == nil {
					o = &Output{Name: b.Labels[0]}
					outputs[o.Name] = o
				}
				o.merge(b)
			}
		}
	}
	for _, v := range variables {
		c.report.Variables = append(c.report.Variables, *v)
	}
	for _, o := range outputs {
		c.report.Outputs = append(c.report.Outputs, *o)
	}
}

func (v *Variable) merge(p *parsed, b *hcl.Block) {
	for _, s := range settings(b.Body) {
		switch s.name {
		case "type":
			if text, ok := literal(s.expr); ok && p.json {
				v.Type = text
			} else if s.expr != nil && s.expr.Range().CanSliceBytes(p.src) {
				v.Type = strings.Join(strings.Fields(string(s.expr.Range().SliceBytes(p.src))), " ")
			}
		case "description":
			v.Description, _ = literal(s.expr)
		case "sensitive":
			v.Sensitive = notFalse(s.expr)
		case "ephemeral":
			v.Ephemeral = notFalse(s.expr)
		case "default":
			v.Required = false
		}
	}
}

func (o *Output) merge(b *hcl.Block) {
	for _, s := range settings(b.Body) {
		switch s.name {
		case "description":
			o.Description, _ = literal(s.expr)
		case "sensitive":
			o.Sensitive = notFalse(s.expr)
		}
	}
}
