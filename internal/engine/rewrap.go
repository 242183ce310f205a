package engine

import (
	"context"
	"fmt"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// Bounds of one step of rewrapping.
const (
	rewrapObjects = 500 // looked at
	rewrapMoves   = 50  // moved in one transaction
	rewrapTime    = 15 * time.Second
)

// Rewrapped is what one step of rewrapping did.
type Rewrapped struct {
	Next     string // where the next step goes on; "" at the end
	Examined int    // objects looked at
	Moved    int    // of these, to the key that seals
	Failed   []RewrapFailure
}

// RewrapFailure is an object that stays as it is.
type RewrapFailure struct {
	Object, Org, Kind string
	Key               state.Key
	Err               error
}

// Rewrap moves the data keys of objects (states' documents, plans, sources, the audit key: everything sealed is one)
// to the key that seals new ones. The sealed bytes are not touched. One step takes some seconds at most; after is
// where it begins, "" or an earlier step's Next. Steps may be repeated, begun anew and run beside anything else: what
// is moved already is passed over, each transaction is whole, and it is recorded in the organization whose objects it
// moved. Objects whose own key is missing or wrong are told of and left; a key service that is away ends the step with
// its error, and what was moved by then stays moved.
func (e *Engine) Rewrap(ctx context.Context, actor access.Actor, after string) (Rewrapped, error) {
	if err := actor.Allow(access.PlatformManage); err != nil {
		return Rewrapped{}, err
	}
	w := rewrapping{e: e, actor: actor, primary: map[string]state.Key{}, out: Rewrapped{Next: after}, until: e.now().Add(rewrapTime)}
	for w.out.Examined < rewrapObjects && e.now().Before(w.until) {
		end, err := w.batch(ctx)
		if err != nil {
			return w.out, fmt.Errorf("rewrap after %q: %w", w.out.Next, err)
		}
		if end {
			w.out.Next = ""
			return w.out, nil
		}
	}
	return w.out, nil
}

// rewrapping is one step.
type rewrapping struct {
	e       *Engine
	actor   access.Actor
	primary map[string]state.Key // of each organization: what new data keys are wrapped with
	out     Rewrapped
	until   time.Time
}

// batch takes the next objects; end is true after the last.
func (w *rewrapping) batch(ctx context.Context) (end bool, err error) {
	var objects []Object
	err = w.e.store.View(ctx, func(tx Tx) (err error) {
		objects, err = tx.ObjectKeys(ctx, w.out.Next, rewrapMoves)
		return err
	})
	if err != nil || len(objects) == 0 {
		return err == nil, err
	}
	moves, failed, err := w.wrap(ctx, objects)
	if err != nil {
		return false, err
	}
	switch err := w.store(ctx, moves); {
	case fault.Code(err) == objectChanged: // one of them; the others are to be moved all the same
		if err := w.storeEach(ctx, moves); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	default:
		w.out.Moved += len(moves)
	}
	w.out.Examined += len(objects)
	w.out.Failed = append(w.out.Failed, failed...)
	w.out.Next = objects[len(objects)-1].ID
	return false, nil
}

// storeEach passes over those that somebody deleted, replaced or rewrapped meanwhile.
func (w *rewrapping) storeEach(ctx context.Context, moves []move) error {
	for _, m := range moves {
		switch err := w.store(ctx, []move{m}); {
		case err == nil:
			w.out.Moved++
		case fault.Code(err) != objectChanged:
			return err
		}
	}
	return nil
}

// objectChanged is the code of RewrapObject's Conflict.
const objectChanged = "object_changed"

type move struct {
	object  Object
	by      state.Key
	wrapped []byte
}

// wrap wraps the data keys of those that the present key does not wrap. Each is opened again before anything is
// stored: what a wrong wrapping replaces could not be got back.
func (w *rewrapping) wrap(ctx context.Context, objects []Object) (moves []move, failed []RewrapFailure, err error) {
	for _, o := range objects {
		current, err := w.current(ctx, o.Org)
		if err != nil {
			return nil, nil, err
		}
		if o.Key == current {
			continue
		}
		wrapped, by, err := w.e.keys.RewrapDataKey(ctx, o.Org, o.ID, o.Key, o.Wrapped)
		if err == nil {
			var key []byte
			key, err = w.e.keys.OpenDataKey(ctx, o.Org, o.ID, by, wrapped)
			clear(key)
		}
		switch {
		case err == nil:
			moves = append(moves, move{object: o, by: by, wrapped: wrapped})
		case fault.Is(err, fault.Internal):
			failed = append(failed, RewrapFailure{Object: o.ID, Org: o.Org, Kind: o.Kind, Key: o.Key, Err: err})
		default:
			return nil, nil, err
		}
	}
	return moves, failed, nil
}

// current asks for a data key to see which key wraps it: that is the only way that needs no more than a save does.
func (w *rewrapping) current(ctx context.Context, org string) (state.Key, error) {
	if k, known := w.primary[org]; known {
		return k, nil
	}
	key, _, by, err := w.e.keys.NewDataKey(ctx, org, "")
	if err != nil {
		return state.Key{}, err
	}
	clear(key)
	w.primary[org] = by
	return by, nil
}

// store writes the moves in one transaction, with one record for each organization and key.
func (w *rewrapping) store(ctx context.Context, moves []move) error {
	if len(moves) == 0 {
		return nil
	}
	return w.e.store.Update(ctx, func(tx Tx) error {
		type group struct {
			org      string
			from, to state.Key
		}
		var order []group
		counts := map[group]int{}
		for _, m := range moves {
			if err := tx.RewrapObject(ctx, m.object, m.by, m.wrapped); err != nil {
				return err
			}
			g := group{m.object.Org, m.object.Key, m.by}
			if counts[g]++; counts[g] == 1 {
				order = append(order, g)
			}
		}
		for _, g := range order {
			actor := w.actor
			if g.org != "" { // what belongs to the installation is recorded where the administrator is
				actor.Org = g.org
			}
			data := map[string]any{"objects": counts[g], "from": keyText(g.from), "to": keyText(g.to)}
			if err := w.e.record(ctx, tx, actor, "key.rewrap", g.to.Name, data); err != nil {
				return err
			}
		}
		return nil
	})
}

func keyText(k state.Key) string { return k.Kind + " " + k.Name + " v" + k.Version }

// KeyUses tells which keys are still needed to open what is stored, and by how many objects.
func (e *Engine) KeyUses(ctx context.Context, actor access.Actor) (uses []KeyUse, err error) {
	if err := actor.Allow(access.PlatformManage); err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		uses, err = tx.KeyUses(ctx)
		return err
	})
	return uses, err
}
