package postgres

import (
	"context"
	"database/sql"
	"regexp"
	"strings"

	"holdfast.dev/holdfast/internal/store"
)

func schema(ctx context.Context, db *sql.DB) ([]store.Table, error) {
	return store.Introspect(ctx, db, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", columns, references, indexes)
}

func columns(ctx context.Context, db *sql.DB, t *store.Table) error {
	return store.EachRow(ctx, db, `SELECT column_name, data_type, is_nullable = 'YES', data_type = 'text' AND coalesce(collation_name, '') <> 'binary'
		FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
		ORDER BY ordinal_position`, []any{t.Name}, func(scan func(...any) error) error {
		var c store.Column
		defer func() { t.Columns = append(t.Columns, c) }()
		return scan(&c.Name, &c.Type, &c.Null, &c.Language)
	})
}

func references(ctx context.Context, db *sql.DB, t *store.Table) error {
	return store.EachRow(ctx, db, `SELECT a.attname, f.relname, b.attname
		FROM pg_constraint c
		JOIN pg_class f ON f.oid = c.confrelid
		JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = c.confkey[1]
		WHERE c.contype = 'f' AND c.conrelid = to_regclass($1)`, []any{t.Name}, func(scan func(...any) error) error {
		var r store.Reference
		defer func() { t.References = append(t.References, r) }()
		return scan(&r.Column, &r.Table, &r.Foreign)
	})
}

func indexes(ctx context.Context, db *sql.DB, t *store.Table) error {
	return store.EachRow(ctx, db, `SELECT i.relname, x.indisunique, x.indisprimary,
			(SELECT string_agg(a.attname, ',' ORDER BY k.place) FROM unnest(x.indkey) WITH ORDINALITY k (attnum, place)
				JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum),
			coalesce(pg_get_expr(x.indpred, x.indrelid), '')
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
		WHERE x.indrelid = to_regclass($1)`, []any{t.Name}, func(scan func(...any) error) error {
		var i store.Index
		var primary bool
		var names, where string
		if err := scan(&i.Name, &i.Unique, &primary, &names, &where); err != nil {
			return err
		}
		i.Columns = strings.Split(names, ",")
		if primary {
			t.Primary = i.Columns
			return nil
		}
		i.Where = plain(where)
		t.Indexes = append(t.Indexes, i)
		return nil
	})
}

// plain takes from a predicate what PostgreSQL adds to it: parentheses around it, and types of constants.
func plain(predicate string) string {
	predicate = regexp.MustCompile(`::\w+`).ReplaceAllString(predicate, "")
	if inner, ok := strings.CutPrefix(predicate, "("); ok {
		predicate = strings.TrimSuffix(inner, ")")
	}
	return predicate
}
