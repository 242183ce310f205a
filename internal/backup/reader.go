package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"holdfast.dev/holdfast/internal/fault"
)

// Reader reads one backup, whatever stands in it: a file that is none, was cut or changed ends in an error. Its memory
// is bounded by the longest row, and that by 128 MiB.
type Reader struct {
	zstd   *zstd.Decoder
	lines  *bufio.Reader
	sum    hash.Hash
	line   []byte
	header Header
	tables []*Table
	rows   map[string]int64
	end    *Trailer
}

// Row is a row and the table that it is of. Its values are the caller's to keep.
type Row struct {
	Table  *Table // the same pointer for all rows of a table
	Values []any  // a string, int64, bool or []byte for each column
}

// NewReader reads the header. Close has to follow; it leaves r open.
func NewReader(r io.Reader) (*Reader, error) {
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("set up decompression: %w", err)
	}
	out := &Reader{zstd: dec, lines: bufio.NewReaderSize(dec, 256<<10), sum: sha256.New(), rows: map[string]int64{}}
	if err := out.readHeader(); err != nil {
		dec.Close()
		return nil, err
	}
	return out, nil
}

// Close gives the reader's memory back.
func (r *Reader) Close() { r.zstd.Close() }

// Header is the file's header.
func (r *Reader) Header() Header { return r.header }

// Trailer is the file's end; it is there once Next has given io.EOF.
func (r *Reader) Trailer() Trailer { return *r.end }

// Tables are those that have begun.
func (r *Reader) Tables() []*Table { return r.tables }

func (r *Reader) readHeader() error {
	none := func(err error) error {
		return fault.Wrap(err, fault.Invalid, "no_backup", "The file is no backup of Holdfast.").
			WithHint("Name a file that holdfast admin backup wrote.")
	}
	// A header is short. What is no backup at all need not be read to its end to say so.
	start, err := r.lines.Peek(len(`{"holdfast_backup":`))
	if err != nil && !errors.Is(err, io.EOF) {
		return none(err)
	}
	if string(start) != `{"holdfast_backup":` {
		return none(nil)
	}
	if err := r.readLine(); err != nil {
		return damaged(err)
	}
	var format struct {
		Format int `json:"holdfast_backup"`
	}
	if err := json.Unmarshal(r.line, &format); err != nil {
		return damaged(fmt.Errorf("its header cannot be read: %w", err))
	}
	if format.Format != Format {
		return fault.New(fault.UpgradeRequired, "backup_newer", "The backup is of format %d, and this Holdfast reads %d.", format.Format, Format).
			WithHint("Use the Holdfast that wrote it, or a newer one.")
	}
	if err := json.Unmarshal(r.line, &r.header); err != nil {
		return damaged(fmt.Errorf("its header cannot be read: %w", err))
	}
	if r.header.ID == "" || r.header.Schema < 1 {
		return damaged(errors.New("its header names no backup and no schema"))
	}
	r.sum.Write(r.line)
	r.sum.Write([]byte{'\n'})
	return nil
}

// readLine reads the next line, without its end. io.ErrUnexpectedEOF where the stream ends before it.
func (r *Reader) readLine() error {
	r.line = r.line[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(r.line)+len(part) > maxLine {
			return fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		r.line = append(r.line, part...)
		switch {
		case err == nil:
			r.line = r.line[:len(r.line)-1]
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// Next gives the next row, and io.EOF after a whole file that is as it was written.
func (r *Reader) Next() (Row, error) {
	for r.end == nil {
		row, err := r.next()
		if err != nil {
			return Row{}, damaged(err)
		}
		if row.Table != nil {
			return row, nil
		}
	}
	return Row{}, io.EOF
}

// next takes one line. A row without a table says that the line was another one.
func (r *Reader) next() (Row, error) {
	if err := r.readLine(); err != nil {
		return Row{}, err
	}
	if bytes.HasPrefix(r.line, []byte(`{"end":`)) {
		return Row{}, r.finish()
	}
	r.sum.Write(r.line)
	r.sum.Write([]byte{'\n'})
	if bytes.HasPrefix(r.line, []byte{'['}) {
		if len(r.tables) == 0 {
			return Row{}, errors.New("a row comes before the first table")
		}
		t := r.tables[len(r.tables)-1]
		values, err := r.values(t)
		if err != nil {
			return Row{}, fmt.Errorf("row %d of %s: %w", r.rows[t.Name]+1, t.Name, err)
		}
		r.rows[t.Name]++
		return Row{Table: t, Values: values}, nil
	}
	return Row{}, r.begin()
}

func (r *Reader) begin() error {
	var t Table
	if err := json.Unmarshal(r.line, &t); err != nil {
		return fmt.Errorf("a line is neither a row nor a table: %w", err)
	}
	if err := t.check(); err != nil {
		return err
	}
	if _, twice := r.rows[t.Name]; twice || len(r.tables) == maxTables {
		return fmt.Errorf("table %s comes twice, or there are too many", t.Name)
	}
	r.tables, r.rows[t.Name] = append(r.tables, &t), 0
	return nil
}

func (r *Reader) values(t *Table) ([]any, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(r.line, &raw); err != nil {
		return nil, err
	}
	if len(raw) != len(t.Columns) {
		return nil, fmt.Errorf("it has %d values, not %d", len(raw), len(t.Columns))
	}
	values := make([]any, len(raw))
	for i, v := range raw {
		var err error
		if values[i], err = parse(t.Columns[i].Type, v); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Columns[i].Name, err)
		}
	}
	return values, nil
}

func parse(of Type, raw json.RawMessage) (any, error) {
	quoted := len(raw) >= 2 && raw[0] == '"'
	switch {
	case of == Text && quoted:
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case of == Bytes && quoted:
		return base64.StdEncoding.Strict().AppendDecode([]byte{}, raw[1:len(raw)-1])
	case of == Bigint:
		return strconv.ParseInt(string(raw), 10, 64)
	case of == Boolean && (string(raw) == "true" || string(raw) == "false"):
		return string(raw) == "true", nil
	}
	return nil, fmt.Errorf("%.40q is no %s", raw, of)
}

// finish compares the trailer with what came, and sees that nothing comes after it.
func (r *Reader) finish() error {
	var last struct {
		End *Trailer `json:"end"`
	}
	if json.Unmarshal(r.line, &last) != nil || last.End == nil {
		return errors.New("its end cannot be read")
	}
	if sum := hex.EncodeToString(r.sum.Sum(nil)); last.End.SHA256 != sum {
		return errors.New("its SHA-256 is not what its end says")
	}
	if !maps.Equal(last.End.Tables, r.rows) {
		return errors.New("its tables have other rows than its end says")
	}
	switch _, err := r.lines.ReadByte(); { // also the stream's own checksum is only looked at here
	case err == nil:
		return errors.New("something comes after its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	r.end = last.End
	return nil
}

// Summary is what a whole backup holds.
type Summary struct {
	Header  Header
	Tables  []*Table
	Trailer Trailer
}

// Verify reads a backup to its end. A nil error says that it is whole and as it was written. Progress, called with the
// number of rows so far, may end it with an error.
func Verify(from io.Reader, progress func(rows int64) error) (Summary, error) {
	r, err := NewReader(from)
	if err != nil {
		return Summary{}, err
	}
	defer r.Close()
	for n := int64(1); ; n++ {
		_, err := r.Next()
		if errors.Is(err, io.EOF) {
			return Summary{Header: r.header, Tables: r.tables, Trailer: *r.end}, nil
		}
		if err == nil {
			err = progress(n)
		}
		if err != nil {
			return Summary{}, err
		}
	}
}
