// Package redact keeps secrets out of what people and logs get to see: a type that cannot be printed, a streaming
// remover of known secrets in the shapes programs print them, a cutter of endless lines, and an escaper of the
// characters that steer a terminal.
package redact

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
)

// Mark stands in the place of what was removed.
const Mark = "[redacted]"

// Limits of what can be watched for.
const (
	MinSecretChars = 6         // characters; anything shorter turns up by chance and would make a log unreadable
	MaxSecretBytes = 32 * 1024 // bytes; bounds the memory of the matcher (about 1 KiB per byte for multi-line text)
)

// Secret is text that must not be printed. Every way fmt, encoding/json and log/slog know to print it gives Mark;
// only Reveal gives the text. The zero Secret is the empty text.
//
// The text stands behind a pointer because fmt prints the fields of an unexported field without asking its methods,
// and stops at a pointer.
type Secret struct{ text *string }

// NewSecret makes a Secret of text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal gives the text itself. Each call is a place to look at in a review.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the text is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal compares in a time that depends on the lengths alone.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

func (Secret) String() string               { return Mark }
func (Secret) GoString() string             { return Mark }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, Mark) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(Mark) }
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Mark + `"`), nil }
func (Secret) MarshalText() ([]byte, error) { return []byte(Mark), nil }

// UnmarshalText takes the text in, so that a request's or a setting's field can be a Secret from the first moment.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}

// Usable reports why text cannot be kept as a secret, or nil. A secret that is too short, all blank or too large
// cannot be hidden without hiding half the log with it, so it is refused where it is saved.
func Usable(s Secret) error {
	text := s.Reveal()
	switch n := utf8.RuneCountInString(strings.TrimFunc(text, unicode.IsSpace)); {
	case n < MinSecretChars:
		return fault.New(fault.Unprocessable, "secret_too_short",
			"A secret value has %d characters; fewer than %d cannot be hidden in logs without hiding ordinary text too.", n, MinSecretChars).
			WithHint("Use a longer value, or do not mark it as sensitive.")
	case len(text) > MaxSecretBytes:
		return fault.New(fault.Unprocessable, "secret_too_large",
			"A secret value has %d bytes; at most %d can be watched for in logs.", len(text), MaxSecretBytes).
			WithHint("Split it, or keep it in a secret store and pass its name.")
	}
	return nil
}
