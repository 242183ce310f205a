package engine

import (
	"context"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// noKeys stands for the keys where the settings name none.
type noKeys struct{}

const (
	noKeyCode = "no_key"
	noKeyText = "Managed state is unavailable: this server has no key to seal with."
	noKeyHint = "Set HOLDFAST_TF_STATE_ENCRYPTION_KEY, or set up a key service and name it in HOLDFAST_TF_STATE_KEY_BACKEND."
)

// err says to try again: it meets what was begun before the key was taken away, which must not be given up.
func (noKeys) err() error {
	return fault.New(fault.Unavailable, noKeyCode, noKeyText).WithHint(noKeyHint)
}

func (k noKeys) NewDataKey(context.Context, string, string) (key, wrapped []byte, by state.Key, err error) {
	return nil, nil, state.Key{}, k.err()
}

func (k noKeys) OpenDataKey(context.Context, string, string, state.Key, []byte) ([]byte, error) {
	return nil, k.err()
}

func (k noKeys) RewrapDataKey(context.Context, string, string, state.Key, []byte) ([]byte, state.Key, error) {
	return nil, state.Key{}, k.err()
}

func (k noKeys) Ready(context.Context) error { return k.err() }

// sealed is whether there is a key to seal with.
func (e *Engine) sealed() bool {
	_, none := e.keys.(noKeys)
	return !none
}

// needKey refuses what would need a key later, before anything is begun: a plan must not start whose state cannot be
// saved, and a state that cannot be read is not an empty one.
func (e *Engine) needKey() error {
	if e.sealed() {
		return nil
	}
	return fault.New(fault.NotSetUp, noKeyCode, noKeyText).WithHint(noKeyHint)
}
