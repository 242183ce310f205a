package keyring_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/state"
)

// away is a key service that is away.
type away struct{ keyring.Wrapper }

var errAway = fault.New(fault.Unavailable, "key_service_sealed", "Sealed.")

func (away) Wrap(context.Context, string, string, []byte) ([]byte, state.Key, error) {
	return nil, state.Key{}, errAway
}

func (away) Unwrap(context.Context, string, string, state.Key, []byte) ([]byte, error) {
	return nil, errAway
}
func (away) Ready(context.Context) error { return errAway }

// The choice is the settings' alone: a service that is away is never replaced by the platform key.
func TestRingNeverChangesOver(t *testing.T) {
	p := platform(t, 1)
	_, wrapped, by, err := p.NewDataKey(t.Context(), "o", "b")
	if err != nil {
		t.Fatal(err)
	}
	r, err := keyring.NewRing(keyring.RingConfig{Primary: "MAIN", Platform: p, Services: map[string]keyring.Wrapper{"MAIN": away{}}})
	if err != nil {
		t.Fatal(err)
	}
	if key, _, _, err := r.NewDataKey(t.Context(), "o", "b"); fault.Code(err) != "key_service_sealed" || key != nil {
		t.Errorf("NewDataKey = %x, %v, want the service's refusal", key, err)
	}
	if _, _, err := r.RewrapDataKey(t.Context(), "o", "b", by, wrapped); fault.Code(err) != "key_service_sealed" {
		t.Errorf("RewrapDataKey = %v, want the service's refusal", err)
	}
	if err := r.Ready(t.Context()); fault.Code(err) != "key_service_sealed" {
		t.Errorf("Ready = %v, want the service's refusal", err)
	}
	if _, err := r.OpenDataKey(t.Context(), "o", "b", by, wrapped); err != nil {
		t.Errorf("what the platform key sealed: %v, want it open", err)
	}
}

// A key that is not there is named, with the setting that would bring it.
func TestRingNamesTheKeyItLacks(t *testing.T) {
	withService, err := keyring.NewRing(keyring.RingConfig{Primary: "MAIN", Services: map[string]keyring.Wrapper{"MAIN": away{}}})
	if err != nil {
		t.Fatal(err)
	}
	withPlatform, err := keyring.NewRing(keyring.RingConfig{Platform: platform(t, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ring  *keyring.Ring
		by    state.Key
		names []string
	}{
		"a platform key":   {withService, state.Key{Kind: "platform", Name: "0a0b0c0d"}, []string{"0a0b0c0d", "HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS"}},
		"another service":  {withService, state.Key{Kind: "transit", Name: "OLD/holdfast-org_1"}, []string{"OLD/holdfast-org_1", "HOLDFAST_SECRET_BACKEND_OLD_ADDR"}},
		"any service":      {withPlatform, state.Key{Kind: "transit", Name: "MAIN/holdfast-org_1"}, []string{"MAIN/holdfast-org_1", "HOLDFAST_SECRET_BACKEND_MAIN_ADDR"}},
		"an unknown kind":  {withPlatform, state.Key{Kind: "quantum", Name: "q"}, []string{"quantum"}},
		"another platform": {withPlatform, state.Key{Kind: "platform", Name: "0a0b0c0d"}, []string{"0a0b0c0d", "HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS"}},
	} {
		_, err := c.ring.OpenDataKey(t.Context(), "o", "b", c.by, []byte("x"))
		f := fault.From(err)
		if f.Code != "key_missing" || f.Kind != fault.Internal {
			t.Errorf("%s: %v, want key_missing", name, err)
		}
		for _, want := range c.names {
			if !strings.Contains(f.Public+f.Hint, want) {
				t.Errorf("%s: %q, %q do not name %s", name, f.Public, f.Hint, want)
			}
		}
	}
	for name, c := range map[string]keyring.RingConfig{"nothing": {}, "a service that is not there": {Primary: "MAIN", Platform: platform(t, 1)}} {
		if r, err := keyring.NewRing(c); fault.Code(err) != "no_key" || r != nil {
			t.Errorf("a ring of %s: %v, want no_key", name, err)
		}
	}
}

func TestPlatformRewrapKeepsTheDataKey(t *testing.T) {
	key, wrapped, by, err := platform(t, 1).NewDataKey(t.Context(), "o", "b")
	if err != nil {
		t.Fatal(err)
	}
	both := platform(t, 2, 1)
	moved, to, err := both.Rewrap(t.Context(), "o", "b", by, wrapped)
	if err != nil || to.Name != both.ID() {
		t.Fatalf("Rewrap gives %+v, %v, want key %s", to, err, both.ID())
	}
	if got, err := platform(t, 2).Unwrap(t.Context(), "o", "b", to, moved); err != nil || !bytes.Equal(got, key) {
		t.Errorf("with the new key alone: %x, %v; want %x", got, err, key)
	}
	if _, _, err := both.Rewrap(t.Context(), "o", "c", by, wrapped); fault.Code(err) != "sealed_damaged" {
		t.Errorf("rewrapped for another object: %v, want sealed_damaged", err)
	}
}
