package blob

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5 of S3: a check of the transport
	"encoding/base64"
	"errors"
	"time"

	"github.com/minio/minio-go/v7"
)

// discardTimeout bounds the end of an upload that failed; what it does not reach, Remove does.
const discardTimeout = 5 * time.Second

// writer holds one part in memory. A blob of no more is put at once; of a larger one the parts go one after another.
// No condition is put on the key: an id is used for one write alone, and not every store knows conditions.
type writer struct {
	ctx    context.Context //nolint:containedctx // an io.Writer for the length of one upload
	s      *Store
	key    string
	part   *[partBytes]byte // nil before the first byte and after the last
	n      int
	torn   bool   // a request failed, and may still be reading part
	upload string // id; "" while everything fits into one part
	done   []minio.CompletePart
}

var errEnded = errors.New("the blob has ended")

func (w *writer) Write(p []byte) (int, error) {
	if w.part == nil {
		w.part = w.s.parts.Get().(*[partBytes]byte)
	}
	written := len(p)
	for len(p) > 0 {
		if w.n == partBytes {
			if err := w.send(); err != nil {
				return written - len(p), err
			}
		}
		n := copy(w.part[w.n:], p)
		w.n += n
		p = p[n:]
	}
	return written, nil
}

// send uploads the part that is held.
func (w *writer) send() error {
	ctx, cancel := context.WithTimeout(w.ctx, operationTimeout)
	defer cancel()
	core, bucket := w.s.core, w.s.options.Bucket
	if w.upload == "" {
		upload, err := core.NewMultipartUpload(ctx, bucket, w.key, minio.PutObjectOptions{ContentType: contentType})
		if err != nil {
			return w.s.explain(err)
		}
		w.upload = upload
	}
	data := w.part[:w.n]
	made, err := core.PutObjectPart(ctx, bucket, w.key, w.upload, len(w.done)+1, bytes.NewReader(data), int64(w.n),
		minio.PutObjectPartOptions{Md5Base64: sum(data)})
	if err != nil {
		w.torn = true
		return w.s.explain(err)
	}
	w.done = append(w.done, minio.CompletePart{PartNumber: made.PartNumber, ETag: made.ETag})
	w.n = 0
	return nil
}

const contentType = "application/octet-stream"

// sum has the store refuse what was changed on its way: once it is acknowledged, nobody sends it again.
func sum(data []byte) string {
	s := md5.Sum(data) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(s[:])
}

// Close completes the blob. After an error it may be there or not; Remove then makes sure that it is not.
func (w *writer) Close() error {
	if w.part == nil {
		return errEnded
	}
	defer w.release()
	if w.upload == "" {
		return w.put()
	}
	if err := w.send(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, operationTimeout)
	defer cancel()
	_, err := w.s.core.CompleteMultipartUpload(ctx, w.s.options.Bucket, w.key, w.upload, w.done, minio.PutObjectOptions{})
	if err == nil {
		w.upload = ""
	}
	return w.s.explain(err)
}

func (w *writer) put() error {
	ctx, cancel := context.WithTimeout(w.ctx, operationTimeout)
	defer cancel()
	data := w.part[:w.n]
	_, err := w.s.core.PutObject(ctx, w.s.options.Bucket, w.key, bytes.NewReader(data), int64(w.n), sum(data), "",
		minio.PutObjectOptions{ContentType: contentType})
	w.torn = err != nil
	return w.s.explain(err)
}

// Discard gives an unfinished blob up, best effort. After a Close that succeeded it does nothing.
func (w *writer) Discard() {
	w.release()
	if w.upload == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), discardTimeout)
	defer cancel()
	_ = w.s.core.AbortMultipartUpload(ctx, w.s.options.Bucket, w.key, w.upload) // Remove does it again
	w.upload = ""
}

// release gives the memory back, unless a request that failed may still be sending from it: an HTTP transport may go on
// with that after it has given its error.
func (w *writer) release() {
	if w.part != nil && !w.torn {
		w.s.parts.Put(w.part)
	}
	w.part = nil
}
