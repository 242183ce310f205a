package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/transit"
)

// keys are what seals and opens.
type keys struct {
	ring     *keyring.Ring
	platform *keyring.Platform // nil where no platform key is given
	services []*transit.Client
}

// seals are the keys for the engine; nil where there are none.
func (k keys) seals() engine.Keys {
	if k.ring == nil {
		return nil // and not a nil *Ring in an interface
	}
	return k.ring
}

// openKeys takes the keys that the settings name. It asks nothing of a key service: one that is away is no reason
// not to start, nor to use another key. Without any, what has to be sealed is refused, and the rest works.
func openKeys(s config.Server, log *slog.Logger, now func() time.Time) (keys, error) {
	var k keys
	var err error
	if k.platform, err = platformKey(s); err != nil {
		return k, err
	}
	wrappers := map[string]keyring.Wrapper{}
	for _, tag := range slices.Sorted(maps.Keys(s.SecretBackends)) {
		b := s.SecretBackends[tag]
		client, err := transit.New(transit.Options{
			Tag: tag, Address: b.Addr.String(), Mount: b.Mount, Namespace: b.Namespace, CAFile: b.CAFile, Log: log, Now: now,
			Auth: transit.Auth{
				Method: b.Auth, Mount: b.AuthMount, TokenFile: b.TokenFile, RoleIDFile: b.RoleIDFile,
				SecretIDFile: b.SecretIDFile, Role: b.Role, JWTFile: b.JWTFile,
			},
		})
		if err != nil {
			return k, config.Invalid("HOLDFAST_SECRET_BACKEND_%s_CA_FILE or _ADDR: %v.", tag, err)
		}
		k.services = append(k.services, client)
		wrappers[tag] = client
	}
	if k.platform == nil && s.KeyBackend == "" {
		log.Warn("there is no key: managed state and runs are unavailable", "setting", "HOLDFAST_TF_STATE_ENCRYPTION_KEY or HOLDFAST_TF_STATE_KEY_BACKEND")
		return k, nil
	}
	k.ring, err = keyring.NewRing(keyring.RingConfig{Primary: s.KeyBackend, Platform: k.platform, Services: wrappers})
	return k, err
}

// auditKeys keep chains verifiable that were begun when their key was derived from the platform key.
func (k keys) auditKeys() [][]byte {
	if k.platform == nil {
		return nil
	}
	return append([][]byte{k.platform.AuditKey()}, k.platform.EarlierAuditKeys()...)
}

// platformKey is nil where none is given. Earlier keys alone open only: then a service has to seal.
func platformKey(s config.Server) (*keyring.Platform, error) {
	primary, earlier := s.EncryptionKey, s.OldEncryptionKeys
	switch {
	case primary.IsZero() && len(earlier) == 0:
		return nil, nil
	case primary.IsZero() && s.KeyBackend != "":
		primary, earlier = earlier[0], earlier[1:]
	}
	p, err := keyring.NewPlatform(primary, earlier...)
	if f, ok := errors.AsType[*fault.Error](err); ok && primary.IsZero() {
		return nil, fault.Wrap(err, f.Kind, f.Code, "There is no key to seal states with: %s", f.Public).
			WithHint("%s. Or set up a key service (HOLDFAST_SECRET_BACKEND_%s_ADDR) and name it in HOLDFAST_TF_STATE_KEY_BACKEND.", f.Hint, config.Tag)
	}
	if err != nil {
		return nil, fmt.Errorf("take the platform key: %w", err)
	}
	return p, nil
}
