package engine

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// StateVersions lists a state's versions, newest first, with the state they are of.
func (e *Engine) StateVersions(ctx context.Context, a access.Actor, name string, quarantined bool, p Page) (s state.State, items []state.Version, next string, err error) {
	if err := a.Allow(access.StateList); err != nil {
		return s, nil, "", err
	}
	if err := state.CheckName(name); err != nil {
		return s, nil, "", err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		if s, err = listedState(ctx, tx, a, name); err != nil {
			return err
		}
		items, next, err = tx.Versions(ctx, s.ID, quarantined, p)
		return err
	})
	return s, items, next, err
}

// StateVersionContent opens the document of one version. The download is audited before the first byte leaves.
func (e *Engine) StateVersionContent(ctx context.Context, a access.Actor, name string, number int64) (c StateContent, err error) {
	defer func() { e.logRefusal(ctx, a, "download", name, "", err) }()
	if err := stateAccess(a, access.StateRead, name); err != nil {
		return c, err
	}
	if err := e.needKey(); err != nil {
		return c, err
	}
	return begunAgain(func() (StateContent, error) { return e.readVersion(ctx, a, name, number) })
}

func (e *Engine) readVersion(ctx context.Context, a access.Actor, name string, number int64) (c StateContent, err error) {
	var o Object
	err = e.store.Update(ctx, func(tx Tx) error {
		s, err := tx.State(ctx, a.Org, name)
		if err = ownState(a, s, name, err); err != nil {
			return err
		}
		v, err := versionOf(ctx, tx, s, number)
		if err != nil {
			return err
		}
		if o, err = versionObject(ctx, tx, v); err != nil {
			return err
		}
		return e.record(ctx, tx, a, "state.download", name, auditVersion(v))
	})
	if err != nil {
		return c, err
	}
	return e.openContent(ctx, number, o)
}

// versionOf is a version of a state that is not deleted.
func versionOf(ctx context.Context, tx Tx, s state.State, number int64) (state.Version, error) {
	if err := state.Present(s); err != nil {
		return state.Version{}, err
	}
	v, err := tx.Version(ctx, s.ID, number)
	if fault.Is(err, fault.NotFound) {
		return v, fault.New(fault.NotFound, "version_not_found", "%s has no version %d.", s.Name, number).
			WithHint("It may be older than what is kept; the versions of the state are listed newest first.")
	}
	return v, err
}
