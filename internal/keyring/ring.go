package keyring

import (
	"context"
	"crypto/rand"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// KindTransit is the kind of keys of a key service: the Transit engine of an OpenBao or Vault.
const KindTransit = "transit"

// Wrapper wraps data keys. What it wraps is bound to the organization and to what the data key seals: wrapped
// bytes that are given with another organization or binding open nothing.
type Wrapper interface {
	// Wrap gives the wrapped form of key, which has KeyBytes, and says which key wrapped it.
	Wrap(ctx context.Context, org, binding string, key []byte) (wrapped []byte, by state.Key, err error)
	// Unwrap is the inverse. Its errors name the key: key_missing, sealed_damaged, or Unavailable.
	Unwrap(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error)
	// Rewrap moves what another version of the Wrapper's own key wrapped to the present one.
	Rewrap(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error)
	// Ready is nil when both can be done.
	Ready(ctx context.Context) error
}

// Ring wraps with one key and opens with all that it has. Which one wraps is said once, by the settings: a Ring
// never changes over to another key because the chosen one fails, since what a version is sealed with decides what
// has to be backed up to read it.
type Ring struct {
	primary  Wrapper
	service  string             // tag of primary; "" for the platform key
	platform *Platform          // nil without
	services map[string]Wrapper // by tag
}

// RingConfig is what a Ring is made of.
type RingConfig struct {
	Primary  string             // tag of the service that wraps new data keys; "" for the platform key
	Platform *Platform          // nil where there is no platform key
	Services map[string]Wrapper // key services by tag
}

// NewRing fails where there is nothing to wrap with.
func NewRing(c RingConfig) (*Ring, error) {
	r := &Ring{service: c.Primary, platform: c.Platform, services: c.Services}
	if c.Primary != "" {
		if r.primary = c.Services[c.Primary]; r.primary == nil {
			return nil, fault.New(fault.Invalid, "no_key", "There is no key service %s.", c.Primary)
		}
		return r, nil
	}
	if c.Platform == nil {
		return nil, fault.New(fault.Invalid, "no_key", "There is no key to seal with.")
	}
	r.primary = c.Platform
	return r, nil
}

// NewDataKey makes a data key of KeyBytes, wrapped by the primary key and bound to org and binding.
func (r *Ring) NewDataKey(ctx context.Context, org, binding string) (key, wrapped []byte, by state.Key, err error) {
	key = newDataKey()
	wrapped, by, err = r.primary.Wrap(ctx, org, binding, key)
	if err != nil {
		clear(key)
		return nil, nil, state.Key{}, err
	}
	return key, wrapped, by, nil
}

func newDataKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // never fails since Go 1.24: the process ends instead
	return key
}

// OpenDataKey unwraps what any key of the ring wrapped for the same org and binding.
func (r *Ring) OpenDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error) {
	w, err := r.holder(by)
	if err != nil {
		return nil, err
	}
	return w.Unwrap(ctx, org, binding, by, wrapped)
}

// RewrapDataKey moves a wrapped data key to the primary key. The data key stays the same, so what it seals is not
// touched.
func (r *Ring) RewrapDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error) {
	w, err := r.holder(by)
	if err != nil {
		return nil, state.Key{}, err
	}
	if w == r.primary {
		return w.Rewrap(ctx, org, binding, by, wrapped)
	}
	key, err := w.Unwrap(ctx, org, binding, by, wrapped)
	if err != nil {
		return nil, state.Key{}, err
	}
	defer clear(key)
	return r.primary.Wrap(ctx, org, binding, key)
}

// Ready is nil when new data keys can be wrapped.
func (r *Ring) Ready(ctx context.Context) error { return r.primary.Ready(ctx) }

// holder is whoever has the key.
func (r *Ring) holder(by state.Key) (Wrapper, error) {
	switch by.Kind {
	case KindPlatform:
		if r.platform != nil {
			return r.platform, nil
		}
		return nil, fault.New(fault.Internal, "key_missing", "This was sealed with the platform key %s, and this server has no platform key.", by.Name).
			WithHint("Add that key to HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS.")
	case KindTransit:
		tag, _, _ := strings.Cut(by.Name, "/")
		if w := r.services[tag]; w != nil {
			return w, nil
		}
		return nil, fault.New(fault.Internal, "key_missing", "This was sealed with the Transit key %s, and this server has no key service %s.", by.Name, tag).
			WithHint("Set HOLDFAST_SECRET_BACKEND_%s_ADDR and what belongs to it.", tag)
	}
	return nil, fault.New(fault.Internal, "key_missing", "This was sealed with the key %s, of the kind %q, which this version of Holdfast does not know.", by.Name, by.Kind)
}
