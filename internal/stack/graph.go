package stack

import (
	"maps"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// Graph is the order of a stack's components: who waits for whom.
type Graph struct {
	names      []string // sorted
	upstream   map[string][]string
	downstream map[string][]string
	waves      [][]string
}

// Graph joins the components by their references and depends_on. kinds says what kind each component is, as far as
// that is known: a component's kind is its output `kind`. With kinds nil, references by kind make no edges yet. It
// fails on a cycle, naming it, and, with kinds, on a kind that none or more than one of the other components has.
func (s *Stack) Graph(kinds map[string]string) (*Graph, error) {
	g := &Graph{upstream: map[string][]string{}, downstream: map[string][]string{}}
	for i := range s.Components {
		c := &s.Components[i]
		g.names = append(g.names, c.Name)
		if kinds != nil {
			if err := c.checkKinds(kinds); err != nil {
				return nil, err
			}
		}
		g.upstream[c.Name] = c.upstream(kinds)
	}
	slices.Sort(g.names)
	for _, name := range g.names {
		for _, up := range g.upstream[name] {
			g.downstream[up] = append(g.downstream[up], name)
		}
	}
	return g, g.sort()
}

// upstream are the names of the components c waits for, sorted.
func (c *Component) upstream(kinds map[string]string) []string {
	set := map[string]bool{}
	for _, name := range c.DependsOn {
		set[name] = true
	}
	for _, ref := range c.Wired {
		if ref.Component != "" {
			set[ref.Component] = true
			continue
		}
		for _, name := range c.ofKind(ref.Kind, kinds) {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (c *Component) ofKind(kind string, kinds map[string]string) []string {
	var out []string
	for name, k := range kinds {
		if k == kind && name != c.Name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (c *Component) checkKinds(kinds map[string]string) error {
	for _, input := range slices.Sorted(maps.Keys(c.Wired)) {
		ref := c.Wired[input]
		if ref.Kind == "" {
			continue
		}
		switch found := c.ofKind(ref.Kind, kinds); {
		case len(found) == 0:
			return fault.New(fault.Unprocessable, "stack_kind", "Input %q of component %q takes %s, and no component of the stack has the kind %q.", input, c.Name, ref, ref.Kind).
				WithHint("Add such a component, or name one: component.NAME.%s.", ref.Output)
		case len(found) > 1:
			return fault.New(fault.Unprocessable, "stack_kind", "Input %q of component %q takes %s, and %s have that kind.", input, c.Name, ref, strings.Join(found, ", ")).
				WithHint("Name the one that is meant: component.%s.%s.", found[0], ref.Output)
		}
	}
	return nil
}

// sort fills the waves, or fails naming a cycle.
func (g *Graph) sort() error {
	waiting := map[string]int{}
	for _, name := range g.names {
		waiting[name] = len(g.upstream[name])
	}
	done := 0
	ready := slices.DeleteFunc(slices.Clone(g.names), func(n string) bool { return waiting[n] > 0 })
	for len(ready) > 0 {
		g.waves = append(g.waves, ready)
		done += len(ready)
		var next []string
		for _, name := range ready {
			for _, down := range g.downstream[name] {
				if waiting[down]--; waiting[down] == 0 {
					next = append(next, down)
				}
			}
		}
		slices.Sort(next)
		ready = next
	}
	if done == len(g.names) {
		return nil
	}
	cycle := g.cycle(waiting)
	return fault.New(fault.Unprocessable, "stack_cycle", "The components wait for each other: %s.", strings.Join(cycle, " -> ")).
		WithHint("Remove one of these references, or one of the depends_on.")
}

// cycle walks up from what is still waiting until a component comes again. Everything that waits has something above it
// that waits too, so the walk cannot end.
func (g *Graph) cycle(waiting map[string]int) []string {
	at := g.names[slices.IndexFunc(g.names, func(n string) bool { return waiting[n] > 0 })]
	var path []string
	for !slices.Contains(path, at) {
		path = append(path, at)
		ups := g.upstream[at]
		i := slices.IndexFunc(ups, func(n string) bool { return waiting[n] > 0 })
		if i < 0 {
			return append(path, ups...) // a component that does not exist
		}
		at = ups[i]
	}
	return append(path[slices.Index(path, at):], at)
}

// Waves lists the components in groups: each needs only components of earlier groups. Sorted within a group.
func (g *Graph) Waves() [][]string { return g.waves }

// Order lists the components so that each comes after all it waits for.
func (g *Graph) Order() []string { return slices.Concat(g.waves...) }

// Upstream are the components that name waits for directly, sorted.
func (g *Graph) Upstream(name string) []string { return g.upstream[name] }

// Downstream are the components that wait for name directly, sorted.
func (g *Graph) Downstream(name string) []string { return g.downstream[name] }

// Below are all the components that wait for name, directly or not, sorted: what a failure of it stops.
func (g *Graph) Below(name string) []string {
	seen := map[string]bool{}
	queue := g.downstream[name]
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		if !seen[next] {
			seen[next] = true
			queue = append(queue[:len(queue):len(queue)], g.downstream[next]...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
