package store

import (
	"context"
)

func (t *tx) Setting(ctx context.Context, key string) (string, error) {
	value, err := t.q.Setting(ctx, key)
	return value, t.err("reading", "setting", err)
}

func (t *tx) SetSettingOnce(ctx context.Context, key, value string) error {
	return t.err("storing", "setting", t.q.CreateSetting(ctx, key, value))
}
