package source

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// parsed is a configuration file that could be read.
type parsed struct {
	file
	body hcl.Body
	src  []byte
}

// parse reads one file, or says as findings why it is not configuration.
func parse(root *os.Root, f file) (*parsed, []Finding) {
	src, err := readFile(root, f.path)
	if err != nil {
		why := "it cannot be read"
		if err == errTooLarge { //nolint:errorlint // our own value
			why = "it is " + err.Error()
		}
		return nil, []Finding{{Code: "source_file", File: f.path, What: "is named like configuration", Why: why, Hint: "Replace or remove the file."}}
	}
	return parseBytes(f, src)
}

func parseBytes(f file, src []byte) (*parsed, []Finding) {
	if line, deep := TooDeep(src); deep {
		return nil, []Finding{{
			Code: "source_nesting", File: f.path, Line: line, Column: 1, What: "is nested too deeply",
			Why: "reading it would take more memory than a configuration needs", Hint: "Simplify the expression.",
		}}
	}
	var parsedFile *hcl.File
	var diags hcl.Diagnostics
	if f.json {
		parsedFile, diags = hcljson.Parse(src, f.path)
	} else {
		parsedFile, diags = hclsyntax.ParseConfig(src, f.path, hcl.InitialPos)
	}
	if diags.HasErrors() {
		return nil, syntaxErrors(f.path, src, diags)
	}
	return &parsed{f, parsedFile.Body, src}, nil
}

func syntaxErrors(name string, src []byte, diags hcl.Diagnostics) []Finding {
	var out []Finding
	for _, d := range diags {
		if d.Severity != hcl.DiagError || len(diags) > 1 && d.Summary == "Root value must be object" {
			continue // the JSON parser adds that to every other error
		}
		f := Finding{Code: "source_syntax", File: name, What: d.Summary, Why: strings.TrimSpace(d.Detail), Hint: "Correct the line; `tofu fmt` shows the same error."}
		if d.Subject != nil {
			f.Line, f.Column, f.Snippet = d.Subject.Start.Line, d.Subject.Start.Column, sourceLine(src, d.Subject.Start.Line)
		}
		out = append(out, f)
		if len(out) == 10 { // what follows is mostly the first one's echo
			break
		}
	}
	return out
}

// sourceLine is a line of a file, cut to what fits a message.
func sourceLine(src []byte, n int) string {
	const width = 200
	for i, line := range slices.Collect(bytes.Lines(src)) {
		if i+1 == n {
			return strings.ToValidUTF8(string(bytes.TrimRight(line[:min(len(line), width)], "\r\n")), "\uFFFD")
		}
	}
	return ""
}

// TooDeep guards the HCL parsers, which call themselves for every bracket, sign and question mark within another and know
// no limit: a few megabytes of them would overflow the stack, which ends the process. It counts without regard to
// strings and comments, so its limits are far above what anyone writes.
func TooDeep(src []byte) (line int, deep bool) {
	const brackets, signs, questions = 1000, 10_000, 20_000
	line = 1
	depth, run, asked := 0, 0, 0
	for _, c := range src {
		switch c {
		case '\n':
			line++
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '?':
			asked++
		}
		switch c {
		case '!', '-':
			run++
		case ' ', '\t', '\r', '\n':
		default:
			run = 0
		}
		if depth > brackets || run > signs || asked > questions {
			return line, true
		}
	}
	return 0, false
}

var rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "terraform"},
	{Type: "provider", LabelNames: []string{"name"}},
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "output", LabelNames: []string{"name"}},
	{Type: "module", LabelNames: []string{"name"}},
	{Type: "data", LabelNames: []string{"type", "name"}},
	{Type: "check", LabelNames: []string{"name"}},
}}

var terraformSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "backend", LabelNames: []string{"type"}},
	{Type: "cloud"},
	{Type: "encryption"},
	{Type: "required_providers"},
}}

var checkSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "data", LabelNames: []string{"type", "name"}}}}

var encryptionSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "key_provider", LabelNames: []string{"type", "name"}},
	{Type: "method", LabelNames: []string{"type", "name"}},
}}

// blocks are the blocks of a body that schema names. A block with a wrong number of labels is an error to the tool, and
// left to it.
func blocks(body hcl.Body, schema *hcl.BodySchema) hcl.Blocks {
	content, _, _ := body.PartialContent(schema)
	if content == nil {
		return nil
	}
	return content.Blocks
}

// setting is an argument of a block, or a block within it, under one name.
type setting struct {
	name string
	at   hcl.Range
	expr hcl.Expression // nil for a block
}

// settings lists everything a body sets, blocks that `dynamic` makes included.
func settings(body hcl.Body) []setting {
	var out []setting
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		attrs, _ := body.JustAttributes() // of JSON: every property, whatever it is to the tool
		for name, a := range attrs {
			out = append(out, setting{name, a.NameRange, a.Expr})
			if name == "dynamic" {
				for _, key := range keys(a.Expr) {
					out = append(out, setting{key, a.NameRange, nil})
				}
			}
		}
		slices.SortFunc(out, func(a, b setting) int { return a.at.Start.Byte - b.at.Start.Byte })
		return out
	}
	for name, a := range native.Attributes {
		out = append(out, setting{name, a.NameRange, a.Expr})
	}
	for _, b := range native.Blocks {
		out = append(out, setting{b.Type, b.TypeRange, nil})
		if b.Type == "dynamic" && len(b.Labels) > 0 {
			out = append(out, setting{b.Labels[0], b.TypeRange, nil})
		}
	}
	slices.SortFunc(out, func(a, b setting) int { return a.at.Start.Byte - b.at.Start.Byte })
	return out
}

// keys are the literal keys of an object expression, or of each in a list of them.
func keys(expr hcl.Expression) []string {
	var out []string
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, p := range pairs {
			if s, ok := literal(p.Key); ok {
				out = append(out, s)
			} else if s := hcl.ExprAsKeyword(p.Key); s != "" {
				out = append(out, s)
			}
		}
		return out
	}
	if list, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for _, e := range list {
			out = append(out, keys(e)...)
		}
	}
	return out
}

// attribute is the value an object expression has for one key.
func attribute(expr hcl.Expression, key string) hcl.Expression {
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return nil
	}
	for _, p := range pairs {
		if s, ok := literal(p.Key); ok && s == key || hcl.ExprAsKeyword(p.Key) == key {
			return p.Value
		}
	}
	return nil
}

// literal is the text of an expression that needs nothing to be known.
func literal(expr hcl.Expression) (string, bool) {
	v, ok := value(expr)
	if !ok || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

func value(expr hcl.Expression) (cty.Value, bool) {
	if expr == nil || len(expr.Variables()) > 0 {
		return cty.NilVal, false
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.IsMarked() {
		return cty.NilVal, false
	}
	return v, true
}

// isFalse reports whether an expression is the literal false, as text too, as the tool converts it.
func isFalse(expr hcl.Expression) bool {
	v, ok := value(expr)
	return ok && (v.Type() == cty.Bool && v.False() || v.Type() == cty.String && v.AsString() == "false")
}

// notFalse reports whether a flag may be true: it is set, and not to the literal false.
func notFalse(expr hcl.Expression) bool { return expr != nil && !isFalse(expr) }

// readModule reads the files of one folder that the tool would.
func readModule(root *os.Root, dir string, tool Tool) ([]*parsed, []Finding, error) {
	list, err := configFiles(root, dir, tool)
	if err != nil {
		if dir != "." {
			return nil, nil, nil // a call of a module that is not there is the tool's to report
		}
		return nil, nil, fmt.Errorf("read the source: %w", err)
	}
	var files []*parsed
	var findings []Finding
	for _, f := range list {
		p, found := parse(root, f)
		findings = append(findings, found...)
		if p != nil {
			files = append(files, p)
		}
	}
	return files, findings, nil
}

// exists reports whether the source's root holds an entry of that name, whatever it is.
func exists(root *os.Root, name string) (fs.FileInfo, bool) {
	info, err := root.Lstat(name)
	return info, err == nil
}
