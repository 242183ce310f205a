package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/internal/testkit/smalldisk"
	"holdfast.dev/holdfast/test/load"
)

// A disk that is full refuses saves with a text that says what to do, and nothing else: what is stored stays readable,
// locks stay as they are, and once there is room everything works again, in the same process.
func TestFullDisk(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		program, err := built()
		if err != nil {
			t.Fatal(err)
		}
		m := stand(t, &mortal{program: program, dir: dir, disk: 24 << 20})
		disk := smalldisk.Of(m.process.Load().PID(), dir)
		f := fullDisk(t, m, disk)
		f.checkCopy(m, disk)
	})
	t.Run("postgres", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "holdfast-disk-") // not the test's: PostgreSQL's user has to find it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
			t.Fatal(err)
		}
		database, err := pgtest.StartOn(t.Context(), dir, func(cmd *exec.Cmd) error { return smalldisk.On(cmd, dir, 80<<20) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := database.Stop(); err != nil {
				t.Error(err)
			}
		})
		disk := smalldisk.Of(database.PID(), dir)
		m := start(t, t.TempDir(), database.URL)
		f := fullDisk(t, m, disk)
		f.fullJournal(m, database, disk)
	})
}

// filling is a client that meets a disk without room.
type filling struct {
	*load.Client
	t      *testing.T
	stored map[string]uint64 // serials that were acknowledged last
}

func fullDisk(t *testing.T, m *mortal, disk smalldisk.Disk) *filling {
	f := &filling{Client: load.NewClient(m.at().URL, m.at().Token), t: t, stored: map[string]uint64{}}
	t.Cleanup(f.Close)
	for _, name := range []string{"small", "large"} {
		f.mustLock(name, "a")
		f.mustSave(name, "a")
	}
	f.mustUnlock("large", "a")
	f.mustLock("large", "b")

	for round := range 2 {
		if err := disk.Fill(0); err != nil {
			t.Fatal(err)
		}
		f.saveUntilFull(m, "large", "b")
		f.saveUntilFull(m, "small", "a")
		f.checkRead()
		if status, _ := get(t, m, "/healthz"); status != http.StatusOK {
			t.Errorf("on a full disk, /healthz = %d", status)
		}
		f.checkLocks(m, fmt.Sprint("c", round))
		if err := disk.Free(); err != nil {
			t.Fatal(err)
		}
		f.recovered(m, round)
	}
	m.verified(t, "")
	return f
}

// checkCopy kills the server, and starts another one on the files as the full disk left them.
func (f *filling) checkCopy(m *mortal, disk smalldisk.Disk) {
	f.t.Helper()
	kept, err := os.OpenRoot(disk.Dir()) // the disk lives as long as this, or the server
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	if err := m.process.Load().Kill(); err != nil {
		f.t.Fatal(err)
	}
	dir := f.t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "data"), kept.FS()); err != nil {
		f.t.Fatal(err)
	}
	again := start(f.t, filepath.Join(dir, "data"), "")
	f.Client = load.NewClient(again.at().URL, again.at().Token)
	f.checkRead()
	f.mustSave("small", "a")
	again.verified(f.t, "")
	again.quiet(f.t)
}

// fullJournal takes the room that PostgreSQL needs for its journal, without which it ends itself. Holdfast stays, says
// so, and goes on once the database is back.
func (f *filling) fullJournal(m *mortal, database *pgtest.Server, disk smalldisk.Disk) {
	f.t.Helper()
	if err := disk.Fill(0); err != nil {
		f.t.Fatal(err)
	}
	conn, err := pgx.Connect(f.t.Context(), database.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
	for n := 0; err == nil; n++ {
		if n > 1000 {
			f.t.Fatal("PostgreSQL writes 1000 MB to a disk of 80")
		}
		_, err = conn.Exec(f.t.Context(), "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)), pg_switch_wal()")
	}
	f.full(f.save("small", "a"))
	if status, _ := get(f.t, m, "/healthz"); status != http.StatusOK {
		f.t.Errorf("without a database, /healthz = %d", status)
	}
	if status, _ := get(f.t, m, "/readyz"); status != http.StatusServiceUnavailable {
		f.t.Errorf("without a database, /readyz = %d, want 503", status)
	}
	if err := disk.Free(); err != nil {
		f.t.Fatal(err)
	}
	if err := database.Crash(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.recovered(m, 2)
	m.verified(f.t, "")
}

func (f *filling) document(name string, serial uint64) []byte {
	size := 2 << 10
	if name == "large" {
		size = 700 << 10
	}
	return load.Document(serial, name, size, load.Incompressible)
}

func (f *filling) save(name, lock string) error {
	serial := f.stored[name] + 1
	err := f.Post(f.t.Context(), name, lock, f.document(name, serial))
	if err == nil {
		f.stored[name] = serial
	}
	return err
}

func (f *filling) mustSave(name, lock string) {
	f.t.Helper()
	if err := f.save(name, lock); err != nil {
		f.t.Fatal(err)
	}
}

func (f *filling) mustLock(name, lock string) {
	f.t.Helper()
	if err := alone(f.Lock(f.t.Context(), name, lock)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *filling) mustUnlock(name, lock string) {
	f.t.Helper()
	if err := alone(f.Unlock(f.t.Context(), name, lock)); err != nil {
		f.t.Fatal(err)
	}
}

// saveUntilFull saves until that is refused: a database has some room in its own files.
func (f *filling) saveUntilFull(m *mortal, name, lock string) {
	f.t.Helper()
	for range 2000 {
		if err := f.save(name, lock); err != nil {
			f.full(err)
			return
		}
	}
	f.t.Fatalf("%s is saved again and again on a full disk", name)
}

// full checks a refusal for want of room.
func (f *filling) full(err error) {
	f.t.Helper()
	var p api.Problem
	r, ok := errors.AsType[*load.Refused](err)
	if !ok || r.Status != http.StatusInsufficientStorage && r.Status != http.StatusServiceUnavailable {
		f.t.Fatalf("on a full disk: %v; want 507 or 503", err)
	}
	if err := json.Unmarshal(r.Body, &p); err != nil || p.Code == "" || p.Detail == "" || p.Hint == "" {
		f.t.Fatalf("on a full disk: %s, %v; want a problem that says what to do", r.Body, err)
	}
}

// checkRead: everything that was acknowledged is read, byte for byte.
func (f *filling) checkRead() {
	f.t.Helper()
	for name, serial := range f.stored {
		got, err := f.Get(f.t.Context(), name)
		if err != nil {
			f.t.Fatalf("read %s: %v", name, err)
		}
		if !bytes.Equal(got, f.document(name, serial)) {
			f.t.Fatalf("%s has other bytes than were acknowledged with serial %d", name, serial)
		}
	}
}

// checkLocks: a lock that is asked for is had or refused for want of room, a release likewise; somebody else's lock is
// reported as ever, and none is lost.
func (f *filling) checkLocks(m *mortal, id string) {
	f.t.Helper()
	ctx := f.t.Context()
	if held, err := f.Lock(ctx, "other", id); err != nil {
		f.full(err)
	} else if held == "" {
		if _, err := f.Unlock(ctx, "other", id); err != nil {
			f.full(err)
		}
	}
	if held, err := f.Lock(ctx, "small", id); err != nil || held != "a" {
		f.t.Errorf("a lock that somebody has: held by %q, %v; want a", held, err)
	}
	for name, lock := range map[string]string{"small": "a", "large": "b"} {
		s, err := m.client(f.t).State(ctx, name)
		if err != nil || s.Lock == nil || s.Lock.ID != lock {
			f.t.Errorf("%s on a full disk: %+v, %v; want the lock %s", name, s, err, lock)
		}
	}
}

// recovered: with room, the holders of the locks go on, and others may come. No restart is needed.
func (f *filling) recovered(m *mortal, round int) {
	f.t.Helper()
	patience := time.After(time.Minute)
	for err := f.save("small", "a"); err != nil; err = f.save("small", "a") {
		if !load.Repeatable(err) {
			f.full(err)
		}
		select {
		case <-patience:
			f.t.Fatalf("there is room again, and still: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	f.mustSave("large", "b")
	f.checkRead()
	id := fmt.Sprint("after", round)
	f.mustLock(id, id)
	f.mustSave(id, id)
	f.mustUnlock(id, id)
	if status, body := get(f.t, m, "/readyz"); status != http.StatusOK {
		f.t.Errorf("with room again, /readyz = %d %s", status, body)
	}
}

func get(t *testing.T, m *mortal, path string) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.at().URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}
