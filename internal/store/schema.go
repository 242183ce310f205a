package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/store/db"
)

// Table is a table as it is in a database, in the words that all databases share.
type Table struct {
	Name       string
	Columns    []Column
	Primary    []string
	References []Reference
	Indexes    []Index
}

// Column is one column.
type Column struct {
	Name, Type string
	Null       bool
	Language   bool // sorts by the database's language, not by byte
}

// Reference is a foreign key.
type Reference struct{ Column, Table, Foreign string }

// Index is an index other than the primary key's.
type Index struct {
	Name    string
	Unique  bool
	Columns []string
	Where   string
}

// Schema describes the database as it is, in one form whichever database it is.
func (s *Store) Schema(ctx context.Context) (string, error) {
	tables, err := s.d.Schema(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the schema: %w", err)
	}
	slices.SortFunc(tables, func(a, b Table) int { return cmp.Compare(a.Name, b.Name) })
	var out strings.Builder
	for _, t := range tables {
		if !foreign(t.Name) {
			t.write(&out)
		}
	}
	return out.String(), nil
}

func (t Table) write(out *strings.Builder) {
	fmt.Fprintf(out, "table %s\n", t.Name)
	for _, c := range t.Columns {
		fmt.Fprintf(out, "  %s %s%s%s\n", c.Name, strings.ToUpper(c.Type), given(c.Language, " by language"), given(c.Null, " null"))
	}
	fmt.Fprintf(out, "  primary key (%s)\n", strings.Join(t.Primary, ", "))
	slices.SortFunc(t.References, func(a, b Reference) int { return cmp.Compare(a.Column, b.Column) })
	for _, r := range t.References {
		fmt.Fprintf(out, "  %s references %s (%s)\n", r.Column, r.Table, r.Foreign)
	}
	slices.SortFunc(t.Indexes, func(a, b Index) int { return cmp.Compare(a.Name, b.Name) })
	for _, i := range t.Indexes {
		where := ""
		if i.Where != "" {
			where = " where " + i.Where
		}
		fmt.Fprintf(out, "  %sindex %s (%s)%s\n", given(i.Unique, "unique "), i.Name, strings.Join(i.Columns, ", "), where)
	}
	out.WriteByte('\n')
}

func given(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

// Introspect lists the tables that names finds (a query of one column) and has each of read fill in its part. It is
// what the dialects' introspection has in common.
func Introspect(ctx context.Context, db *sql.DB, names string, read ...func(context.Context, *sql.DB, *Table) error) ([]Table, error) {
	var tables []Table
	err := EachRow(ctx, db, names, nil, func(scan func(...any) error) error {
		var t Table
		defer func() { tables = append(tables, t) }()
		return scan(&t.Name)
	})
	for i := range tables {
		for _, fill := range read {
			if err == nil {
				err = fill(ctx, db, &tables[i])
			}
		}
	}
	return tables, err
}

// EachRow calls each for every row of the query's result, with that row's Scan.
func EachRow(ctx context.Context, from db.DBTX, query string, args []any, each func(scan func(...any) error) error) error {
	found, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		if err := each(found.Scan); err != nil {
			return err
		}
	}
	return found.Err()
}
