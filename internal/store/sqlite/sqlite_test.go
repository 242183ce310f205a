package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/store/storetest"
)

func open(t testing.TB) *store.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "holdfast.db"))
}

func openAt(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestSchemaIsTheOneOnRecord(t *testing.T) { storetest.Schema(t, open(t)) }

func TestFileIsTheOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "holdfast.db"))
	_ = s
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("files beside the database: %v, %v", files, err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", file.Name(), mode)
		}
	}
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

func BenchmarkSearch(b *testing.B) { storetest.BenchSearch(b, open) }

// TestServersThatOpenTogether bring one empty database's schema up to date, each as if it were alone.
func TestServersThatOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	storetest.OpenTogether(t, func(ctx context.Context) (*store.Store, error) { return sqlite.Open(ctx, path) })
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path)
	if fault.Code(err) != "schema_newer" {
		t.Errorf("open = %v, %v; want it refused as a newer schema", s, err)
	}
}

// fresh is a file that is not there yet.
func fresh(t testing.TB) storetest.Place {
	path := filepath.Join(t.TempDir(), "restored.db")
	return storetest.Place{
		Open:   func(ctx context.Context) (*store.Store, error) { return sqlite.Open(ctx, path) },
		Attach: func(ctx context.Context) (*store.Store, error) { return sqlite.Attach(ctx, path) },
	}
}

func TestBackup(t *testing.T) { storetest.Backup(t, open, fresh) }

// TestBackupOfAnOlderSchema: an installation that was not upgraded yet can be backed up, and is upgraded when restored.
func TestBackupOfAnOlderSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	old, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("../migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO organizations (id, name, created_at) VALUES ('org_1', 'acme', 1)"); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	place := fresh(t)
	storetest.Upgraded(t, func(ctx context.Context) (*store.Store, error) { return sqlite.Attach(ctx, path) }, place, "acme")
}
