// Package s3test gives tests an S3 server: versitygw, as released, on a temporary folder.
package s3test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/testkit/repo"
)

// What every server takes.
const (
	AccessKey = "holdfast-tests"
	SecretKey = "a secret of the tests"
	Region    = "us-east-1"
)

// startTimeout is ample: it starts in well under a second where nothing else runs.
const startTimeout = time.Minute

// Server is an S3 server on a port of this machine, which it keeps while it is stopped.
type Server struct {
	Endpoint string // such as http://127.0.0.1:34567
	CAFile   string // what a client has to trust; "" without TLS

	dir      string // of the buckets; see Path
	run      string // of its socket and its log
	tb       testing.TB
	listener net.Listener

	mu      sync.Mutex
	process *exec.Cmd
	alive   io.Closer // the process ends when this is closed, or when this test's process ends
	conns   map[net.Conn]bool
	hang    bool
}

// Start starts a server that has the given buckets. It ends with the test.
func Start(tb testing.TB, buckets ...string) *Server {
	tb.Helper()
	return start(tb, false, buckets)
}

// StartTLS is Start with TLS, under a certificate of its own that CAFile is the authority of.
func StartTLS(tb testing.TB, buckets ...string) *Server {
	tb.Helper()
	return start(tb, true, buckets)
}

func start(tb testing.TB, secure bool, buckets []string) *Server {
	tb.Helper()
	run, err := os.MkdirTemp("", "s3-") // not the test's own folder: a socket's path has to be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(run) })
	s := &Server{dir: tb.TempDir(), run: run, tb: tb, conns: map[net.Conn]bool{}}
	s.listen(secure)
	tb.Cleanup(func() {
		_ = s.listener.Close()
		s.Stop()
	})
	for _, b := range buckets {
		s.MakeBucket(b)
	}
	s.Restart()
	go s.serve()
	return s
}

// MakeBucket makes a bucket; at least 3 characters, as S3 wants them.
func (s *Server) MakeBucket(name string) {
	s.tb.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
		s.tb.Fatal(err)
	}
}

// Path is the file that holds an object. Changing it changes the object behind the server's back.
func (s *Server) Path(bucket, key string) string {
	return filepath.Join(s.dir, bucket, filepath.FromSlash(key))
}

// Lose has the server lose an object.
func (s *Server) Lose(bucket, key string) {
	s.tb.Helper()
	if err := os.Remove(s.Path(bucket, key)); err != nil {
		s.tb.Fatal(err)
	}
}

// Objects are the keys in a bucket, bytewise.
func (s *Server) Objects(bucket string) (keys []string) {
	s.tb.Helper()
	root := filepath.Join(s.dir, bucket)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist): // removed while it was looked at
			return nil
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".sgwtmp"):
			return filepath.SkipDir // uploads under way
		case !d.IsDir():
			key, err := filepath.Rel(root, path)
			keys = append(keys, filepath.ToSlash(key))
			return err
		}
		return nil
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	return keys
}

// Uploads counts the multipart uploads in a bucket that were begun and neither completed nor given up.
func (s *Server) Uploads(bucket string) (n int) {
	s.tb.Helper()
	keys, err := os.ReadDir(filepath.Join(s.dir, bucket, ".sgwtmp", "multipart")) // a folder for each key, in it one for each upload
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.tb.Fatal(err)
	}
	for _, key := range keys {
		uploads, err := os.ReadDir(filepath.Join(s.dir, bucket, ".sgwtmp", "multipart", key.Name()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.tb.Fatal(err)
		}
		n += len(uploads)
	}
	return n
}

// Environ are the variables that programs know the credentials by.
func (s *Server) Environ() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_REGION=" + Region}
}

// Restart starts the server again after Stop, with what it held.
func (s *Server) Restart() {
	s.tb.Helper()
	program, err := repo.Built("versitygw", "scripts/tool versitygw")
	if err != nil {
		s.tb.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(s.run, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the process has its own
	// The shell ends the server once its standard input ends: also when the test's process is killed.
	cmd := exec.Command("sh", "-c", `"$0" "$@" & server=$!; cat; kill -9 $server; wait $server; exit 0`,
		program, "--port", s.socket(), "--region", Region, "--quiet", "posix", s.dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ROOT_ACCESS_KEY_ID=" + AccessKey, "ROOT_SECRET_ACCESS_KEY=" + SecretKey}
	cmd.Stdout, cmd.Stderr = log, log
	in, err := cmd.StdinPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	_ = os.Remove(s.socket()) // of the one before, which was killed
	if err := cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.mu.Lock()
	s.process, s.alive, s.hang = cmd, in, false
	s.mu.Unlock()
	if err := s.await(); err != nil {
		said, _ := os.ReadFile(filepath.Join(s.run, "log"))
		s.tb.Fatalf("versitygw does not answer after %v: %v; it says: %s", startTimeout, err, said)
	}
}

func (s *Server) socket() string { return filepath.Join(s.run, "socket") }

func (s *Server) await() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var c net.Conn
		if c, err = (&net.Dialer{}).DialContext(ctx, "unix", s.socket()); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Stop kills the server and cuts its connections; whoever connects meanwhile is cut as well.
func (s *Server) Stop() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	if err := errors.Join(s.alive.Close(), s.process.Wait()); err != nil {
		s.tb.Errorf("versitygw: %v", err)
	}
	s.process = nil
	s.cut()
}

// Hang lets nothing through any more, in either direction, and cuts nothing, until Restart.
func (s *Server) Hang() {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = true
}

// cut closes the connections; s.mu is held.
func (s *Server) cut() {
	for c := range s.conns {
		_ = c.Close()
	}
	clear(s.conns)
}

// serve passes connections on to the server's socket.
func (s *Server) serve() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.pass(c)
	}
}

func (s *Server) pass(c net.Conn) {
	s.mu.Lock()
	if s.process == nil {
		if s.hang {
			s.conns[c] = true
		} else {
			_ = c.Close()
		}
		s.mu.Unlock()
		return
	}
	to, err := net.Dial("unix", s.socket())
	if err != nil {
		_ = c.Close()
		s.mu.Unlock()
		return
	}
	s.conns[c], s.conns[to] = true, true
	s.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { copyAndEnd(to, c) })
	both.Go(func() { copyAndEnd(c, to) })
	both.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	delete(s.conns, to)
}

// copyAndEnd ends both directions with the first that ends: HTTP has no use for half of a connection.
func copyAndEnd(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
