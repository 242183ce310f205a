package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/store"
)

// OpenTogether has several servers open one database at once, that is empty yet.
func OpenTogether(t *testing.T, open func(context.Context) (*store.Store, error)) {
	const n = 4
	stores := make([]*store.Store, n)
	noErrors(t, together(t, n, func(i int) (err error) {
		stores[i], err = open(t.Context())
		return err
	}))
	for i, s := range stores {
		if s == nil {
			continue
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("server %d: ready = %v, want nil", i, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("server %d: close = %v, want nil", i, err)
		}
	}
}
