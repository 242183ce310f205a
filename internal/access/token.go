package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/redact"
)

// The prefixes of tokens, so that secret scanners and people know one on sight.
const (
	PersonalPrefix = "hf_pat_"
	AttemptPrefix  = "hf_run_"
	AgentPrefix    = "hf_agt_"
)

// TokenHash is the SHA-256 of a token: the only form that is stored. A token has 256 random bits, so a fast hash
// is enough and looking one up by its hash tells an attacker nothing by its timing.
type TokenHash [sha256.Size]byte

// Hex is the form kept in the store.
func (h TokenHash) Hex() string { return hex.EncodeToString(h[:]) }

// Hash hashes a token as it was presented.
func Hash(token redact.Secret) TokenHash { return sha256.Sum256([]byte(token.Reveal())) }

// NewToken makes a token: prefix, 43 characters of base64url for 256 random bits, 6 of a CRC-32 over all before
// it. The checksum lets a mistyped token be told from a revoked one without asking the store.
func NewToken(prefix string) redact.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:])
	body := prefix + base64.RawURLEncoding.EncodeToString(b[:])
	return redact.NewSecret(body + checksum(body))
}

// WellFormed reports whether the token has one of our prefixes and a right checksum.
func WellFormed(token redact.Secret) bool {
	s := token.Reveal()
	for _, p := range []string{PersonalPrefix, AttemptPrefix, AgentPrefix} {
		if strings.HasPrefix(s, p) && len(s) == len(p)+43+6 {
			return checksum(s[:len(s)-6]) == s[len(s)-6:]
		}
	}
	return false
}

func checksum(s string) string {
	c := crc32.ChecksumIEEE([]byte(s))
	return base64.RawURLEncoding.EncodeToString([]byte{byte(c >> 24), byte(c >> 16), byte(c >> 8), byte(c)})
}

// Organization is the tenant.
type Organization struct {
	ID, Name  string
	CreatedAt time.Time
}

// UserRecord is a person or a service user of one organization.
type UserRecord struct {
	ID, Org, Name string
	Service       bool // a CI's or script's user: tokens only, no sign-in
	Role          Role
	PlatformAdmin bool
	CreatedAt     time.Time
	DisabledAt    time.Time // zero: enabled
}

// Token is a stored token, without the token. Exactly one of User, AgentID and AttemptID is set.
type Token struct {
	ID, Org, Name string
	Hash          string // hex SHA-256
	User          string
	AgentID       string
	AttemptID     string
	State         string // id of the only state an attempt's token opens; "" for other tokens
	ReadOnly      bool   // an attempt that may read its state and not lock or write it
	CreatedAt     time.Time
	ExpiresAt     time.Time // zero: never
	RevokedAt     time.Time // zero: not revoked
	LastUsedAt    time.Time // kept to the hour
}

// Usable reports whether the token still opens anything at now.
func (t Token) Usable(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// Session is a signed-in browser. Its cookie's value is a token of its own, stored as a hash.
type Session struct {
	Hash, User, Org string
	CreatedAt       time.Time
	ExpiresAt       time.Time
}

// SignInLink signs one user in, once.
type SignInLink struct {
	Hash, User string
	ExpiresAt  time.Time
	UsedAt     time.Time // zero: not used
}

// Account is a cloud account that an organization provisions into.
type Account struct {
	ID, Org   string
	Name      string // AWS account id, Google project id, Azure subscription id, or "local"
	Enabled   bool
	CreatedAt time.Time
}

// AgentRecord is an agent of one account.
type AgentRecord struct {
	ID, Org, Account, Name string
	Version                string
	Capabilities           []string
	SealingKey             string // public key that plans of customer-held state are sealed to; may be empty
	CreatedAt              time.Time
	RegisteredAt           time.Time // zero: never registered
	LastSeenAt             time.Time // zero: never seen
	Draining               bool
	RevokedAt              time.Time
}
