package state

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote decodes a JSON string, quotes included. Unlike encoding/json it does not paper over what is no text: lone
// surrogates and bytes that are no UTF-8 are refused, and so is NUL, which PostgreSQL cannot store.
func unquote(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if plainText(raw) == len(raw) && utf8.Valid(raw) {
		return string(raw), true
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		switch c := raw[0]; {
		case c == '\\':
			r, n := unescape(raw)
			if n == 0 || r == 0 {
				return "", false
			}
			out = utf8.AppendRune(out, r)
			raw = raw[n:]
		case c < ' ' || c == '"':
			return "", false
		default:
			r, n := utf8.DecodeRune(raw)
			if r == utf8.RuneError && n == 1 {
				return "", false
			}
			out = append(out, raw[:n]...)
			raw = raw[n:]
		}
	}
	return string(out), true
}

// unescape decodes the escape that raw starts with and says how many bytes it has; 0 where it is none.
func unescape(raw []byte) (r rune, n int) {
	if len(raw) < 2 {
		return 0, 0
	}
	switch raw[1] {
	case '"', '\\', '/':
		return rune(raw[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r, ok := unit(raw)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := unit(raw[6:])
	if !ok {
		return 0, 0
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// unit reads \uXXXX.
func unit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}
