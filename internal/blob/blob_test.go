package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/testkit/s3test"
)

const bucket = "holdfast-blobs"

// open is a store in the bucket of server, with credentials from the environment as everywhere.
func open(t *testing.T, server *s3test.Server, change func(o *Options)) *Store {
	t.Helper()
	for _, line := range server.Environ() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	endpoint, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Bucket: bucket, Endpoint: endpoint, Region: s3test.Region, PathStyle: true, CAFile: server.CAFile}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

// put writes b in pieces as a sealer does.
func put(ctx context.Context, s *Store, key string, b []byte) error {
	w := s.Create(ctx, key)
	defer w.Discard()
	for piece := range slices.Chunk(b, 16<<10) {
		if n, err := w.Write(piece); err != nil || n != len(piece) {
			return err
		}
	}
	return w.Close()
}

func get(ctx context.Context, s *Store, key string) ([]byte, error) {
	r, size, err := s.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if err == nil && int64(len(b)) != size {
		err = errors.New("another size than announced")
	}
	return b, errors.Join(err, r.Close())
}

func wantCode(t *testing.T, what string, err error, kind fault.Kind, code string) {
	t.Helper()
	f := fault.From(err)
	if f.Kind != kind || f.Code != code {
		t.Errorf("%s: %v, want %s %s", what, err, kind, code)
		return
	}
	if f.Hint == "" && kind == fault.Unavailable {
		t.Errorf("%s: %q says nothing to do about it", what, f.Public)
	}
	if strings.Contains(err.Error(), s3test.SecretKey) {
		t.Errorf("%s: the error shows the secret: %v", what, err)
	}
}

func TestBlobComesBack(t *testing.T) {
	server := s3test.Start(t, bucket)
	for _, prefix := range []string{"", "team/"} {
		s := open(t, server, func(o *Options) { o.Prefix = prefix })
		for _, n := range []int{1, 70 << 10, partBytes - 1, partBytes, partBytes + 1, 2 * partBytes, 2*partBytes + 77} {
			want := noise(n)
			if err := put(t.Context(), s, "org_1/state/wri_1", want); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if got, err := get(t.Context(), s, "org_1/state/wri_1"); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d came back, or others, %v", n, len(got), err)
			}
			if got := server.Objects(bucket); !slices.Equal(got, []string{prefix + "org_1/state/wri_1"}) || server.Uploads(bucket) != 0 {
				t.Errorf("%d bytes: the bucket holds %v and %d uploads", n, got, server.Uploads(bucket))
			}
		}
		for range 2 { // nothing is there the second time
			if err := s.Remove(t.Context(), "org_1/state/wri_1"); err != nil {
				t.Errorf("remove: %v", err)
			}
		}
		_, err := get(t.Context(), s, "org_1/state/wri_1")
		wantCode(t, "what was removed", err, fault.NotFound, "blob_missing")
	}
	if got := server.Objects(bucket); len(got) != 0 {
		t.Errorf("the bucket holds %v after all was removed", got)
	}
}

// Of a blob that is not closed nothing is to be seen, whether it was given up or its writer died.
func TestUnfinishedBlob(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	for _, died := range []bool{false, true} {
		w := s.Create(t.Context(), "org_1/state/wri_1")
		if _, err := w.Write(noise(2*partBytes + 1)); err != nil {
			t.Fatal(err)
		}
		if server.Uploads(bucket) != 1 {
			t.Fatalf("%d uploads are under way, want 1: the test tests nothing", server.Uploads(bucket))
		}
		_, err := get(t.Context(), s, "org_1/state/wri_1")
		wantCode(t, "before Close", err, fault.NotFound, "blob_missing")
		if died {
			if err := s.Remove(t.Context(), "org_1/state/wri_1"); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err == nil {
				t.Error("an upload that was removed was completed")
			}
		} else {
			w.Discard()
			w.Discard()
		}
		if got := server.Objects(bucket); len(got) != 0 || server.Uploads(bucket) != 0 {
			t.Errorf("died %v: %v and %d uploads are left", died, got, server.Uploads(bucket))
		}
	}
}

// Other keys that begin like the removed one stay, and so do the uploads for them.
func TestRemoveTakesNoOthers(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	if err := put(t.Context(), s, "org_1/state/wri_12", []byte("x")); err != nil {
		t.Fatal(err)
	}
	w := s.Create(t.Context(), "org_1/state/wri_13")
	defer w.Discard()
	if _, err := w.Write(noise(partBytes + 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "org_1/state/wri_1"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("the upload beside: %v", err)
	}
	if got := server.Objects(bucket); len(got) != 2 {
		t.Errorf("the bucket holds %v, want two objects", got)
	}
}

func TestStoreThatIsAway(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), s, "a/b/c", []byte("x")); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	_, readErr := get(t.Context(), s, "a/b/c")
	for what, err := range map[string]error{
		"ready": s.Ready(t.Context()), "write": put(t.Context(), s, "a/b/d", []byte("x")), "large write": put(t.Context(), s, "a/b/d", noise(partBytes+1)),
		"read": readErr, "remove": s.Remove(t.Context(), "a/b/c"),
	} {
		wantCode(t, what, err, fault.Unavailable, "blob_store_unreachable")
	}
	server.Restart()
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if got, err := get(t.Context(), s, "a/b/c"); err != nil || string(got) != "x" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

// A store that takes connections and says nothing holds nobody longer than the caller's patience.
func TestStoreThatHangs(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	server.Hang()
	wantCode(t, "ready", s.Ready(t.Context()), fault.Unavailable, "blob_store_unreachable")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := put(ctx, s, "a/b/c", []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was given up: %v, want context.Canceled", err)
	}
}

// A body that stops on its way is an error and no end.
func TestBodyThatIsCut(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	if err := put(t.Context(), s, "a/b/c", noise(64<<20)); err != nil { // more than what stands in buffers on the way
		t.Fatal(err)
	}
	r, _, err := s.Open(t.Context(), "a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	_, err = io.Copy(io.Discard, r)
	wantCode(t, "the rest", errors.Join(err, r.Close()), fault.Unavailable, "blob_store_unreachable")
}

func TestStoreThatRefuses(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, func(o *Options) { o.Bucket = "another-bucket" })
	wantCode(t, "ready without the bucket", s.Ready(t.Context()), fault.Unavailable, "blob_store_refused")
	wantCode(t, "write without the bucket", put(t.Context(), s, "a/b/c", []byte("x")), fault.Unavailable, "blob_store_refused")
	_, err := get(t.Context(), s, "a/b/c")
	wantCode(t, "read without the bucket", err, fault.Unavailable, "blob_store_refused")

	s = open(t, server, nil)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not the secret")
	wantCode(t, "ready with a wrong secret", s.Ready(t.Context()), fault.Unavailable, "blob_store_refused")
	wantCode(t, "write with a wrong secret", put(t.Context(), s, "a/b/c", []byte("x")), fault.Unavailable, "blob_store_refused")
}

// Credentials also come from the shared file, by profile.
func TestCredentialsFile(t *testing.T) {
	server := s3test.Start(t, bucket)
	s := open(t, server, nil)
	file := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n[tests]\naws_access_key_id = " + s3test.AccessKey +
		"\naws_secret_access_key = " + s3test.SecretKey + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_PROFILE", "tests")
	if err := put(t.Context(), s, "a/b/c", []byte("x")); err != nil {
		t.Error(err)
	}
}

func TestOwnAuthority(t *testing.T) {
	server := s3test.StartTLS(t, bucket)
	s := open(t, server, nil)
	want := noise(partBytes + 1)
	if err := put(t.Context(), s, "a/b/c", want); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t.Context(), s, "a/b/c"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, or others, %v", len(got), err)
	}
	s = open(t, server, func(o *Options) { o.CAFile = "" })
	wantCode(t, "a certificate of an authority that is not known", s.Ready(t.Context()), fault.Unavailable, "blob_store_unreachable")
	for what, path := range map[string]string{"no file": filepath.Join(t.TempDir(), "none"), "no certificate": os.Args[0]} {
		if _, err := Open(Options{Bucket: bucket, CAFile: path}); err == nil {
			t.Errorf("%s was taken as authorities", what)
		}
	}
}
