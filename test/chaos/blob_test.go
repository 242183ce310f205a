package chaos_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path"
	"testing"

	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/internal/testkit/s3test"
	"holdfast.dev/holdfast/test/load"
)

const bucket = "holdfast-chaos"

// inBucket are the settings that put what is large into the bucket of server.
func inBucket(server *s3test.Server) []string {
	return append(server.Environ(), "HOLDFAST_BLOB_URL=s3://"+bucket+"/objects?use_path_style=true&region="+s3test.Region+"&endpoint="+server.Endpoint)
}

// S18, with what is large in an object store: the server is killed again and again between upload and record.
func TestKilledServerLosesNothingInObjectStore(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { killServer(t, "", inBucket(s3test.Start(t, bucket))...) })
	t.Run("postgres", func(t *testing.T) { killServer(t, pgtest.New(t), inBucket(s3test.Start(t, bucket))...) })
}

// The object store is killed and comes back, with what it had acknowledged; the writers of large states wait for it.
func TestKilledObjectStoreLosesNothing(t *testing.T) {
	server := s3test.Start(t, bucket)
	m := start(t, t.TempDir(), "", inBucket(server)...)
	s := put(t, m)
	for range sized(10, 2) {
		await(s.ctx, t, s.acked, 50)
		jitter()
		server.Stop()
		await(s.ctx, t, s.acked, writers) // the small ones go on
		server.Restart()
		await(s.ctx, t, s.acked, 50)
		s.check(t, m)
	}
	saved := s.end(t, m)
	m.verified(t, "")
	t.Logf("%d saves acknowledged, all there", saved)
}

// What a large save costs the server does not grow with the document: it passes through, a part at a time.
func TestMemoryOfLargeSaveInObjectStore(t *testing.T) {
	const mebibyte = 1 << 20
	server := s3test.Start(t, bucket)
	m := start(t, t.TempDir(), "", inBucket(server)...)
	pid := m.process.Load().PID()
	c := load.NewClient(m.at().URL, m.at().Token)
	defer c.Close()
	save := func(name string, document []byte) {
		t.Helper()
		if _, err := c.Lock(t.Context(), name, name); err != nil {
			t.Fatal(err)
		}
		if err := c.Post(t.Context(), name, name, document); err != nil {
			t.Fatal(err)
		}
		got, err := c.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, document) {
			t.Fatalf("%s: %d bytes came back, or others, %v", name, len(got), err)
		}
	}
	save("warm", load.Document(1, "warm", 10<<10, load.Incompressible))
	if err := load.ResetPeak(pid); err != nil {
		t.Fatal(err)
	}
	before, _, err := load.Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	save("large", load.Document(1, "large", 128*mebibyte-64<<10, load.Incompressible))
	_, peak, err := load.Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	if grown := peak - before; grown > 64*mebibyte { // half of what holding it once would cost; what is left to Go's collector varies
		t.Errorf("a save and a read of 128 MiB took the server from %d to %d MiB", before/mebibyte, peak/mebibyte)
	}
	t.Logf("a save and a read of 128 MiB took the server from %d to %d MiB", before/mebibyte, peak/mebibyte)
}

// A server whose object store is away starts, is not ready, serves what is small, and refuses what is large so that it is
// tried again.
func TestStartWithoutObjectStore(t *testing.T) {
	server := s3test.Start(t, bucket)
	server.Stop()
	m := start(t, t.TempDir(), "", inBucket(server)...)
	c := load.NewClient(m.at().URL, m.at().Token)
	defer c.Close()
	if status, body := get(t, m, "/readyz"); status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte("blob_store_unreachable")) {
		t.Errorf("readyz: %d %s, want 503 that names the object store", status, body)
	}
	small, large := load.Document(1, "small", 2<<10, load.Incompressible), load.Document(1, "large", 300<<10, load.Incompressible)
	if err := c.Post(t.Context(), "small", "", small); err != nil {
		t.Errorf("a small save: %v", err)
	}
	err := c.Post(t.Context(), "large", "", large)
	if r, ok := errors.AsType[*load.Refused](err); !ok || r.Status != http.StatusServiceUnavailable {
		t.Errorf("a large save: %v, want 503", err)
	}
	server.Restart()
	if status, body := get(t, m, "/readyz"); status != http.StatusOK {
		t.Errorf("readyz once it is back: %d %s", status, body)
	}
	if err := c.Post(t.Context(), "large", "", large); err != nil {
		t.Errorf("a large save once it is back: %v", err)
	}
	if got, err := c.Get(t.Context(), "large"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back, or others, %v", len(got), err)
	}
	// S18: a record without its bytes is a failure of the server and never 404, which is an empty state to the tools.
	keys := server.Objects(bucket)
	if len(keys) != 1 || path.Dir(path.Dir(path.Dir(keys[0]))) != "objects" {
		t.Fatalf("the bucket holds %v, want one object under the prefix", keys)
	}
	server.Lose(bucket, keys[0])
	got, err := c.Get(t.Context(), "large")
	if r, ok := errors.AsType[*load.Refused](err); !ok || r.Status != http.StatusInternalServerError || !bytes.Contains(r.Body, []byte("object_missing")) {
		t.Errorf("without its bytes: %d bytes, %v; want 500 object_missing", len(got), err)
	}
	said, err := os.ReadFile(m.log())
	if want := "level=ERROR msg=\"request failed\""; err != nil || !bytes.Contains(said, []byte(want)) || !bytes.Contains(said, []byte("code=object_missing")) || !bytes.Contains(said, []byte(path.Base(keys[0]))) {
		t.Errorf("the log does not name the object %s as lost: %v\n%s", path.Base(keys[0]), err, said)
	}
	for _, secret := range []string{s3test.AccessKey, s3test.SecretKey} {
		if bytes.Contains(said, []byte(secret)) {
			t.Errorf("the log shows %q", secret)
		}
	}
}
