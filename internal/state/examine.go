package state

import (
	"hash/maphash"

	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/redact"
)

// Bounds of the sensitive values that are remembered.
const (
	maxSecrets       = 50_000   // beyond them every value is taken for one
	maxSearchedBytes = 16 << 10 // of those that are looked for inside other values
	maxSteps         = 1 << 20  // looks at values to find those that one instance marks; beyond them all of it is marked
)

// examiner reads documents without showing what is sensitive in them: first it surveys all of them, then it shows some.
type examiner struct {
	seed   maphash.Seed
	known  *redact.Known
	long   map[uint64]bool // sums of sensitive texts that are not held whole
	hide   bool            // not all that is sensitive is known: nothing is shown
	budget int             // bytes left for what is listed
}

func newExaminer() *examiner {
	x := &examiner{seed: maphash.MakeSeed(), known: redact.NewKnown(), long: map[uint64]bool{}, budget: maxListed}
	x.known.SearchAtMost(maxSearchedBytes)
	return x
}

// id is a sum of names. It differs from one examiner to the next.
func (x *examiner) id(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, p := range parts {
		_, _ = h.WriteString(p)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// survey is a first pass: it tells of all that is in a document, instances with the address of their resource, and
// learns what is sensitive.
func (x *examiner) survey(open Opener, tell func(id uint64, resource string, p place)) error {
	type waiting struct {
		index, deposed string
		place
	}
	var instances []waiting // of the resource that is being read
	return visit(open, x.seed, visitor{
		output: func(name string, i *item) error {
			if i.about.sensitive() {
				x.learn(i.value, 0)
			}
			tell(x.id("output", name), "", place{ordinal: int32(i.ordinal), output: true, sum: i.sum}) //nolint:gosec // at most maxInstances
			return nil
		},
		instance: func(i *item) error {
			x.learnMarked(i)
			instances = append(instances, waiting{
				i.about.index(i.about.field(0, "index_key")), i.about.str(i.about.field(0, "deposed")),
				place{ordinal: int32(i.ordinal), sum: i.sum}, //nolint:gosec // at most maxInstances
			})
			return nil
		},
		resource: func(h header) error {
			address := h.address()
			for _, w := range instances {
				w.sum += x.id("provider", h.provider)
				tell(x.id("instance", address+w.index, w.deposed), address, w.place)
			}
			instances = instances[:0]
			return nil
		},
	})
}

func (x *examiner) learnMarked(i *item) {
	if !i.marked {
		return
	}
	if i.value.over || i.about.over {
		x.hide = true // what of it is sensitive cannot be told
		return
	}
	for n := range i.marks() {
		x.learn(i.value, n)
	}
}

// learn remembers the values at a node and below it.
func (x *examiner) learn(t *tape, n int) {
	switch {
	case t.over, x.known.Len()+len(x.long) > maxSecrets:
		x.hide = true
		return
	case n >= len(t.nodes):
		return
	}
	for _, nd := range t.nodes[n:t.nodes[n].end] {
		switch {
		case nd.long():
			x.long[nd.sum] = true
		case nd.kind == '"', nd.kind == '-', nd.kind >= '0' && nd.kind <= '9':
			x.known.Add(redact.NewSecret(t.string(nd.text)))
		}
	}
}

// sensitive is what an output says of itself. That it is not is no field of the tape.
func (t *tape) sensitive() bool {
	n := t.field(0, "sensitive")
	return n >= 0 && t.nodes[n].kind != 'n'
}

// marks are the nodes of an instance's value that its sensitive_attributes name.
func (i *item) marks() map[int]bool {
	out, steps := map[int]bool{}, 0
	list := i.about.field(0, "sensitive_attributes")
	for p := range i.about.children(list) {
		at := []int{0}
		for step := range i.about.children(p) {
			at = i.follow(at, step, &steps)
		}
		if steps > maxSteps {
			return map[int]bool{0: true}
		}
		for _, n := range at {
			out[n] = true
		}
	}
	return out
}

// follow takes one step of a path. A step that is not understood stays where it is, so that all there is marked.
func (i *item) follow(at []int, step int, steps *int) []int {
	t := i.about
	value := t.field(step, "value")
	if value >= 0 && t.nodes[value].kind == '{' {
		value = t.field(value, "value") // {"value": 0, "type": "number"}
	}
	if value < 0 || len(i.value.nodes) == 0 {
		return at
	}
	name, number := t.str(value), 0
	isText := t.nodes[value].kind == '"'
	if !isText {
		var ok bool
		if number, ok = smallNumber(t.string(t.nodes[value].text)); !ok {
			return at
		}
	}
	var next []int
	for _, n := range at {
		switch kind := i.value.nodes[n].kind; {
		case kind == '{' && isText:
			for child := range i.value.children(n) {
				// attributes_flat, of old tools, has all in one object: tags.Name
				*steps++
				if key, found := i.value.cutKey(child, name); found && (key == "" || key[0] == '.') {
					next = append(next, child)
				}
			}
		case kind == '[' && !isText:
			child := 0
			for e := range i.value.children(n) {
				*steps++
				if child == number {
					next = append(next, e)
				}
				child++
			}
		case kind == 'n':
		default:
			next = append(next, n)
		}
	}
	return next
}

// cutKey is what follows a name in the key of a node.
func (t *tape) cutKey(n int, name string) (rest string, found bool) {
	k := t.nodes[n].key
	if int(k.length) < len(name) || string(t.text[k.at:k.at+uint32(len(name))]) != name { //nolint:gosec // shorter than the key
		return "", false
	}
	return t.string(span{k.at + uint32(len(name)), k.length - uint32(len(name))}), true //nolint:gosec // likewise
}

func smallNumber(text string) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' || n > tapeNodes {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, text != ""
}

// captured is an instance or an output that is shown.
type captured struct {
	item
	output bool
	name   string // of an output
	header header
}

// size is about how many bytes are held of it.
func (c *captured) size() int { return c.value.size() + c.about.size() }

// drop holds it no longer, but for its name; of that it loses the index where more than maxAside stand beside the attributes.
func (c *captured) drop() {
	c.value = &tape{over: true}
	if c.about.size() > maxAside {
		c.about = &tape{}
	}
}

func (c *captured) whole() bool { return c == nil || !c.value.over && !c.about.over }

func (c *captured) address() string {
	return c.header.address() + c.about.index(c.about.field(0, "index_key"))
}

// aboutText is a field beside the attributes, as JSON; "" without one.
func (c *captured) aboutText(name string) string {
	if c == nil {
		return ""
	}
	n := c.about.field(0, name)
	if n < 0 || c.about.nodes[n].kind == 'n' {
		return ""
	}
	v, _ := c.about.tree(n, func(int) bool { return false })
	text, _ := plan.Text(v)
	return text
}

// pick is a second pass: it gives the instances and outputs that are wanted, once their resource is known.
func (x *examiner) pick(open Opener, wanted func(ordinal int) bool, give func(*captured)) error {
	var waiting []*captured
	held := 0
	return visit(open, x.seed, visitor{
		output: func(name string, i *item) error {
			if wanted(i.ordinal) {
				give(&captured{item: i.clone(), output: true, name: name})
			}
			return nil
		},
		instance: func(i *item) error {
			if wanted(i.ordinal) {
				c := &captured{item: i.clone()}
				if held += c.size(); held > maxHeld {
					c.drop()
				}
				waiting = append(waiting, c)
			}
			return nil
		},
		resource: func(h header) error {
			for _, c := range waiting {
				c.header = h
				give(c)
			}
			waiting, held = nil, 0
			return nil
		},
	})
}

func (i *item) clone() item {
	out := *i
	out.value, out.about = i.value.clone(), i.about.clone()
	return out
}

// side is a captured value as plan compares it, with marks on what must not be shown.
func (x *examiner) side(c *captured) (value, marks any) {
	if c == nil || len(c.value.nodes) == 0 {
		return nil, nil
	}
	marked := c.marks()
	return c.value.tree(0, func(n int) bool { return marked[n] || x.secret(c.value, n) })
}

// secret reports whether a text of which only a part is held is sensitive, or all of it where not all secrets are known.
// Those that are held whole are compared by plan.
func (x *examiner) secret(t *tape, n int) bool {
	nd := t.nodes[n]
	if x.hide {
		return nd.kind != '{' && nd.kind != '[' && nd.kind != 'n'
	}
	return nd.long() && (x.long[nd.sum] || x.known.Within(t.str(n)))
}

func (x *examiner) differences(before, after *captured) ([]plan.Attribute, int) {
	p := plan.Pair{HadBefore: before != nil, HasAfter: after != nil}
	p.Before, p.SecretBefore = x.side(before)
	p.After, p.SecretAfter = x.side(after)
	return plan.Differences(p, x.known, &x.budget)
}

// shown is the value of an output.
type shown struct {
	text           string // JSON, "" where it is not shown
	sensitive, cut bool
}

func (x *examiner) outputValue(c *captured) shown {
	switch {
	case c == nil:
		return shown{}
	case c.about.sensitive(), x.hide:
		return shown{sensitive: true}
	case c.value.over:
		return shown{cut: true}
	}
	value, marks := x.side(c)
	if marks != nil || x.known.InTree(value) {
		return shown{sensitive: true}
	}
	text, cut := plan.Text(value)
	if x.budget -= len(text); x.budget < 0 {
		return shown{cut: true}
	}
	return shown{text: text, cut: cut}
}
