package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/plan"
)

// Bounds of what is held of one value of a document. Beyond them its sum still covers all of it.
const (
	keptKeyBytes    = 1 << 10
	keptTextBytes   = 8 << 10
	keptNumberBytes = 4 << 10 // a longer one is malformed: no tool has such numbers
	tapeNodes       = 40_000
	tapeBytes       = 1 << 20
	tapeDepth       = 64
)

// tape is a value of a document, flat: each node stands before those within it.
type tape struct {
	nodes []node
	text  []byte
	over  bool // there is more than is held
}

type node struct {
	kind      byte // { [ " 0 for a number, or the first letter of a literal
	key, text span
	length    int64 // of the whole text
	sum       uint64
	end       int32 // the node after it and all within it
}

func (t *tape) reset() { t.nodes, t.text, t.over = t.nodes[:0], t.text[:0], false }

func (t *tape) clone() *tape {
	return &tape{nodes: slices.Clone(t.nodes), text: slices.Clone(t.text), over: t.over}
}

// size is about how many bytes a clone holds.
func (t *tape) size() int { return len(t.nodes)*64 + len(t.text) }

func (t *tape) string(s span) string {
	return strings.ToValidUTF8(string(t.text[s.at:s.at+s.length]), "\uFFFD")
}

// add makes a node, or says that the tape is full.
func (t *tape) add(kind byte, key []byte, depth int) (int, bool) {
	if t.over || len(t.nodes) == tapeNodes || depth > tapeDepth || len(t.text)+len(key)+keptTextBytes > tapeBytes {
		t.over = true
		return 0, false
	}
	t.nodes = append(t.nodes, node{kind: kind, key: t.keep(key)})
	return len(t.nodes) - 1, true
}

func (t *tape) keep(p []byte) span {
	s := span{at: uint32(len(t.text)), length: uint32(len(p))} //nolint:gosec // bounded by tapeBytes
	t.text = append(t.text, p...)
	return s
}

// value reads a value onto the tape and gives its sum, in which the order of an object's fields and fields that are null
// do not count.
func (x *lexer) value(t *tape, key []byte, depth int) (uint64, error) {
	if depth > maxDepth {
		return 0, x.fault()
	}
	c := x.peek()
	n, held := t.add(c, key, depth)
	var sum uint64
	var err error
	switch c {
	case '{':
		err = x.members(func(key []byte, keySum uint64) error {
			v, err := x.value(t, key, depth+1)
			if v != nullSum {
				sum += x.combine(keySum, v)
			}
			return err
		})
		sum = x.combine('{', sum)
	case '[':
		sum = x.combine('[', 0)
		err = x.elements(func() error {
			v, err := x.value(t, nil, depth+1)
			sum = x.combine(sum, v)
			return err
		})
	case '"':
		sum, err = x.textNode(t, n, held)
	default:
		sum, err = x.scalarNode(t, n, held)
	}
	if c != 'n' {
		sum = notNull(sum)
	}
	if held {
		t.nodes[n].sum, t.nodes[n].end = sum, int32(len(t.nodes)) //nolint:gosec // bounded by tapeNodes
	}
	return sum, err
}

func (x *lexer) sumOf(p []byte) uint64 {
	x.hash.Reset()
	_, _ = x.hash.Write(p)
	return x.hash.Sum64()
}

func (x *lexer) textNode(t *tape, n int, held bool) (uint64, error) {
	if !held {
		_, _, sum, err := x.string(nil, 0)
		return sum, err
	}
	before := len(t.text)
	kept, length, sum, err := x.string(t.text, keptTextBytes)
	t.text = kept
	t.nodes[n].text = span{at: uint32(before), length: uint32(len(kept) - before)} //nolint:gosec // bounded by tapeBytes
	t.nodes[n].length = length
	return sum, err
}

func (x *lexer) scalarNode(t *tape, n int, held bool) (uint64, error) {
	var b [64]byte
	text, err := x.scalar(b[:0])
	if err != nil {
		return 0, err
	}
	if held {
		t.nodes[n].text = t.keep(text)
	}
	if text[0] == 'n' {
		return nullSum, nil
	}
	return x.sumOf(text), nil
}

// field is the node of an object's field; -1 without one.
func (t *tape) field(object int, name string) int {
	for i := range t.children(object) {
		if k := t.nodes[i].key; string(t.text[k.at:k.at+k.length]) == name {
			return i
		}
	}
	return -1
}

// children are the nodes directly within one; none where it is -1 or no object or array.
func (t *tape) children(of int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if of < 0 || of >= len(t.nodes) || t.nodes[of].kind != '{' && t.nodes[of].kind != '[' {
			return
		}
		for i := of + 1; i < int(t.nodes[of].end); i = int(t.nodes[i].end) {
			if !yield(i) {
				return
			}
		}
	}
}

// str is the text of a node; "" where it is none.
func (t *tape) str(n int) string {
	if n < 0 || t.nodes[n].kind != '"' {
		return ""
	}
	return t.string(t.nodes[n].text)
}

// long reports whether a text is longer than what is held of it.
func (n node) long() bool { return n.length > int64(n.text.length) }

// tree is a value as encoding/json reads it, and beside it the marks of what secret says of its nodes.
func (t *tape) tree(n int, secret func(n int) bool) (value, marks any) {
	nd := t.nodes[n]
	switch nd.kind {
	case '{':
		object, marked := map[string]any{}, map[string]any{}
		for i := range t.children(n) {
			key := t.string(t.nodes[i].key)
			v, m := t.tree(i, secret)
			object[key] = v
			if m != nil {
				marked[key] = m
			}
		}
		value, marks = object, nonEmpty(marked)
	case '[':
		list, marked, some := []any{}, []any{}, false
		for i := range t.children(n) {
			v, m := t.tree(i, secret)
			list, marked = append(list, v), append(marked, m)
			some = some || m != nil
		}
		value = list
		if some {
			marks = marked
		}
	case '"':
		value = t.str(n)
		if nd.long() {
			value = plan.LongText{Start: t.str(n), Bytes: nd.length, Sum: nd.sum}
		}
	case 't', 'f':
		value = nd.kind == 't'
	case 'n':
	default:
		value = json.Number(t.string(nd.text))
	}
	if secret(n) {
		marks = true
	}
	return value, marks
}

func nonEmpty(m map[string]any) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// index is how an instance's key is written in its address.
func (t *tape) index(n int) string {
	switch {
	case n < 0 || t.nodes[n].kind == 'n':
		return ""
	case t.nodes[n].kind == '"':
		text := t.str(n)
		if t.nodes[n].long() {
			text = fmt.Sprintf("%s…%016x", text[:min(len(text), keptKeyBytes)], t.nodes[n].sum)
		}
		return `["` + hclEscape(text) + `"]`
	case t.nodes[n].kind == '{' || t.nodes[n].kind == '[':
		return ""
	}
	return "[" + t.string(t.nodes[n].text) + "]"
}

// hclEscape writes a text as the tools do between quotes.
func hclEscape(text string) string {
	return strings.NewReplacer(
		"\\", `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "${", "$${", "%{", "%%{",
	).Replace(text)
}
