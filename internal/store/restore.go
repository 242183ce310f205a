package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/fault"
)

// markerTable is there from before a restore's first write until all that has to follow it was done. It has one row.
// It is no migration's: a restore begins before there are any.
const markerTable = "holdfast_restore"

// Restoration is a restore that a database is in.
type Restoration struct {
	Backup  string    // its id
	TakenAt time.Time // when the backup was made
	Loaded  bool      // all of it is there; what has to follow is still to be done
	owner   string    // the restore that may write; another one that began later takes over
}

// Restoring tells the restore that the database is in; ok is false where it is in none.
func (s *Store) Restoring(ctx context.Context) (r Restoration, ok bool, err error) {
	if err = s.d.DB.QueryRowContext(ctx, s.d.HasTable, markerTable).Scan(&ok); err == nil && ok {
		var at int64
		err = s.d.DB.QueryRowContext(ctx, "SELECT backup, taken_at, owner, loaded FROM "+markerTable).Scan(&r.Backup, &at, &r.owner, &r.Loaded)
		r.TakenAt = time.UnixMicro(at).UTC()
	}
	return r, ok && err == nil, s.fault("", "looking for a restore", err)
}

// notRestoring refuses a database whose restore is not at its end.
func (s *Store) notRestoring(ctx context.Context) error {
	r, ok, err := s.Restoring(ctx)
	switch {
	case err != nil || !ok:
		return err
	case r.Loaded:
		return fault.New(fault.Invalid, "after_restore_needed",
			"The backup %s of %s was restored into this database, and what has to follow was not done yet.", r.Backup, r.TakenAt.Format(time.RFC3339)).
			WithHint("Run: holdfast admin after-restore")
	}
	return fault.New(fault.Invalid, "restore_unfinished", "A restore of the backup %s into this database runs, or has not come to its end.", r.Backup).
		WithHint("Run it again: holdfast admin restore FILE. It begins anew.")
}

// AfterRestore ends what a restore has begun: from then on servers take the database.
func (s *Store) AfterRestore(ctx context.Context) error {
	_, err := s.d.DB.ExecContext(ctx, "DROP TABLE "+markerTable)
	return s.fault("", "ending the restore", err)
}

// RestoreOptions is what a restore needs beside the file.
type RestoreOptions struct {
	Backup backup.Summary // of the file, read through and found whole
	Owner  string         // tells this restore from every other one
	// Progress is called now and then with the rows stored so far. It may be nil.
	Progress func(rows int64)
}

// Restore stores a backup in the empty database, and then brings the schema up to date. from is the same file that
// o.Backup was read from, at its beginning. Where an earlier restore died, what it left is deleted first. Until
// AfterRestore, New refuses the database.
func (s *Store) Restore(ctx context.Context, from io.Reader, o RestoreOptions) error {
	if have, want := o.Backup.Header.Schema, s.newest(); have > want {
		return fault.New(fault.UpgradeRequired, "schema_newer", "The backup is of schema %d, and this Holdfast knows up to %d.", have, want).
			WithHint("Restore it with the Holdfast that wrote it (%s), or a newer one.", o.Backup.Header.Holdfast)
	}
	if err := s.begin(ctx, o); err != nil {
		return s.fault("", "preparing the database for a restore", err)
	}
	err := s.Alone(ctx, func(ctx context.Context) error {
		_, err := s.schema.UpTo(ctx, o.Backup.Header.Schema)
		return err
	})
	if err == nil {
		err = s.fits(ctx, o.Backup)
	}
	if err != nil {
		return s.fault("", "making the tables of the backup", err)
	}
	l := &loading{db: s.d.DB, o: o}
	if err := l.all(ctx, from); err != nil {
		return s.fault("", "storing the backup", err)
	}
	if err := s.complete(ctx, o); err != nil {
		return s.fault("", "finishing the restore", err)
	}
	return nil
}

// begin makes the database this restore's, and empties it of what an earlier one left.
func (s *Store) begin(ctx context.Context, o RestoreOptions) error {
	r, there, err := s.Restoring(ctx)
	if err != nil {
		return err
	}
	if there && r.Loaded {
		return s.notRestoring(ctx)
	}
	tables, err := s.d.Schema(ctx)
	if err != nil {
		return err
	}
	tables = slices.DeleteFunc(tables, func(t Table) bool { return t.Name == markerTable || strings.HasPrefix(t.Name, "sqlite_") })
	if !there && len(tables) > 0 {
		return fault.New(fault.Conflict, "database_not_empty", "The database is not empty: it has a table %s.", tables[0].Name).
			WithHint("Restore into a new database (HOLDFAST_DATABASE_URL): a file that is not there, or a PostgreSQL database without tables. What is in this one stays as it is.")
	}
	return s.within(ctx, func(tx *sql.Tx) error {
		if !there {
			if _, err := tx.ExecContext(ctx, "CREATE TABLE "+markerTable+" (backup TEXT NOT NULL, taken_at BIGINT NOT NULL, owner TEXT NOT NULL, loaded BOOLEAN NOT NULL)"); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO "+markerTable+" (backup, taken_at, owner, loaded) VALUES ($1, $2, $3, FALSE)",
				o.Backup.Header.ID, o.Backup.Header.CreatedAt.UnixMicro(), o.Owner)
			return err
		}
		// The earlier restore, should it still run, finds at its next step that it is another one's turn.
		if _, err := tx.ExecContext(ctx, "UPDATE "+markerTable+" SET backup = $1, taken_at = $2, owner = $3",
			o.Backup.Header.ID, o.Backup.Header.CreatedAt.UnixMicro(), o.Owner); err != nil {
			return err
		}
		return drop(ctx, tx, tables)
	})
}

// drop drops tables, those first that others refer to last.
func drop(ctx context.Context, tx *sql.Tx, tables []Table) error {
	for len(tables) > 0 {
		free := slices.IndexFunc(tables, func(t Table) bool {
			return !slices.ContainsFunc(tables, func(other Table) bool {
				return other.Name != t.Name && slices.ContainsFunc(other.References, func(r Reference) bool { return r.Table == t.Name })
			})
		})
		if free < 0 {
			return errors.New("the tables refer to each other in a circle")
		}
		if _, err := tx.ExecContext(ctx, "DROP TABLE "+quoted(tables[free].Name)); err != nil {
			return err
		}
		tables = slices.Delete(tables, free, free+1)
	}
	return nil
}

// within runs fn in one transaction, once.
func (s *Store) within(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.d.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// fits is nil where the tables of the backup are those that its schema has.
func (s *Store) fits(ctx context.Context, b backup.Summary) error {
	there, err := s.d.Schema(ctx)
	if err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Internal, backup.CodeDamaged, "The backup does not fit its own schema %d: %s.", b.Header.Schema, fmt.Sprintf(format, args...)).
			WithHint("Use another backup.")
	}
	want := map[string]map[backup.Column]bool{}
	for _, d := range Decisions() {
		for _, t := range there {
			if t.Name != d.Table || !d.Kept {
				continue
			}
			as, err := asWritten(t)
			if err != nil {
				return err
			}
			want[t.Name] = map[backup.Column]bool{}
			for _, c := range as.Columns {
				want[t.Name][c] = true
			}
		}
	}
	for _, t := range b.Tables {
		columns, known := want[t.Name]
		if !known || len(columns) != len(t.Columns) {
			return wrong("it has a table %s with %d columns", t.Name, len(t.Columns))
		}
		for _, c := range t.Columns {
			if !columns[c] {
				return wrong("it has a column %s.%s of the type %s", t.Name, c.Name, c.Type)
			}
		}
		delete(want, t.Name)
	}
	for name := range want {
		return wrong("it has no table %s", name)
	}
	return nil
}

// complete counts the rows, brings the schema up to date and says that all is there.
func (s *Store) complete(ctx context.Context, o RestoreOptions) error {
	for name, want := range o.Backup.Trailer.Tables {
		var got int64
		if err := s.d.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+quoted(name)).Scan(&got); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("the table %s has %d rows, the backup %d", name, got, want)
		}
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := ours(ctx, tx, o.Owner); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE "+markerTable+" SET loaded = TRUE")
		return err
	})
}

// ours is nil while no later restore has taken over, and keeps one from it until the transaction ends.
func ours(ctx context.Context, tx *sql.Tx, owner string) error {
	var n int64
	done, err := tx.ExecContext(ctx, "UPDATE "+markerTable+" SET owner = $1 WHERE owner = $2 AND NOT loaded", owner, owner)
	if err == nil {
		n, err = done.RowsAffected()
	}
	if err == nil && n != 1 {
		err = fault.New(fault.Conflict, "restore_taken_over", "Another restore into this database has begun since; this one ends.")
	}
	return err
}

// Bounds of what is stored at once.
const (
	loadValues    = 2000     // of one statement
	loadStatement = 1 << 20  // bytes of one statement
	loadCommit    = 16 << 20 // bytes of one transaction
)

// loading stores the rows of a backup.
type loading struct {
	db *sql.DB
	o  RestoreOptions

	tx      *sql.Tx
	written int // bytes of the transaction
	table   *backup.Table
	values  []any
	bytes   int // of values
	rows    int64
}

func (l *loading) all(ctx context.Context, from io.Reader) (err error) {
	r, err := backup.NewReader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	defer func() {
		if l.tx != nil {
			_ = l.tx.Rollback() // all of it failed
		}
	}()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = l.row(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	if r.Trailer().SHA256 != l.o.Backup.Trailer.SHA256 {
		return fault.New(fault.Conflict, "backup_changed", "The backup file was changed while it was being restored.").WithHint("Restore it again.")
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	return l.commit()
}

func (l *loading) row(ctx context.Context, row backup.Row) error {
	if row.Table != l.table || len(l.values)+len(row.Values) > loadValues || l.bytes > loadStatement {
		if err := l.flush(ctx); err != nil {
			return err
		}
		l.table = row.Table
	}
	l.values = append(l.values, row.Values...)
	for _, v := range row.Values {
		switch v := v.(type) {
		case string:
			l.bytes += len(v)
		case []byte:
			l.bytes += len(v)
		default:
			l.bytes += 8
		}
	}
	l.rows++
	return ctx.Err()
}

// flush stores the rows that wait in one statement.
func (l *loading) flush(ctx context.Context) (err error) {
	if len(l.values) == 0 {
		return nil
	}
	if l.tx == nil {
		if l.tx, err = l.db.BeginTx(ctx, nil); err != nil {
			return err
		}
		if err := ours(ctx, l.tx, l.o.Owner); err != nil {
			return err
		}
	}
	if _, err := l.tx.ExecContext(ctx, insert(l.table, len(l.values)), l.values...); err != nil {
		return fmt.Errorf("store rows of %s: %w", l.table.Name, err)
	}
	l.written += l.bytes
	l.values, l.bytes = l.values[:0], 0
	if l.o.Progress != nil {
		l.o.Progress(l.rows)
	}
	if l.written > loadCommit {
		return l.commit()
	}
	return nil
}

func (l *loading) commit() error {
	if l.tx == nil {
		return nil
	}
	err := l.tx.Commit()
	l.tx, l.written = nil, 0
	return err
}

// insert is the statement for so many values of whole rows.
func insert(t *backup.Table, values int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (", quoted(t.Name))
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(c.Name))
	}
	b.WriteString(") VALUES ")
	for i := range values {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%len(t.Columns) == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	return b.String() + ")"
}
