package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func compile(t testing.TB, secrets ...string) *Set {
	t.Helper()
	list := make([]Secret, len(secrets))
	for i, s := range secrets {
		list[i] = NewSecret(s)
	}
	set, err := Compile(list...)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return set
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const text = "canary-4711"
	type hidden struct {
		Public  Secret
		private Secret
		list    []Secret
		byName  map[string]Secret
	}
	s := NewSecret(text)
	h := hidden{s, s, []Secret{s}, map[string]Secret{"k": s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%p"} {
		fmt.Fprintf(&out, verb, s)
		fmt.Fprintf(&out, verb, &s)
		fmt.Fprintf(&out, verb, h)
		fmt.Fprintf(&out, verb, &h)
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"s": s, "h": h, "p": &s}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "h", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "h", h)
	for _, bad := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text)} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("output holds %q:\n%s", bad, out.String())
		}
	}
	if s.Reveal() != text {
		t.Errorf("Reveal() = %q, want %q", s.Reveal(), text)
	}
}

func TestSecretComesInFromJSON(t *testing.T) {
	var in struct{ Password Secret }
	if err := json.Unmarshal([]byte(`{"Password":"p\u00e4ss-word"}`), &in); err != nil {
		t.Fatal(err)
	}
	if got, want := in.Password.Reveal(), "päss-word"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !in.Password.Equal(NewSecret("päss-word")) || in.Password.Equal(NewSecret("other")) {
		t.Error("Equal compares wrongly")
	}
	if !(Secret{}).IsZero() || in.Password.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestUsable(t *testing.T) {
	for text, want := range map[string]bool{
		"a": false, "": false, "12345": false, "   a     ": false, "        ": false,
		"123456": true, "pässwö": true, "日本語日本": false, "日本語日本語": true,
		strings.Repeat("x", MaxSecretBytes): true, strings.Repeat("x", MaxSecretBytes+1): false,
	} {
		err := Usable(NewSecret(text))
		if (err == nil) != want {
			t.Errorf("Usable(%.20q) = %v, want usable %v", text, err, want)
		}
		if _, cerr := Compile(NewSecret(text)); (cerr == nil) != want {
			t.Errorf("Compile(%.20q) = %v, want usable %v", text, cerr, want)
		}
		if err != nil && len(text) > 3 && strings.TrimSpace(text) != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the refusal prints the value: %v", err)
		}
	}
}

const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyji\nQ2F0J3M=\n-----END PRIVATE KEY-----\n"

func TestX21_SecretsInOtherClothes(t *testing.T) {
	const odd = `p"a\ss<w>&'ör d/+=%${x}`
	std, web := base64.StdEncoding, base64.URLEncoding
	for _, tc := range []struct {
		name, secret, in, want string
	}{
		{"as is", "hunter2-hunter2", "a hunter2-hunter2 b", "a [redacted] b"},
		{"twice side by side", "hunter2", "hunter2hunter2", "[redacted][redacted]"},
		{"alone", "hunter2", "hunter2", "[redacted]"},
		{"almost", "hunter2", "hunter hunter hunte2", "hunter hunter hunte2"},
		{"multi-line as is", pem, "k=" + pem + "end", "k=[redacted]end"},
		{"multi-line without its last newline", pem, "k=" + strings.TrimSpace(pem) + ".", "k=[redacted]."},
		{"multi-line with spaces", pem, "k=" + strings.ReplaceAll(pem, "\n", " ") + ".", "k=[redacted]."},
		{"multi-line with CRLF", pem, "k=" + strings.ReplaceAll(pem, "\n", "\r\n") + ".", "k=[redacted]."},
		{"multi-line with escapes", pem, "k=" + strings.ReplaceAll(pem, "\n", `\n`) + ".", "k=[redacted]."},
		{"CRLF secret with LF", strings.ReplaceAll(pem, "\n", "\r\n"), "k=" + pem + ".", "k=[redacted]."},
		{
			"multi-line indented", "first-line-of-it-all\nsecond-line-of-it-all\n", "| first-line-of-it-all\n| second-line-of-it-all\n",
			"| [redacted]\n| [redacted]\n",
		},
		{"JSON", odd, mustJSON(odd) + ",", `"[redacted]",`},
		{"JSON in JSON", odd, mustJSON(mustJSON(odd)), `"\"[redacted]\""`},
		{"JSON in ASCII", "größer-als", `"gr\u00f6\u00dfer-als"`, `"[redacted]"`},
		{"JSON beyond the BMP", "key-😀-key", `"key-\ud83d\ude00-key"`, `"[redacted]"`},
		{"query", odd, "?q=" + url.QueryEscape(odd) + "&", "?q=[redacted]&"},
		{"path", odd, "/" + url.PathEscape(odd) + "/", "/[redacted]/"},
		{"userinfo", "p@ss:w/rd", url.UserPassword("u", "p@ss:w/rd").String() + "@h", "u:[redacted]@h"},
		{"small hex digits", "a/b/c/d", "a%2fb%2fc%2fd", "[redacted]"},
		{"shell", "it's a secret", `'it'\''s a secret'`, `'[redacted]'`},
		{"HCL", "abc${var}", `"abc$${var}"`, `"[redacted]"`},
		{"hex", "secret", "736563726574", "[redacted]"},
		{"base64", "secret", std.EncodeToString([]byte("secret")), "[redacted]"},
		{"base64 url", "secr?>?>?>", web.EncodeToString([]byte("secr?>?>?>")) + ".", "[redacted]g==."},
		{"wrapped base64", pem, wrap(std.EncodeToString([]byte(pem)), 76), "[redacted]\n[redacted]\n[redacted]=\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := compile(t, tc.secret).Clean(tc.in); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func mustJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func wrap(s string, width int) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + "\n")
		s = s[width:]
	}
	return b.String() + s + "\n"
}

func TestX21_Base64InnerPartAtEveryAlignment(t *testing.T) {
	const secret = "correct horse battery staple"
	set := compile(t, secret)
	for prefix := range 7 {
		for suffix := range 4 {
			doc := strings.Repeat("u", prefix) + secret + strings.Repeat("z", suffix)
			in := base64.StdEncoding.EncodeToString([]byte(doc))
			got := set.Clean("Basic " + in + " .")
			if !strings.Contains(got, Mark) || len(got)-len(Mark) > len("Basic  .")+4*(prefix+suffix)/3+8 {
				t.Errorf("prefix %d suffix %d: %q -> %q", prefix, suffix, in, got)
			}
		}
	}
}

func TestX21_PrefixesAndOverlaps(t *testing.T) {
	for _, tc := range []struct {
		secrets  []string
		in, want string
	}{
		{[]string{"secret", "secret-longer"}, "a secret-longer b secret c secret-lon", "a [redacted] b [redacted] c [redacted]-lon"},
		{[]string{"abcdef", "defghi"}, "x abcdefghi y", "x [redacted] y"},
		{[]string{"abcdef", "cdefghijkl", "ijklmn"}, "x abcdefghijklmn y", "x [redacted] y"},
		{[]string{"bcdefg", "abcdefghij"}, "x abcdefghij y abcdefghi", "x [redacted] y a[redacted]hi"},
		{[]string{"aaaaaa"}, strings.Repeat("a", 100) + "b" + strings.Repeat("a", 5), "[redacted]b" + strings.Repeat("a", 5)},
	} {
		if got := compile(t, tc.secrets...).Clean(tc.in); got != tc.want {
			t.Errorf("secrets %q: %q ->\n got %q\nwant %q", tc.secrets, tc.in, got, tc.want)
		}
	}
}

func TestX21_EverySplitGivesTheSame(t *testing.T) {
	set := compile(t, "secret", "secret-longer", "ret-long", pem, "aaaaaa")
	in := "x secret-longer " + pem + "|" + strings.ReplaceAll(pem, "\n", " ") + "aaaaaaaaab secre" +
		base64.StdEncoding.EncodeToString([]byte("secret")) + "secret-longe"
	want := set.Clean(in)
	for i := range len(in) + 1 {
		var out strings.Builder
		r := set.Remover(&out)
		writeAll(t, r, in[:i], in[i:])
		if out.String() != want {
			t.Fatalf("split at %d:\n got %q\nwant %q", i, out.String(), want)
		}
	}
}

func writeAll(t testing.TB, w interface {
	Write([]byte) (int, error)
	Close() error
}, parts ...string,
) {
	t.Helper()
	for _, p := range parts {
		if n, err := w.Write([]byte(p)); err != nil || n != len(p) {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// naive hides the way the Remover promises to, in the plainest way: every occurrence of every shape, overlaps merged.
func naive(secrets []string, in string) string {
	hide := make([]bool, len(in))
	type iv struct{ a, b int }
	var ivs []iv
	for _, s := range secrets {
		for _, v := range variants(s) {
			for i := 0; i+len(v) <= len(in); i++ {
				if in[i:i+len(v)] == v {
					ivs = append(ivs, iv{i, i + len(v)})
				}
			}
		}
	}
	joined := make([]bool, len(in)+1) // no boundary between i-1 and i
	for _, v := range ivs {
		for i := v.a; i < v.b; i++ {
			hide[i] = true
			if i > v.a {
				joined[i] = true
			}
		}
	}
	var b strings.Builder
	for i := range len(in) {
		switch {
		case !hide[i]:
			b.WriteByte(in[i])
		case !joined[i]:
			b.WriteString(Mark)
		}
	}
	return b.String()
}

func TestRemoverAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune{'a', 'b', 'A', '\n', '"', '%', '='})
		secret := rapid.StringOfN(alphabet, 6, 9, -1).Filter(func(s string) bool { return Usable(NewSecret(s)) == nil })
		secrets := rapid.SliceOfN(secret, 1, 4).Draw(t, "secrets")
		var in string
		for _, piece := range rapid.SliceOfN(rapid.OneOf(rapid.StringOfN(alphabet, 0, 12, -1), rapid.SampledFrom(secrets)), 0, 6).Draw(t, "pieces") {
			in += piece
		}
		list := make([]Secret, len(secrets))
		for i, s := range secrets {
			list[i] = NewSecret(s)
		}
		set, err := Compile(list...)
		if err != nil {
			t.Fatal(err)
		}
		want := naive(secrets, in)
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(in)), 0, 5).Draw(t, "cuts")
		var out strings.Builder
		r := set.Remover(&out)
		at := 0
		for _, c := range cuts {
			if c > at {
				_, _ = r.Write([]byte(in[at:c]))
				at = c
			}
		}
		_, _ = r.Write([]byte(in[at:]))
		_ = r.Close()
		if out.String() != want {
			t.Fatalf("%q:\n got %q\nwant %q", in, out.String(), want)
		}
		if set.Found(in) != strings.Contains(want, Mark) {
			t.Fatalf("Found(%q) = %v, cleaned %q", in, set.Found(in), want)
		}
	})
}

func TestRemoverHoldsLittle(t *testing.T) {
	set := compile(t, "aaaaaa", "secret")
	r := set.Remover(&bytes.Buffer{})
	block := bytes.Repeat([]byte("a"), 1<<16)
	for range 64 {
		if _, err := r.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.held) > 1<<17 || cap(r.ready) > 1<<17 || len(r.spans) > 4 {
		t.Errorf("after 4 MiB of one secret it holds %d, %d bytes and %d spans", cap(r.held), cap(r.ready), len(r.spans))
	}
}

type failing struct{}

var errFull = errors.New("disk full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestRemoverKeepsTheError(t *testing.T) {
	r := compile(t, "secret").Remover(failing{})
	if _, err := r.Write([]byte("hello")); !errors.Is(err, errFull) {
		t.Errorf("Write = %v, want %v", err, errFull)
	}
	if _, err := r.Write([]byte("hello")); !errors.Is(err, errFull) {
		t.Errorf("second Write = %v, want %v", err, errFull)
	}
	if err := r.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close = %v, want %v", err, errFull)
	}
}

func TestR27_LongLinesAreCutAfterScrubbing(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"short\nlines\n", "short\nlines\n"},
		{"no newline", "no newline"},
		{"", ""},
		{"\n\n", "\n\n"},
		{"0123456789", "0123456789"},
		{"0123456789\n", "0123456789\n"},
		{"0123456789A\n", "0123456789 [line cut: 1 bytes left out]\n"},
		{"0123456789ABC", "0123456789 [line cut: 3 bytes left out]"},
		{"012345678é\nx", "012345678 [line cut: 2 bytes left out]\nx"},
		{"012345é789\n", "012345é78 [line cut: 1 bytes left out]\n"},
		{"日本語日本", "日本語 [line cut: 6 bytes left out]"},
	} {
		for split := range len(tc.in) + 1 {
			var out strings.Builder
			writeAll(t, NewLineCutter(&out, 10), tc.in[:split], tc.in[split:])
			if out.String() != tc.want {
				t.Fatalf("%q split at %d:\n got %q\nwant %q", tc.in, split, out.String(), tc.want)
			}
		}
	}

	// A secret that stands across the limit does not show its first half.
	var out strings.Builder
	cut := NewLineCutter(&out, DefaultLineBytes)
	r := compile(t, "hunter2-hunter2").Remover(cut)
	line := strings.Repeat("x", DefaultLineBytes-5) + "hunter2-hunter2" + strings.Repeat("0123456789", 1_000_000)
	writeAll(t, r, line)
	if err := cut.Close(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "hunt") || !strings.Contains(got, "[line cut: ") || len(got) > DefaultLineBytes+64 {
		t.Errorf("cut line has %d bytes and ends %q", len(got), got[len(got)-80:])
	}
}

func TestPlain_L09_X19_X36(t *testing.T) {
	for _, tc := range []struct{ in, want, lines string }{
		{"plain tëxt 日本 👩‍👩‍👧", "plain tëxt 日本 👩‍👩‍👧", "plain tëxt 日本 👩‍👩‍👧"},
		{"Žofie@日本-host\u202eevil", `Žofie@日本-host\u202eevil`, `Žofie@日本-host\u202eevil`},
		{"a\nb\r\nc\td", `a\nb\r\nc\td`, "a\nb\nc\td"},
		{"a\rb", `a\rb`, `a\rb`},
		{"\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\x07`, `\x1b[31mred\x1b]0;title\x07`},
		{"\u009b31m\u0085", `\x9b31m\x85`, `\x9b31m\x85`},
		{"nul\x00del\x7f", `nul\x00del\x7f`, `nul\x00del\x7f`},
		{"sep\u2028\u2029end", `sep\u2028\u2029end`, `sep\u2028\u2029end`},
		{"\u2066x\u2069\u200f\u061c\ufeff\u200b", `\u2066x\u2069\u200f\u061c\ufeff\u200b`, `\u2066x\u2069\u200f\u061c\ufeff\u200b`},
		{"bad\xff\xc3utf", `bad\xff\xc3utf`, `bad\xff\xc3utf`},
		{"tag\U000E0041", `tag\U000e0041`, `tag\U000e0041`},
		{"\uFFFD", "\uFFFD", "\uFFFD"},
	} {
		if got := Plain(tc.in); got != tc.want {
			t.Errorf("Plain(%q) = %q, want %q", tc.in, got, tc.want)
		}
		if got := PlainLines(tc.in); got != tc.lines {
			t.Errorf("PlainLines(%q) = %q, want %q", tc.in, got, tc.lines)
		}
	}
}

func FuzzRemover(f *testing.F) {
	f.Add("secret", "the secret is secret", 5)
	f.Add(pem, "x"+pem, 40)
	f.Add("aaaaaaa", "aaaaaaaaaaaaaaaaaaab", 9)
	f.Fuzz(func(t *testing.T, secret, text string, cut int) {
		if Usable(NewSecret(secret)) != nil || len(secret) > 200 || len(text) > 2000 {
			t.Skip()
		}
		set := compile(t, secret)
		whole := set.Clean(text)
		var out strings.Builder
		cut = min(max(cut, 0), len(text))
		writeAll(t, set.Remover(&out), text[:cut], text[cut:])
		if out.String() != whole {
			t.Fatalf("split at %d: %q, whole: %q", cut, out.String(), whole)
		}
		if whole != naive([]string{secret}, text) {
			t.Fatalf("got %q, want %q", whole, naive([]string{secret}, text))
		}
	})
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[0m\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := Plain(text)
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		for _, r := range got {
			if steers(r) {
				t.Fatalf("Plain(%q) = %q still holds %U", text, got, r)
			}
		}
	})
}

func BenchmarkRemover(b *testing.B) {
	set := compile(b, pem, "hunter2-hunter2", "another-secret-value")
	text := bytes.Repeat([]byte("terraform_data.example[12]: Creation complete after 0s [id=2f1c]\n"), 1000)
	r := set.Remover(&bytes.Buffer{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.out.(*bytes.Buffer).Reset()
		if _, err := r.Write(text); err != nil {
			b.Fatal(err)
		}
	}
}
