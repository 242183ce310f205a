package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
)

// openStore opens the database that the settings name, for serving.
func openStore(ctx context.Context, s config.Server, log *slog.Logger) (*store.Store, error) {
	path, embedded, err := databaseFile(s)
	if err != nil {
		return nil, err
	}
	if embedded {
		return sqlite.Open(ctx, path)
	}
	return postgres.Open(ctx, postgres.Options{URL: s.DatabaseURL.Reveal(), Logger: log})
}

// attachStore takes it as it is, for an administrator's command. Without create, an embedded database has to be there.
func attachStore(ctx context.Context, s config.Server, log *slog.Logger, create bool) (*store.Store, error) {
	path, embedded, err := databaseFile(s)
	if err != nil {
		return nil, err
	}
	if !embedded {
		return postgres.Attach(ctx, postgres.Options{URL: s.DatabaseURL.Reveal(), Logger: log})
	}
	if _, err := os.Stat(path); err != nil && !create {
		return nil, config.Invalid("There is no database %s: %v.", path, err).
			WithHint("Set HOLDFAST_DATA_DIR or HOLDFAST_DATABASE_URL as the server has them.")
	}
	return sqlite.Attach(ctx, path)
}

// databaseFile is the path of the embedded database, in a folder that can be written to.
func databaseFile(s config.Server) (path string, embedded bool, err error) {
	if path, embedded = strings.CutPrefix(s.DatabaseURL.Reveal(), "sqlite:"); !embedded {
		return "", false, nil
	}
	dir := filepath.Dir(path)
	if err := writable(dir); err != nil {
		setting := "HOLDFAST_DATABASE_URL"
		if dir == filepath.Clean(s.DataDir) {
			setting = "HOLDFAST_DATA_DIR"
		}
		return "", true, config.Invalid("%s: %v.", setting, err).
			WithHint("Make the folder %s and give it to the user that the server runs as, or name another one.", dir)
	}
	return path, true, nil
}

// writable says what is wrong with a folder, or nil.
func writable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return fmt.Errorf("the folder %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("the folder %s cannot be used: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	probe, err := os.CreateTemp(dir, ".holdfast-*")
	if err != nil {
		return fmt.Errorf("the folder %s cannot be written to by this user", dir)
	}
	name := probe.Name()
	if err := probe.Close(); err != nil {
		return fmt.Errorf("the folder %s cannot be written to: %w", dir, err)
	}
	return os.Remove(name)
}
