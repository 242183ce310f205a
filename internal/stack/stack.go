// Package stack reads stack files: which components are deployed together, from which sources, with which inputs, and
// in which order.
package stack

import (
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Where a component's state is kept.
const (
	Managed   = "managed"   // here
	Backend   = "backend"   // where the configuration's backend says
	Ephemeral = "ephemeral" // nowhere: it ends with the run
)

// Stack is a set of components that are deployed together into one account.
type Stack struct {
	Name       string
	Account    string // empty when the file names none
	Production bool
	Approval   run.Policy // never empty
	Hold       bool
	State      string      // Managed, Backend or Ephemeral
	Components []Component // in the file's order
}

// Component is one use of a module.
type Component struct {
	Name      string
	Source    string                     // a relative folder or a git:: address; or
	Template  string                     // slug@version
	Values    map[string]json.RawMessage // inputs with a value of their own
	Wired     map[string]Reference       // inputs that take another component's output
	DependsOn []string
	StateName string
	line      int
}

// Reference names an output of another component, by the component's name or by the kind it says it is.
type Reference struct {
	Component string // or
	Kind      string
	Output    string
}

func (r Reference) String() string {
	if r.Kind != "" {
		return "kind." + r.Kind + "." + r.Output
	}
	return "component." + r.Component + "." + r.Output
}

// Local reports whether the component's source is a folder beside the stack file.
func (c *Component) Local() bool { return isLocal(c.Source) }

func isLocal(source string) bool {
	return source == "." || source == ".." || strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../")
}

// Main is the component of a folder without a stack file.
const Main = "main"

// OfFolder is the stack of a folder that has no stack file: one component, named after the folder. dir is an absolute
// path. It fails when the folder's name leaves nothing that could name a stack.
func OfFolder(dir string) (*Stack, error) {
	name := sanitise(filepath.Base(dir))
	if name == "" {
		return nil, fault.New(fault.Invalid, "stack_name", "The folder's name %q gives no name for a stack.", filepath.Base(dir)).
			WithHint("Write a %s that names the stack, or rename the folder.", FileName)
	}
	return &Stack{
		Name: name, Approval: run.Never, State: Managed,
		Components: []Component{{Name: Main, Source: ".", Values: map[string]json.RawMessage{}, Wired: map[string]Reference{}, StateName: name + "." + Main}},
	}, nil
}

// sanitise makes a folder's name a stack's: small letters, digits, _ and -, beginning with a letter or digit.
func sanitise(folder string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(folder) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-_")
	if len(name) > run.MaxNameBytes {
		name = strings.TrimRight(name[:run.MaxNameBytes], "-_")
	}
	return name
}

// stateName is the name of a component's managed state.
func (s *Stack) stateName(c *Component) string { return s.Name + "." + c.Name }

// Folder is where a local component's source lies, from the folder dir of the stack file.
func (c *Component) Folder(dir string) string {
	return filepath.Join(dir, filepath.FromSlash(path.Clean(c.Source)))
}
