package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"holdfast.dev/holdfast/internal/store"
)

func schema(ctx context.Context, db *sql.DB) ([]store.Table, error) {
	return store.Introspect(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table'", columns, references, indexes)
}

func columns(ctx context.Context, db *sql.DB, t *store.Table) error {
	keys := map[int]string{}
	err := store.EachRow(ctx, db, "SELECT name, type, \"notnull\", pk FROM pragma_table_info($1) ORDER BY cid", []any{t.Name},
		func(scan func(...any) error) error {
			var c store.Column
			var notNull bool
			var key int
			if err := scan(&c.Name, &c.Type, &notNull, &key); err != nil {
				return err
			}
			c.Null = !notNull
			keys[key] = c.Name
			t.Columns = append(t.Columns, c)
			return nil
		})
	for i := 1; keys[i] != ""; i++ {
		t.Primary = append(t.Primary, keys[i])
	}
	return err
}

func references(ctx context.Context, db *sql.DB, t *store.Table) error {
	return store.EachRow(ctx, db, "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list($1)", []any{t.Name},
		func(scan func(...any) error) error {
			var r store.Reference
			defer func() { t.References = append(t.References, r) }()
			return scan(&r.Column, &r.Table, &r.Foreign)
		})
}

func indexes(ctx context.Context, db *sql.DB, t *store.Table) error {
	return store.EachRow(ctx, db, `SELECT l.name, l."unique", group_concat(i.name, ','), coalesce(s.sql, '')
		FROM pragma_index_list($1) l
		JOIN pragma_index_info(l.name) i
		LEFT JOIN sqlite_schema s ON s.name = l.name
		WHERE l.origin = 'c' GROUP BY l.name ORDER BY l.name, i.seqno`, []any{t.Name},
		func(scan func(...any) error) error {
			var i store.Index
			var names, text string
			if err := scan(&i.Name, &i.Unique, &names, &text); err != nil {
				return err
			}
			i.Columns = strings.Split(names, ",")
			_, i.Where, _ = strings.Cut(text, " WHERE ")
			t.Indexes = append(t.Indexes, i)
			return nil
		})
}
