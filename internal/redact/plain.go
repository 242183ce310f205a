package redact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes text safe to show on one line of a terminal, a table or a log: control characters, escape sequences,
// line and paragraph separators, marks that turn the writing direction or show nothing, and bytes that are not UTF-8
// become visible escapes such as \x1b, \n and \u202e.
func Plain(text string) string { return plain(text, false) }

// PlainLines is Plain for text of several lines: newlines and tabs stay, and a carriage return before a newline goes.
func PlainLines(text string) string {
	return plain(strings.ReplaceAll(text, "\r\n", "\n"), true)
}

func plain(text string, lines bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case lines && (r == '\n' || r == '\t'), !steers(r):
			b.WriteString(text[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// steers reports whether r changes how what stands around it is shown. The joiners U+200C and U+200D do too, but
// ordinary words and emoji need them.
func steers(r rune) bool {
	switch {
	case r == 0x200C || r == 0x200D:
		return false
	case unicode.IsControl(r), r == 0x2028, r == 0x2029:
		return true
	case r >= 0xE0000 && r <= 0xE007F: // tags
		return true
	}
	return unicode.Is(unicode.Cf, r) // bidi controls, zero-width marks, soft hyphen, annotations
}
