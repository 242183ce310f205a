package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

// Blobs keeps sealed bytes outside the database, by key: ORGANIZATION/KIND/OBJECT. Every error is a fault or that of
// the context: Unavailable where the store is away or refuses, NoSpace where it is full.
type Blobs interface {
	// Create begins to write; nothing is under key before Close. A key is written once.
	Create(ctx context.Context, key string) BlobWriter
	// Open gives the bytes, and how many they are. NotFound where there are none.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Remove also drops what an upload that was never completed left. It is nil where there is nothing.
	Remove(ctx context.Context, key string) error
	// Ready is nil when blobs can be reached.
	Ready(ctx context.Context) error
}

// BlobWriter takes the bytes of one blob. Close makes them durable; after an error they may be there or not. Discard
// gives up what was not closed, and does nothing afterwards.
type BlobWriter interface {
	io.WriteCloser
	Discard()
}

// Bounds of what is done about blobs that no object refers to.
const (
	touchAfter  = time.Minute      // between two signs that a blob is still being written; far below stagedAge
	blobGrace   = 10 * time.Minute // for whoever reads what has just been deleted
	blobsAtOnce = 5000             // by one sweep
	blobBatch   = 200
	blobRemover = 8 // removals at the same time
)

func blobKey(o Object) string { return o.Org + "/" + o.Kind + "/" + o.ID }

// blobOutlet keeps few sealed bytes for the object's row and streams more of them to the object store.
type blobOutlet struct {
	ctx     context.Context //nolint:containedctx // an io.Writer for the length of one sealObject
	e       *Engine
	object  Object
	buf     []byte
	total   int64
	to      BlobWriter // nil while everything fits into the row
	touched time.Time
}

func (w *blobOutlet) Write(p []byte) (int, error) {
	w.total += int64(len(p))
	if w.to == nil && len(w.buf)+len(p) <= inlineBytes {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.note(); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// note says in the database, before a byte is in the object store, that it will be there, and later that it is still
// coming. What the database does not know of could never be removed.
func (w *blobOutlet) note() error {
	now := w.e.now()
	switch {
	case w.to == nil:
		err := w.e.store.Update(w.ctx, func(tx Tx) error { return tx.StageBlob(w.ctx, w.object, now) })
		if err != nil {
			return err
		}
		w.to = w.e.blobs.Create(w.ctx, blobKey(w.object))
		if _, err := w.to.Write(w.buf); err != nil {
			return err
		}
		w.buf = nil
	case now.Sub(w.touched) < touchAfter:
		return nil
	default:
		err := w.e.store.Update(w.ctx, func(tx Tx) error { return tx.TouchBlob(w.ctx, w.object.ID, now) })
		if err != nil {
			return err
		}
	}
	w.touched = now
	return nil
}

func (w *blobOutlet) end() error {
	if w.to == nil {
		return nil
	}
	if err := w.note(); err != nil {
		return err
	}
	return w.to.Close()
}

func (w *blobOutlet) settle(o *Object) {
	o.Sealed, o.Inline = w.total, w.buf
	if w.to != nil {
		w.to.Discard()
		o.Place = PlaceBlob
	}
}

// OpenBlob opens the sealed bytes of an object whose Place is PlaceBlob. blobs may be nil. It is never NotFound, for the
// reason that openObject gives.
func OpenBlob(ctx context.Context, blobs Blobs, o Object) (io.ReadCloser, error) {
	if blobs == nil {
		return nil, fault.New(fault.Unavailable, "blob_store_unset", "The bytes of %s are in an object store, and nothing says in which.", o.ID).
			WithHint("Set HOLDFAST_BLOB_URL to the store that holds them.")
	}
	body, size, err := blobs.Open(ctx, blobKey(o))
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, objectMissing(err, o)
	case err != nil:
		return nil, fmt.Errorf("open the bytes of %s: %w", o.ID, err)
	case size != o.Sealed:
		return nil, errors.Join(objectDamaged(o), body.Close())
	}
	return body, nil
}

// sweepBlobs gives up what was staged and never attached, and removes from the object store what has been given up or
// deleted a while ago. From one that is only read nothing is removed.
func (e *Engine) sweepBlobs(ctx context.Context) error {
	if e.blobsReadOnly {
		return nil
	}
	now := e.now()
	err := e.store.Update(ctx, func(tx Tx) error { return tx.DoomBlobs(ctx, now.Add(-stagedAge), now, blobsAtOnce) })
	if err != nil {
		return fmt.Errorf("look for blobs that nothing refers to: %w", err)
	}
	after := ""
	for range blobsAtOnce / blobBatch {
		var doomed []Object
		err := e.store.View(ctx, func(tx Tx) (err error) {
			doomed, err = tx.DoomedBlobs(ctx, now.Add(-blobGrace), after, blobBatch)
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("list blobs to remove: %w", err)
		case len(doomed) == 0:
			return nil
		case e.blobs == nil:
			e.log.WarnContext(ctx, "bytes that nothing refers to stay in an object store, since HOLDFAST_BLOB_URL does not say which", "first", blobKey(doomed[0]))
			return nil
		}
		if err := e.removeBlobs(ctx, doomed); err != nil {
			return err
		}
		after = doomed[len(doomed)-1].ID
	}
	return nil
}

// removeBlobs removes the blobs and then forgets them; a repetition does no harm.
func (e *Engine) removeBlobs(ctx context.Context, doomed []Object) error {
	errs := make([]error, len(doomed))
	slots := make(chan struct{}, blobRemover)
	var all sync.WaitGroup
	for i, o := range doomed {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = e.blobs.Remove(ctx, blobKey(o))
		})
	}
	all.Wait()
	err := e.store.Update(ctx, func(tx Tx) error {
		for i, o := range doomed {
			if errs[i] != nil {
				continue
			}
			if err := tx.ForgetBlob(ctx, o.ID); err != nil {
				return err
			}
		}
		return nil
	})
	for i, o := range doomed { // one of them says it: a store that is away fails all
		if errs[i] != nil {
			return errors.Join(err, fmt.Errorf("remove %s from the object store: %w", blobKey(o), errs[i]))
		}
	}
	return err
}
