package state

import (
	"errors"
	"hash/maphash"
	"io"
	"math"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
)

// lexer reads the values of a stored document, which a Scanner found to be JSON when it came in. It holds one window of
// the document, however long its texts are.
type lexer struct {
	r       io.Reader
	buf     []byte
	at, end int
	err     error // of r
	hash    maphash.Hash
	seed    maphash.Seed
	text    []byte // of the last key
}

const windowBytes = 32 << 10

func newLexer(r io.Reader, seed maphash.Seed) *lexer {
	x := &lexer{r: r, buf: make([]byte, windowBytes), seed: seed}
	x.hash.SetSeed(seed)
	return x
}

var errMalformed = errors.New("the document is not what was stored")

// fill makes at least n bytes ready, unless the document ends before.
func (x *lexer) fill(n int) {
	if x.end-x.at >= n || x.err != nil {
		return
	}
	x.end = copy(x.buf, x.buf[x.at:x.end])
	x.at = 0
	for x.end < n && x.err == nil {
		var m int
		m, x.err = x.r.Read(x.buf[x.end:])
		x.end += m
	}
}

// fault is the error of a read, or that the document is malformed.
func (x *lexer) fault() error {
	if x.err != nil && !errors.Is(x.err, io.EOF) {
		return x.err
	}
	return fault.Wrap(errMalformed, fault.Internal, "document_unreadable", "The stored document cannot be read as JSON.").
		WithHint("Restore it from a backup of the database.")
}

// peek is the next byte that is no white space, which stays; 0 at the end.
func (x *lexer) peek() byte {
	for {
		for x.at < x.end {
			switch c := x.buf[x.at]; c {
			case ' ', '\n', '\t', '\r':
				x.at++
			default:
				return c
			}
		}
		if x.err != nil {
			return 0
		}
		x.fill(1)
	}
}

func (x *lexer) take(want byte) error {
	if x.peek() != want {
		return x.fault()
	}
	x.at++
	return nil
}

// members calls fn with each key of an object, decoded, and its sum; fn has to read the value. The key lasts until then.
func (x *lexer) members(fn func(key []byte, sum uint64) error) error {
	if err := x.take('{'); err != nil {
		return err
	}
	if x.peek() == '}' {
		return x.take('}')
	}
	for {
		key, _, sum, err := x.string(x.text[:0], keptKeyBytes)
		if err != nil {
			return err
		}
		x.text = key
		if err := x.take(':'); err != nil {
			return err
		}
		if err := fn(key, sum); err != nil {
			return err
		}
		if more, err := x.more('}'); err != nil || !more {
			return err
		}
	}
}

// elements calls fn for each element of an array; fn has to read it.
func (x *lexer) elements(fn func() error) error {
	if err := x.take('['); err != nil {
		return err
	}
	if x.peek() == ']' {
		return x.take(']')
	}
	for {
		if err := fn(); err != nil {
			return err
		}
		if more, err := x.more(']'); err != nil || !more {
			return err
		}
	}
}

func (x *lexer) more(end byte) (bool, error) {
	switch c := x.peek(); c {
	case ',':
		x.at++
		return true, nil
	case end:
		x.at++
		return false, nil
	}
	return false, x.fault()
}

// string reads a text. kept is onto with its beginning, at most so many bytes; length and sum are of all of it.
func (x *lexer) string(onto []byte, most int) (kept []byte, length int64, sum uint64, err error) {
	if err := x.take('"'); err != nil {
		return onto, 0, 0, err
	}
	x.hash.Reset()
	_ = x.hash.WriteByte('"')
	room := most
	keep := func(p []byte) {
		_, _ = x.hash.Write(p)
		length += int64(len(p))
		n := min(len(p), room)
		onto, room = append(onto, p[:n]...), room-n
	}
	for {
		n := plainText(x.buf[x.at:x.end])
		keep(x.buf[x.at : x.at+n])
		x.at += n
		if x.at == x.end {
			if x.fill(1); x.at == x.end {
				return onto, 0, 0, x.fault()
			}
			continue
		}
		switch x.buf[x.at] {
		case '"':
			x.at++
			return onto, length, x.hash.Sum64(), nil
		case '\\':
			if err := x.escape(keep); err != nil {
				return onto, 0, 0, err
			}
		default:
			return onto, 0, 0, x.fault()
		}
	}
}

// escape decodes one escape. What is no character becomes the one that says so, as encoding/json has it.
func (x *lexer) escape(keep func([]byte)) error {
	x.fill(len(`\ud800\udc00`))
	r, n := unescape(x.buf[x.at:x.end])
	if n == 0 {
		if x.end-x.at < len(`\ud800`) || x.buf[x.at+1] != 'u' {
			return x.fault()
		}
		r, n = utf8.RuneError, len(`\ud800`)
	}
	var b [utf8.UTFMax]byte
	keep(b[:utf8.EncodeRune(b[:], r)])
	x.at += n
	return nil
}

// scalar reads a number or a literal; onto gets it as it is written.
func (x *lexer) scalar(onto []byte) ([]byte, error) {
	start := len(onto)
	for {
		for x.at < x.end {
			switch c := x.buf[x.at]; {
			case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
				if len(onto)-start == keptNumberBytes {
					return onto, x.fault()
				}
				onto = append(onto, c)
				x.at++
			case len(onto) == start:
				return onto, x.fault()
			default:
				return onto, nil
			}
		}
		if x.fill(1); x.at == x.end {
			return onto, x.fault()
		}
	}
}

// combine makes one sum of two, in order.
func (x *lexer) combine(a, b uint64) uint64 {
	var p [16]byte
	for i := range 8 {
		p[i], p[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return maphash.Bytes(x.seed, p[:])
}

// nullSum is the sum of null, and of nothing else.
const nullSum = math.MaxUint64

// notNull keeps a sum apart from nullSum.
func notNull(sum uint64) uint64 {
	if sum == nullSum {
		return 0
	}
	return sum
}
