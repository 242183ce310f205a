package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/internal/state"
)

// FileName is the name of a stack file.
const FileName = "stack.hcl"

// MaxFileBytes bounds a stack file.
const MaxFileBytes = 1 << 20

// Load reads the stack of the folder dir: its stack file, else one component named after the folder.
func Load(dir string) (*Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder: %w", err)
	}
	f, err := os.Open(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return OfFolder(dir)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "stack_unreadable", "%s cannot be read.", filepath.Join(dir, FileName)).WithHint("Check that you may read it.")
	}
	defer f.Close() //nolint:errcheck // read only
	src, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "stack_unreadable", "%s cannot be read.", filepath.Join(dir, FileName)).WithHint("Check that it is a file.")
	}
	return Parse(src, FileName)
}

// Parse reads a stack file. Every error says file, line, column and the source line; all errors of a file come at
// once, the first ten of them.
func Parse(src []byte, name string) (*Stack, error) {
	p := &parser{src: src, name: name}
	if len(src) > MaxFileBytes {
		return nil, fault.New(fault.TooLarge, "stack_invalid", "%s has more than %d KiB.", name, MaxFileBytes>>10).WithHint("Keep large values in the components' own files.")
	}
	if line, deep := source.TooDeep(src); deep {
		p.fail(hcl.Range{Start: hcl.Pos{Line: line, Column: 1}}, "is nested too deeply", "Simplify the expression.")
		return nil, p.err()
	}
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	p.diags(diags)
	if diags.HasErrors() {
		return nil, p.err()
	}
	s := p.stack(file.Body)
	if p.err() == nil {
		p.graph(s)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return s, nil
}

type parser struct {
	src    []byte
	name   string
	errors []string
	hint   string
}

const maxErrors = 10

func (p *parser) fail(at hcl.Range, what, hint string) {
	if p.hint == "" {
		p.hint = hint
	}
	if len(p.errors) == maxErrors {
		return
	}
	text := fmt.Sprintf("%s:%d:%d: %s", p.name, at.Start.Line, at.Start.Column, redact.Plain(what))
	if line := p.line(at.Start.Line); line != "" {
		text += "\n    " + redact.Plain(line)
	}
	p.errors = append(p.errors, text)
}

func (p *parser) line(n int) string {
	const width = 200
	i := 0
	for line := range bytes.Lines(p.src) {
		if i++; i == n {
			return strings.ToValidUTF8(string(bytes.TrimRight(line[:min(len(line), width)], "\r\n")), "\uFFFD")
		}
	}
	return ""
}

func (p *parser) diags(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Start: hcl.InitialPos}
		if d.Subject != nil {
			at = *d.Subject
		}
		p.fail(at, strings.TrimSuffix(d.Summary, ".")+": "+d.Detail, "Correct the line.")
	}
}

func (p *parser) err() error {
	if len(p.errors) == 0 {
		return nil
	}
	return fault.New(fault.Unprocessable, "stack_invalid", "%s", strings.Join(p.errors, "\n")).WithHint("%s", p.hint)
}

var fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "stack", LabelNames: []string{"name"}}}}

var stackSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "account"}, {Name: "production"}, {Name: "approval"}, {Name: "hold"}, {Name: "state"}},
	Blocks:     []hcl.BlockHeaderSchema{{Type: "component", LabelNames: []string{"name"}}},
}

var componentSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "source"}, {Name: "template"}, {Name: "inputs"}, {Name: "depends_on"}, {Name: "state_name"},
}}

func (p *parser) stack(body hcl.Body) *Stack {
	content, diags := body.Content(fileSchema)
	p.diags(diags)
	if len(content.Blocks) == 0 {
		if !diags.HasErrors() {
			p.fail(hcl.Range{Start: hcl.InitialPos}, "there is no stack block", `Begin it with: stack "name" {`)
		}
		return nil
	}
	if len(content.Blocks) > 1 {
		p.fail(content.Blocks[1].DefRange, "a second stack block; a file describes one stack", "Give each stack a folder of its own.")
	}
	b := content.Blocks[0]
	s := &Stack{Name: b.Labels[0], State: Managed}
	p.checked(b.LabelRanges[0], run.CheckName("stack", s.Name))
	inner, diags := b.Body.Content(stackSchema)
	p.diags(diags)
	s.Account = p.text(inner.Attributes["account"])
	s.Production = p.flag(inner.Attributes["production"])
	s.Hold = p.flag(inner.Attributes["hold"])
	p.policy(s, inner.Attributes["approval"])
	if a := inner.Attributes["state"]; a != nil {
		if s.State = p.text(a); s.State != Managed && s.State != Backend && s.State != Ephemeral {
			p.fail(a.Expr.Range(), fmt.Sprintf("state is %q", s.State), "Use managed, backend or ephemeral.")
		}
	}
	seen := map[string]bool{}
	for _, cb := range inner.Blocks {
		c := p.component(s, cb)
		if seen[c.Name] {
			p.fail(cb.LabelRanges[0], fmt.Sprintf("a second component %q", c.Name), "Rename one of them.")
		}
		seen[c.Name] = true
		s.Components = append(s.Components, c)
	}
	if len(inner.Blocks) == 0 {
		p.fail(b.DefRange, "the stack has no component", `Write: component "main" { source = "." }`)
	}
	return s
}

func (p *parser) policy(s *Stack, a *hcl.Attribute) {
	at := hcl.Range{Start: hcl.InitialPos}
	if a != nil {
		at = a.Expr.Range()
	}
	policy, err := run.StackPolicy(run.Policy(p.text(a)), s.Production)
	p.checked(at, err)
	s.Approval = policy
}

func (p *parser) checked(at hcl.Range, err error) {
	if err != nil {
		f := fault.From(err)
		p.fail(at, f.Public, f.Hint)
	}
}

func (p *parser) component(s *Stack, b *hcl.Block) Component {
	c := Component{Name: b.Labels[0], Values: map[string]json.RawMessage{}, Wired: map[string]Reference{}, line: b.DefRange.Start.Line}
	p.checked(b.LabelRanges[0], run.CheckName("component", c.Name))
	content, diags := b.Body.Content(componentSchema)
	p.diags(diags)
	at := content.Attributes
	c.Source, c.Template = p.text(at["source"]), p.text(at["template"])
	p.origin(b, at, &c)
	p.inputs(at["inputs"], &c)
	p.dependsOn(at["depends_on"], &c)
	c.StateName = s.stateName(&c)
	if a := at["state_name"]; a != nil {
		c.StateName = p.text(a)
		p.checked(a.Expr.Range(), state.CheckName(c.StateName))
	}
	return c
}

var templatePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}@[0-9]{1,9}$`)

func (p *parser) origin(b *hcl.Block, at hcl.Attributes, c *Component) {
	src, tpl := at["source"], at["template"]
	switch {
	case src == nil && tpl == nil:
		p.fail(b.DefRange, fmt.Sprintf("component %q has neither source nor template", c.Name), `Write: source = "./folder"`)
	case src != nil && tpl != nil:
		p.fail(tpl.NameRange, fmt.Sprintf("component %q has both source and template", c.Name), "Keep one of them.")
	case tpl != nil && !templatePattern.MatchString(c.Template):
		p.fail(tpl.Expr.Range(), fmt.Sprintf("%q is no template", c.Template), `Name a template and its version: template = "aws-vpc@3"`)
	case src != nil && !isLocal(c.Source) && !strings.HasPrefix(c.Source, "git::https://") && !strings.HasPrefix(c.Source, "git::ssh://"):
		p.fail(src.Expr.Range(), fmt.Sprintf("%q is no source", c.Source), `Use a folder ("./network") or a git address ("git::https://host/repo.git//path?ref=v1").`)
	}
}

func (p *parser) inputs(a *hcl.Attribute, c *Component) {
	if a == nil {
		return
	}
	pairs, diags := hcl.ExprMap(a.Expr)
	if diags.HasErrors() {
		p.fail(a.Expr.Range(), "inputs is not an object", `Write: inputs = { name = "value" }`)
		return
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		key, diags := pair.Key.Value(nil)
		if diags.HasErrors() || !key.IsKnown() || key.IsNull() || key.Type() != cty.String {
			p.fail(pair.Key.Range(), "the name of an input is computed", "Write the variable's name.")
			continue
		}
		name := key.AsString()
		if !hclsyntax.ValidIdentifier(name) {
			p.fail(pair.Key.Range(), fmt.Sprintf("%q cannot be the name of a variable", name), "Write the variable's name.")
			continue
		}
		if seen[name] {
			p.fail(pair.Key.Range(), fmt.Sprintf("a second value for the input %q", name), "Keep one of them.")
		}
		seen[name] = true
		p.input(name, pair.Value, c)
	}
}

func (p *parser) input(name string, expr hcl.Expression, c *Component) {
	const hint = "An input is a value, or one whole reference: component.NAME.OUTPUT or kind.KIND.OUTPUT."
	if len(expr.Variables()) > 0 {
		ref, ok := reference(expr)
		if !ok {
			p.fail(expr.Range(), fmt.Sprintf("the input %q is neither a value nor a reference", name), hint)
			return
		}
		c.Wired[name] = ref
		return
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() {
		p.fail(expr.Range(), fmt.Sprintf("the input %q is neither a value nor a reference", name), hint)
		return
	}
	raw, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		p.fail(expr.Range(), fmt.Sprintf("the input %q cannot be written as JSON", name), hint)
		return
	}
	c.Values[name] = raw
}

// reference reads component.NAME.OUTPUT and kind.KIND.OUTPUT.
func reference(expr hcl.Expression) (Reference, bool) {
	names, ok := traversal(expr)
	if !ok || len(names) != 3 {
		return Reference{}, false
	}
	switch names[0] {
	case "component":
		return Reference{Component: names[1], Output: names[2]}, true
	case "kind":
		return Reference{Kind: names[1], Output: names[2]}, true
	}
	return Reference{}, false
}

func traversal(expr hcl.Expression) ([]string, bool) {
	t, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() {
		return nil, false
	}
	var names []string
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		default:
			return nil, false
		}
	}
	return names, true
}

func (p *parser) dependsOn(a *hcl.Attribute, c *Component) {
	if a == nil {
		return
	}
	const hint = "Write: depends_on = [component.NAME]"
	list, diags := hcl.ExprList(a.Expr)
	if diags.HasErrors() {
		p.fail(a.Expr.Range(), "depends_on is not a list", hint)
		return
	}
	for _, e := range list {
		names, ok := traversal(e)
		if !ok || len(names) != 2 || names[0] != "component" {
			p.fail(e.Range(), "depends_on names components only", hint)
			continue
		}
		if !slices.Contains(c.DependsOn, names[1]) {
			c.DependsOn = append(c.DependsOn, names[1])
		}
	}
}

// text is a literal text, or "" with the error noted.
func (p *parser) text(a *hcl.Attribute) string {
	v, ok := p.literal(a, cty.String)
	if !ok {
		return ""
	}
	return v.AsString()
}

func (p *parser) flag(a *hcl.Attribute) bool {
	v, ok := p.literal(a, cty.Bool)
	return ok && v.True()
}

func (p *parser) literal(a *hcl.Attribute, typ cty.Type) (cty.Value, bool) {
	if a == nil {
		return cty.NilVal, false
	}
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != typ {
		want := "a text in quotes"
		if typ == cty.Bool {
			want = "true or false"
		}
		p.fail(a.Expr.Range(), fmt.Sprintf("%s is not %s", a.Name, want), fmt.Sprintf("Give %s, not an expression.", want))
		return cty.NilVal, false
	}
	return v, true
}

// graph refuses references to components that do not exist, and cycles.
func (p *parser) graph(s *Stack) {
	if s == nil {
		return
	}
	known := map[string]bool{}
	for _, c := range s.Components {
		known[c.Name] = true
	}
	for _, c := range s.Components {
		at := hcl.Range{Start: hcl.Pos{Line: c.line, Column: 1}}
		for _, up := range c.upstream(nil) {
			switch {
			case up == c.Name:
				p.fail(at, fmt.Sprintf("component %q refers to itself", c.Name), "Remove the reference.")
			case !known[up]:
				p.fail(at, fmt.Sprintf("component %q refers to component %q, which the stack does not have", c.Name, up), "Correct the name, or add the component.")
			}
		}
	}
	if p.err() != nil {
		return
	}
	if _, err := s.Graph(nil); err != nil {
		f := fault.From(err)
		p.fail(hcl.Range{Start: hcl.Pos{Line: s.Components[0].line, Column: 1}}, f.Public, f.Hint)
	}
}
