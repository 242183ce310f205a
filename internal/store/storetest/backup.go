package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

// Place is a database that may be opened again and again.
type Place struct {
	Open, Attach func(context.Context) (*store.Store, error)
}

// Backup tries backups and restores. open makes a store, fresh an empty database.
func Backup(t *testing.T, open Open, fresh func(testing.TB) Place) {
	for name, test := range map[string]func(*testing.T, *store.Store, Place){
		"EveryTableIsDecided":     everyTableIsDecided,
		"EveryRowComesBack":       everyRowComesBack,
		"ADeadRestoreBeginsAnew":  deadRestoreBeginsAnew,
		"ALaterRestoreTakesOver":  laterRestoreTakesOver,
		"OnlyAnEmptyDatabase":     onlyAnEmptyDatabase,
		"WhatDoesNotFitIsRefused": whatDoesNotFit,
		"AnEmptyDatabaseHasNone":  emptyHasNone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t), fresh(t))
		})
	}
}

// everyTableIsDecided fails for a table that a migration made and nobody thought of.
func everyTableIsDecided(t *testing.T, s *store.Store, _ Place) {
	text, err := s.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "table "); ok {
			made[strings.TrimSpace(name)] = 0
		}
	}
	for _, d := range store.Decisions() {
		if _, ok := made[d.Table]; !ok {
			t.Logf("%s is of another schema", d.Table)
			continue
		}
		made[d.Table]++
		if d.Kept == (d.Why != "") {
			t.Errorf("%s: kept is %t, and the reason to leave it out is %q", d.Table, d.Kept, d.Why)
		}
	}
	for name, n := range made {
		if n != 1 {
			t.Errorf("store.Decisions has the table %s %d times; say once whether a backup holds it", name, n)
		}
	}
}

// filled puts rows of every kind of value into a store: texts that sort differently elsewhere, large bytes, and more
// rows of a table than are read at once.
func filled(t testing.TB, s *store.Store) world {
	w := newWorld(t, s)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for i := range 450 {
			st := state.State{ID: id.New(id.State, after(i)), Org: w.org.ID, Name: "s" + strings.Repeat("é\"\\", i%3) + id.New("x", now), CreatedAt: now, UpdatedAt: now}
			if err := tx.CreateState(ctx, st); err != nil {
				return err
			}
		}
		for seq := range 3 {
			if err := tx.PutChunk(ctx, "obj_large", seq, bytes.Repeat([]byte{byte(seq), 0, 255}, 10<<10), now); err != nil {
				return err
			}
		}
		elsewhere := engine.Object{ID: "obj_far", Org: w.org.ID, Kind: "state", Wrapped: []byte{1}, Place: engine.PlaceBlob, CreatedAt: now}
		if err := errors.Join(tx.StageBlob(ctx, elsewhere, now), tx.AttachObject(ctx, elsewhere)); err != nil {
			return err
		}
		return tx.SetSettingOnce(ctx, "empty", "")
	})
	return w
}

func backedUp(t testing.TB, s *store.Store) []byte {
	t.Helper()
	var out bytes.Buffer
	h, end, err := s.Backup(t.Context(), store.BackupOptions{ID: "bak_1", CreatedAt: now, Version: "1.2.3"}, &out)
	if err != nil {
		t.Fatalf("backup: %v", err)
	}
	if h.ID != "bak_1" || end.Rows() == 0 || h.Elsewhere != int64(len(rowsOf(t, out.Bytes())["objects"])) {
		t.Fatalf("the backup says %+v, %+v", h, end)
	}
	return out.Bytes()
}

func verified(t testing.TB, file []byte) backup.Summary {
	t.Helper()
	b, err := backup.Verify(bytes.NewReader(file), func(int64) error { return nil })
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return b
}

func (p Place) restore(t testing.TB, file []byte) error {
	t.Helper()
	return p.restoreFrom(t, verified(t, file), bytes.NewReader(file), "owner-1")
}

func (p Place) restoreFrom(t testing.TB, b backup.Summary, from io.Reader, owner string) error {
	t.Helper()
	s := p.attached(t)
	defer closed(t, s)
	return s.Restore(t.Context(), from, store.RestoreOptions{Backup: b, Owner: owner})
}

func (p Place) attached(t testing.TB) *store.Store {
	t.Helper()
	s, err := p.Attach(t.Context())
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return s
}

func closed(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// wantClosed wants the place refused to servers, with the code.
func (p Place) wantClosed(t testing.TB, code string) {
	t.Helper()
	s, err := p.Open(t.Context())
	if err == nil {
		closed(t, s)
	}
	wantCode(t, "opening for a server", err, code)
}

func wantCode(t testing.TB, what string, err error, code string) {
	t.Helper()
	if fault.Code(err) != code || fault.From(err).Hint == "" {
		t.Errorf("%s: %v, want code %s and a hint", what, err, code)
	}
}

// ready ends the restore and opens the store as a server does.
func (p Place) ready(t testing.TB) *store.Store {
	t.Helper()
	s := p.attached(t)
	if r, there, err := s.Restoring(t.Context()); err != nil || !there || !r.Loaded || r.Backup != "bak_1" || !r.TakenAt.Equal(now) {
		t.Errorf("the database says it is in the restore %+v, %t, %v", r, there, err)
	}
	if err := s.AfterRestore(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	open, err := p.Open(t.Context())
	if err != nil {
		t.Fatalf("open after the restore: %v", err)
	}
	t.Cleanup(func() { closed(t, open) })
	return open
}

// rowsOf are the rows of a backup, table by table.
func rowsOf(t testing.TB, file []byte) map[string][][]any {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rows := map[string][][]any{}
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Table.Name] = append(rows[row.Table.Name], row.Values)
	}
}

// sameRows compares two backups. A diff of that many bytes would take longer than all else here.
func sameRows(t testing.TB, got, want []byte) {
	t.Helper()
	g, w := rowsOf(t, got), rowsOf(t, want)
	for table := range w {
		if !reflect.DeepEqual(g[table], w[table]) {
			t.Errorf("%s has %d rows after the restore, %d before, or others", table, len(g[table]), len(w[table]))
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d tables have rows after the restore, %d before", len(g), len(w))
	}
}

func everyRowComesBack(t *testing.T, s *store.Store, p Place) {
	filled(t, s)
	file := backedUp(t, s)
	if err := p.restore(t, file); err != nil {
		t.Fatalf("restore: %v", err)
	}
	p.wantClosed(t, "after_restore_needed")
	back := p.ready(t)
	sameRows(t, backedUp(t, back), file)
	got, err := back.Schema(t.Context())
	if err != nil || got != golden {
		same(t, "schema after the restore", got, golden)
	}
	if n := len(rowsOf(t, file)["states"]); n != 450 {
		t.Errorf("the backup has %d states, want 450", n)
	}
}

var errDied = errors.New("died")

func deadRestoreBeginsAnew(t *testing.T, s *store.Store, p Place) {
	filled(t, s)
	file := backedUp(t, s)
	for _, n := range []int{0, len(file) / 3, len(file) - 1} {
		dying := io.MultiReader(bytes.NewReader(file[:n]), errReader{errDied})
		if err := p.restoreFrom(t, verified(t, file), dying, "owner"); !errors.Is(err, errDied) {
			t.Fatalf("the restore that died after %d bytes: %v", n, err)
		}
		p.wantClosed(t, "restore_unfinished")
	}
	if err := p.restore(t, file); err != nil {
		t.Fatalf("restore again: %v", err)
	}
	sameRows(t, backedUp(t, p.ready(t)), file)
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// waitingReader calls wait before its first byte.
type waitingReader struct {
	io.Reader
	wait func()
}

func (r *waitingReader) Read(p []byte) (int, error) {
	if r.wait != nil {
		r.wait()
		r.wait = nil
	}
	return r.Reader.Read(p)
}

func laterRestoreTakesOver(t *testing.T, s *store.Store, p Place) {
	filled(t, s)
	file := backedUp(t, s)
	first := &waitingReader{Reader: bytes.NewReader(file), wait: func() {
		if err := p.restoreFrom(t, verified(t, file), bytes.NewReader(file), "owner-2"); err != nil {
			t.Errorf("the second restore: %v", err)
		}
	}}
	if err := p.restoreFrom(t, verified(t, file), first, "owner-1"); fault.Code(err) != "restore_taken_over" {
		t.Errorf("the first restore: %v, want it taken over", err)
	}
	sameRows(t, backedUp(t, p.ready(t)), file)
}

func onlyAnEmptyDatabase(t *testing.T, s *store.Store, p Place) {
	filled(t, s)
	file := backedUp(t, s)
	used, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, used)
	closed(t, used)
	wantCode(t, "restoring over an installation", p.restore(t, file), "database_not_empty")
	again, err := p.Open(t.Context())
	if err != nil {
		t.Fatalf("open after the refusal: %v", err)
	}
	defer closed(t, again)
	view(t, again, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.OrganizationByID(ctx, w.org.ID)
		return err
	})
}

// rewritten is a backup whose header and tables were changed, by somebody who can make it whole again.
func rewritten(t testing.TB, file []byte, head func(*backup.Header), change func(*backup.Table) (keep bool)) []byte {
	t.Helper()
	b := verified(t, file)
	head(&b.Header)
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, b.Header)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range b.Tables {
		if change(table) {
			if err := w.Table(*table); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func whatDoesNotFit(t *testing.T, s *store.Store, p Place) {
	filled(t, s)
	file := backedUp(t, s)
	same := func(*backup.Header) {}
	all := func(*backup.Table) bool { return true }
	newer := rewritten(t, file, func(h *backup.Header) { h.Schema = 99999 }, all)
	wantCode(t, "a newer schema", p.restore(t, newer), "schema_newer")
	fresh := p.attached(t)
	if _, there, err := fresh.Restoring(t.Context()); there || err != nil {
		t.Errorf("a refused restore left its mark: %t, %v", there, err)
	}
	closed(t, fresh)
	for name, change := range map[string]func(*backup.Table) bool{
		"a table is missing": func(t *backup.Table) bool { return t.Name != "states" },
		"another table":      func(t *backup.Table) bool { t.Name = strings.Replace(t.Name, "settings", "sessions", 1); return true },
		"the versions' table": func(t *backup.Table) bool {
			t.Name = strings.Replace(t.Name, "settings", "goose_db_version", 1)
			return true
		},
		"another column": func(t *backup.Table) bool { t.Columns[0].Name += "x"; return true },
		"another type":   func(t *backup.Table) bool { t.Columns[0].Type = backup.Bytes; return true },
		"a column less":  func(t *backup.Table) bool { t.Columns = t.Columns[1:]; return len(t.Columns) > 0 },
	} {
		wantCode(t, name, p.restore(t, rewritten(t, file, same, change)), backup.CodeDamaged)
		p.wantClosed(t, "restore_unfinished")
	}
}

func emptyHasNone(t *testing.T, _ *store.Store, p Place) {
	s := p.attached(t)
	defer closed(t, s)
	_, _, err := s.Backup(t.Context(), store.BackupOptions{ID: "bak_1", CreatedAt: now}, io.Discard)
	wantCode(t, "a backup of an empty database", err, "no_installation")
}

// Upgraded backs the older database up without changing it, restores it into place, and wants the organization there.
func Upgraded(t *testing.T, older func(context.Context) (*store.Store, error), p Place, organization string) {
	s, err := older(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := backedUp(t, s)
	if err := s.Ready(t.Context()); fault.Code(err) != "schema_older" {
		t.Errorf("after the backup: %v, want the schema as it was", err)
	}
	closed(t, s)
	if got := verified(t, file).Header.Schema; got != 1 {
		t.Errorf("the backup is of schema %d, want 1", got)
	}
	if err := p.restore(t, file); err != nil {
		t.Fatalf("restore: %v", err)
	}
	back := p.ready(t)
	view(t, back, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Organization(ctx, organization)
		return err
	})
	if got, err := back.Schema(t.Context()); err != nil || got != golden {
		same(t, "schema after the restore", got, golden)
	}
}
