package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
)

func settings(t *testing.T, s *store.Store) {
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Setting(ctx, "bootstrap")
		wantKind(t, "a missing setting", err, fault.NotFound)
		return nil
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.SetSettingOnce(ctx, "bootstrap", "done") })
	refused(t, s, fault.Conflict, "a second value", func(ctx context.Context, tx engine.Tx) error {
		return tx.SetSettingOnce(ctx, "bootstrap", "again")
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Setting(ctx, "bootstrap")
		same(t, "setting", got, "done")
		return err
	})
}
