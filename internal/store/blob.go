package store

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) StageBlob(ctx context.Context, o engine.Object, now time.Time) error {
	return t.err("staging", "object", t.q.StageBlob(ctx, db.StageBlobParams{Object: o.ID, Org: o.Org, Kind: o.Kind, Since: micros(now)}))
}

func (t *tx) TouchBlob(ctx context.Context, object string, now time.Time) error {
	n, err := t.q.TouchBlob(ctx, object, micros(now))
	if err == nil && n == 0 {
		err = blobGivenUp(object)
	}
	return t.err("staging", "object", err)
}

// claimBlob takes the object's bytes out of what the sweep may remove.
func (t *tx) claimBlob(ctx context.Context, object string) error {
	n, err := t.q.UnstageBlob(ctx, object)
	if err == nil && n == 0 {
		err = blobGivenUp(object)
	}
	return err
}

func blobGivenUp(object string) error {
	return fault.New(fault.Conflict, "blob_given_up", "The bytes of %s were not written for so long that they were given up.", object).
		WithHint("Send the whole content again.")
}

// DoomBlobs never takes what another transaction touches or attaches at the same time: the condition is on the row itself.
func (t *tx) DoomBlobs(ctx context.Context, before, now time.Time, limit int) error {
	if err := t.q.DoomStaleBlobs(ctx, micros(before), int32(limit)); err != nil {
		return t.err("sweeping", "object", err)
	}
	return t.err("sweeping", "object", t.q.StampDoomedBlobs(ctx, micros(now)))
}

func (t *tx) DoomedBlobs(ctx context.Context, before time.Time, after string, limit int) ([]engine.Object, error) {
	rows, err := t.q.DoomedBlobs(ctx, micros(before), after, int32(limit))
	if err != nil {
		return nil, t.err("listing", "object", err)
	}
	objects := make([]engine.Object, 0, len(rows))
	for _, r := range rows {
		objects = append(objects, engine.Object{ID: r.Object, Org: r.Org, Kind: r.Kind, Place: engine.PlaceBlob})
	}
	return objects, nil
}

func (t *tx) ForgetBlob(ctx context.Context, object string) error {
	return t.err("deleting", "object", t.q.ForgetBlob(ctx, object))
}
