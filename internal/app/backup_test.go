package app_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/testkit/baotest"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

func admins(s config.Server) app.Admin {
	return app.Admin{Settings: s, Version: "test", Log: slog.New(slog.DiscardHandler), Now: time.Now, Progress: func(string, int64) {}}
}

// written is the states that a server was given.
type written struct {
	mu   sync.Mutex
	sums map[string]map[string]bool // state -> the SHA-256 of each document that was sent
}

func (w *written) sent(name, doc string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sums[name] == nil {
		w.sums[name] = map[string]bool{}
	}
	w.sums[name][sum(doc)] = true
}

func (w *written) was(name, hash string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sums[name][hash]
}

func sum(doc string) string {
	s := sha256.Sum256([]byte(doc))
	return hex.EncodeToString(s[:])
}

// document has a serial and so many bytes that do not compress.
func document(serial, size int) string {
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{"o":{"value":%q,"type":"string"}},"resources":[]}`, serial, base64.StdEncoding.EncodeToString(noise))
}

// load writes the states left and right in turn, left first, until ctx ends: at every moment left is as far as right,
// or one ahead. And it writes a large one, whose bytes are in many rows.
func load(ctx context.Context, t *testing.T, s *server, w *written, progress chan<- int) {
	t.Helper()
	post := func(name string, serial, size int) bool {
		doc := document(serial, size)
		w.sent(name, doc)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL()+"/api/tf-states/"+name+"/state", strings.NewReader(doc))
		if err != nil {
			t.Error(err)
			return false
		}
		r.Header.Set("Authorization", "Bearer "+admin)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return false
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("saving %s %d: %s", name, serial, resp.Status)
		}
		return resp.StatusCode == http.StatusOK
	}
	for n := 1; ctx.Err() == nil; n++ {
		if !post("left", n, 200) || !post("right", n, 200) || n%3 == 1 && !post("large", n, 100<<10) {
			return
		}
		select {
		case progress <- n:
		default:
		}
	}
}

func TestBackupUnderLoadMovesBetweenDatabases(t *testing.T) {
	for name, c := range map[string]struct {
		from, to func(t *testing.T) config.Server
	}{
		"sqlite to postgres": {onSQLite, onPostgres},
		"postgres to sqlite": {onPostgres, onSQLite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, w := backUpUnderLoad(t, c.from(t))
			restoreAndCompare(t, c.to(t), file, w)
		})
	}
}

func onSQLite(t *testing.T) config.Server {
	return settings(t, t.TempDir(), "HOLDFAST_BOOTSTRAP_TOKEN="+admin)
}

func onPostgres(t *testing.T) config.Server {
	return settings(t, t.TempDir(), "HOLDFAST_BOOTSTRAP_TOKEN="+admin, "HOLDFAST_DATABASE_URL="+pgtest.New(t))
}

// backUpUnderLoad makes a backup while states are written, and stops the server.
func backUpUnderLoad(t *testing.T, s config.Server) (file string, w *written) {
	t.Helper()
	running, w := start(t, s), &written{sums: map[string]map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	progress, done := make(chan int), make(chan struct{})
	go func() {
		defer close(done)
		load(ctx, t, running, w, progress)
	}()
	waitFor(t, progress, done)
	file = filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	// The backup goes on only after the writers did, again and again: it is made while they write, not between.
	out := &slowed{w: f, wait: func() { waitFor(t, progress, done) }}
	if _, err := admins(s).Backup(t.Context(), out); err != nil {
		t.Fatalf("backup: %v", err)
	}
	if out.writes == 0 {
		t.Fatal("nothing was written")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, progress, done)
	stop()
	<-done
	running.stop()
	running.wait(t)
	return file, w
}

func waitFor(t *testing.T, progress <-chan int, done <-chan struct{}) {
	t.Helper()
	select {
	case <-progress:
	case <-done:
		t.Error("the writers have stopped")
	case <-time.After(60 * time.Second):
		t.Error("the writers do not get on")
	}
}

type slowed struct {
	w      io.Writer
	wait   func()
	writes int
}

func (s *slowed) Write(p []byte) (int, error) {
	if s.writes++; s.writes <= 5 {
		s.wait()
	}
	return s.w.Write(p)
}

// restoreAndCompare restores the file elsewhere, and compares all that a server serves from there with what was sent.
func restoreAndCompare(t *testing.T, s config.Server, file string, w *written) {
	t.Helper()
	a := admins(s)
	made, err := a.Restore(t.Context(), file)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if _, err := build(t.Context(), s, io.Discard); fault.Code(err) != "after_restore_needed" || !fault.Is(err, fault.Invalid) {
		t.Errorf("a server on what was just restored: %v, want it refused", err)
	}
	if _, err := a.Restore(t.Context(), file); fault.Code(err) != "after_restore_needed" {
		t.Errorf("restored twice: %v, want it refused", err)
	}
	if _, done, err := a.AfterRestore(t.Context(), false); err != nil || !done {
		t.Fatalf("after-restore: %t, %v", done, err)
	}
	if _, done, err := a.AfterRestore(t.Context(), false); err != nil || done {
		t.Errorf("after-restore again: %t, %v, want nothing to do", done, err)
	}
	running := start(t, s)
	serials := map[string]int64{}
	states, err := a.BackupStates(t.Context(), file, app.StateChoice{})
	if err != nil || len(states) != 3 {
		t.Fatalf("the backup has %d states, %v", len(states), err)
	}
	for _, st := range states {
		_, versions, err := a.BackupVersions(t.Context(), file, app.StateChoice{Name: st.Name})
		if err != nil || int64(len(versions)) != st.Versions || st.Versions == 0 {
			t.Fatalf("%s: %d of %d versions, %v", st.Name, len(versions), st.Versions, err)
		}
		serials[st.Name] = st.Version
		for _, v := range versions {
			var out bytes.Buffer
			if _, err := a.ExportState(t.Context(), file, app.StateChoice{Name: st.Name, Version: v.Version}, &out); err != nil {
				t.Fatalf("export %s %d: %v", st.Name, v.Version, err)
			}
			served := running.want(t, "GET", fmt.Sprintf("/api/tf-states/%s/versions/%d/content", st.Name, v.Version), "", 200)
			if served != out.String() || !w.was(st.Name, sum(served)) || v.SHA256 != sum(served) {
				t.Errorf("version %d of %s: what is served, what is exported and what was sent differ", v.Version, st.Name)
			}
		}
		if served := running.want(t, "GET", "/api/tf-states/"+st.Name+"/state", "", 200); sum(served) != st.SHA256 {
			t.Errorf("%s: another document is served than is current in the backup", st.Name)
		}
	}
	if ahead := serials["left"] - serials["right"]; ahead != 0 && ahead != 1 {
		t.Errorf("left is at version %d, right at %d: not one moment", serials["left"], serials["right"])
	}
	verified, err := running.as(t, admin).VerifyAudit(t.Context(), made.Header.Audit[0].String())
	if err != nil || !verified.Intact || verified.Records <= made.Header.Audit[0].Seq {
		t.Errorf("the audit log: %+v, %v, want it intact up to the anchor and the restore's record", verified, err)
	}
	if list, err := running.as(t, admin).Audit(t.Context(), client.AuditFilter{Action: "admin.restored"}, client.Page{}); err != nil || len(list.Items) != 1 || list.Items[0].Object != made.Header.ID {
		t.Errorf("the records of the restore: %+v, %v", list.Items, err)
	}
}

// backedUpState is the backup of one large state.
func backedUpState(t *testing.T, more ...string) (file, doc string, s config.Server) {
	t.Helper()
	s = settings(t, t.TempDir(), append([]string{"HOLDFAST_BOOTSTRAP_TOKEN=" + admin}, more...)...)
	running := start(t, s)
	doc = document(1, 300<<10)
	running.want(t, "POST", "/api/tf-states/net/state", doc, 200)
	file = filepath.Join(t.TempDir(), "backup")
	var out bytes.Buffer
	if _, err := admins(s).Backup(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	running.stop()
	running.wait(t)
	return file, doc, s
}

func offline(t *testing.T, environ ...string) app.Admin {
	t.Helper()
	s, _, err := config.LoadServer(environ)
	if err != nil {
		t.Fatal(err)
	}
	return admins(s)
}

func TestExportNeedsTheRightKeyAlone(t *testing.T) {
	file, doc, _ := backedUpState(t)
	const other = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU="
	for name, c := range map[string]struct {
		environ []string
		code    string
		says    string
	}{
		"the key":         {[]string{"HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + key}, "", ""},
		"an earlier key":  {[]string{"HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + other, "HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS=" + key}, "", ""},
		"only an old key": {[]string{"HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS=" + key}, "", ""},
		"no key":          {nil, config.CodeInvalid, "platform key 9cf62819"},
		"another key":     {[]string{"HOLDFAST_TF_STATE_ENCRYPTION_KEY=" + other}, "key_missing", "platform key 9cf62819"},
	} {
		var out bytes.Buffer
		_, err := offline(t, c.environ...).ExportState(t.Context(), file, app.StateChoice{Name: "net"}, &out)
		switch {
		case c.code == "" && (err != nil || out.String() != doc):
			t.Errorf("%s: %d bytes, %v, want the document", name, out.Len(), err)
		case c.code != "" && (fault.Code(err) != c.code || !strings.Contains(fault.From(err).Public, c.says) || out.Len() > 0):
			t.Errorf("%s: %d bytes, %v, want code %s that names %q", name, out.Len(), err, c.code, c.says)
		}
	}
	for what, c := range map[string]app.StateChoice{
		"state_not_found":   {Name: "nets"},
		"version_not_found": {Name: "net", Version: 7},
	} {
		if _, err := offline(t, "HOLDFAST_TF_STATE_ENCRYPTION_KEY="+key).ExportState(t.Context(), file, c, io.Discard); fault.Code(err) != what {
			t.Errorf("%+v: %v, want %s", c, err, what)
		}
	}
	if _, err := offline(t).ExportState(t.Context(), file, app.StateChoice{Name: "net", Organization: "others"}, io.Discard); fault.Code(err) != "state_not_found" {
		t.Errorf("another organization's: %v", err)
	}
}

func TestExportAsksTheKeyService(t *testing.T) {
	bao := baotest.New(t)
	service := backendSettings(t, bao.URL)
	file, doc, _ := backedUpState(t, service[1:]...)
	var out bytes.Buffer
	if _, err := offline(t, service...).ExportState(t.Context(), file, app.StateChoice{Name: "net"}, &out); err != nil || out.String() != doc {
		t.Errorf("with the service: %d bytes, %v, want the document", out.Len(), err)
	}
	if _, err := offline(t).ExportState(t.Context(), file, app.StateChoice{Name: "net"}, &out); fault.Code(err) != config.CodeInvalid || !strings.Contains(fault.From(err).Hint, "HOLDFAST_SECRET_BACKEND_INTERNAL_ADDR") {
		t.Errorf("without it: %v, want its setting named", err)
	}
	if _, err := offline(t, "HOLDFAST_TF_STATE_ENCRYPTION_KEY="+key).ExportState(t.Context(), file, app.StateChoice{Name: "net"}, &out); fault.Code(err) != "key_missing" {
		t.Errorf("with the platform key alone: %v, want key_missing", err)
	}
}

// A file that was damaged, or that is none, gives a refusal: to an export, and to a restore before its first write.
func TestDamagedFilesAreRefused(t *testing.T) {
	file, _, _ := backedUpState(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := admins(settings(t, t.TempDir()))
	try := func(what string, content []byte, code string) {
		t.Helper()
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := a.ExportState(t.Context(), bad, app.StateChoice{Name: "net"}, &out); fault.Code(err) != code || out.Len() > 0 {
			t.Errorf("%s: export gives %d bytes, %v, want code %s", what, out.Len(), err, code)
		}
		if _, err := a.Restore(t.Context(), bad); fault.Code(err) != code {
			t.Errorf("%s: restore gives %v, want code %s", what, err, code)
		}
	}
	try("cut in half", whole[:len(whole)/2], "backup_damaged")
	try("without its last byte", whole[:len(whole)-1], "backup_damaged")
	for _, at := range []int{len(whole) / 4, len(whole) / 2, len(whole) - 20} {
		changed := bytes.Clone(whole)
		changed[at] ^= 16
		try(fmt.Sprintf("byte %d changed", at), changed, "backup_damaged")
	}
	try("another file", []byte("hello"), "no_backup")
	try("nothing", nil, "no_backup")
	if _, err := os.Stat(filepath.Join(a.Settings.DataDir, "holdfast.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused restores made a database: %v", err)
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := a.Restore(t.Context(), path); fault.Code(err) != "file_unreadable" {
			t.Errorf("%s: %v, want file_unreadable", path, err)
		}
	}
}

// A database that came back by its own means has no mark. The settling can be asked for.
func TestAfterRestoreOfACopy(t *testing.T) {
	_, _, s := backedUpState(t)
	a := admins(s)
	if report, done, err := a.AfterRestore(t.Context(), false); done || err != nil || len(report.Organizations) != 0 {
		t.Errorf("unasked: %t, %v", done, err)
	}
	if report, done, err := a.AfterRestore(t.Context(), true); !done || err != nil || len(report.Organizations) != 1 {
		t.Errorf("asked: %t, %v, %d organizations", done, err, len(report.Organizations))
	}
	if list, err := start(t, s).as(t, admin).Audit(t.Context(), client.AuditFilter{Action: "admin.restored"}, client.Page{}); err != nil || len(list.Items) != 1 {
		t.Errorf("the records of it: %+v, %v", list.Items, err)
	}
}

// after-restore needs the keys: what it writes to the audit log is linked with one. With a wrong one it changes nothing.
func TestAfterRestoreNeedsTheKey(t *testing.T) {
	file, _, _ := backedUpState(t)
	s := settings(t, t.TempDir())
	if _, err := admins(s).Restore(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	wrong := offline(t, "HOLDFAST_DATA_DIR="+s.DataDir, "HOLDFAST_TF_STATE_ENCRYPTION_KEY=QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU=")
	if _, done, err := wrong.AfterRestore(t.Context(), false); done || fault.Code(err) != "key_missing" {
		t.Errorf("with another key: %t, %v, want key_missing", done, err)
	}
	if _, done, err := admins(s).AfterRestore(t.Context(), false); !done || err != nil {
		t.Errorf("with the right one: %t, %v", done, err)
	}
}

func TestBackupMakesNoDatabase(t *testing.T) {
	s := settings(t, t.TempDir())
	if _, err := admins(s).Backup(t.Context(), io.Discard); fault.Code(err) != config.CodeInvalid || !strings.Contains(fault.From(err).Hint, "HOLDFAST_DATA_DIR") {
		t.Errorf("a backup of nothing: %v, want the setting named", err)
	}
	if _, err := os.Stat(filepath.Join(s.DataDir, "holdfast.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made a database: %v", err)
	}
}
