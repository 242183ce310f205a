// Package blob keeps sealed bytes in a bucket of an S3 store. What it is given is sealed already: the bucket learns
// sizes, times and the ids in the keys, and nothing else.
package blob

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"holdfast.dev/holdfast/internal/engine"
)

// Bounds of one operation, its repetitions included. What takes longer has failed, and is tried again by whoever
// asked for it.
const (
	attempts         = 3
	operationTimeout = 2 * time.Minute // a part on its way over 350 kbit/s
	readyTimeout     = 4 * time.Second
	dialTimeout      = 5 * time.Second
	answerTimeout    = 30 * time.Second // until the answer begins, once the request is sent
	stallTimeout     = 30 * time.Second // between two pieces of a blob that is read
	idleTimeout      = time.Minute
	idleConnections  = 32
)

// partBytes is how much of a blob is held in memory while it is written: the least that S3 takes as a part.
const partBytes = 5 << 20

// Options say where the bucket is.
type Options struct {
	Bucket    string
	Prefix    string   // of every key; "" or it ends in "/"
	Endpoint  *url.URL // nil: Amazon's
	Region    string   // "": asked for
	PathStyle bool     // the bucket stands in the path, not in the host's name
	CAFile    string   // authorities beside the system's; "" for none
}

// Store is one bucket. It is safe for concurrent use.
type Store struct {
	core    *minio.Core
	options Options
	parts   sync.Pool // of *[partBytes]byte
}

// Open makes a Store and asks nothing of the bucket: one that is away is no reason not to start. Its credentials are
// looked for when they are needed, in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), in the shared
// credentials file (AWS_PROFILE), and with what gives them to a pod, a task or a machine.
func Open(o Options) (*Store, error) {
	transport, err := transport(o.CAFile)
	if err != nil {
		return nil, err
	}
	endpoint, secure := "s3.amazonaws.com", true
	if o.Endpoint != nil {
		endpoint, secure = o.Endpoint.Host, o.Endpoint.Scheme == "https"
	}
	lookup := minio.BucketLookupAuto
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Transport: transport, Timeout: answerTimeout}},
		}),
		Secure: secure, Transport: transport, Region: o.Region, BucketLookup: lookup, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("use %s: %w", endpoint, err)
	}
	core.SetAppInfo("holdfast", "1")
	return &Store{core: core, options: o, parts: sync.Pool{New: func() any { return new([partBytes]byte) }}}, nil
}

func transport(caFile string) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   idleConnections,
		DisableCompression:    true, // the length is that of the stored bytes
	}
	if caFile == "" {
		return t, nil
	}
	authorities, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's authorities: %w", err)
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return t, nil
}

func (s *Store) key(key string) string { return s.options.Prefix + key }

// Ready is nil when the bucket answers and these credentials may see it.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	there, err := s.core.BucketExists(ctx, s.options.Bucket)
	if err == nil && !there {
		err = minio.ErrorResponse{StatusCode: http.StatusNotFound, Code: minio.NoSuchBucket, BucketName: s.options.Bucket}
	}
	return s.explain(err)
}

// Open gives the bytes under key and how many they are. NotFound where there are none.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(operationTimeout, func() { cancel(errStalled) })
	body, info, _, err := s.core.GetObject(ctx, s.options.Bucket, s.key(key), minio.GetObjectOptions{})
	timer.Stop()
	if err != nil {
		err = s.explain(because(ctx, err))
		cancel(nil)
		return nil, 0, err
	}
	return &reader{s: s, ctx: ctx, cancel: cancel, body: body, timer: timer}, info.Size, nil
}

var errStalled = errors.New("the object store stopped sending")

// because names what ended ctx in place of what followed from it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// reader ends a blob that stops arriving.
type reader struct {
	s      *Store
	ctx    context.Context //nolint:containedctx // that of the request which the body is the answer to
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	timer  *time.Timer // cancels
}

func (r *reader) Read(p []byte) (int, error) {
	r.timer.Reset(stallTimeout)
	n, err := r.body.Read(p)
	r.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.s.explain(because(r.ctx, err))
	}
	return n, err
}

func (r *reader) Close() error {
	r.timer.Stop()
	r.cancel(nil)
	return r.body.Close()
}

// Remove deletes what is under key and what was uploaded for it and not completed. It is nil where there is nothing.
func (s *Store) Remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	bucket, name := s.options.Bucket, s.key(key)
	if err := s.core.RemoveObject(ctx, bucket, name, minio.RemoveObjectOptions{}); err != nil {
		return s.explain(err)
	}
	return s.explain(s.core.RemoveIncompleteUpload(ctx, bucket, name))
}

// Create begins to write a blob; of its bytes nothing is under key before Close.
func (s *Store) Create(ctx context.Context, key string) engine.BlobWriter {
	return &writer{ctx: ctx, s: s, key: s.key(key)}
}
