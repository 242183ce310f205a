package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/redact"
)

// Pair is a value before and after a change. What is sensitive in it is said by trees of true beside the values, as the
// tools write them; nil where nothing is.
type Pair struct {
	Before, After             any // as encoding/json reads them, with json.Number, and LongText where they are cut
	HadBefore, HasAfter       bool
	SecretBefore, SecretAfter any
}

// Differences lists what differs between the two sides of a pair, the way a View does: values that are sensitive, or
// hold what known knows, are left out. budget is how many bytes are left for it, and is lowered; leftOut is how many
// attributes are beyond it or beyond MaxAttributes.
func Differences(p Pair, known *redact.Known, budget *int) (list []Attribute, leftOut int) {
	d := &differ{secrets: known, budget: budget}
	d.walk("", sides{
		before: p.Before, after: p.After, hadBefore: p.HadBefore, hasAfter: p.HasAfter, secretBefore: p.SecretBefore, secretAfter: p.SecretAfter,
	}, 0)
	return d.out, d.leftOut
}

// LongText is a text of which only the beginning is at hand. Two are equal where the whole texts are.
type LongText struct {
	Start string
	Bytes int64  // of the whole text
	Sum   uint64 // of the whole text
}

// MarshalJSON is the beginning, with a mark.
func (l LongText) MarshalJSON() ([]byte, error) { return []byte(encode(l.Start + "…")), nil }

// Text is a value as JSON, cut where it is longer than MaxValueBytes: a text then.
func Text(v any) (out string, cut bool) { return text(v, true) }

// differ lists the values that differ between two trees.
type differ struct {
	secrets *redact.Known
	budget  *int // bytes left for attributes of this kind of change
	out     []Attribute
	leftOut int
}

// sides are one place in the parallel trees of a change.
type sides struct {
	before, after       any
	hadBefore, hasAfter bool
	unknown             any // true, or a tree of it
	secretBefore        any
	secretAfter         any
}

func (d *differ) walk(path string, s sides, depth int) {
	hidden := isTrue(s.secretBefore) || isTrue(s.secretAfter)
	same := s.hadBefore == s.hasAfter && equal(s.before, s.after)
	if same && !anyTrue(s.unknown) && !s.remarked() {
		return
	}
	if hidden || isTrue(s.unknown) || depth == maxDepth {
		d.leaf(path, s, hidden)
		return
	}
	if keys, ok := s.keys(); ok {
		for _, k := range keys {
			d.walk(joinKey(path, k), s.key(k), depth+1)
		}
		return
	}
	if n, ok := s.length(); ok {
		for i := range n {
			d.walk(path+"["+strconv.Itoa(i)+"]", s.index(i), depth+1)
		}
		return
	}
	d.leaf(path, s, false)
}

// remarked reports whether a value becomes sensitive, or ceases to be, here or within.
func (s sides) remarked() bool {
	if isTrue(s.secretBefore) || isTrue(s.secretAfter) {
		return isTrue(s.secretBefore) != isTrue(s.secretAfter)
	}
	return anyTrue(s.secretBefore) || anyTrue(s.secretAfter)
}

// keys are the keys of both objects, when this place is one on each side that exists and holds any.
func (s sides) keys() ([]string, bool) {
	before, okB := s.before.(map[string]any)
	after, okA := s.after.(map[string]any)
	unknown, _ := s.unknown.(map[string]any)
	if !okB && s.before != nil || !okA && s.after != nil || len(before)+len(after)+len(unknown) == 0 {
		return nil, false
	}
	all := map[string]bool{}
	for k := range before {
		all[k] = true
	}
	for k := range after {
		all[k] = true
	}
	for k, v := range unknown {
		if anyTrue(v) {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), true
}

func (s sides) length() (int, bool) {
	before, okB := s.before.([]any)
	after, okA := s.after.([]any)
	unknown, _ := s.unknown.([]any)
	if !okB && s.before != nil || !okA && s.after != nil || len(before)+len(after)+len(unknown) == 0 {
		return 0, false
	}
	return max(len(before), len(after), len(unknown)), true
}

func (s sides) key(k string) sides {
	before, hadBefore := at(s.before, k)
	after, hasAfter := at(s.after, k)
	unknown, _ := at(s.unknown, k)
	secretBefore, _ := at(s.secretBefore, k)
	secretAfter, _ := at(s.secretAfter, k)
	return sides{before, after, hadBefore, hasAfter, unknown, secretBefore, secretAfter}
}

func at(tree any, k string) (any, bool) {
	m, ok := tree.(map[string]any)
	if !ok {
		return nil, false
	}
	v, ok := m[k]
	return v, ok
}

func (s sides) index(i int) sides {
	before, hadBefore := nth(s.before, i)
	after, hasAfter := nth(s.after, i)
	unknown, _ := nth(s.unknown, i)
	secretBefore, _ := nth(s.secretBefore, i)
	secretAfter, _ := nth(s.secretAfter, i)
	return sides{before, after, hadBefore, hasAfter, unknown, secretBefore, secretAfter}
}

func nth(tree any, i int) (any, bool) {
	l, ok := tree.([]any)
	if !ok || i >= len(l) {
		return nil, false
	}
	return l[i], true
}

func (d *differ) leaf(path string, s sides, hidden bool) {
	if s.before == nil && s.after == nil && !anyTrue(s.unknown) {
		return // null on both sides: an attribute nobody set
	}
	// A tree that is shown as one value may have marks within.
	hidden = hidden || anyTrue(s.secretBefore) || anyTrue(s.secretAfter) || d.secrets.InTree(s.before) || d.secrets.InTree(s.after)
	a := Attribute{Path: d.secrets.Clean(path), Sensitive: hidden, Unknown: anyTrue(s.unknown)}
	if !hidden {
		var cutB, cutA bool
		a.Before, cutB = text(s.before, s.hadBefore)
		if !a.Unknown {
			a.After, cutA = text(s.after, s.hasAfter)
		}
		a.Cut = cutB || cutA
	}
	const overhead = 64 // bytes of JSON around the values, about
	size := len(a.Path) + len(a.Before) + len(a.After) + overhead
	if len(d.out) == MaxAttributes || size > *d.budget {
		d.leftOut++
		return
	}
	*d.budget -= size
	d.out = append(d.out, a)
}

// text is a value as JSON, cut to MaxValueBytes so that it stays JSON.
func text(v any, there bool) (string, bool) {
	if !there {
		return "", false
	}
	if l, ok := v.(LongText); ok {
		return encode(truncate(l.Start)), true
	}
	if s, ok := v.(string); ok && len(s) > MaxValueBytes {
		return encode(truncate(s)), true
	}
	out := encode(v)
	if _, ok := v.(string); !ok && len(out) > MaxValueBytes {
		return encode(truncate(out)), true // a tree; a string then
	}
	return out, false
}

func truncate(s string) string {
	n := MaxValueBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("%q", "unprintable")
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func joinKey(path, k string) string {
	if !identifier(k) {
		return path + "[" + encode(k) + "]"
	}
	if path == "" {
		return k
	}
	return path + "." + k
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

func isTrue(v any) bool { b, ok := v.(bool); return ok && b }

// anyTrue reports whether a tree of marks holds true anywhere.
func anyTrue(v any) bool {
	switch m := v.(type) {
	case bool:
		return m
	case map[string]any:
		for _, e := range m {
			if anyTrue(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(m, anyTrue)
	}
	return false
}

func equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false // not comparable with ==
	}
	return a == b
}
