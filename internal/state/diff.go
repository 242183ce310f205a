package state

import (
	"cmp"
	"slices"

	"holdfast.dev/holdfast/internal/plan"
)

// Bounds of what is listed of documents. What is beyond them is counted.
const (
	MaxChanges = 500     // instances of a Diff or a resource
	MaxOutputs = 500     // outputs of a Diff, or of a document
	maxListed  = 2 << 20 // bytes, about, of the attributes listed
	maxHeld    = 8 << 20 // bytes, about, of one document that are held at a time
	maxAside   = 4 << 10 // of what is held of an instance beside its attributes, where they are not held
)

// Action is what became of an instance or an output.
type Action string

// The actions.
const (
	Removed Action = "removed"
	Changed Action = "changed"
	Added   Action = "added"
)

// Change is an instance that differs between two documents.
type Change struct {
	Address    string // with the index
	Type       string
	Provider   string // source address
	Action     Action
	Deposed    string // key of what an unfinished replacement left
	Attributes []plan.Attribute
	LeftOut    int              // attributes that differ beyond those listed; at least one where all of them could not be held
	About      []plan.Attribute // status, schema_version and provider, where they differ
}

// OutputChange is an output that differs.
type OutputChange struct {
	Name          string
	Action        Action
	Before, After string // JSON; "" where there was none, and where it is not shown
	Sensitive     bool
	Cut           bool // a value is longer than what is shown of it, which is a text then
}

// Diff is what differs between two documents. What either of them marks as sensitive is not in it, nor what equals or
// holds such a value.
type Diff struct {
	Changes   []Change       // those removed first, then changed, then added, each by address
	Outputs   []OutputChange // by name
	Unchanged int            // instances
	More      int            // instances and outputs beyond those listed
}

// Compare compares two documents by resource. from is nil for the document of nothing. Each is read twice; what is held
// of them is bounded, whatever their size. More than 200,000 instances are Unprocessable.
func Compare(from, to Opener) (*Diff, error) {
	c := &comparison{examiner: newExaminer(), before: map[uint64]place{}, out: &Diff{Changes: []Change{}, Outputs: []OutputChange{}}}
	for _, step := range []func(from, to Opener) error{c.index, c.collect, c.compare} {
		if err := step(from, to); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.out.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a.Action), rank(b.Action)), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Deposed, b.Deposed))
	})
	slices.SortFunc(c.out.Outputs, func(a, b OutputChange) int { return cmp.Compare(a.Name, b.Name) })
	return c.out, nil
}

func rank(a Action) int { return slices.Index([]Action{Removed, Changed, Added}, a) }

// place is where a document has what an address names, and its sum.
type place struct {
	ordinal int32
	output  bool
	sum     uint64
}

// pair is something that differs, by its ordinals in the two documents; 0 where it is not.
type pair struct{ before, after int32 }

type comparison struct {
	*examiner
	out    *Diff
	before map[uint64]place

	removed, changed, added [2][]pair // of instances and of outputs, as many as could be listed
	counts                  [2]int    // of all that differ
	wanted                  [2]map[int32]*found
}

// found is one side of something that is listed.
type found struct {
	pair
	before *captured // once it was read
}

// index is the first pass over both: what differs, and what is sensitive.
func (c *comparison) index(from, to Opener) error {
	if from != nil {
		err := c.survey(from, func(id uint64, _ string, p place) { c.before[id] = p })
		if err != nil {
			return err
		}
	}
	err := c.survey(to, func(id uint64, _ string, p place) {
		was, there := c.before[id]
		delete(c.before, id)
		switch {
		case !there:
			c.note(&c.added, pair{after: p.ordinal}, p.output)
		case was.sum != p.sum:
			c.note(&c.changed, pair{was.ordinal, p.ordinal}, p.output)
		case !p.output:
			c.out.Unchanged++
		}
	})
	if err != nil {
		return err
	}
	gone := make([]place, 0, len(c.before))
	for _, p := range c.before {
		gone = append(gone, p)
	}
	slices.SortFunc(gone, func(a, b place) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for _, p := range gone {
		c.note(&c.removed, pair{before: p.ordinal}, p.output)
	}
	c.before = nil
	c.choose()
	return c.known.Compile()
}

func (c *comparison) note(list *[2][]pair, p pair, output bool) {
	kind := kindOf(output)
	c.counts[kind]++
	if len(list[kind]) < MaxChanges {
		list[kind] = append(list[kind], p)
	}
}

func kindOf(output bool) int {
	if output {
		return 1
	}
	return 0
}

// choose picks what is listed: what was removed before what changed, and that before what was added.
func (c *comparison) choose() {
	c.wanted = [2]map[int32]*found{{}, {}}
	for kind, most := range [2]int{MaxChanges, MaxOutputs} {
		listed := 0
		for _, p := range slices.Concat(c.removed[kind], c.changed[kind], c.added[kind]) {
			if listed == most {
				break
			}
			listed++
			f := &found{pair: p}
			if p.before > 0 {
				c.wanted[0][p.before] = f
			}
			if p.after > 0 {
				c.wanted[1][p.after] = f
			}
		}
		c.out.More += c.counts[kind] - listed
	}
}

// collect is the second pass over from: it lists what was removed, and holds what changed.
func (c *comparison) collect(from, _ Opener) error {
	if len(c.wanted[0]) == 0 { // as it is where from is nil
		return nil
	}
	held := 0
	return c.pick(from, func(ordinal int) bool { return c.wanted[0][int32(ordinal)] != nil }, func(got *captured) { //nolint:gosec // at most maxInstances
		f := c.wanted[0][int32(got.ordinal)] //nolint:gosec // likewise
		if f.after == 0 {
			c.list(Removed, got, nil)
			return
		}
		if held += got.size(); held > maxHeld {
			got.drop()
		}
		f.before = got
	})
}

// compare is the second pass over to.
func (c *comparison) compare(_, to Opener) error {
	if len(c.wanted[1]) == 0 {
		return nil
	}
	return c.pick(to, func(ordinal int) bool { return c.wanted[1][int32(ordinal)] != nil }, func(got *captured) { //nolint:gosec // at most maxInstances
		if f := c.wanted[1][int32(got.ordinal)]; f.before != nil { //nolint:gosec // likewise
			c.list(Changed, f.before, got)
			f.before = nil
		} else {
			c.list(Added, nil, got)
		}
	})
}

func (c *comparison) list(action Action, before, after *captured) {
	one := cmp.Or(after, before)
	if one.output {
		c.out.Outputs = append(c.out.Outputs, c.outputChange(action, before, after))
		return
	}
	ch := Change{
		Address: c.known.Clean(one.address()), Type: one.header.kind, Provider: one.header.provider, Action: action, Deposed: one.about.str(one.about.field(0, "deposed")),
	}
	ch.Attributes, ch.LeftOut = c.attributes(before, after)
	ch.About = c.aboutChange(before, after)
	c.out.Changes = append(c.out.Changes, ch)
}

// attributes are those that differ. Where one side could not be held as a whole, none can be listed.
func (c *comparison) attributes(before, after *captured) ([]plan.Attribute, int) {
	if before.whole() && after.whole() {
		return c.differences(before, after)
	}
	return nil, 1
}

// aboutChange compares what a document says of an instance besides its attributes.
func (c *comparison) aboutChange(before, after *captured) []plan.Attribute {
	var out []plan.Attribute
	for _, name := range []string{"status", "schema_version"} {
		was, is := before.aboutText(name), after.aboutText(name)
		if was != is && (name == "status" || before != nil && after != nil) {
			out = append(out, plan.Attribute{Path: name, Before: was, After: is})
		}
	}
	if before != nil && after != nil && before.header.provider != after.header.provider {
		was, _ := plan.Text(before.header.provider)
		is, _ := plan.Text(after.header.provider)
		out = append(out, plan.Attribute{Path: "provider", Before: was, After: is})
	}
	return out
}

func (c *comparison) outputChange(action Action, before, after *captured) OutputChange {
	o := OutputChange{Name: c.known.Clean(cmp.Or(after, before).name), Action: action}
	was, is := c.outputValue(before), c.outputValue(after)
	if o.Sensitive = was.sensitive || is.sensitive; !o.Sensitive {
		o.Before, o.After, o.Cut = was.text, is.text, was.cut || is.cut
	}
	return o
}
