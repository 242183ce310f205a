// Package keyring holds the keys that seal what Holdfast stores. A document is sealed under a data key of its own;
// that data key is wrapped by a platform key, which is kept outside the database. So a dump of the database alone
// reveals nothing, and a wrapped key that was moved to another row, or to another organization, opens nothing.
package keyring

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/state"
)

// KeyBytes is the size of a platform key and of a data key.
const KeyBytes = 32

// KindPlatform is the kind of keys that a Platform wraps with.
const KindPlatform = "platform"

// The purposes for which keys are derived from a platform key. No two uses share a key.
const (
	purposeID    = "holdfast platform key v1: id"
	purposeWrap  = "holdfast platform key v1: wrap"
	purposeAudit = "holdfast platform key v1: audit chain"
)

// A wrapped data key is a format byte, a salt, and the data key sealed under a key and nonce that are derived from
// the platform key and that salt. The number of keys one platform key can wrap is thereby not bounded by the 2^32
// random nonces of AES-GCM.
const (
	wrapFormat = 1
	saltBytes  = 32
	nonceBytes = 12
	tagBytes   = 16
	wrapBytes  = 1 + saltBytes + KeyBytes + tagBytes
)

// Platform wraps data keys with keys from the server's settings. It is safe for concurrent use.
type Platform struct {
	primary *platformKey
	keys    map[string]*platformKey // by id
}

type platformKey struct {
	id    string
	wrap  []byte
	audit []byte
}

// NewPlatform takes the primary key, which wraps, and earlier ones, which still unwrap. Each is 32 random bytes in
// base64 (openssl rand -base64 32). The errors name the setting and never the key.
func NewPlatform(primary redact.Secret, earlier ...redact.Secret) (*Platform, error) {
	first, err := parseKey("HOLDFAST_TF_STATE_ENCRYPTION_KEY", primary)
	if err != nil {
		return nil, err
	}
	p := &Platform{primary: first, keys: map[string]*platformKey{first.id: first}}
	for _, s := range earlier {
		k, err := parseKey("HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS", s)
		if err != nil {
			return nil, err
		}
		p.keys[k.id] = k
	}
	return p, nil
}

func parseKey(setting string, s redact.Secret) (*platformKey, error) {
	const hint = "Make one with: openssl rand -base64 32"
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(s.Reveal()))
	switch {
	case s.IsZero():
		return nil, fault.New(fault.Invalid, "invalid_key", "%s is empty.", setting).WithHint(hint)
	case err != nil: // not wrapped: the decoder's error quotes the text
		return nil, fault.New(fault.Invalid, "invalid_key", "%s is not base64.", setting).WithHint(hint)
	case len(raw) != KeyBytes:
		return nil, fault.New(fault.Invalid, "invalid_key", "%s holds %d bytes; a key has %d.", setting, len(raw), KeyBytes).WithHint(hint)
	case allEqual(raw):
		return nil, fault.New(fault.Invalid, "invalid_key", "%s is one byte repeated, not a random key.", setting).WithHint(hint)
	}
	return newPlatformKey(raw)
}

func allEqual(b []byte) bool {
	for _, c := range b {
		if c != b[0] {
			return false
		}
	}
	return true
}

func newPlatformKey(raw []byte) (*platformKey, error) {
	var derived [3][]byte
	for i, purpose := range []string{purposeID, purposeWrap, purposeAudit} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, raw, nil, purpose, KeyBytes); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "key_derivation", "A key could not be derived from the platform key.")
		}
	}
	// The id is public: it is stored with each version and printed in errors.
	sum := sha256.Sum256(derived[0])
	return &platformKey{id: hex.EncodeToString(sum[:4]), wrap: derived[1], audit: derived[2]}, nil
}

// ID names the primary key: 8 hex digits that tell nothing of the key.
func (p *Platform) ID() string { return p.primary.id }

// AuditKey is the key of the installation's audit chain, derived from the primary key.
func (p *Platform) AuditKey() []byte { return append([]byte(nil), p.primary.audit...) }

// EarlierAuditKeys are those of the earlier platform keys: records that were linked under them can still be checked.
func (p *Platform) EarlierAuditKeys() [][]byte {
	var keys [][]byte
	for _, k := range p.keys {
		if k != p.primary {
			keys = append(keys, append([]byte(nil), k.audit...))
		}
	}
	return keys
}

// Ready is nil: the keys are in memory.
func (p *Platform) Ready(context.Context) error { return nil }

// NewDataKey makes a data key and wraps it with the primary key, bound to org and binding.
func (p *Platform) NewDataKey(ctx context.Context, org, binding string) (key, wrapped []byte, by state.Key, err error) {
	key = newDataKey()
	wrapped, by, err = p.Wrap(ctx, org, binding, key)
	return key, wrapped, by, err
}

// OpenDataKey unwraps what NewDataKey made for the same org and binding, with the key that by names.
func (p *Platform) OpenDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error) {
	return p.Unwrap(ctx, org, binding, by, wrapped)
}

// RewrapDataKey moves a data key that an earlier key wrapped to the primary one.
func (p *Platform) RewrapDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error) {
	return p.Rewrap(ctx, org, binding, by, wrapped)
}

// Wrap wraps with the primary key.
func (p *Platform) Wrap(_ context.Context, org, binding string, key []byte) ([]byte, state.Key, error) {
	wrapped := make([]byte, 1+saltBytes, wrapBytes)
	wrapped[0] = wrapFormat
	_, _ = rand.Read(wrapped[1:]) // never fails since Go 1.24: the process ends instead
	aead, nonce, err := p.primary.aead(wrapped[1:])
	if err != nil {
		return nil, state.Key{}, err
	}
	return aead.Seal(wrapped, nonce, key, bindingData(org, binding)), state.Key{Kind: KindPlatform, Name: p.primary.id, Version: "1"}, nil
}

// Rewrap unwraps with the key that by names and wraps with the primary one.
func (p *Platform) Rewrap(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error) {
	key, err := p.Unwrap(ctx, org, binding, by, wrapped)
	if err != nil {
		return nil, state.Key{}, err
	}
	defer clear(key)
	return p.Wrap(ctx, org, binding, key)
}

// Unwrap opens with the key that by names, the primary one or an earlier one.
func (p *Platform) Unwrap(_ context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error) {
	if by.Kind != KindPlatform {
		return nil, fault.New(fault.Internal, "key_missing", "This was sealed with the %s key %q, and this server has platform keys only.", by.Kind, by.Name).
			WithHint("Configure the key service that holds it (HOLDFAST_TF_STATE_KEY_BACKEND).")
	}
	k := p.keys[by.Name]
	if k == nil {
		return nil, fault.New(fault.Internal, "key_missing", "This was sealed with the platform key %s, which this server does not have.", by.Name).
			WithHint("Add that key to HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS. This server's key is %s.", p.primary.id)
	}
	damaged := fault.New(fault.Internal, "sealed_damaged", "A data key that was wrapped with the platform key %s is damaged or belongs elsewhere.", k.id).
		WithHint("Restore the row from a backup of the database.")
	if len(wrapped) != wrapBytes || wrapped[0] != wrapFormat {
		return nil, damaged
	}
	aead, nonce, err := k.aead(wrapped[1 : 1+saltBytes])
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, nonce, wrapped[1+saltBytes:], bindingData(org, binding))
	if err != nil {
		return nil, damaged
	}
	return key, nil
}

func (k *platformKey) aead(salt []byte) (aead cipher.AEAD, nonce []byte, err error) {
	derived, err := hkdf.Key(sha256.New, k.wrap, salt, "data key", KeyBytes+nonceBytes)
	if err == nil {
		var block cipher.Block
		if block, err = aes.NewCipher(derived[:KeyBytes]); err == nil {
			aead, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Internal, "key_derivation", "A key could not be derived from the platform key %s.", k.id)
	}
	return aead, derived[KeyBytes:], nil
}

// Binding is what bytes of org and binding are bound to, in a form that no other pair has: for a Wrapper that has
// to carry it itself.
func Binding(org, binding string) [sha256.Size]byte { return sha256.Sum256(bindingData(org, binding)) }

// bindingData writes each part with its length, so that no two pairs share an encoding.
func bindingData(org, binding string) []byte {
	var b []byte
	for _, s := range []string{org, binding} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}
