package api

import (
	"encoding/json"
	"time"
)

// Account is a cloud account that the organization provisions into.
type Account struct {
	ID        string    `json:"id"`
	Name      string    `json:"name" doc:"AWS account id, Google Cloud project id, Azure subscription id, or local."`
	Enabled   bool      `json:"enabled"`
	CreatedAt time.Time `json:"created_at"`
}

// AddAccount is POST /api/accounts.
type AddAccount struct {
	Name string `json:"name" minLength:"1" maxLength:"128"`
}

// SetAccount is PATCH /api/accounts/{name}.
type SetAccount struct {
	Enabled bool `json:"enabled"`
}

// Agent is an agent.
type Agent struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Account      string     `json:"account"`
	Status       string     `json:"status" enum:"never_seen,online,draining,offline,revoked"`
	Version      string     `json:"version"`
	Capabilities []string   `json:"capabilities" nullable:"false"`
	CreatedAt    time.Time  `json:"created_at"`
	LastSeenAt   *time.Time `json:"last_seen_at"`
	RevokedAt    *time.Time `json:"revoked_at"`
}

// IssueAgent is POST /api/provisioning/agents.
type IssueAgent struct {
	Name      string `json:"name" minLength:"1" maxLength:"64"`
	AccountID string `json:"accountId" minLength:"1" maxLength:"128" doc:"Name of the account, e.g. the AWS account id."`
}

// IssuedAgent shows an agent's token, once.
type IssuedAgent struct {
	Agent Agent  `json:"agent"`
	Token string `json:"token"`
}

// Token is a stored token, without the token.
type Token struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	User       string     `json:"user"`
	UserName   string     `json:"user_name"`
	Role       string     `json:"role"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// CreateToken is POST /api/tokens.
type CreateToken struct {
	Name         string `json:"name" minLength:"1" maxLength:"64"`
	Role         string `json:"role,omitempty" enum:"viewer,operator,admin," doc:"With it an administrator makes a service user of that name, and its token."`
	Organization string `json:"organization,omitempty" doc:"Platform administrators only: name of another organization."`
	ExpiresIn    string `json:"expires_in,omitempty" doc:"A duration such as 12h or 30d; default 90d, at most 366d."`
}

// CreatedToken shows a token, once.
type CreatedToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// User is a person or a service user.
type User struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Service    bool       `json:"service"`
	Role       string     `json:"role"`
	CreatedAt  time.Time  `json:"created_at"`
	DisabledAt *time.Time `json:"disabled_at"`
}

// AddUser is POST /api/users: it answers a one-time sign-in link.
type AddUser struct {
	Name string `json:"name" minLength:"1" maxLength:"64"`
	Role string `json:"role" enum:"viewer,operator,admin"`
}

// AddedUser has the link that signs the user in, once.
type AddedUser struct {
	User       User   `json:"user"`
	SignInLink string `json:"sign_in_link"`
}

// SetUser is PATCH /api/users/{id}.
type SetUser struct {
	Role     string `json:"role,omitempty" enum:"viewer,operator,admin,"`
	Disabled *bool  `json:"disabled,omitempty"`
}

// Permission is the lowest role that has a permission in the organization.
type Permission struct {
	Permission  string `json:"permission"`
	Role        string `json:"role" enum:"viewer,operator,admin,disabled" doc:"The lowest role that has it; disabled where nobody has."`
	DefaultRole string `json:"default_role" enum:"viewer,operator,admin" doc:"The lowest role where no administrator has changed it."`
	Allocatable bool   `json:"allocatable" doc:"Whether an administrator may change it."`
}

// SetPermission is PATCH /api/permissions/{permission}.
type SetPermission struct {
	Role string `json:"role" enum:"viewer,operator,admin,disabled"`
}

// Organization is a tenant.
type Organization struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// AddOrganization is POST /api/organizations, for platform administrators.
type AddOrganization struct {
	Name string `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-z0-9][a-z0-9-]*$"`
}

// AuditRecord is one record of the audit chain.
type AuditRecord struct {
	Seq       int64           `json:"seq"`
	At        time.Time       `json:"at"`
	ActorKind string          `json:"actor_kind"`
	ActorID   string          `json:"actor_id"`
	ActorName string          `json:"actor_name"`
	Action    string          `json:"action"`
	Object    string          `json:"object"`
	Data      json.RawMessage `json:"data"`
	RequestID string          `json:"request_id"`
	Hash      string          `json:"hash"`
}

// AuditVerified is GET /api/audit/verify.
type AuditVerified struct {
	Intact   bool   `json:"intact"`
	Records  int64  `json:"records"`
	Unkeyed  int64  `json:"unkeyed" doc:"How many at the beginning are from before the server had any key. They prove nothing."`
	BrokenAt int64  `json:"broken_at" doc:"0 where intact."`
	Reason   string `json:"reason"`
	Anchor   string `json:"anchor" doc:"SEQ:HASH of the last record; give it to a later verify to prove that the end was not cut."`
}

// SignIn is POST /api/session: with a personal token, or with the code of a one-time link.
type SignIn struct {
	Token string `json:"token,omitempty" maxLength:"256"`
	Code  string `json:"code,omitempty" maxLength:"256"`
}
