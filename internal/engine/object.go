package engine

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5 of the state protocol: a check of the transport, not a signature
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/keyring"
)

// The kinds of object.
const (
	kindState  = "state"
	kindSource = "source"
	kindPlan   = "plan"
)

// Sizes of sealed bytes. A save needs one read buffer, one chunk and the sealer's windows, whatever its length.
const (
	readBytes   = 32 << 10
	inlineBytes = 64 << 10  // sealed bytes up to here stand in the object's row
	chunkBytes  = 256 << 10 // database/sql holds a value whole, so larger ones are cut
	readAhead   = 8         // chunks read in one transaction
)

// discardTimeout bounds the clean-up after a save that failed; what it does not reach, the sweep does.
const discardTimeout = 5 * time.Second

// sealing is what sealed objects are written and read with.
type sealing struct {
	sealer  *keyring.Sealer
	buffers sync.Pool
}

func newSealing() *sealing {
	return &sealing{sealer: keyring.NewSealer(), buffers: sync.Pool{New: func() any { return new([readBytes]byte) }}}
}

// sealObject reads r to its end, compresses, seals and stages it, all in one pass, and returns its object, not
// attached: the caller attaches it in the transaction that refers to it (AttachObject), or gives it to discardObject
// with the error that kept it from that. Each of also sees the plain bytes as they arrive and may refuse them. More than limit bytes is
// TooLarge. An error of r, of also or of the limit leaves nothing behind.
func (e *Engine) sealObject(ctx context.Context, org, kind string, r io.Reader, limit int64, also ...io.Writer) (Object, error) {
	prefix := id.Object
	if kind == kindState {
		prefix = id.Write
	}
	now := e.now()
	o := Object{ID: id.New(prefix, now), Org: org, Kind: kind, CreatedAt: now}
	key, wrapped, by, err := e.keys.NewDataKey(ctx, org, o.ID)
	if err != nil {
		return Object{}, fmt.Errorf("make a data key: %w", err)
	}
	o.Key, o.Wrapped = by, wrapped
	var out outlet = &chunkWriter{ctx: ctx, e: e, object: o.ID}
	if e.blobs != nil && !e.blobsReadOnly {
		out = &blobOutlet{ctx: ctx, e: e, object: o}
	}
	err = e.sealInto(&o, out, key, r, limit, also)
	out.settle(&o)
	if err != nil {
		e.dropStaged(ctx, o)
		return Object{}, err
	}
	return o, nil
}

// outlet takes the sealed bytes of one object to where they stay.
type outlet interface {
	io.Writer
	// end makes them durable, but for those that fit into the object's row.
	end() error
	// settle says in o what there is, whether or not it came to its end.
	settle(o *Object)
}

func (e *Engine) sealInto(o *Object, out outlet, key []byte, r io.Reader, limit int64, also []io.Writer) error {
	w, err := e.sealing.sealer.Seal(key, o.Org, o.ID, out)
	if err != nil {
		return err
	}
	defer w.Discard()
	sum, check := sha256.New(), md5.New() //nolint:gosec // see the import
	buf := e.sealing.buffers.Get().(*[readBytes]byte)
	defer e.sealing.buffers.Put(buf)
	for {
		n, readErr := r.Read(buf[:])
		if o.Size += int64(n); o.Size > limit {
			return tooLarge(o.Kind, limit)
		}
		p := buf[:n]
		sum.Write(p)
		check.Write(p)
		for _, a := range also {
			if _, err := a.Write(p); err != nil {
				return err
			}
		}
		if _, err := w.Write(p); err != nil {
			return fmt.Errorf("seal the %s: %w", o.Kind, err)
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return incomplete(o.Kind, readErr)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("seal the %s: %w", o.Kind, err)
	}
	if err := out.end(); err != nil {
		return fmt.Errorf("stage the %s: %w", o.Kind, err)
	}
	o.SHA256, o.MD5 = hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(check.Sum(nil))
	return nil
}

// incomplete names what kept a body from arriving whole. That a client stopped sending is the client's doing, and none
// of the server's failures.
func incomplete(kind string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		return fault.Wrap(err, fault.Invalid, "body_incomplete", "The %s did not arrive whole.", kind).WithHint("Send it again.")
	}
	return fmt.Errorf("receive the %s: %w", kind, err)
}

func tooLarge(kind string, limit int64) error {
	return fault.New(fault.TooLarge, "too_large", "The %s is larger than %d bytes, the most that is taken.", kind, limit)
}

// discardObject drops what sealObject staged for an object that was not attached because of err. Where err leaves it
// open whether the transaction was committed, nothing is dropped: what it refers to must stay, and if it was not
// committed, the sweep drops it.
func (e *Engine) discardObject(ctx context.Context, o Object, err error) {
	switch fault.From(err).Kind {
	case fault.Internal, fault.Unavailable, fault.NoSpace:
	default:
		e.dropStaged(ctx, o)
	}
}

// dropStaged is best effort, also when ctx has ended.
func (e *Engine) dropStaged(ctx context.Context, o Object) {
	if o.Chunks == 0 && o.Place == PlaceDatabase {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := e.store.Update(ctx, func(tx Tx) error { return tx.DeleteObject(ctx, o.ID) }); err != nil {
		e.log.InfoContext(ctx, "staged bytes are left to the sweep", "object", o.ID, "error", err)
	}
}

// chunkWriter keeps few sealed bytes in memory and stages more of them as chunks.
type chunkWriter struct {
	ctx    context.Context //nolint:containedctx // an io.Writer for the length of one sealObject
	e      *Engine
	object string
	buf    []byte
	total  int64
	chunks int
}

func (w *chunkWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.total += int64(n)
	for len(p) > 0 {
		if len(w.buf)+len(p) > inlineBytes && cap(w.buf) < chunkBytes {
			w.buf = append(make([]byte, 0, chunkBytes), w.buf...)
		}
		m := min(len(p), chunkBytes-len(w.buf))
		w.buf = append(w.buf, p[:m]...)
		p = p[m:]
		if len(w.buf) == chunkBytes {
			if err := w.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// end stages what is left, unless everything fits into the row.
func (w *chunkWriter) end() error {
	if w.chunks == 0 && len(w.buf) <= inlineBytes || len(w.buf) == 0 {
		return nil
	}
	return w.flush()
}

func (w *chunkWriter) settle(o *Object) {
	o.Sealed, o.Chunks = w.total, w.chunks
	if w.chunks == 0 {
		o.Inline = w.buf
	}
}

func (w *chunkWriter) flush() error {
	err := w.e.store.Update(w.ctx, func(tx Tx) error { return tx.PutChunk(w.ctx, w.object, w.chunks, w.buf, w.e.now()) })
	if err != nil {
		return err
	}
	w.chunks++
	w.buf = w.buf[:0]
	return nil
}

// openObject streams the plain bytes of an attached object. Its reader checks length and SHA-256 and hands out the
// last bytes only when both are right; before that, a change of the stored bytes is an error with the code
// sealed_damaged, missing ones are object_missing, a key that is not there is key_missing. It is never NotFound:
// whoever has the row must not take a lost document for an empty one.
func (e *Engine) openObject(ctx context.Context, o Object) (io.ReadCloser, error) {
	sealed, err := e.sealedBytes(ctx, o)
	if err != nil {
		return nil, err
	}
	return openSealed(ctx, e.keys, e.sealing.sealer, o, sealed)
}

// OpenSealed streams the plain bytes of an object whose sealed bytes are read from elsewhere, from a backup say. Its
// reader checks them as any other of the engine's does.
func OpenSealed(ctx context.Context, keys Keys, o Object, sealed io.Reader) (io.ReadCloser, error) {
	return openSealed(ctx, keys, keyring.NewSealer(), o, io.NopCloser(sealed))
}

// openSealed closes sealed where it fails; else its reader does.
func openSealed(ctx context.Context, keys Keys, sealer *keyring.Sealer, o Object, sealed io.ReadCloser) (io.ReadCloser, error) {
	key, err := keys.OpenDataKey(ctx, o.Org, o.ID, o.Key, o.Wrapped)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the data key of %s: %w", o.ID, err), sealed.Close())
	}
	plain, err := sealer.Open(key, o.Org, o.ID, sealed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.ID, err), sealed.Close())
	}
	return &verifiedReader{plain: plain, sealed: sealed, sum: sha256.New(), object: o}, nil
}

// sealedBytes reads the stored bytes of o from where they are.
func (e *Engine) sealedBytes(ctx context.Context, o Object) (io.ReadCloser, error) {
	switch {
	case o.Place != PlaceDatabase:
		return OpenBlob(ctx, e.blobs, o)
	case o.Chunks > 0:
		return io.NopCloser(&chunkReader{ctx: ctx, e: e, object: o}), nil
	}
	return io.NopCloser(bytes.NewReader(o.Inline)), nil
}

// chunkReader reads an object's chunks, a few in one transaction: the first of them are then safe from a save that
// replaces the object while it is read.
type chunkReader struct {
	ctx    context.Context //nolint:containedctx // an io.Reader for the length of one openObject
	e      *Engine
	object Object
	next   int
	ahead  [][]byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.ahead) > 0 && len(r.ahead[0]) == 0 {
		r.ahead = r.ahead[1:]
	}
	if len(r.ahead) == 0 {
		if r.next == r.object.Chunks {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ahead[0])
	r.ahead[0] = r.ahead[0][n:]
	return n, nil
}

func (r *chunkReader) fill() error {
	until := min(r.object.Chunks, r.next+readAhead)
	var ahead [][]byte
	err := r.e.store.View(r.ctx, func(tx Tx) (err error) {
		ahead, err = tx.Chunks(r.ctx, r.object.ID, r.next, until-r.next)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return objectMissing(err, r.object)
	}
	if err != nil {
		return fmt.Errorf("read the chunks of %s: %w", r.object.ID, err)
	}
	r.ahead, r.next = ahead, until
	return nil
}

// objectMissing is for an object whose row is there, or is referred to.
func objectMissing(err error, o Object) error {
	store := "the database"
	if o.Place != PlaceDatabase {
		store = "the object store"
	}
	return fault.Wrap(err, fault.Internal, "object_missing", "The stored bytes of %s are not in %s, or were replaced while they were read.", o.ID, store).
		WithHint("Try again; if it stays, restore them from a backup of %s.", store)
}

func objectDamaged(o Object) error {
	return fault.New(fault.Internal, "sealed_damaged", "The stored bytes of %s are not what its row says.", o.ID).
		WithHint("Restore them from a backup.")
}

type verifiedReader struct {
	plain  io.ReadCloser
	sealed io.Closer
	sum    hash.Hash
	object Object
	size   int64
	err    error // what every further Read gives
}

func (v *verifiedReader) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.plain.Read(p)
	v.size += int64(n)
	v.sum.Write(p[:n])
	if err == nil && v.size == v.object.Size {
		var rest [1]byte // is there an end where it should be?
		var more int
		more, err = v.plain.Read(rest[:])
		v.size += int64(more)
	}
	switch {
	case err == nil && v.size <= v.object.Size:
		return n, nil
	case err != nil && !errors.Is(err, io.EOF):
		v.err = fmt.Errorf("read %s: %w", v.object.ID, err)
	case v.size != v.object.Size || hex.EncodeToString(v.sum.Sum(nil)) != v.object.SHA256:
		v.err = objectDamaged(v.object)
	default:
		v.err = io.EOF
		return n, v.err
	}
	return 0, v.err
}

func (v *verifiedReader) Close() error { return errors.Join(v.plain.Close(), v.sealed.Close()) }
