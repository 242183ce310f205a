package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

// maxChunk is the most bytes of one chunk: database/sql copies a value as a whole.
const maxChunk = 256 << 10

// PutChunk may be repeated: the last bytes of a chunk count.
func (t *tx) PutChunk(ctx context.Context, object string, seq int, data []byte, now time.Time) error {
	if len(data) > maxChunk {
		return t.err("staging", "chunk", fault.New(fault.TooLarge, "chunk_too_large",
			"A chunk has at most %d bytes, this one %d.", maxChunk, len(data)))
	}
	// The object's row in staged comes first: it is what the sweep locks.
	if err := t.afterwards("staging", "chunk").Stage(ctx, object, micros(now)); err != nil {
		return err
	}
	attached, err := t.q.HasObject(ctx, object)
	if err == nil && attached {
		err = fault.New(fault.Conflict, "object_attached", "The object %s is stored already and cannot change.", object)
	}
	if err != nil {
		return t.err("staging", "chunk", err)
	}
	return t.afterwards("staging", "chunk").PutChunk(ctx, object, int64(seq), data)
}

// AttachObject is a Conflict where bytes that do not stand in the row are missing: what was staged long ago may have been
// swept.
func (t *tx) AttachObject(ctx context.Context, o engine.Object) error {
	var err error
	switch {
	case o.Place != engine.PlaceDatabase:
		err = t.claimBlob(ctx, o.ID)
	case o.Chunks > 0:
		err = t.claimChunks(ctx, o)
	}
	if err != nil {
		return t.err("attaching", "object", err)
	}
	return t.afterwards("attaching", "object").AttachObject(ctx, db.AttachObjectParams{
		ID: o.ID, Org: o.Org, Kind: o.Kind, KeyKind: o.Key.Kind, KeyName: o.Key.Name, KeyVersion: o.Key.Version,
		Wrapped: present(o.Wrapped), Size: o.Size, Sealed: o.Sealed, SHA256: o.SHA256, MD5: o.MD5,
		Inline: present(o.Inline), Chunks: int64(o.Chunks), CreatedAt: micros(o.CreatedAt), Place: o.Place,
	})
}

func (t *tx) claimChunks(ctx context.Context, o engine.Object) error {
	staged, err := t.q.Unstage(ctx, o.ID)
	if err != nil {
		return err
	}
	have, err := t.q.CountChunks(ctx, o.ID, int64(o.Chunks))
	if err == nil && (staged == 0 || have != int64(o.Chunks)) {
		err = fault.New(fault.Conflict, "chunks_missing", "The object has %d chunks, and %d of them are stored.", o.Chunks, have).
			WithHint("Send the whole content again.")
	}
	return err
}

// present is never NULL.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (t *tx) Object(ctx context.Context, id string) (engine.Object, error) {
	r, err := t.q.Object(ctx, id)
	if err != nil {
		return engine.Object{}, t.err("reading", "object", err)
	}
	return object(r), nil
}

func (t *tx) Head(ctx context.Context, org, name string) (engine.Head, error) {
	r, err := t.q.Head(ctx, org, name)
	if err != nil {
		return engine.Head{}, t.err("reading", "state", err)
	}
	return engine.Head{State: r.State, Number: r.Number, Object: object(r.Object)}, nil
}

func object(r db.Object) engine.Object {
	o := engine.Object{
		ID: r.ID, Org: r.Org, Kind: r.Kind, Key: state.Key{Kind: r.KeyKind, Name: r.KeyName, Version: r.KeyVersion},
		Wrapped: present(r.Wrapped), Size: r.Size, Sealed: r.Sealed, SHA256: r.SHA256, MD5: r.MD5,
		Chunks: int(r.Chunks), Place: r.Place, CreatedAt: moment(r.CreatedAt),
	}
	if o.Chunks == 0 && o.Place == engine.PlaceDatabase {
		o.Inline = present(r.Inline)
	}
	return o
}

func (t *tx) Chunks(ctx context.Context, object string, seq, n int) ([][]byte, error) {
	chunks, err := t.q.Chunks(ctx, object, int64(seq), int64(seq+n))
	if err == nil && len(chunks) < n {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, t.err("reading", "chunk", err)
	}
	for i, c := range chunks {
		chunks[i] = present(c)
	}
	return chunks, nil
}

// DeleteObject deletes the object and its chunks, staged ones too, and dooms its bytes in the object store. It is nil
// where there is none.
func (t *tx) DeleteObject(ctx context.Context, id string) error {
	o, err := t.q.DeleteObject(ctx, id)
	switch {
	case err == nil && o.Place != engine.PlaceDatabase:
		return t.err("deleting", "object", t.q.AddDoomedBlob(ctx, id, o.Org, o.Kind))
	case err == nil && o.Chunks == 0:
		return nil // all of it stood in its row: most states are that small
	case errors.Is(err, sql.ErrNoRows):
		err = t.q.DoomBlob(ctx, id)
	}
	if err != nil {
		return t.err("deleting", "object", err)
	}
	if _, err := t.q.Unstage(ctx, id); err != nil {
		return t.err("deleting", "object", err)
	}
	return t.err("deleting", "object", t.q.DeleteChunks(ctx, id))
}

// dropObject is DeleteObject for an attached object whose row was read in this transaction.
func (t *tx) dropObject(ctx context.Context, o db.OpenVersionRow) error {
	q := t.afterwards("deleting", "object")
	if err := q.DropObject(ctx, o.ID); err != nil {
		return err
	}
	switch {
	case o.Place != engine.PlaceDatabase:
		return q.AddDoomedBlob(ctx, o.ID, o.Org, o.Kind)
	case o.Chunks > 0:
		return q.DeleteChunks(ctx, o.ID)
	}
	return nil
}

func (t *tx) SweepStaged(ctx context.Context, before time.Time, limit int) (int, error) {
	objects, err := t.abandoned(ctx, before, limit)
	if err != nil {
		return 0, t.err("sweeping", "chunk", err)
	}
	swept := 0
	for _, object := range objects {
		n, err := t.q.DeleteSomeChunks(ctx, object, int32(limit-swept))
		if err != nil {
			return 0, t.err("sweeping", "chunk", err)
		}
		swept += int(n)
		if swept >= limit {
			break // the object may have more, so it stays staged
		}
		if _, err := t.q.Unstage(ctx, object); err != nil {
			return 0, t.err("sweeping", "chunk", err)
		}
	}
	return swept, nil
}

// abandoned locks what it finds, and leaves out what is being attached or added to right now.
func (t *tx) abandoned(ctx context.Context, before time.Time, limit int) ([]string, error) {
	rows, err := t.QueryContext(ctx, "SELECT object FROM staged WHERE staged_at < $1 ORDER BY staged_at LIMIT $2"+t.store.d.Claim,
		micros(before), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var objects []string
	for rows.Next() {
		var object string
		if err := rows.Scan(&object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, rows.Err()
}
