package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// The generated queries read rows as database/sql has them, and only database/sql can make those. So what reads goes
// through it, to a driver that has no connection of its own: each statement says by its context where to go.

// call carries a statement to ask. For database/sql it is a context that never ends, for which it starts no goroutine.
type call struct {
	context.Context //nolint:containedctx // it is one
	ask             func(ctx context.Context, query string, args []any) (*answer, error)
	ctx             context.Context //nolint:containedctx // of the caller, for ask
}

// connector makes connections to nothing.
type connector struct{}

func newRows() *sql.DB {
	db := sql.OpenDB(connector{})
	db.SetMaxIdleConns(64)
	return db
}

func (connector) Connect(context.Context) (driver.Conn, error) { return nowhere{}, nil }
func (connector) Driver() driver.Driver                        { return nil }

// nowhere is a connection that hands each statement to where its context says.
type nowhere struct{}

var (
	_ driver.QueryerContext    = nowhere{}
	_ driver.NamedValueChecker = nowhere{}
)

var errNowhere = errors.New("only queries go this way")

func (nowhere) Prepare(string) (driver.Stmt, error) { return nil, errNowhere }
func (nowhere) Begin() (driver.Tx, error)           { return nil, errNowhere }
func (nowhere) Close() error                        { return nil }

// CheckNamedValue leaves arguments as they are, which encode takes, and has those that convert themselves do so.
func (nowhere) CheckNamedValue(v *driver.NamedValue) (err error) {
	if valuer, ok := v.Value.(driver.Valuer); ok {
		v.Value, err = valuer.Value()
	}
	return err
}

func (nowhere) QueryContext(ctx context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	c, ok := ctx.(*call)
	if !ok {
		return nil, errNowhere
	}
	args := make([]any, len(named))
	for i, v := range named {
		args[i] = v.Value
	}
	a, err := c.ask(c.ctx, query, args)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// answer is what a statement was answered with, whole: the connection is free for the next one.
type answer struct {
	tag     string
	changed driver.RowsAffected
	columns []string
	rows    [][]driver.Value
}

func (a *answer) Columns() []string { return a.columns }
func (a *answer) Close() error      { return nil }

func (a *answer) Next(into []driver.Value) error {
	if len(a.rows) == 0 {
		return io.EOF
	}
	copy(into, a.rows[0])
	a.rows = a.rows[1:]
	return nil
}

// read takes a statement's answer in, with its rows where they are asked for.
func read(r *pgconn.ResultReader, whole bool) (*answer, error) {
	a := &answer{}
	fields := r.FieldDescriptions()
	if whole {
		a.columns = make([]string, len(fields))
	}
	for i := range a.columns {
		a.columns[i] = fields[i].Name
	}
	for whole && r.NextRow() {
		values := r.Values()
		row := make([]driver.Value, len(values))
		for i, v := range values {
			if v == nil {
				continue
			}
			var err error
			if row[i], err = decode(fields[i], v); err != nil {
				_, _ = r.Close()
				return nil, err
			}
		}
		a.rows = append(a.rows, row)
	}
	tag, err := r.Close()
	if err != nil || !whole {
		return a, err
	}
	a.tag, a.changed = tag.String(), driver.RowsAffected(tag.RowsAffected())
	return a, nil
}

const (
	asText   = int16(0)
	asBinary = int16(1)
)

// formatOf is how a column's values are sent: binary where that is simple to read.
func formatOf(oid uint32) int16 {
	switch oid {
	case pgtype.Int8OID, pgtype.Int4OID, pgtype.BoolOID, pgtype.ByteaOID, pgtype.TextOID:
		return asBinary
	}
	return asText
}

// decode reads a value as it was sent.
func decode(f pgconn.FieldDescription, b []byte) (driver.Value, error) {
	switch oid := f.DataTypeOID; {
	case f.Format == asText && oid == pgtype.ByteaOID:
		return hex.AppendDecode([]byte{}, bytes.TrimPrefix(b, []byte(`\x`)))
	case f.Format == asText:
		return string(b), nil
	case oid == pgtype.Int8OID && len(b) == 8:
		return int64(binary.BigEndian.Uint64(b)), nil //nolint:gosec // the same bits
	case oid == pgtype.Int4OID && len(b) == 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil //nolint:gosec // the same bits
	case oid == pgtype.BoolOID && len(b) == 1:
		return b[0] != 0, nil
	case oid == pgtype.ByteaOID:
		return append([]byte{}, b...), nil
	case oid == pgtype.TextOID:
		return string(b), nil
	}
	return nil, fmt.Errorf("a value of type %d has %d bytes", f.DataTypeOID, len(b))
}

// encode writes arguments as PostgreSQL reads them: as text, but for bytes. They are valid until the next call.
func (s *session) encode(args []any) (values [][]byte, formats []int16, err error) {
	values, formats = make([][]byte, len(args)), make([]int16, len(args))
	s.scratch = s.scratch[:0]
	for i, arg := range args {
		if valuer, ok := arg.(driver.Valuer); ok {
			if arg, err = valuer.Value(); err != nil {
				return nil, nil, err
			}
		}
		from := len(s.scratch)
		switch v := arg.(type) {
		case nil:
			continue
		case []byte:
			formats[i] = asBinary
			if v != nil {
				values[i] = v
			}
			continue
		case string:
			s.scratch = append(s.scratch, v...)
		case int64:
			s.scratch = strconv.AppendInt(s.scratch, v, 10)
		case int32:
			s.scratch = strconv.AppendInt(s.scratch, int64(v), 10)
		case int:
			s.scratch = strconv.AppendInt(s.scratch, int64(v), 10)
		case bool:
			s.scratch = strconv.AppendBool(s.scratch, v)
		default:
			return nil, nil, fmt.Errorf("argument %d is a %T", i+1, v)
		}
		values[i] = s.scratch[from:len(s.scratch):len(s.scratch)]
	}
	return values, formats, nil
}
