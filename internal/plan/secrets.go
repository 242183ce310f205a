package plan

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"holdfast.dev/holdfast/internal/redact"
)

// Bounds of what is searched for inside other values. Beyond them a secret is still recognised as a whole value.
const (
	maxSearched      = 2000
	maxSearchedBytes = 256 << 10
)

// secrets are the values that must not be shown, wherever they turn up: tools mark the attribute that is sensitive,
// and neither its copies nor what was built from it.
type secrets struct {
	whole    map[[sha256.Size]byte]bool
	searched []redact.Secret
	bytes    int
	set      *redact.Set
}

func newSecrets(known []redact.Secret) *secrets {
	s := &secrets{whole: map[[sha256.Size]byte]bool{}}
	for _, k := range known {
		s.add(k)
	}
	return s
}

func (s *secrets) add(v redact.Secret) {
	if v.IsZero() {
		return
	}
	key := sha256.Sum256([]byte(v.Reveal()))
	if s.whole[key] {
		return
	}
	if redact.Usable(v) != nil {
		if len(v.Reveal()) > redact.MaxSecretBytes {
			s.whole[key] = true
		}
		return // too short: hidden where it is marked, since elsewhere it would hide ordinary text
	}
	s.whole[key] = true
	if n := len(v.Reveal()); len(s.searched) < maxSearched && s.bytes+n <= maxSearchedBytes {
		s.searched = append(s.searched, v)
		s.bytes += n
	}
}

// collect adds every text and number within value.
func (s *secrets) collect(value any) {
	switch v := value.(type) {
	case string:
		s.add(redact.NewSecret(v))
	case json.Number:
		s.add(redact.NewSecret(v.String()))
	case []any:
		for _, e := range v {
			s.collect(e)
		}
	case map[string]any:
		for _, e := range v {
			s.collect(e)
		}
	}
}

// collectMarked adds what marks, a tree of true beside value, call sensitive.
func (s *secrets) collectMarked(value, marks any) {
	switch m := marks.(type) {
	case bool:
		if m {
			s.collect(value)
		}
	case map[string]any:
		if v, ok := value.(map[string]any); ok {
			for k, mark := range m {
				s.collectMarked(v[k], mark)
			}
		}
	case []any:
		if v, ok := value.([]any); ok {
			for i := range min(len(v), len(m)) {
				s.collectMarked(v[i], m[i])
			}
		}
	}
}

// compile makes the search ready; after it nothing may be added.
func (s *secrets) compile() error {
	set, err := redact.Compile(s.searched...)
	s.set = set
	return err
}

// within reports whether text is or holds a secret.
func (s *secrets) within(text string) bool {
	return s.whole[sha256.Sum256([]byte(text))] || s.set.Found(text)
}

// inTree reports whether a value, or a key or value within it, is or holds a secret.
func (s *secrets) inTree(value any) bool {
	switch v := value.(type) {
	case string:
		return s.within(v)
	case json.Number:
		return s.within(v.String())
	case []any:
		return slices.ContainsFunc(v, s.inTree)
	case map[string]any:
		for k, e := range v {
			if s.within(k) || s.inTree(e) {
				return true
			}
		}
	}
	return false
}

// clean takes the secrets out of an address or a message.
func (s *secrets) clean(text string) string { return s.set.Clean(text) }
