package chaos_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

const (
	backupStates = 12
	backupState  = 3 << 20 // bytes of each
	// A restore commits every 16 MiB: these are sizes of the database before the first commit and after it.
	early, late = 1 << 20, 20 << 20
)

// Backups and restores are killed as they go: what is under the backup's name is whole, a database that is half restored
// is served by nobody, and the same commands again bring everything to its end.
func TestKilledBackupAndRestore(t *testing.T) {
	m := start(t, t.TempDir(), "")
	documents := map[string]string{}
	for i := range backupStates {
		name, doc := fmt.Sprint("state-", i), largeDocument(t)
		documents[name] = doc
		stateRequest(t, m, http.MethodPost, name, doc)
	}
	file, anchor := killedBackups(t, m)
	t.Run("into sqlite", func(t *testing.T) {
		dir := t.TempDir()
		restoreKilled(t, file, anchor, documents, &mortal{dir: dir}, func() int64 { return sizeOf(filepath.Join(dir, "holdfast.db*")) })
	})
	t.Run("into postgres", func(t *testing.T) {
		url := pgtest.New(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		size := func() (n int64) {
			if err := conn.QueryRow(t.Context(), "SELECT pg_database_size(current_database())").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		empty := size()
		restoreKilled(t, file, anchor, documents, &mortal{dir: t.TempDir(), database: url}, func() int64 { return size() - empty })
	})
}

func largeDocument(t *testing.T) string {
	t.Helper()
	noise := make([]byte, backupState)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	return `{"version":4,"serial":1,"lineage":"l","outputs":{"o":{"value":"` + base64.StdEncoding.EncodeToString(noise) + `","type":"string"}},"resources":[]}`
}

func stateRequest(t *testing.T, m *mortal, method, name, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, m.at().URL+"/api/tf-states/"+name+"/state", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+m.at().Token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v", method, name, resp.Status, err)
	}
	return string(got)
}

// command is the program with another command, on the server's settings.
func (m *mortal) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"HOLDFAST_DATA_DIR=" + m.dir, "HOLDFAST_LISTEN_ADDR=127.0.0.1:0", "HOLDFAST_TF_STATE_ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	if m.database != "" {
		cmd.Env = append(cmd.Env, "HOLDFAST_DATABASE_URL="+m.database)
	}
	return cmd
}

// exits runs a command to its end and wants the exit code, and what it says.
func (m *mortal) exits(t *testing.T, code int, says string, args ...string) string {
	t.Helper()
	cmd := m.command(t, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code || !strings.Contains(said.String(), says) {
		t.Fatalf("holdfast %s: %v, %q, want exit code %d and %q", strings.Join(args, " "), err, said.String(), code, says)
	}
	return out.String()
}

// killAt starts a command and kills it once reached is true. It reports whether it was in time.
func (m *mortal) killAt(t *testing.T, reached func() bool, args ...string) bool {
	t.Helper()
	cmd := m.command(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case err := <-ended:
			if err != nil {
				t.Fatalf("holdfast %s, before it was killed: %v", strings.Join(args, " "), err)
			}
			return false
		}
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return <-ended != nil
}

func sizeOf(pattern string) (n int64) {
	found, _ := filepath.Glob(pattern) // the pattern is a good one
	for _, path := range found {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// killedBackups kills backups at several sizes, and then makes one.
func killedBackups(t *testing.T, m *mortal) (file, anchor string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "one.backup")
	inTime := 0
	for _, size := range []int64{0, 1 << 20, 10 << 20} {
		reached := func() bool { return sizeOf(filepath.Join(dir, ".holdfast-*")) > size }
		if m.killAt(t, reached, "admin", "backup", "--force", "--output", file) {
			inTime++
		}
		wantWhole(t, file)
		left, _ := filepath.Glob(filepath.Join(dir, ".holdfast-*"))
		for _, path := range left {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if inTime == 0 {
		t.Error("no backup was killed in time")
	}
	var made backup.Header
	if err := json.Unmarshal([]byte(m.exits(t, 0, "", "admin", "backup", "--force", "--json", "--output", file)), &made); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, file)
	t.Logf("%d backups were killed", inTime)
	return file, made.Audit[0].String()
}

// wantWhole wants no file, or a whole one.
func wantWhole(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := backup.Verify(f, func(int64) error { return nil }); err != nil {
		t.Fatalf("under the backup's name is %v", err)
	}
}

// restoreKilled kills restores into an empty database, restores, and compares what is served.
func restoreKilled(t *testing.T, file, anchor string, documents map[string]string, m *mortal, size func() int64) {
	t.Helper()
	killed := func(at int64) bool {
		if !m.killAt(t, func() bool { return size() > at }, "admin", "restore", file) {
			return false
		}
		m.exits(t, 2, "holdfast admin restore FILE", "server")
		m.exits(t, 1, "holdfast admin restore FILE", "admin", "after-restore")
		return true
	}
	if !killed(early) {
		t.Fatal("the restore ended before it was killed, at its beginning")
	}
	if killed(late) {
		m.exits(t, 0, "", "admin", "restore", file)
	} else {
		t.Log("the second restore came to its end before it could be killed")
	}
	m.exits(t, 2, "holdfast admin after-restore", "server")
	m.exits(t, 0, "", "admin", "after-restore")
	back := start(t, m.dir, m.database)
	for name, doc := range documents {
		if got := stateRequest(t, back, http.MethodGet, name, ""); got != doc {
			t.Errorf("%s has %d bytes after the restore, or others; it had %d", name, len(got), len(doc))
		}
	}
	back.verified(t, anchor)
}
