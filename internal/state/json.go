package state

import (
	"encoding/binary"

	"holdfast.dev/holdfast/internal/fault"
)

// maxDepth is how deep a document may nest; encoding/json, with which the tools read it back, has the same limit.
const maxDepth = 10000

// jsonScanner accepts exactly what encoding/json takes for valid, byte by byte, and tells a Scanner of the fields of
// the top level, which must be an object.
type jsonScanner struct {
	to      *Scanner
	step    step
	read    int64  // bytes before the current call's
	at      int64  // where the bytes begin that are being looked at
	valueAt int64  // where the value begins that is being captured
	stack   []bool // open objects (true) and arrays

	literal string // what is left of true, false or null
	field   field  // whose value is being read; fieldUnknown where nobody asks
	part    part   // of a resource, whose value is being read; partNone where nobody asks
	raw     []byte // the key or value being captured
	capture bool
	isKey   bool // the string being read is an object's key
}

// step is what may come next.
type step uint8

const (
	wantValue step = iota
	wantValueOrClose
	wantKey
	wantKeyOrClose
	wantColon
	wantCommaOrClose
	wantEnd
	inString
	inEscape
	inHex1
	inHex2
	inHex3
	inHex4
	inLiteral
	// Numbers. The last digits may be followed by what ends a number.
	numberMinus
	numberZero
	numberInt
	numberDot
	numberFraction
	numberE
	numberESign
	numberExponent
)

func (j *jsonScanner) begin(to *Scanner) {
	j.to, j.field = to, fieldUnknown
	j.stack = make([]bool, 0, 16)
}

func (j *jsonScanner) scan(p []byte) error {
	for i := 0; i < len(p); {
		var n int
		var err error
		switch s := j.step; {
		case s == inString:
			n, err = j.text(p[i:])
		case s >= numberMinus:
			n, err = j.number(p[i:])
		case s >= inEscape:
			n, err = 1, j.inside(p[i])
		default:
			j.at = j.read + int64(i)
			n, err = j.structure(p[i:])
		}
		i += n
		if err != nil {
			if err == errSyntax {
				err = j.syntax(int64(i))
			}
			return err
		}
	}
	j.read += int64(len(p))
	return nil
}

func (j *jsonScanner) end() error {
	if j.step != wantEnd {
		return fault.New(fault.Invalid, "invalid_json", "The document is not JSON: it ends too early, after %d bytes.", j.read)
	}
	return nil
}

var errSyntax = fault.New(fault.Invalid, "invalid_json", "not JSON") //nolint:errname // replaced by syntax, with the place

func (j *jsonScanner) syntax(at int64) error {
	return fault.New(fault.Invalid, "invalid_json", "The document is not JSON: byte %d is not what may stand there.", j.read+at)
}

// structure takes white space and one byte of structure, or the first byte of a value or key.
func (j *jsonScanner) structure(p []byte) (n int, err error) {
	for n < len(p) && (p[n] == ' ' || p[n] == '\n' || p[n] == '\t' || p[n] == '\r') {
		n++
	}
	if n == len(p) {
		return n, nil
	}
	c := p[n]
	n++
	switch j.step {
	case wantValueOrClose:
		if c == ']' {
			return n, j.closed(false)
		}
		return n, j.value(c, n)
	case wantValue:
		return n, j.value(c, n)
	case wantKeyOrClose:
		if c == '}' {
			return n, j.closed(false)
		}
		return n, j.key(c)
	case wantKey:
		return n, j.key(c)
	case wantColon:
		if c != ':' {
			return n, errSyntax
		}
		j.step = wantValue
		return n, nil
	case wantCommaOrClose:
		return n, j.next(c)
	}
	return n, errSyntax // after the end
}

func (j *jsonScanner) next(c byte) error {
	object := j.stack[len(j.stack)-1]
	switch {
	case c == ',' && object:
		j.step = wantKey
	case c == ',':
		j.step = wantValue
	case c == '}' && object, c == ']' && !object:
		return j.closed(true)
	default:
		return errSyntax
	}
	return nil
}

func (j *jsonScanner) key(c byte) error {
	if c != '"' {
		return errSyntax
	}
	j.step, j.isKey = inString, true
	if len(j.stack) == 1 || len(j.stack) == inResource && j.listed() {
		j.capture, j.raw = true, append(j.raw[:0], c)
	}
	return nil
}

// inResource is how many objects and arrays are open between a resource's fields: the document, its resources, and the
// resource.
const inResource = 3

// listed reports whether what is open below the top level is the list of resources.
func (j *jsonScanner) listed() bool { return j.field == fieldResources && !j.stack[1] }

// value begins a value, whose first byte is the nth that is being looked at.
func (j *jsonScanner) value(c byte, n int) error {
	if len(j.stack) == 0 && c != '{' {
		return fault.New(fault.Invalid, "invalid_json", "The document is not a JSON object.")
	}
	switch len(j.stack) {
	case 1:
		if j.field != fieldUnknown {
			j.capture, j.raw = true, append(j.raw[:0], c)
			j.valueAt = j.at + int64(n) - 1
		}
	case inResource:
		if j.part != partNone {
			j.capture, j.raw = true, append(j.raw[:0], c)
		}
	case inResource + 1:
		if j.part == partInstances && !j.stack[inResource] {
			j.to.list.instance()
		}
	}
	switch c {
	case '{', '[':
		return j.open(c == '{')
	case '"':
		j.step, j.isKey = inString, false
	case 't':
		j.step, j.literal = inLiteral, "rue"
	case 'f':
		j.step, j.literal = inLiteral, "alse"
	case 'n':
		j.step, j.literal = inLiteral, "ull"
	case '-':
		j.step = numberMinus
	case '0':
		j.step = numberZero
	default:
		if c < '1' || c > '9' {
			return errSyntax
		}
		j.step = numberInt
	}
	return nil
}

func (j *jsonScanner) open(object bool) error {
	if len(j.stack) == maxDepth {
		return invalidState("It nests deeper than %d.", maxDepth)
	}
	j.capture = false
	if len(j.stack) == inResource-1 && object && j.listed() {
		j.to.list.begin()
	}
	j.stack = append(j.stack, object)
	j.step = wantValueOrClose
	if object {
		j.step = wantKeyOrClose
	}
	return nil
}

// closed ends an object or array; filled is whether anything is in it.
func (j *jsonScanner) closed(filled bool) error {
	object := j.stack[len(j.stack)-1]
	j.stack = j.stack[:len(j.stack)-1]
	switch len(j.stack) {
	case 1:
		if j.field != fieldUnknown {
			f := j.field
			j.field = fieldUnknown
			if err := j.to.value(f, j.raw[:1], filled); err != nil {
				return err
			}
		}
	case inResource - 1:
		if object && j.listed() {
			j.to.list.end()
		}
	case inResource:
		j.part = partNone
	}
	j.after()
	return nil
}

// ended ends a string, number or literal that is a value.
func (j *jsonScanner) ended() error {
	switch {
	case !j.capture:
	case len(j.stack) == inResource:
		j.to.list.value(j.part, j.raw)
		j.capture, j.part = false, partNone
	default:
		f := j.field
		j.capture, j.field = false, fieldUnknown
		if err := j.to.value(f, j.raw, false); err != nil {
			return err
		}
	}
	j.after()
	return nil
}

func (j *jsonScanner) after() {
	j.step = wantCommaOrClose
	if len(j.stack) == 0 {
		j.step = wantEnd
	}
}

// keep adds to what is captured. What is longer than anything known is captured no further: a key is then not a known
// one, and a value is refused or dropped as the piece of a string that it is.
func (j *jsonScanner) keep(p []byte) {
	if j.capture && len(j.raw) <= maxCaptured {
		j.raw = append(j.raw, p...)
	}
}

// text takes bytes of a string up to its end or an escape.
func (j *jsonScanner) text(p []byte) (n int, err error) {
	n = plainText(p)
	j.keep(p[:n])
	if n == len(p) {
		return n, nil
	}
	c := p[n]
	j.keep(p[n : n+1])
	n++
	switch {
	case c == '\\':
		j.step = inEscape
		return n, nil
	case c != '"':
		return n, errSyntax
	case !j.isKey:
		return n, j.ended()
	}
	if j.capture {
		j.capture = false
		if len(j.stack) == inResource {
			j.part = partOf(j.raw)
		} else {
			j.field, err = j.to.key(j.raw)
		}
	}
	j.step = wantColon
	return n, err
}

// plainText is how many bytes p starts with that are no quote, backslash or control character. It looks at 8 at a
// time: strings are most of a state.
func plainText(p []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(p); n += 8 {
		w := binary.LittleEndian.Uint64(p[n:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		found := (quote - ones) & ^quote
		found |= (slash - ones) & ^slash
		found |= (w - ones*' ') & ^w
		if found&tops != 0 {
			break // one of these 8; the loop below says which
		}
	}
	for ; n < len(p); n++ {
		if c := p[n]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return n
}

// inside takes one byte of an escape or a literal.
func (j *jsonScanner) inside(c byte) error {
	j.keep([]byte{c})
	switch j.step {
	case inEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			j.step = inString
		case 'u':
			j.step = inHex1
		default:
			return errSyntax
		}
	case inHex1, inHex2, inHex3, inHex4:
		if !hex(c) {
			return errSyntax
		}
		if j.step++; j.step > inHex4 {
			j.step = inString
		}
	case inLiteral:
		if c != j.literal[0] {
			return errSyntax
		}
		if j.literal = j.literal[1:]; j.literal == "" {
			return j.ended()
		}
	}
	return nil
}

func hex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// number takes bytes of a number; the byte that ends it is left to be taken as structure.
func (j *jsonScanner) number(p []byte) (n int, err error) {
	for n < len(p) {
		next, whole := j.afterDigit(p[n])
		if next == 0 {
			if !whole {
				return n + 1, errSyntax
			}
			return n, j.ended()
		}
		j.keep(p[n : n+1])
		j.step = next
		n++
	}
	return n, nil
}

// afterDigit is the step after c within a number; 0 where c is no part of it, and whether it could end there.
func (j *jsonScanner) afterDigit(c byte) (next step, whole bool) {
	digit := c >= '0' && c <= '9'
	switch j.step {
	case numberMinus:
		if c == '0' {
			return numberZero, false
		}
		if digit {
			return numberInt, false
		}
	case numberZero, numberInt:
		switch {
		case digit && j.step == numberInt:
			return numberInt, true
		case c == '.':
			return numberDot, false
		case c == 'e' || c == 'E':
			return numberE, false
		}
		return 0, true
	case numberDot:
		if digit {
			return numberFraction, false
		}
	case numberFraction:
		switch {
		case digit:
			return numberFraction, true
		case c == 'e' || c == 'E':
			return numberE, false
		}
		return 0, true
	case numberE:
		if c == '+' || c == '-' {
			return numberESign, false
		}
		fallthrough
	case numberESign:
		if digit {
			return numberExponent, false
		}
	case numberExponent:
		if digit {
			return numberExponent, true
		}
		return 0, true
	}
	return 0, false
}
