package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/store"
)

// Admin is what an administrator's command works with. All fields are required.
type Admin struct {
	Settings config.Server
	Version  string
	Log      *slog.Logger
	Now      func() time.Time
	// Progress is called now and then with what is being done and the rows that are done with.
	Progress func(doing string, rows int64)
}

// BackupMade is what a backup holds.
type BackupMade struct {
	Header  backup.Header
	Trailer backup.Trailer
}

// Backup writes the database to out as it is at one moment. Servers may run meanwhile, and the keys are not needed.
func (a Admin) Backup(ctx context.Context, out io.Writer) (made BackupMade, err error) {
	s, err := attachStore(ctx, a.Settings, a.Log, false)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now := a.Now()
	made.Header, made.Trailer, err = s.Backup(ctx, store.BackupOptions{
		ID: id.New(id.Backup, now), CreatedAt: now, Version: a.Version, Progress: func(n int64) { a.Progress("writing", n) },
	}, out)
	return made, err
}

// Restore stores the backup in the file in the empty database that the settings name, once the whole of it was found
// to be as it was written. The keys are not needed.
func (a Admin) Restore(ctx context.Context, file string) (made BackupMade, err error) {
	f, err := openBackup(file)
	if err != nil {
		return made, err
	}
	defer func() { _ = f.Close() }() // it was only read
	whole, err := backup.Verify(f, a.rows(ctx, "checking the file"))
	if err != nil {
		return made, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return made, fmt.Errorf("read %s again: %w", file, err)
	}
	s, err := attachStore(ctx, a.Settings, a.Log, true)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.Restore(ctx, f, store.RestoreOptions{
		Backup: whole, Owner: id.New(id.Backup, a.Now()), Progress: func(n int64) { a.Progress("storing", n) },
	})
	return BackupMade{Header: whole.Header, Trailer: whole.Trailer}, err
}

// AfterRestore does once what has to be done before an older state of the installation serves. Where no restore waits
// for it, done is false, unless force says that the database came back by its own means.
func (a Admin) AfterRestore(ctx context.Context, force bool) (report engine.RestoreReport, done bool, err error) {
	k, err := openKeys(a.Settings, a.Log, a.Now)
	if err != nil {
		return report, false, err
	}
	s, err := attachStore(ctx, a.Settings, a.Log, false)
	if err != nil {
		return report, false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, there, err := s.Restoring(ctx)
	switch {
	case err != nil:
		return report, false, err
	case there && !r.Loaded:
		return report, false, fault.New(fault.Conflict, "restore_unfinished", "The restore of the backup %s runs, or has not come to its end.", r.Backup).
			WithHint("Run it again first: holdfast admin restore FILE")
	case !there && !force:
		return report, false, nil
	case !there:
		r.Backup = id.New(id.Backup, a.Now())
	}
	if err := s.Upgrade(ctx); err != nil {
		return report, false, err
	}
	e := engine.New(engine.Config{Store: s, Keys: k.ring, AuditKeys: k.auditKeys(), Limits: limits(a.Settings), Now: a.Now, Log: a.Log})
	if report, err = e.AfterRestore(ctx, engine.Restored{Backup: r.Backup, TakenAt: r.TakenAt}); err != nil {
		return report, false, err
	}
	if there {
		err = s.AfterRestore(ctx)
	}
	return report, err == nil, err
}

// rows passes progress on, and ends what is being done with ctx.
func (a Admin) rows(ctx context.Context, doing string) func(int64) error {
	return func(rows int64) error {
		if rows%1000 == 0 {
			a.Progress(doing, rows)
		}
		return context.Cause(ctx)
	}
}

func openBackup(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "file_unreadable", "The backup file cannot be read: %v.", err).
			WithHint("Name a file that holdfast admin backup wrote.")
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fault.New(fault.Invalid, "file_unreadable", "%s is no regular file; a backup is read twice.", file), f.Close())
	}
	return f, nil
}
