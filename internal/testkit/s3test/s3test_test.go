package s3test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func client(t *testing.T, s *Server) *minio.Client {
	t.Helper()
	c, err := minio.New(s.listener.Addr().String(), &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What a test is given is an S3 server: it keeps what it is sent while it is away, and asks for a signature.
func TestServer(t *testing.T) {
	s := Start(t, "one-bucket")
	c := client(t, s)
	want := bytes.Repeat([]byte("state "), 1<<20)
	if _, err := c.PutObject(t.Context(), "one-bucket", "a/b", bytes.NewReader(want), int64(len(want)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := s.Objects("one-bucket"); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("objects = %v, want a/b", got)
	}
	s.Stop()
	if _, err := c.StatObject(t.Context(), "one-bucket", "a/b", minio.StatObjectOptions{}); err == nil {
		t.Error("a stopped server answers")
	}
	s.Restart()
	o, err := c.GetObject(t.Context(), "one-bucket", "a/b", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after the restart: %d bytes, %v; want the %d that were put", len(got), err, len(want))
	}
	stranger, err := minio.New(s.listener.Addr().String(), &minio.Options{Creds: credentials.NewStaticV4(AccessKey, "another", ""), Region: Region})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.StatObject(t.Context(), "one-bucket", "a/b", minio.StatObjectOptions{}); minio.ToErrorResponse(err).StatusCode != 403 {
		t.Errorf("with another secret: %v, want 403", err)
	}
}
