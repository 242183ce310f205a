package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"holdfast.dev/holdfast/internal/redact"
)

// screen is something that text goes to: a terminal, or a file or pipe that gets no colours and no control characters.
type screen struct {
	w        io.Writer
	columns  func() int // of a terminal, now; nil of what is none
	coloured bool
}

func newScreen(env Env, w io.Writer) *screen {
	s := &screen{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.columns = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 20 {
				return w
			}
			return 80
		}
		s.coloured = env.lookup("NO_COLOR") == "" && env.lookup("TERM") != "dumb"
	}
	return s
}

// terminal reports whether a person is looking at it now, and lines can be written over.
func (s *screen) terminal() bool { return s.columns != nil }

// width is that of the terminal. What is none has room for everything, and 0 says so.
func (s *screen) width() int {
	if s.columns == nil {
		return 0
	}
	return s.columns()
}

// styled is text that is fit for a screen as it is. Everything else that print is given is made plain first.
type styled string

// lines is text of several lines, made plain line by line.
func lines(text string) styled { return styled(redact.PlainLines(text)) }

// print formats like fmt, with every text among the arguments made plain: what comes from a server, a file or a
// person must not steer a terminal. A failed write is kept by the writer, as with any command in a pipe.
func (s *screen) print(format string, args ...any) {
	for i, a := range args {
		switch v := a.(type) {
		case styled:
			args[i] = string(v)
		case string:
			args[i] = redact.Plain(v)
		case error:
			args[i] = redact.Plain(v.Error())
		case fmt.Stringer:
			args[i] = redact.Plain(v.String())
		}
	}
	_, _ = fmt.Fprintf(s.w, format, args...)
}

func (s *screen) style(codes, text string) styled {
	text = redact.Plain(text)
	if !s.coloured || codes == "" || text == "" {
		return styled(text)
	}
	return styled("\x1b[" + codes + "m" + text + "\x1b[0m")
}

func (s *screen) bold(text string) styled   { return s.style("1", text) }
func (s *screen) dim(text string) styled    { return s.style("2", text) }
func (s *screen) red(text string) styled    { return s.style("31", text) }
func (s *screen) green(text string) styled  { return s.style("32", text) }
func (s *screen) yellow(text string) styled { return s.style("33", text) }
func (s *screen) cyan(text string) styled   { return s.style("36", text) }

// printJSON prints the one document of --json.
func (c *call) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if _, err := c.out.w.Write(visible(b.Bytes())); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// visible escapes what steers a terminal in a JSON document; it stands within texts only, so the document stays the
// same to who reads it as JSON.
func visible(document []byte) []byte {
	out := make([]byte, 0, len(document))
	for len(document) > 0 {
		r, size := utf8.DecodeRune(document)
		switch {
		case r == '\n', !unicode.IsControl(r) && (!unicode.Is(unicode.Cf, r) || r == 0x200C || r == 0x200D):
			out = append(out, document[:size]...)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
		document = document[size:]
	}
	return out
}
