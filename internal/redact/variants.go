package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Fragments of a secret that are hidden by themselves: a line of a multi-line one, a line of its wrapped base64.
// Shorter ones are likely to be ordinary text.
const minFragment = 16

// variants lists the shapes in which programs print a secret.
func variants(text string) []string {
	bases := []string{text}
	if trimmed := strings.TrimSpace(text); trimmed != text {
		bases = append(bases, trimmed) // a file's final newline is rarely printed with it
	}
	var all []string
	for _, b := range bases {
		for _, form := range newlineForms(b) {
			all = append(all, form)
			all = append(all, escapes(form)...)
			all = append(all, urlForms(form)...)
		}
		all = append(all, base64Forms(b)...)
		all = append(all, hex.EncodeToString([]byte(b)), strings.ToUpper(hex.EncodeToString([]byte(b))))
	}
	all = append(all, lineFragments(text)...)
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < MinSecretChars })
	slices.Sort(all)
	return slices.Compact(all)
}

func newlineForms(text string) []string {
	plain := strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.Contains(plain, "\n") {
		return []string{text}
	}
	forms := []string{text}
	for _, nl := range []string{"\n", "\r\n", " ", `\n`, `\r\n`, ""} {
		forms = append(forms, strings.ReplaceAll(plain, "\n", nl))
	}
	return forms
}

// lineFragments are the long lines of a multi-line secret, which programs print with indents and margins that no
// list could foresee. Armour lines ("-----BEGIN …") say nothing and stay readable.
func lineFragments(text string) []string {
	if !strings.Contains(text, "\n") {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if len(line) >= minFragment && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
			out = append(out, escapes(line)...)
		}
	}
	return out
}

// escapes are text as it stands inside a JSON string (with and without HTML escapes, in ASCII, and once more inside
// another JSON string), inside an HCL template and inside single quotes of a shell.
func escapes(text string) []string {
	html, plain, ascii := jsonString(text, true), jsonString(text, false), asciiOnly(jsonString(text, false))
	out := []string{html, plain, ascii, jsonString(plain, false), jsonString(html, true)}
	if strings.Contains(text, "${") || strings.Contains(text, "%{") {
		hcl := strings.NewReplacer("${", "$${", "%{", "%%{")
		out = append(out, hcl.Replace(text), hcl.Replace(plain))
	}
	if strings.Contains(text, "'") {
		out = append(out, strings.ReplaceAll(text, "'", `'\''`))
	}
	return out
}

func jsonString(text string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		return text // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

func asciiOnly(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// urlForms are the encodings in use: of a form value, of a path segment, of everything unreserved by RFC 3986, and
// of encodeURIComponent, each also with small hex digits.
func urlForms(text string) []string {
	strict := strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	script := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(strict)
	forms := []string{url.QueryEscape(text), url.PathEscape(text), strict, script}
	for _, f := range forms[:4:4] {
		forms = append(forms, lowerEscapes(f))
	}
	return forms
}

func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// base64Forms are the characters that text alone decides when it stands anywhere inside an encoded document: three
// alignments, two alphabets. Its own encoding is also listed by line, as base64(1) and PEM wrap it.
func base64Forms(text string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			whole := enc.EncodeToString(append(make([]byte, shift), text...))
			first, last := (8*shift+5)/6, 8*(shift+len(text))/6
			out = append(out, whole[first:last])
		}
		for _, width := range []int{64, 76} {
			whole := enc.EncodeToString([]byte(text))
			if len(whole) <= width {
				continue
			}
			for line := range slices.Chunk([]byte(whole), width) {
				if len(line) >= minFragment {
					out = append(out, string(line))
				}
			}
		}
	}
	return out
}
