package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
)

// zstdMagic begins every packed source.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// UploadSource stores a packed configuration for the runs to come. What is in it is checked where it is unpacked:
// the server never parses it. Invalid where it is no zstd archive, TooLarge beyond Limits.SourceMaxBytes.
func (e *Engine) UploadSource(ctx context.Context, actor access.Actor, r io.Reader) (Object, error) {
	if err := actor.Allow(access.RunStart); err != nil {
		return Object{}, err
	}
	if err := e.needKey(); err != nil {
		return Object{}, err
	}
	head := make([]byte, len(zstdMagic))
	if _, err := io.ReadFull(r, head); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Object{}, fmt.Errorf("receive the source: %w", err)
	}
	if !bytes.Equal(head, zstdMagic) {
		return Object{}, fault.New(fault.Invalid, "invalid_source", "The source is not a zstd archive.").
			WithHint("Pack the folder with `holdfast up`.")
	}
	o, err := e.sealObject(ctx, actor.Org, kindSource, io.MultiReader(bytes.NewReader(head), r), e.limits.SourceMaxBytes)
	if err != nil {
		return Object{}, err
	}
	err = e.store.Update(ctx, func(tx Tx) error {
		if err := tx.AttachObject(ctx, o); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "source.upload", o.ID, map[string]any{"sha256": o.SHA256, "size": o.Size})
	})
	if err != nil {
		e.discardObject(ctx, o, err)
		return Object{}, fmt.Errorf("store the source: %w", err)
	}
	return o, nil
}

// source is an uploaded source of the organization. Another organization's is as unknown as one that never was.
func source(ctx context.Context, tx Tx, org, objectID string) (Object, error) {
	o, err := tx.Object(ctx, objectID)
	if err == nil && o.Org == org && o.Kind == kindSource {
		return o, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Object{}, err
	}
	return Object{}, fault.New(fault.NotFound, "source_not_found", "There is no such source in this organization.").
		WithHint("Upload it with POST /api/sources and use the id of the answer.")
}
