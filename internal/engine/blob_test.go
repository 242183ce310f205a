package engine_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/blob"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/internal/testkit/s3test"
)

// TestMain gives the object store's client its credentials in the one place where it looks for them.
func TestMain(m *testing.M) {
	for _, line := range (&s3test.Server{}).Environ() {
		name, value, _ := strings.Cut(line, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// onEachPlace runs a test on both databases, with large objects in each and in an object store beside each.
func onEachPlace(t *testing.T, test func(t *testing.T, s *states)) {
	t.Helper()
	onEachStore(t, test)
	withBlobs(t, func(t *testing.T, s *states, _ *s3test.Server) { test(t, s) })
}

const bucket = "holdfast-test"

// withBlobs runs a test on both databases, each with an object store of its own.
func withBlobs(t *testing.T, test func(t *testing.T, s *states, server *s3test.Server)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) (*store.Store, error){
		"sqlite and S3": func(t *testing.T) (*store.Store, error) {
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"))
		},
		"postgres and S3": func(t *testing.T) (*store.Store, error) {
			return postgres.Open(t.Context(), postgres.Options{URL: pgtest.New(t), Logger: slog.New(slog.DiscardHandler)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			server := s3test.Start(t, bucket)
			test(t, newStatesIn(t, db, openBlobs(t, server)), server)
		})
	}
}

func openBlobs(t *testing.T, server *s3test.Server) engine.Blobs {
	t.Helper()
	endpoint, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(blob.Options{Bucket: bucket, Endpoint: endpoint, Region: s3test.Region, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

// sweepAway has everything removed that nothing refers to and nobody is writing.
func (s *states) sweepAway(t *testing.T) {
	t.Helper()
	for range 2 { // the first sees it, the second removes it after the grace
		if err := s.Housekeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.advance(11 * time.Minute)
	}
	if err := s.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantObjects compares what the bucket holds with how many objects of the database are there.
func wantObjects(t *testing.T, server *s3test.Server, want int) {
	t.Helper()
	if got := server.Objects(bucket); len(got) != want || server.Uploads(bucket) != 0 {
		t.Errorf("the bucket holds %d objects and %d uploads under way, want %d and none: %v", len(got), server.Uploads(bucket), want, got)
	}
}

// bigDoc is a state document whose sealed form does not fit into a row; texts are those of other values.
func bigDoc(serial int, lineage, text string) string {
	return doc(serial, lineage, text+base64.StdEncoding.EncodeToString(noise(200<<10)))
}

// Everything that is done with a large state is done with its bytes in the object store, and they go with it.
func TestLargeStateInObjectStore(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		first := bigDoc(1, "l", "one")
		s.save(t, ann, "net", "A", first)
		if got := s.read(t, ann, "net"); got != first {
			t.Errorf("%d bytes came back, want the %d written", len(got), len(first))
		}
		wantObjects(t, server, 1)
		if got := server.Objects(bucket)[0]; !strings.HasPrefix(got, s.org+"/state/wri_") {
			t.Errorf("its key is %s, want organization/kind/id", got)
		}
		if raw, err := os.ReadFile(server.Path(bucket, server.Objects(bucket)[0])); err != nil || bytes.Contains(raw, []byte("terraform")) {
			t.Errorf("the stored bytes show the document, or cannot be read: %v", err)
		}
		s.mustLock(t, ann, "net", "B")
		for i := range 3 { // saves of one lock replace one another
			s.mustWrite(t, ann, "net", "B", bigDoc(2+i, "l", "two"))
		}
		_, err := s.WriteState(t.Context(), ann, "net", write("B", bigDoc(9, "other", "quarantined")))
		wantRefused(t, "another lineage", err, "other_lineage")
		s.mustUnlock(t, ann, "net", "B")
		if got := s.versions(t, "net"); got != "q3:9 2:4 1:1" {
			t.Fatalf("versions %q", got)
		}
		s.sweepAway(t)
		wantObjects(t, server, 3)
		v, err := s.RollbackState(t.Context(), ann, "net", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.read(t, ann, "net"), strings.Replace(first, `"serial":1`, fmt.Sprintf(`"serial":%d`, v.Serial.N), 1); got != want {
			t.Errorf("rolled back to %d bytes, want %d, or others", len(got), len(want))
		}
		if _, err := s.AcceptVersion(t.Context(), ann, "net", 3); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteState(t.Context(), eve, "net", false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.RestoreState(t.Context(), eve, "net"); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, ann, "net"); got != bigDoc(9, "other", "quarantined") {
			t.Errorf("%d bytes came back after deletion and restore, or others", len(got))
		}
		s.sweepAway(t)
		left := len(server.Objects(bucket))
		if err := s.DeleteState(t.Context(), eve, "net", true); err != nil {
			t.Fatal(err)
		}
		for range 2 { // whoever reads it has time to finish
			if err := s.Housekeep(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.advance(4 * time.Minute)
		}
		wantObjects(t, server, left)
		s.sweepAway(t)
		wantObjects(t, server, 0)
	})
}

// Rewrapping changes rows, and no byte in the object store.
func TestRewrapLeavesObjectStoreAlone(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann := s.user("ann", access.Operator)
		before := s.with(t, platformKey(t, 1))
		before.save(t, ann, "net", "A", bigDoc(1, "l", "v"))
		path := server.Path(bucket, server.Objects(bucket)[0])
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, failed := s.with(t, platformKey(t, 2, 1)).rewrap(t); len(failed) != 0 {
			t.Fatal(failed)
		}
		if got := s.with(t, platformKey(t, 2)).read(t, ann, "net"); got != bigDoc(1, "l", "v") {
			t.Errorf("%d bytes came back under the new key, or others", len(got))
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, raw) {
			t.Errorf("the stored bytes changed, or are gone: %v", err)
		}
	})
}

// S18: a record whose blob is missing or another one is an error that names the object, and never an empty state.
func TestRecordWithoutBlob(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "other", "A", bigDoc(1, "l", "other"))
		otherPath := server.Path(bucket, server.Objects(bucket)[0])
		v := s.save(t, ann, "net", "A", bigDoc(1, "l", "mine"))
		path := server.Path(bucket, s.org+"/state/"+v.ID)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(otherPath)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(whole)
		flipped[len(flipped)/2] ^= 1
		for what, c := range map[string]struct {
			bytes []byte // nil: no file
			code  string
		}{
			"missing": {nil, "object_missing"}, "empty": {[]byte{}, "sealed_damaged"}, "cut": {whole[:len(whole)-1], "sealed_damaged"},
			"longer": {append(bytes.Clone(whole), 0), "sealed_damaged"}, "changed": {flipped, "sealed_damaged"},
			"another's": {append(bytes.Clone(other), make([]byte, len(whole))...)[:len(whole)], "sealed_damaged"},
		} {
			if c.bytes == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, c.bytes, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := s.ReadState(t.Context(), ann, "net")
			if err == nil {
				_, err = io.ReadAll(content.Body)
				err = errors.Join(err, content.Body.Close())
			}
			if f := fault.From(err); f.Kind != fault.Internal || f.Code != c.code || f.Hint == "" {
				t.Errorf("%s: %v, want an internal error %s that says what to do", what, err, c.code)
			}
			if err != nil && !strings.Contains(err.Error(), v.ID) {
				t.Errorf("%s: %v does not name %s", what, err, v.ID)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, ann, "net"); got != bigDoc(1, "l", "mine") {
			t.Error("brought back, it cannot be read")
		}
	})
}

// S18: whenever the server dies during a save, what is read afterwards is the old document or the new one, whole; what was
// acknowledged is the new one; and the object store is left with what the database refers to.
func TestServerDiesDuringSave(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann := s.user("ann", access.Operator)
		point := int64(1)
		for lived := false; !lived; point++ {
			name := fmt.Sprintf("net-%d", point)
			before, after := bigDoc(1, "l", "before"), bigDoc(2, "l", "after")
			s.save(t, ann, name, "A", before)
			s.mustLock(t, ann, name, "B")
			f := &fuse{}
			f.left.Store(point)
			c := s.config(t, mortalStore{s.store, f})
			c.Blobs = mortalBlobs{s.blobs, f}
			_, err := engine.New(c).WriteState(t.Context(), ann, name, write("B", after))
			lived = f.left.Load() > 0
			if lived && (err != nil || point < 6) {
				t.Fatalf("with %d points of death: %v: the test tests nothing", point, err)
			}
			got := s.read(t, ann, name)
			switch {
			case got != before && got != after:
				t.Fatalf("death %d: %d bytes are read, which are neither document", point, len(got))
			case err == nil && got != after:
				t.Fatalf("death %d: an acknowledged save is not there", point)
			}
			s.mustWrite(t, ann, name, "B", after) // the tool's repeat
			if got := s.versions(t, name); got != "2:2 1:1" {
				t.Fatalf("death %d: versions %q", point, got)
			}
		}
		s.advance(2 * time.Hour)
		s.sweepAway(t)
		wantObjects(t, server, 2*int(point-1))
	})
}

var errDead = errors.New("the server is dead")

// fuse burns with every step that could be the last.
type fuse struct{ left atomic.Int64 }

// step is an error from the last step on.
func (f *fuse) step() error {
	if f.left.Add(-1) <= 0 {
		f.left.Store(0)
		return errDead
	}
	return nil
}

type mortalStore struct {
	engine.Store
	f *fuse
}

func (m mortalStore) Update(ctx context.Context, fn func(engine.Tx) error) error {
	if err := m.f.step(); err != nil {
		return err
	}
	if err := m.Store.Update(ctx, fn); err != nil {
		return err
	}
	return m.f.step()
}

type mortalBlobs struct {
	engine.Blobs
	f *fuse
}

func (m mortalBlobs) Create(ctx context.Context, key string) engine.BlobWriter {
	return mortalWriter{m.Blobs.Create(ctx, key), m.f}
}

type mortalWriter struct {
	engine.BlobWriter
	f *fuse
}

func (m mortalWriter) Close() error {
	if err := m.f.step(); err != nil {
		return err
	}
	if err := m.BlobWriter.Close(); err != nil {
		return err
	}
	return m.f.step()
}

func (m mortalWriter) Discard() {
	if m.f.left.Load() > 0 {
		m.BlobWriter.Discard()
	}
}

// S18: bytes that no record refers to are removed, but not while they may still be.
func TestBlobWithoutRecord(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		o := s.seal(t, noise(300<<10))
		s.sweepAway(t)
		wantObjects(t, server, 1)
		s.advance(time.Hour)
		s.sweepAway(t)
		wantObjects(t, server, 0)
		err := s.store.Update(t.Context(), func(tx engine.Tx) error { return tx.AttachObject(t.Context(), o) })
		if fault.Code(err) != "blob_given_up" {
			t.Errorf("attaching what was swept: %v, want blob_given_up", err)
		}
	})
}

// A save may take longer than the age of what is swept, as long as it goes on.
func TestSlowSaveIsNotSwept(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		const piece = 2 << 20 // more than the compressor keeps to itself
		plain := noise(3 * piece)
		for _, pause := range []time.Duration{20 * time.Minute, 2 * time.Hour} { // and the sweep's own
			pass := later(func() {
				s.advance(pause)
				s.sweepAway(t)
			})
			body := io.MultiReader(bytes.NewReader(plain[:piece]), pass, bytes.NewReader(plain[piece:2*piece]), pass, bytes.NewReader(plain[2*piece:]))
			o, err := s.SealObject(t.Context(), s.org, "state", body, 64<<20)
			if pause > time.Hour {
				if fault.Code(err) != "blob_given_up" {
					t.Errorf("a save that stood still for %v: %v, want blob_given_up", pause, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.OpenObject(t.Context(), s.attach(t, o))
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, r); got != string(plain) {
				t.Errorf("%d bytes came back, or others", len(got))
			}
		}
		s.sweepAway(t)
		wantObjects(t, server, 1)
	})
}

// later does something when a reader comes to it, and has no bytes.
func later(do func()) io.Reader {
	return readerFunc(func([]byte) (int, error) { do(); return 0, io.EOF })
}

// While the object store is away, what is small is read and written as ever; what is large is refused so that it is tried
// again, and is there once the store is back.
func TestObjectStoreIsAway(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "small", "A", doc(1, "l", "v"))
		s.save(t, ann, "large", "A", bigDoc(1, "l", "v"))
		s.mustLock(t, ann, "large", "B")
		server.Stop()
		_, err := s.WriteState(t.Context(), ann, "large", write("B", bigDoc(2, "l", "w")))
		_, readErr := s.ReadState(t.Context(), ann, "large")
		for what, err := range map[string]error{"a large save": err, "a large read": readErr, "Ready": s.Ready(t.Context())} {
			if f := fault.From(err); f.Kind != fault.Unavailable || f.Code != "blob_store_unreachable" || f.RetryAfter <= 0 {
				t.Errorf("%s: %v, want unavailable with a time to come back", what, err)
			}
		}
		s.save(t, ann, "small", "B", doc(2, "l", "w"))
		if got := s.read(t, ann, "small"); got != doc(2, "l", "w") {
			t.Errorf("the small state is %q", got)
		}
		if got := s.versions(t, "large"); got != "1:1" {
			t.Errorf("versions of the large state: %q, want what was there", got)
		}
		server.Restart()
		if got := s.read(t, ann, "large"); got != bigDoc(1, "l", "v") {
			t.Errorf("%d bytes came back, or others", len(got))
		}
		s.mustWrite(t, ann, "large", "B", bigDoc(2, "l", "w")) // the tool's repeat
		s.mustUnlock(t, ann, "large", "B")
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("Ready = %v", err)
		}
		s.advance(2 * time.Hour)
		s.sweepAway(t)
		wantObjects(t, server, 2)
	})
}

// A server that is not told of the object store any more says so of what is there, and serves all else; one that only
// reads it puts what is new into the database and removes nothing.
func TestObjectStoreIsLeft(t *testing.T) {
	withBlobs(t, func(t *testing.T, s *states, server *s3test.Server) {
		ann, eve := s.user("ann", access.Operator), s.user("eve", access.Admin)
		s.save(t, ann, "old", "A", bigDoc(1, "l", "v"))
		c := s.config(t, s.store)
		c.Blobs = nil
		without := engine.New(c)
		if _, err := without.ReadState(t.Context(), ann, "old"); fault.Code(err) != "blob_store_unset" || !fault.Is(err, fault.Unavailable) ||
			!strings.Contains(fault.From(err).Hint, "HOLDFAST_BLOB_URL") {
			t.Errorf("without the setting: %v, want one that names it", err)
		}
		c = s.config(t, s.store)
		c.BlobsReadOnly = true
		reading := &states{Engine: engine.New(c), store: s.store, org: s.org, log: s.log}
		if got := reading.read(t, ann, "old"); got != bigDoc(1, "l", "v") {
			t.Errorf("%d bytes came back, or others", len(got))
		}
		reading.save(t, ann, "new", "A", bigDoc(1, "l", "v"))
		if got := without.Ready(t.Context()); got != nil {
			t.Errorf("Ready without the setting: %v", got)
		}
		if got := s.read(t, ann, "new"); got != bigDoc(1, "l", "v") {
			t.Errorf("%d bytes came back from the database, or others", len(got))
		}
		if err := reading.DeleteState(t.Context(), eve, "old", true); err != nil {
			t.Fatal(err)
		}
		s.advance(2 * time.Hour)
		reading.sweepAway(t)
		wantObjects(t, server, 1)
		s.sweepAway(t)
		wantObjects(t, server, 0)
	})
}
