package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help has examples.
func (completionCmd) Help() string {
	return `Prints what makes the shell complete commands, flags, and the names of stacks, states, runs and
accounts.

Examples:
  source <(holdfast completion bash)
  holdfast completion zsh > "${fpath[1]}/_holdfast"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish`
}

// The scripts. Each asks the program itself, so they never grow old; where it knows nothing, the shell completes file
// names.
const (
	bashScript = `_holdfast() {
	local IFS=$'\n'
	COMPREPLY=($(holdfast complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _holdfast holdfast
`
	zshScript = `#compdef holdfast
_holdfast() {
	local -a found
	found=(${(f)"$(holdfast complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _holdfast holdfast
`
	fishScript = `function __holdfast_complete
	set -l words (commandline -opc) (commandline -ct)
	holdfast complete $words[2..] 2>/dev/null
end
complete -c holdfast -a '(__holdfast_complete)'
`
)

// Run prints a script.
func (cmd *completionCmd) Run(c *call) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[cmd.Shell]
	c.out.print("%s", styled(script))
	return nil
}

// completeCmd is what the scripts ask.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The line after the program's name, up to the cursor."`
}

// Run prints what the last of the words may become, one a line.
func (cmd *completeCmd) Run(ctx context.Context, c *call, k *kong.Context) error {
	words := cmd.Words
	if len(words) == 0 {
		words = []string{""}
	}
	for _, candidate := range c.complete(ctx, k.Model.Node, words[:len(words)-1], words[len(words)-1]) {
		c.out.print("%s\n", candidate)
	}
	return nil
}

// complete walks the line to what is being typed, and says what that can be.
func (c *call) complete(ctx context.Context, node *kong.Node, before []string, typed string) []string {
	var flag *kong.Flag // that waits for its value
	place := 0          // of the next argument
	for _, word := range before {
		switch {
		case word == "=": // bash takes --flag=value apart
		case flag != nil:
			flag = nil
		case strings.HasPrefix(word, "-"):
			if f := findFlag(node, word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
				flag = f
			}
		default:
			if child := childOf(node, word); child != nil {
				node = child
			} else {
				place++
			}
		}
	}
	if typed == "=" {
		typed = ""
	}
	var all []string
	switch {
	case flag != nil:
		all = c.values(ctx, flag.Value)
	case strings.HasPrefix(typed, "-"):
		all = flagNames(node)
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
		if place < len(node.Positional) {
			all = append(all, c.values(ctx, node.Positional[place])...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, typed) })
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func findFlag(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if f.Name == name || f.Short != 0 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) []string {
	var out []string
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			out = append(out, "--"+f.Name)
			if f.Tag.Negatable != "" {
				out = append(out, "--no-"+f.Name)
			}
		}
	}
	return out
}

// completeWait bounds the question to a server: a shell waits for the answer.
const completeWait = 2 * time.Second

// completeMost is how many names are offered.
const completeMost = 200

// values are what an argument or a flag can be: what its declaration lists, or what the server has of that name.
func (c *call) values(ctx context.Context, v *kong.Value) []string {
	if v.Enum != "" {
		return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
	}
	var ask func(context.Context, *client.Client) ([]string, error)
	switch v.Name {
	case "stack":
		ask = func(ctx context.Context, s *client.Client) ([]string, error) {
			l, err := s.Stacks(ctx, "", client.Page{Limit: completeMost})
			return names(l.Items, func(x api.Stack) string { return x.Name }), err
		}
	case "state":
		ask = func(ctx context.Context, s *client.Client) ([]string, error) {
			l, err := s.States(ctx, client.StateFilter{}, client.Page{Limit: completeMost})
			return names(l.Items, func(x api.State) string { return x.Name }), err
		}
	case "run":
		ask = func(ctx context.Context, s *client.Client) ([]string, error) {
			l, err := s.Runs(ctx, client.RunFilter{}, client.Page{Limit: completeMost})
			return names(l.Items, func(x api.RunListed) string { return x.ID }), err
		}
	case "account":
		ask = func(ctx context.Context, s *client.Client) ([]string, error) {
			l, err := s.Accounts(ctx, client.Page{Limit: completeMost})
			return names(l.Items, func(x api.Account) string { return x.Name }), err
		}
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	server, err := remote{}.connect(c)
	if err != nil {
		return nil // a shell has no place for it
	}
	found, err := ask(ctx, server.WithPatience(-1))
	if err != nil {
		return nil
	}
	return found
}

func names[T any](items []T, name func(T) string) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = name(x)
	}
	return out
}
