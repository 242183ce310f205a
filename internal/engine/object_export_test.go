package engine

import (
	"context"
	"io"

	"holdfast.dev/holdfast/internal/run"
)

// What other use cases call, for the tests of these alone.

func (e *Engine) SealObject(ctx context.Context, org, kind string, r io.Reader, limit int64, also ...io.Writer) (Object, error) {
	return e.sealObject(ctx, org, kind, r, limit, also...)
}

func (e *Engine) OpenObject(ctx context.Context, o Object) (io.ReadCloser, error) {
	return e.openObject(ctx, o)
}

// StageObject stages bytes that are sealed already.
func (e *Engine) StageObject(ctx context.Context, object string, sealed []byte) (Object, error) {
	w := &chunkWriter{ctx: ctx, e: e, object: object}
	_, err := w.Write(sealed)
	if err == nil {
		err = w.end()
	}
	o := Object{ID: object}
	w.settle(&o)
	return o, err
}

func (e *Engine) SealedBytes(ctx context.Context, o Object) (io.ReadCloser, error) {
	return e.sealedBytes(ctx, o)
}

func (e *Engine) DiscardObject(ctx context.Context, o Object, err error) {
	e.discardObject(ctx, o, err)
}

func (e *Engine) EndHold(ctx context.Context, tx Tx, stateID, runID string) error {
	return e.endHold(ctx, tx, stateID, runID)
}

func (e *Engine) ReleaseAttemptLock(ctx context.Context, tx Tx, a run.Attempt) error {
	return e.releaseAttemptLock(ctx, tx, a)
}
