package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"holdfast.dev/holdfast/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

func newProvider(d Dialect) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(d.Goose, d.DB, dir, goose.WithDisableGlobalRegistry(true))
}

// migrate brings the schema up to date.
func (s *Store) migrate(ctx context.Context) error {
	err := s.Alone(ctx, func(ctx context.Context) error {
		_, err := s.schema.Up(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return s.current(ctx)
}

// Alone runs fn while no other server is in it. It is for changes of the database's tables, and may run fn again.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error {
	return s.d.Alone(ctx, fn)
}

// current is nil when the schema is the one this program was built with. One of a newer Holdfast is refused: this
// one would not know what it may leave alone.
func (s *Store) current(ctx context.Context) error {
	have, want, err := s.schema.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the schema's version: %w", err)
	case have > want:
		return newerSchema(have, want)
	case have < want:
		return fault.New(fault.Unavailable, "schema_older",
			"The database has schema %d, and this Holdfast needs %d.", have, want).
			WithHint("Restart the server: it brings the schema up to date when it starts.")
	}
	return nil
}

func newerSchema(have, want int64) error {
	return fault.New(fault.Unavailable, "schema_newer", "The database has schema %d, and this Holdfast knows up to %d.", have, want).
		WithHint("Run the newer Holdfast that wrote it, or restore a backup from before its upgrade.")
}

// newest is the schema that this program makes.
func (s *Store) newest() int64 {
	sources := s.schema.ListSources()
	return sources[len(sources)-1].Version
}

// Ready is nil when the database answers and its schema is current.
func (s *Store) Ready(ctx context.Context) error {
	return s.fault("", "asking the database", s.current(ctx))
}
