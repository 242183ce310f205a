package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/source"
)

// folder refuses what is no folder before anything else is looked at.
func folder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "no_folder", "There is no folder %s.", dir).WithHint("Name the folder that holds the .tf files.")
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "no_folder", "The folder %s cannot be read: %v.", dir, errors.Unwrap(err))
	case !info.IsDir():
		return fault.New(fault.Invalid, "no_folder", "%s is no folder.", dir).WithHint("Name the folder that holds it.")
	}
	return nil
}

// checkSource reads the configuration as the tool would. What is refused in it is said with file, line, column and
// the line itself.
func checkSource(dir string) (*source.Report, error) {
	report, err := source.Check(dir, source.Options{WorkingCopy: true})
	if err != nil {
		return nil, err
	}
	for i := range report.Findings { // named from where the person stands
		report.Findings[i].File = filepath.Join(dir, report.Findings[i].File)
	}
	return report, report.Err()
}

// packSource packs a folder in memory: an archive has at most 32 MiB. What the person should know of it is said.
func (c *call) packSource(ctx context.Context, dir string) ([]byte, error) {
	var b bytes.Buffer
	packed, err := source.Pack(ctx, dir, &b, source.Limits{})
	if err != nil {
		return nil, err
	}
	if !c.json {
		for _, w := range packed.Warnings {
			c.msg.print("%s %s: %s\n", c.msg.yellow("Warning:"), w.Path, w.Why)
		}
	}
	return b.Bytes(), nil
}

func uploadSource(ctx context.Context, server *client.Client, archive []byte) (api.Source, error) {
	return server.UploadSource(ctx, int64(len(archive)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
}

// inputFlags give values to the variables of a configuration.
type inputFlags struct {
	Input  []string `short:"i" sep:"none" placeholder:"NAME=VALUE" help:"Value of a variable; lists and objects as JSON. May be repeated."`
	Inputs string   `placeholder:"FILE" help:"JSON file with an object of values; - for standard input. --input goes before it."`
}

// read merges file and flags over what the stack file has. No error repeats a value: it may be a secret.
func (f inputFlags) read(stdin io.Reader, declared []source.Variable, from map[string]json.RawMessage) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	maps.Copy(values, from)
	if err := f.readFile(stdin, values); err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, v := range declared {
		types[v.Name] = v.Type
	}
	for _, pair := range f.Input {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fault.New(fault.Invalid, codeUsage, "--input needs NAME=VALUE; one of them has no name or no value.")
		}
		values[name] = inputValue(value, types[name])
	}
	for name := range values {
		if _, ok := types[name]; !ok {
			return nil, fault.New(fault.Invalid, "unknown_input", "The configuration has no variable %q.", redact.Plain(name)).
				WithHint("It has %s.", variableNames(declared))
		}
	}
	if err := f.missing(values, declared); err != nil || len(values) == 0 {
		return nil, err
	}
	return json.Marshal(values)
}

func (f inputFlags) readFile(stdin io.Reader, values map[string]json.RawMessage) error {
	if f.Inputs == "" {
		return nil
	}
	const most = 1 << 20
	in := io.Reader(stdin)
	if f.Inputs != "-" {
		file, err := os.Open(f.Inputs)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, codeUsage, "The file of inputs cannot be read: %v.", err)
		}
		defer file.Close() //nolint:errcheck // read only
		in = file
	}
	if err := json.NewDecoder(io.LimitReader(in, most)).Decode(&values); err != nil {
		return fault.New(fault.Invalid, codeUsage, "%s holds no JSON object of inputs.", f.Inputs).WithHint(`It looks like {"region": "eu-central-1", "sizes": [1, 2]}.`)
	}
	return nil
}

// missing names the variables without a value: the run could only fail for them, minutes from now.
func (f inputFlags) missing(values map[string]json.RawMessage, declared []source.Variable) error {
	var names []string
	for _, v := range declared {
		if _, ok := values[v.Name]; !ok && v.Required {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "missing_input", "The configuration needs values for: %s.", strings.Join(names, ", ")).
		WithHint("Give them with --input %s=VALUE or --inputs FILE.", names[0])
}

func variableNames(declared []source.Variable) string {
	if len(declared) == 0 {
		return "none"
	}
	names := make([]string, len(declared))
	for i, v := range declared {
		names[i] = v.Name
	}
	return strings.Join(names, ", ")
}

// inputValue reads a flag's value by the variable's type, as the tool's own -var does: a text stays what it is, and
// numbers and booleans are made of it by the tool; other types are JSON.
func inputValue(value, declared string) json.RawMessage {
	switch strings.TrimSpace(declared) {
	case "string", "number", "bool":
	case "", "any":
		// The type is open, so only what cannot be meant as a text is taken for a structure.
		if trimmed := strings.TrimSpace(value); (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(value)) {
			return json.RawMessage(value)
		}
	default:
		if json.Valid([]byte(value)) {
			return json.RawMessage(value)
		}
	}
	text, _ := json.Marshal(value) // a string can always be encoded
	return text
}
