package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

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
