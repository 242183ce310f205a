package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

const shop = `stack "shop" {
  account    = "111122223333"
  production = true
  approval   = "high_risk"               # always | high_risk | never
  hold       = true
  state      = "managed"

  component "network" {
    source = "./network"
    inputs = { cidr = "10.0.0.0/16" }
  }
  component "database" {
    template = "aws-rds@3"
    inputs = {
      subnet_ids = component.network.subnet_ids
      vpc_id     = kind.network.vpc_id
      size       = 12345678901234567890
      tags       = { team = ["a", null, true] }
      "quoted"   = "x"
    }
    depends_on = [component.network]
    state_name = "shared-db.v2"
  }
  component "app" {
    source     = "git::https://host/repo.git//path?ref=v1"
    depends_on = [component.database, component.network, component.network]
  }
}
`

func parse(t testing.TB, src string) *Stack {
	t.Helper()
	s, err := Parse([]byte(src), FileName)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return s
}

func TestParse(t *testing.T) {
	s := parse(t, shop)
	for i := range s.Components {
		s.Components[i].line = 0
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	want := &Stack{
		Name: "shop", Account: "111122223333", Production: true, Approval: run.HighRisk, Hold: true, State: Managed,
		Components: []Component{
			{
				Name: "network", Source: "./network", StateName: "shop.network",
				Values: map[string]json.RawMessage{"cidr": raw(`"10.0.0.0/16"`)}, Wired: map[string]Reference{},
			},
			{
				Name: "database", Template: "aws-rds@3", StateName: "shared-db.v2", DependsOn: []string{"network"},
				Values: map[string]json.RawMessage{"size": raw(`12345678901234567890`), "tags": raw(`{"team":["a",null,true]}`), "quoted": raw(`"x"`)},
				Wired:  map[string]Reference{"subnet_ids": {Component: "network", Output: "subnet_ids"}, "vpc_id": {Kind: "network", Output: "vpc_id"}},
			},
			{
				Name: "app", Source: "git::https://host/repo.git//path?ref=v1", StateName: "shop.app", DependsOn: []string{"database", "network"},
				Values: map[string]json.RawMessage{}, Wired: map[string]Reference{},
			},
		},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	if c := s.Components[0]; !c.Local() || c.Folder("/stacks/shop") != "/stacks/shop/network" {
		t.Errorf("local %v, folder %q", c.Local(), c.Folder("/stacks/shop"))
	}
	if s.Components[1].Local() || s.Components[2].Local() {
		t.Error("a template or a git address counts as a folder")
	}
}

func TestDefaults(t *testing.T) {
	s := parse(t, with(`component "main" { source = "." }`))
	if s.Approval != run.Never || s.State != Managed || s.Production || s.Hold || s.Account != "" {
		t.Errorf("%+v", s)
	}
	s = parse(t, `stack "s" {
  production = true
  component "main" { source = "../elsewhere" }
}`)
	if s.Approval != run.HighRisk {
		t.Errorf("production's approval = %q, want high_risk", s.Approval)
	}
}

// with puts body into a stack that is right otherwise.
func with(body string) string { return "stack \"s\" {\n" + body + "\n}" }

func TestErrorsNameThePlace(t *testing.T) {
	ok := `  component "c" { source = "." }`
	for _, tc := range []struct{ name, src, want string }{
		{"syntax", with("  account = "), "stack.hcl:2:13: "},
		{"empty", "", "stack.hcl:1:1: there is no stack block"},
		{"two stacks", with(ok) + "\n" + with(ok), "stack.hcl:4:1: a second stack block"},
		{"unknown argument", with("  colour = 1\n" + ok), "stack.hcl:2:3: Unsupported argument"},
		{"unknown block", "provider \"aws\" {}\n" + with(ok), "stack.hcl:1:1: Unsupported block type"},
		{"no label", "stack {\n}", "stack.hcl:1:7: Missing name for stack"},
		{"dot in the name", `stack "a.b" {` + "\n" + ok + "\n}", "stack.hcl:1:7: That is no name for a stack"},
		{"dash first", `stack "-a" {` + "\n" + ok + "\n}", "stack.hcl:1:7: That is no name for a stack"},
		{"long name", `stack "` + strings.Repeat("a", 64) + `" {` + "\n" + ok + "\n}", "stack.hcl:1:7: That is no name for a stack"},
		{"component's name", with(`  component "a/b" { source = "." }`), "stack.hcl:2:13: That is no name for a component"},
		{"no component", with(""), "stack.hcl:1:1: the stack has no component"},
		{"twice", with(ok + "\n" + ok), `stack.hcl:3:13: a second component "c"`},
		{"production never", with("  production = true\n  approval = \"never\"\n" + ok), "stack.hcl:3:14: "},
		{"no such approval", with("  approval = \"sometimes\"\n" + ok), "stack.hcl:2:14: "},
		{"no such state", with("  state = \"s3\"\n" + ok), `stack.hcl:2:11: state is "s3"`},
		{"flag as text", with("  hold = \"yes\"\n" + ok), "stack.hcl:2:10: hold is not true or false"},
		{"expression", with("  account = upper(\"x\")\n" + ok), "stack.hcl:2:13: account is not a text"},
		{"number as text", with("  account = 111122223333\n" + ok), "stack.hcl:2:13: account is not a text"},
		{"no source", with("  component \"c\" {}"), `stack.hcl:2:3: component "c" has neither source nor template`},
		{"both", with("  component \"c\" {\n    source = \".\"\n    template = \"a@1\"\n  }"), `stack.hcl:4:5: component "c" has both`},
		{"template without version", with("  component \"c\" { template = \"aws-vpc\" }"), "stack.hcl:2:30: "},
		{"absolute source", with("  component \"c\" { source = \"/etc\" }"), `stack.hcl:2:28: "/etc" is no source`},
		{"plain http", with("  component \"c\" { source = \"git::http://h/r\" }"), `is no source`},
		{"option as source", with("  component \"c\" { source = \"--upload-pack=x\" }"), `is no source`},
		{"inputs no object", with("  component \"c\" {\n    source = \".\"\n    inputs = [1]\n  }"), "stack.hcl:4:14: inputs is not an object"},
		{"input by function", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = upper(\"x\") }\n  }"), `stack.hcl:4:20: the input "a" is neither`},
		{"input nested", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = [component.d.x] }\n  }"), `the input "a" is neither`},
		{"input template", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = \"${component.d.x}-1\" }\n  }"), `the input "a" is neither`},
		{"input deeper", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = component.d.x.y }\n  }"), `the input "a" is neither`},
		{"input index", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = component.d.x[0] }\n  }"), `the input "a" is neither`},
		{"input of something else", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = var.x.y }\n  }"), `the input "a" is neither`},
		{"input computed", with("  component \"c\" {\n    source = \".\"\n    inputs = { (component.x) = 1 }\n  }"), `the name of an input is computed`},
		{"input name", with("  component \"c\" {\n    source = \".\"\n    inputs = { \"a b\" = 1 }\n  }"), `cannot be the name of a variable`},
		{"input twice", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = 1, a = 2 }\n  }"), `a second value for the input "a"`},
		{"depends_on no list", with("  component \"c\" {\n    source = \".\"\n    depends_on = component.d\n  }"), "stack.hcl:4:18: depends_on is not a list"},
		{"depends_on text", with("  component \"c\" {\n    source = \".\"\n    depends_on = [\"d\"]\n  }"), "stack.hcl:4:19: depends_on names components only"},
		{"unknown component", with("  component \"c\" {\n    source = \".\"\n    depends_on = [component.d]\n  }"), `stack.hcl:2:1: component "c" refers to component "d"`},
		{"wired to nobody", with("  component \"c\" {\n    source = \".\"\n    inputs = { a = component.d.x }\n  }"), `refers to component "d"`},
		{"itself", with("  component \"c\" {\n    source = \".\"\n    depends_on = [component.c]\n  }"), `component "c" refers to itself`},
		{"state name", with("  component \"c\" {\n    source = \".\"\n    state_name = \"../x\"\n  }"), "stack.hcl:4:18: This is not a name of a state"},
		{"deep", with("  account = " + strings.Repeat("[", 5000)), "stack.hcl:2:1: is nested too deeply"},
		{"cycle", with(`  component "a" {
    source     = "."
    depends_on = [component.b]
  }
  component "b" {
    source = "."
    inputs = { x = component.c.y }
  }
  component "c" {
    source     = "."
    depends_on = [component.a]
  }`), "The components wait for each other: a -> b -> c -> a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.src), FileName)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got  %v\nwant %s", err, tc.want)
			}
			f := fault.From(err)
			if f.Code != "stack_invalid" || f.Kind != fault.Unprocessable || f.Hint == "" {
				t.Errorf("code %q, kind %q, hint %q", f.Code, f.Kind, f.Hint)
			}
			if lines := strings.Split(f.Public, "\n"); tc.src != "" && (len(lines) < 2 || !strings.HasPrefix(lines[1], "    ")) {
				t.Errorf("without the source line: %q", f.Public)
			}
		})
	}
	many := with(strings.Repeat("  component \"a/b\" {}\n", 50))
	if _, err := Parse([]byte(many), FileName); strings.Count(err.Error(), "stack.hcl:") != maxErrors {
		t.Errorf("%d errors at once", strings.Count(err.Error(), "stack.hcl:"))
	}
	if _, err := Parse(make([]byte, MaxFileBytes+1), FileName); !fault.Is(err, fault.TooLarge) {
		t.Errorf("too large: %v", err)
	}
}

func TestOfFolder(t *testing.T) {
	for dir, want := range map[string]string{
		"/x/u/hello": "hello", "/x/My Project (1)": "my-project-1", "/x/a.b": "a-b", "/x/_x_": "x", "/x/Größe": "gr-e", "/x/" + strings.Repeat("ab-", 40): strings.TrimRight(strings.Repeat("ab-", 21), "-"),
		"/": "", "/x/---": "", "/x/日本": "", "/x/..": "", "/x/1": "1",
	} {
		s, err := OfFolder(dir)
		if want == "" {
			if fault.Code(err) != "stack_name" || fault.From(err).Hint == "" {
				t.Errorf("%q: %v, want a refusal", dir, err)
			}
			continue
		}
		if err != nil || s.Name != want || len(s.Components) != 1 || s.Components[0].Name != Main || s.Components[0].StateName != want+".main" {
			t.Errorf("%q: %+v, %v; want %q", dir, s, err, want)
			continue
		}
		if run.CheckName("stack", s.Name) != nil || state.CheckName(s.Components[0].StateName) != nil {
			t.Errorf("%q: the name %q is refused elsewhere", dir, s.Name)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Hello World")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(dir); err != nil || s.Name != "hello-world" {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(dir); err != nil || s.Name != "shop" {
		t.Errorf("with a file: %+v, %v", s, err)
	}
	if err := os.Remove(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, FileName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); fault.Code(err) != "stack_unreadable" {
		t.Errorf("a folder for a file: %v", err)
	}
}

func TestStateNamesAreAlwaysLegal(t *testing.T) {
	long := strings.Repeat("a", run.MaxNameBytes)
	s := parse(t, fmt.Sprintf("stack %q {\n  component %q { source = \".\" }\n}", long, long))
	if err := state.CheckName(s.Components[0].StateName); err != nil {
		t.Errorf("%d bytes: %v", len(s.Components[0].StateName), err)
	}
}

func TestGraph(t *testing.T) {
	s := parse(t, shop)
	g, err := s.Graph(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Order(); !slices.Equal(got, []string{"network", "database", "app"}) {
		t.Errorf("order %q", got)
	}
	if got := g.Upstream("app"); !slices.Equal(got, []string{"database", "network"}) {
		t.Errorf("upstream %q", got)
	}
	if got := g.Downstream("network"); !slices.Equal(got, []string{"app", "database"}) {
		t.Errorf("downstream %q", got)
	}
	if got := g.Below("network"); !slices.Equal(got, []string{"app", "database"}) {
		t.Errorf("below %q", got)
	}
}

func TestKinds(t *testing.T) {
	s := parse(t, with(`
  component "a" { source = "." }
  component "b" { source = "." }
  component "c" {
    source = "."
    inputs = { v = kind.network.vpc_id }
  }`))
	if g, err := s.Graph(nil); err != nil || len(g.Waves()) != 1 {
		t.Errorf("unknown kinds: %v, %v", g, err)
	}
	g, err := s.Graph(map[string]string{"b": "network", "c": "network"})
	if err != nil || !slices.Equal(g.Upstream("c"), []string{"b"}) {
		t.Errorf("one of the kind: %v, %v", g, err)
	}
	for _, tc := range []struct {
		kinds map[string]string
		says  string
	}{
		{map[string]string{}, "no component"},
		{map[string]string{"c": "network"}, "no component"},
		{map[string]string{"a": "network", "b": "network"}, "a, b have that kind"},
	} {
		if _, err := s.Graph(tc.kinds); fault.Code(err) != "stack_kind" || !strings.Contains(err.Error(), tc.says) || fault.From(err).Hint == "" {
			t.Errorf("kinds %v: %v, want %q", tc.kinds, err, tc.says)
		}
	}
}

// TestGraphProperties: an acyclic stack gives an order in which everything comes after what it waits for; a stack with a
// cycle is refused and the cycle that is named exists.
func TestGraphProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "components")
		edges := map[string]map[string]bool{}
		s := &Stack{Name: "s"}
		for i := range n {
			c := Component{Name: fmt.Sprintf("c%d", i), Wired: map[string]Reference{}}
			edges[c.Name] = map[string]bool{}
			for _, up := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "upstream") {
				if up == i {
					continue
				}
				name := fmt.Sprintf("c%d", up)
				if rapid.Bool().Draw(t, "wired") {
					c.Wired[fmt.Sprintf("v%d", up)] = Reference{Component: name, Output: "o"}
				} else {
					c.DependsOn = append(c.DependsOn, name)
				}
				edges[c.Name][name] = true
			}
			s.Components = append(s.Components, c)
		}
		g, err := s.Graph(nil)
		if err != nil {
			_, list, _ := strings.Cut(fault.From(err).Public, ": ")
			cycle := strings.Split(strings.TrimSuffix(list, "."), " -> ")
			if len(cycle) < 3 || cycle[0] != cycle[len(cycle)-1] {
				t.Fatalf("no cycle: %q", cycle)
			}
			for i := range len(cycle) - 1 {
				if !edges[cycle[i]][cycle[i+1]] {
					t.Fatalf("%s does not wait for %s in %q", cycle[i], cycle[i+1], cycle)
				}
			}
			return
		}
		at := map[string]int{}
		for i, name := range g.Order() {
			at[name] = i + 1
		}
		if len(at) != n {
			t.Fatalf("order %q has not all of %d components", g.Order(), n)
		}
		for name, ups := range edges {
			for up := range ups {
				if at[up] >= at[name] {
					t.Fatalf("%s comes before %s, which it waits for: %q", name, up, g.Order())
				}
				if !slices.Contains(g.Below(up), name) {
					t.Fatalf("%s is not below %s", name, up)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(shop))
	f.Add([]byte(with("component \"c\" {\n inputs = { a = \"${x}\", (b) = null }\n}")))
	f.Add([]byte(with("component \"c\" {\n inputs = { for k in [1] : k => k }\n}")))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Parse(src, FileName)
		if err != nil {
			if f := fault.From(err); f.Hint == "" || f.Public == "" {
				t.Fatalf("a refusal without a hint: %v", err)
			}
			return
		}
		g, err := s.Graph(nil)
		if err != nil || len(g.Order()) != len(s.Components) {
			t.Fatalf("accepted, but its graph is not: %v", err)
		}
		for _, c := range s.Components {
			if err := state.CheckName(c.StateName); err != nil {
				t.Fatalf("state name %q: %v", c.StateName, err)
			}
		}
	})
}
