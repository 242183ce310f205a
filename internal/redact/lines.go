package redact

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// DefaultLineBytes is the longest line that reaches a log.
const DefaultLineBytes = 64 * 1024

// LineCutter writes to out what is written to it, with every line cut to a limit and a mark that says how much was
// left out. It belongs behind a Remover: cut first, and half a secret would pass unseen. Its memory is a few bytes.
// Close it to finish a last line that has no newline. Not for concurrent use.
type LineCutter struct {
	out   io.Writer
	limit int
	width int    // bytes of the present line that were passed on
	tail  []byte // the last bytes within the limit: a character may be cut in two there
	lost  int64
	ready []byte
}

// NewLineCutter makes a LineCutter in front of out for lines of at most limit bytes, newline not counted; 0 means
// DefaultLineBytes.
func NewLineCutter(out io.Writer, limit int) *LineCutter {
	if limit <= 0 {
		limit = DefaultLineBytes
	}
	return &LineCutter{out: out, limit: limit}
}

func (l *LineCutter) Write(p []byte) (int, error) {
	const chunk = 32 * 1024
	for done := 0; done < len(p); {
		part := p[done:min(len(p), done+chunk)]
		l.ready = l.ready[:0]
		for _, c := range part {
			l.take(c)
		}
		if len(l.ready) > 0 {
			if _, err := l.out.Write(l.ready); err != nil {
				return done, err
			}
		}
		done += len(part)
	}
	return len(p), nil
}

// Close ends the last line.
func (l *LineCutter) Close() error {
	l.ready = l.ready[:0]
	l.endLine()
	if len(l.ready) == 0 {
		return nil
	}
	_, err := l.out.Write(l.ready)
	return err
}

func (l *LineCutter) take(c byte) {
	switch {
	case c == '\n':
		l.endLine()
		l.ready = append(l.ready, c)
	case l.lost > 0:
		l.lost++
	case l.width+len(l.tail) == l.limit:
		kept := wholeRunes(l.tail)
		l.lost = int64(len(l.tail)-len(kept)) + 1
		l.ready = append(l.ready, kept...)
		l.tail = l.tail[:0]
	case l.width+utf8.UTFMax >= l.limit:
		l.tail = append(l.tail, c)
	default:
		l.width++
		l.ready = append(l.ready, c)
	}
}

func (l *LineCutter) endLine() {
	if l.lost > 0 {
		l.ready = fmt.Appendf(l.ready, " [line cut: %d bytes left out]", l.lost)
	}
	l.ready = append(l.ready, l.tail...)
	l.width, l.lost, l.tail = 0, 0, l.tail[:0]
}

// wholeRunes drops a last character of which only the beginning is there.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
