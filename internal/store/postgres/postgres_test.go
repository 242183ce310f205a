package postgres_test

import (
	"context"
	"log/slog"
	"testing"

	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/storetest"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

func openURL(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
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

// migrated gives each test a store of its own.
func migrated() storetest.Open {
	template := &pgtest.Template{Prepare: func(ctx context.Context, url string) error {
		s, err := postgres.Open(ctx, postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return s.Close()
	}}
	return func(t testing.TB) *store.Store { return openURL(t, template.New(t)) }
}

func TestStore(t *testing.T) { storetest.Run(t, migrated()) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, migrated()) }

func BenchmarkSearch(b *testing.B) { storetest.BenchSearch(b, migrated()) }

func TestSchemaIsTheOneOnRecord(t *testing.T) { storetest.Schema(t, openURL(t, pgtest.New(t))) }

// fresh is a database without tables.
func fresh(t testing.TB) storetest.Place {
	o := postgres.Options{URL: pgtest.New(t), Logger: slog.New(slog.DiscardHandler)}
	return storetest.Place{
		Open:   func(ctx context.Context) (*store.Store, error) { return postgres.Open(ctx, o) },
		Attach: func(ctx context.Context) (*store.Store, error) { return postgres.Attach(ctx, o) },
	}
}

func TestBackup(t *testing.T) { storetest.Backup(t, migrated(), fresh) }
