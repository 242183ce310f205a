package redact

import (
	"io"
	"slices"
	"strings"
)

// Set is a compiled set of secrets. Build it once; any number of Removers may use it at the same time.
type Set struct {
	nodes []node
	root  [256]int32 // the children of nodes[0], by character: ordinary text never leaves this table
}

// node is one state of an Aho-Corasick automaton. Children are a linked list, because nearly every state of a long
// secret has one child and a table per state would take a thousand times the secret's size.
type node struct {
	child, sibling int32 // 0: none
	fail           int32 // the longest proper suffix that is also a prefix of some pattern
	depth          int32 // length of the text read so far
	match          int32 // length of the longest pattern that ends here; 0: none
	char           byte
}

// Compile makes the set of every shape of every secret. A secret that Usable refuses is refused here too.
func Compile(secrets ...Secret) (*Set, error) {
	s := &Set{nodes: make([]node, 1, 1024)}
	for _, secret := range secrets {
		if err := Usable(secret); err != nil {
			return nil, err
		}
		for _, v := range variants(secret.Reveal()) {
			s.add(v)
		}
	}
	s.link()
	return s, nil
}

func (s *Set) child(at int32, c byte) int32 {
	if at == 0 {
		return s.root[c]
	}
	for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
		if s.nodes[n].char == c {
			return n
		}
	}
	return 0
}

func (s *Set) add(pattern string) {
	at := int32(0)
	for i := range len(pattern) {
		next := s.child(at, pattern[i])
		if next == 0 {
			next = int32(len(s.nodes)) //nolint:gosec // bounded: MaxSecretBytes times the number of shapes
			s.nodes = append(s.nodes, node{char: pattern[i], depth: s.nodes[at].depth + 1, sibling: s.nodes[at].child})
			s.nodes[at].child = next
			if at == 0 {
				s.root[pattern[i]] = next
			}
		}
		at = next
	}
	s.nodes[at].match = s.nodes[at].depth
}

func (s *Set) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
			if at != 0 {
				s.nodes[n].fail = s.step(s.nodes[at].fail, s.nodes[n].char)
			}
			s.nodes[n].match = max(s.nodes[n].match, s.nodes[s.nodes[n].fail].match)
			queue = append(queue, n)
		}
	}
}

func (s *Set) step(at int32, c byte) int32 {
	for {
		if n := s.child(at, c); n != 0 {
			return n
		}
		if at == 0 {
			return 0
		}
		at = s.nodes[at].fail
	}
}

// Clean returns text without the secrets.
func (s *Set) Clean(text string) string {
	var b strings.Builder
	r := s.Remover(&b)
	_, _ = r.Write([]byte(text)) // a strings.Builder never fails
	_ = r.Close()
	return b.String()
}

// Found reports whether text holds a secret in any of its shapes.
func (s *Set) Found(text string) bool {
	at := int32(0)
	for i := range len(text) {
		if at = s.step(at, text[i]); s.nodes[at].match > 0 {
			return true
		}
	}
	return false
}

// Remover writes to out what is written to it, with Mark in the place of every secret, wherever the writes are cut.
// It holds back only what may be the beginning of a secret, so its memory is bounded by the longest shape. Text that
// several secrets share becomes one Mark. Close it to get the rest out; it does not close out. Not for concurrent use.
type Remover struct {
	out   io.Writer
	set   *Set
	state int32
	held  []byte // bytes seen and not yet written
	base  int64  // position of held[0] in the stream
	spans []span // parts of held that are secrets: in order, apart from each other
	until int64  // up to here everything belongs to a Mark that is already written
	ready []byte // scratch for one write to out
	err   error
}

type span struct{ from, to int64 }

// Remover makes a Remover in front of out.
func (s *Set) Remover(out io.Writer) *Remover { return &Remover{out: out, set: s} }

// Write never keeps p. After a failed write to out it fails for ever.
func (r *Remover) Write(p []byte) (int, error) {
	const chunk = 32 * 1024
	for done := 0; done < len(p); {
		if r.err != nil {
			return done, r.err
		}
		part := p[done:min(len(p), done+chunk)]
		for _, c := range part {
			r.held = append(r.held, c)
			r.state = r.set.step(r.state, c)
			if n := r.set.nodes[r.state].match; n > 0 {
				end := r.base + int64(len(r.held))
				r.mark(end-int64(n), end)
			}
		}
		// Whatever matches later begins at or after the text that the automaton still remembers.
		r.release(r.base + int64(len(r.held)) - int64(r.set.nodes[r.state].depth))
		done += len(part)
	}
	return len(p), r.err
}

// Close writes what was held back.
func (r *Remover) Close() error {
	if r.err == nil {
		r.release(r.base + int64(len(r.held)))
	}
	r.state = 0
	return r.err
}

func (r *Remover) mark(from, to int64) {
	if from < r.until {
		r.until, r.spans = to, r.spans[:0] // the span in the open grew; it covers those after it
		return
	}
	for len(r.spans) > 0 && r.spans[len(r.spans)-1].to > from {
		last := r.spans[len(r.spans)-1]
		from, r.spans = min(from, last.from), r.spans[:len(r.spans)-1]
	}
	r.spans = append(r.spans, span{from, to})
}

// release writes everything before position safe; no secret that is still to be found begins there.
func (r *Remover) release(safe int64) {
	r.ready = r.ready[:0]
	at := r.base
	for at < safe {
		switch {
		case at < r.until:
			at = min(safe, r.until)
		case len(r.spans) > 0 && r.spans[0].from == at:
			r.ready = append(r.ready, Mark...)
			r.until = r.spans[0].to
			r.spans = slices.Delete(r.spans, 0, 1)
		default:
			to := safe
			if len(r.spans) > 0 {
				to = min(to, r.spans[0].from)
			}
			r.ready = append(r.ready, r.held[at-r.base:to-r.base]...)
			at = to
		}
	}
	r.held = append(r.held[:0], r.held[at-r.base:]...)
	r.base = at
	if len(r.ready) > 0 {
		_, r.err = r.out.Write(r.ready)
	}
}
