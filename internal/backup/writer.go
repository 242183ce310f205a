package backup

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// Writer writes one backup. Its memory is bounded by the longest row.
type Writer struct {
	zstd    *zstd.Encoder
	sum     hash.Hash
	line    []byte
	table   Table
	trailer Trailer
}

// NewWriter writes the header to w. Close has to follow; it leaves w open.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	// One thread and a window that every reader takes. What fills a backup is sealed bytes in base64: nothing in it repeats,
	// but its 64 letters take a quarter less than bytes do.
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindow/2), zstd.WithEncoderCRC(true),
		zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	h.Format = Format
	out := &Writer{zstd: enc, sum: sha256.New(), trailer: Trailer{Tables: map[string]int64{}}}
	return out, out.json(h)
}

func (w *Writer) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line of the backup: %w", err)
	}
	w.line = append(append(w.line[:0], b...), '\n')
	return w.write()
}

func (w *Writer) write() error {
	if len(w.line) > maxLine {
		return fmt.Errorf("a row of %s has %d bytes; a backup takes %d", w.table.Name, len(w.line), maxLine)
	}
	w.sum.Write(w.line)
	if _, err := w.zstd.Write(w.line); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

// Table begins a table; the rows that follow are its. Each table comes once.
func (w *Writer) Table(t Table) error {
	if err := t.check(); err != nil {
		return err
	}
	if _, twice := w.trailer.Tables[t.Name]; twice {
		return fmt.Errorf("table %s came twice", t.Name)
	}
	w.table, w.trailer.Tables[t.Name] = t, 0
	return w.json(t)
}

// Row writes a row of the table: a string, int64, bool or []byte for each of its columns.
func (w *Writer) Row(values []any) error {
	if len(values) != len(w.table.Columns) {
		return fmt.Errorf("a row of %s has %d values, not %d", w.table.Name, len(values), len(w.table.Columns))
	}
	line := append(w.line[:0], '[')
	for i, v := range values {
		if i > 0 {
			line = append(line, ',')
		}
		var err error
		if line, err = appendValue(line, w.table.Columns[i].Type, v); err != nil {
			return fmt.Errorf("%s.%s: %w", w.table.Name, w.table.Columns[i].Name, err)
		}
	}
	w.line = append(line, ']', '\n')
	if err := w.write(); err != nil {
		return err
	}
	w.trailer.Tables[w.table.Name]++
	return nil
}

func appendValue(line []byte, of Type, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		if of == Text {
			return appendText(line, v)
		}
	case int64:
		if of == Bigint {
			return strconv.AppendInt(line, v, 10), nil
		}
	case bool:
		if of == Boolean {
			return strconv.AppendBool(line, v), nil
		}
	case []byte:
		if of == Bytes {
			line = append(line, '"')
			return append(base64.StdEncoding.AppendEncode(line, v), '"'), nil
		}
	}
	return line, fmt.Errorf("a value of the type %T is none of %s", v, of)
}

// appendText escapes what JSON has to have escaped and nothing else. What is no UTF-8 would come back as other bytes.
func appendText(line []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return line, errors.New("a text is not UTF-8")
	}
	line = append(line, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		line = append(line, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			line = append(line, '\\', c)
		case '\n':
			line = append(line, '\\', 'n')
		default:
			line = fmt.Appendf(line, "\\u%04x", c)
		}
	}
	return append(append(line, s[from:]...), '"'), nil
}

// Close writes the trailer and ends the stream.
func (w *Writer) Close() (Trailer, error) {
	w.trailer.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	err := w.json(map[string]Trailer{"end": w.trailer})
	if e := w.zstd.Close(); err == nil && e != nil {
		err = fmt.Errorf("write the backup: %w", e)
	}
	return w.trailer, err
}

// Discard gives a writer up whose file is not wanted any more.
func (w *Writer) Discard() { w.zstd.Reset(nil) }
