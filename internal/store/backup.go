package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/fault"
)

// Decision says of a table that migrations made whether a backup holds it.
type Decision struct {
	Table string
	Kept  bool
	Why   string // of one that is left out
}

// Decisions are about all tables, those of later schemas and of earlier ones, in the order in which a backup holds
// them: what is referred to comes before what refers to it, so that the rows can be stored as they come; and a state's
// rows before its versions, these before their objects, these before their bytes, so that one document can be had by
// reading a backup once through.
func Decisions() []Decision {
	kept := []string{
		"settings", "organizations", "users", "accounts", "agents", "tokens", "permissions",
		"states", "versions", "objects", "chunks", "staged", "state_resources",
		"stacks", "runs", "components", "events", "tasks", "attempts", "logs", "audit",
	}
	var all []Decision
	for _, t := range kept {
		all = append(all, Decision{Table: t, Kept: true})
	}
	return append(all,
		Decision{Table: "loose_blobs", Why: "what nothing referred to when it was copied may be referred to by now: a copy must not have it removed"},
		Decision{Table: "sessions", Why: "who is signed in to a lost server is not signed in to another one"},
		Decision{Table: "sign_in_links", Why: "a link is good for 24 hours, and once; a restored one could be used twice"},
	)
}

// foreign reports whether a table belongs to somebody else: to goose, to River, to SQLite, or to a restore.
func foreign(table string) bool {
	return table == "goose_db_version" || table == markerTable || strings.HasPrefix(table, "river_") || strings.HasPrefix(table, "sqlite_")
}

// How many rows are read by one statement: they are in memory together, and PostgreSQL bounds how long one may take.
const (
	backupPage = 200
	bytesPage  = 16 // of a table whose rows may have 256 KiB
)

func pageRows(t backup.Table) int {
	for _, c := range t.Columns {
		if c.Type == backup.Bytes {
			return bytesPage
		}
	}
	return backupPage
}

// BackupOptions is what a backup says of itself.
type BackupOptions struct {
	ID        string
	CreatedAt time.Time
	Version   string // of this program
	// Progress is called now and then with the rows written so far. It may be nil.
	Progress func(rows int64)
}

// Backup writes all that the database holds to out as it is at one moment; others go on working meanwhile. The
// database may be of an older schema than this program's.
func (s *Store) Backup(ctx context.Context, o BackupOptions, out io.Writer) (h backup.Header, end backup.Trailer, err error) {
	if err := s.notRestoring(ctx); err != nil {
		return h, end, err
	}
	tables, err := s.backupTables(ctx)
	if err != nil {
		return h, end, err
	}
	err = s.d.View(ctx, func(session Session) error {
		h, err = header(ctx, session, o, tables)
		if err != nil {
			return err
		}
		if want := s.newest(); h.Schema > want {
			return newerSchema(h.Schema, want)
		}
		w, err := backup.NewWriter(out, h)
		if err != nil {
			return err
		}
		defer w.Discard()
		b := backingUp{session: session, w: w, progress: o.Progress}
		for _, t := range tables {
			if err := b.table(ctx, t); err != nil {
				return fmt.Errorf("back up the table %s: %w", t.Name, err)
			}
		}
		end, err = w.Close()
		return err
	})
	return h, end, s.fault("", "reading the database for a backup", err)
}

// backupTables are the tables to back up as they are in the database.
func (s *Store) backupTables(ctx context.Context) ([]Table, error) {
	there, err := s.d.Schema(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	place := map[string]int{}
	for i, d := range Decisions() {
		if place[d.Table] = i; !d.Kept {
			place[d.Table] = -1
		}
	}
	var tables []Table
	for _, t := range there {
		at, decided := place[t.Name]
		switch {
		case foreign(t.Name):
		case !decided:
			return nil, fault.New(fault.Conflict, "unknown_table", "The database has a table %s that this Holdfast does not know.", t.Name).
				WithHint("Use the Holdfast that serves this database, or give it a database of its own.")
		case at >= 0:
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 {
		return nil, fault.New(fault.NotFound, "no_installation", "The database is empty: no Holdfast has served it yet.").
			WithHint("Set HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR as the server has them.")
	}
	slices.SortFunc(tables, func(a, b Table) int { return place[a.Name] - place[b.Name] })
	return tables, nil
}

func header(ctx context.Context, session Session, o BackupOptions, tables []Table) (backup.Header, error) {
	h := backup.Header{ID: o.ID, CreatedAt: o.CreatedAt.UTC(), Holdfast: o.Version, Keys: []backup.KeyUse{}, Audit: []backup.Anchor{}}
	one := func(query string, into ...any) error { return session.QueryRowContext(ctx, query).Scan(into...) }
	err := errors.Join(
		one("SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version", &h.Schema),
		one("SELECT COUNT(*) FROM states", &h.States),
		EachRow(ctx, session, "SELECT key_kind, key_name, key_version, COUNT(*) FROM objects GROUP BY key_kind, key_name, key_version ORDER BY key_kind, key_name, key_version", nil,
			func(scan func(...any) error) error {
				var u backup.KeyUse
				defer func() { h.Keys = append(h.Keys, u) }()
				return scan(&u.Kind, &u.Name, &u.Version, &u.Objects)
			}),
		EachRow(ctx, session, `SELECT o.name, a.org, a.seq, a.hash FROM audit a JOIN organizations o ON o.id = a.org
			WHERE a.seq = (SELECT MAX(seq) FROM audit WHERE org = o.id) ORDER BY o.name`, nil,
			func(scan func(...any) error) error {
				var a backup.Anchor
				defer func() { h.Audit = append(h.Audit, a) }()
				return scan(&a.Organization, &a.Org, &a.Seq, &a.Hash)
			}),
	)
	// Earlier schemas kept everything in the database.
	if err == nil && hasColumn(tables, "objects", "place") {
		err = one("SELECT COUNT(*) FROM objects WHERE place <> ''", &h.Elsewhere)
	}
	return h, err
}

func hasColumn(tables []Table, table, column string) bool {
	return slices.ContainsFunc(tables, func(t Table) bool {
		return t.Name == table && slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == column })
	})
}

// backingUp is one backup, within its transaction.
type backingUp struct {
	session  Session
	w        *backup.Writer
	progress func(int64)
	rows     int64
}

// table writes a table's rows in the order of its primary key, page by page.
func (b *backingUp) table(ctx context.Context, t Table) error {
	as, err := asWritten(t)
	if err == nil {
		err = b.w.Table(as)
	}
	if err != nil {
		return err
	}
	var after []any // the last row's primary key
	for {
		var last []any
		query, keys := pageOf(t, as, len(after) > 0)
		n := 0
		err := EachRow(ctx, b.session, query, after, func(scan func(...any) error) error {
			into := destinations(as)
			if err := scan(into...); err != nil {
				return err
			}
			values := loaded(into)
			n, last = n+1, last[:0]
			for _, k := range keys {
				last = append(last, values[k])
			}
			return b.w.Row(values)
		})
		after = last
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if b.rows += int64(n); b.progress != nil {
			b.progress(b.rows)
		}
		if n < pageRows(as) {
			return nil
		}
	}
}

// asWritten is a table in the words of the format.
func asWritten(t Table) (backup.Table, error) {
	out := backup.Table{Name: t.Name}
	for _, c := range t.Columns {
		if c.Null {
			return out, fmt.Errorf("the column %s may be NULL, which a backup cannot say", c.Name)
		}
		out.Columns = append(out.Columns, backup.Column{Name: c.Name, Type: backup.Type(strings.ToLower(c.Type))})
	}
	if len(t.Primary) == 0 {
		return out, errors.New("it has no primary key")
	}
	return out, nil
}

// pageOf is the statement for a page, and the places of the primary key among the columns.
func pageOf(t Table, as backup.Table, later bool) (query string, keys []int) {
	var columns, places []string
	for _, c := range t.Columns {
		columns = append(columns, quoted(c.Name))
	}
	var primary []string
	for i, p := range t.Primary {
		primary, places = append(primary, quoted(p)), append(places, fmt.Sprintf("$%d", i+1))
		keys = append(keys, as.Index(p))
	}
	query = "SELECT " + strings.Join(columns, ", ") + " FROM " + quoted(t.Name)
	if later {
		query += " WHERE (" + strings.Join(primary, ", ") + ") > (" + strings.Join(places, ", ") + ")"
	}
	return query + " ORDER BY " + strings.Join(primary, ", ") + fmt.Sprintf(" LIMIT %d", pageRows(as)), keys
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// destinations are what a row is scanned into; loaded takes the values out.
func destinations(t backup.Table) []any {
	into := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Type {
		case backup.Text:
			into[i] = new(string)
		case backup.Bigint:
			into[i] = new(int64)
		case backup.Boolean:
			into[i] = new(bool)
		case backup.Bytes:
			into[i] = new([]byte)
		}
	}
	return into
}

func loaded(from []any) []any {
	values := make([]any, len(from))
	for i, v := range from {
		switch v := v.(type) {
		case *string:
			values[i] = *v
		case *int64:
			values[i] = *v
		case *bool:
			values[i] = *v
		case *[]byte:
			values[i] = *v
		}
	}
	return values
}
