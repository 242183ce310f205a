package redact

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
)

// Bounds of what is searched for inside other values. Beyond them a secret is still recognised as a whole value.
const (
	maxSearched      = 2000
	maxSearchedBytes = 256 << 10 // unless SearchAtMost says less
)

// Known are the values of a document that must not be shown, wherever they turn up: tools mark the attribute that is
// sensitive, and neither its copies nor what was built from it. Add them, Compile, then ask.
type Known struct {
	whole    map[[sha256.Size]byte]bool
	searched []Secret
	bytes    int
	most     int // bytes of searched
	set      *Set
}

// SearchAtMost lowers what is searched for inside other values to this many bytes of secrets, where the memory of the
// matcher counts.
func (s *Known) SearchAtMost(bytes int) { s.most = bytes }

// Len is how many different values are known.
func (s *Known) Len() int { return len(s.whole) }

// Compiled reports whether Compile was called.
func (s *Known) Compiled() bool { return s.set != nil }

// NewKnown makes a Known of secrets that stand in no document.
func NewKnown(known ...Secret) *Known {
	s := &Known{whole: map[[sha256.Size]byte]bool{}, most: maxSearchedBytes}
	for _, k := range known {
		s.Add(k)
	}
	return s
}

// Add adds one value. One that is too short is not looked for: it would hide ordinary text.
func (s *Known) Add(v Secret) {
	if v.IsZero() {
		return
	}
	key := sha256.Sum256([]byte(v.Reveal()))
	if s.whole[key] {
		return
	}
	if Usable(v) != nil {
		if len(v.Reveal()) > MaxSecretBytes {
			s.whole[key] = true
		}
		return // too short: hidden where it is marked, since elsewhere it would hide ordinary text
	}
	s.whole[key] = true
	if n := len(v.Reveal()); len(s.searched) < maxSearched && s.bytes+n <= s.most {
		s.searched = append(s.searched, v)
		s.bytes += n
	}
}

// Collect adds every text and number within value.
func (s *Known) Collect(value any) {
	switch v := value.(type) {
	case string:
		s.Add(NewSecret(v))
	case json.Number:
		s.Add(NewSecret(v.String()))
	case []any:
		for _, e := range v {
			s.Collect(e)
		}
	case map[string]any:
		for _, e := range v {
			s.Collect(e)
		}
	}
}

// CollectMarked adds what marks, a tree of true beside value, call sensitive.
func (s *Known) CollectMarked(value, marks any) {
	switch m := marks.(type) {
	case bool:
		if m {
			s.Collect(value)
		}
	case map[string]any:
		if v, ok := value.(map[string]any); ok {
			for k, mark := range m {
				s.CollectMarked(v[k], mark)
			}
		}
	case []any:
		if v, ok := value.([]any); ok {
			for i := range min(len(v), len(m)) {
				s.CollectMarked(v[i], m[i])
			}
		}
	}
}

// Compile makes the search ready; after it nothing may be added.
func (s *Known) Compile() error {
	set, err := Compile(s.searched...)
	s.set = set
	return err
}

// Within reports whether text is or holds a secret.
func (s *Known) Within(text string) bool {
	return s.whole[sha256.Sum256([]byte(text))] || s.set.Found(text)
}

// InTree reports whether a value, or a key or value within it, is or holds a secret.
func (s *Known) InTree(value any) bool {
	switch v := value.(type) {
	case string:
		return s.Within(v)
	case json.Number:
		return s.Within(v.String())
	case []any:
		return slices.ContainsFunc(v, s.InTree)
	case map[string]any:
		for k, e := range v {
			if s.Within(k) || s.InTree(e) {
				return true
			}
		}
	}
	return false
}

// Clean takes the secrets out of an address or a message.
func (s *Known) Clean(text string) string { return s.set.Clean(text) }
