package storetest

import (
	"context"
	"fmt"
	"testing"

	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

// cycle is what tofu asks of a state in one run, as far as the store sees it.
type cycle struct {
	store *store.Store
	world world
	chain *audit.Chain
	token string
	bytes []byte
}

func newCycle(t testing.TB, s *store.Store, workers int) cycle {
	t.Helper()
	w := newWorld(t, s)
	k := newToken(w, "hash")
	k.User = w.user.ID
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for i := range workers {
			if err := tx.CreateState(ctx, w.newState(fmt.Sprint("s", i))); err != nil {
				return err
			}
		}
		return tx.CreateToken(ctx, k)
	})
	// 10 KB of state, compressed.
	return cycle{store: s, world: w, chain: newChain(t), token: k.Hash, bytes: make([]byte, 2500)}
}

func (c cycle) run(ctx context.Context, worker int) error {
	name := fmt.Sprint("s", worker)
	for _, step := range []func(context.Context, string) error{c.lock, c.get, c.post, c.unlock} {
		if err := c.store.View(ctx, func(tx engine.Tx) error {
			_, err := tx.Credential(ctx, c.token)
			return err
		}); err != nil {
			return err
		}
		if err := step(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (c cycle) lock(ctx context.Context, name string) error {
	return c.change(ctx, name, func(_ engine.Tx, s *state.State) error {
		s.Lock = newLock(c.world.user.ID)
		return nil
	})
}

func (c cycle) unlock(ctx context.Context, name string) error {
	return c.change(ctx, name, func(_ engine.Tx, s *state.State) error {
		s.Lock = nil
		return nil
	})
}

func (c cycle) get(ctx context.Context, name string) error {
	return c.store.View(ctx, func(tx engine.Tx) error {
		s, err := tx.State(ctx, c.world.org.ID, name)
		if err != nil || s.Head == nil {
			return err
		}
		_, err = tx.Object(ctx, s.Head.ID)
		return err
	})
}

func (c cycle) post(ctx context.Context, name string) error {
	return c.change(ctx, name, func(tx engine.Tx, s *state.State) error {
		v := newVersion(*s, s.Versions+1)
		v.LockKey = s.Lock.Key
		if err := tx.AttachObject(ctx, engine.Object{
			ID: v.ID, Org: s.Org, Kind: "state", Wrapped: make([]byte, 60), Inline: c.bytes, CreatedAt: now,
		}); err != nil {
			return err
		}
		if err := tx.PutVersion(ctx, v); err != nil {
			return err
		}
		s.Head, s.Versions = &v, v.Number
		return appendRecord(ctx, tx, c.chain, audit.Record{Org: s.Org, At: now, Action: "state.write", Object: name, RequestID: id.New(id.Request, now)})
	})
}

func (c cycle) change(ctx context.Context, name string, fn func(engine.Tx, *state.State) error) error {
	return c.store.Update(ctx, func(tx engine.Tx) error {
		s, err := tx.StateForUpdate(ctx, c.world.org.ID, name)
		if err != nil {
			return err
		}
		if err := fn(tx, &s); err != nil {
			return err
		}
		return tx.UpdateState(ctx, s)
	})
}
