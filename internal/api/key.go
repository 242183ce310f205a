package api

// KeyUse is a key that stored bytes are sealed with, and how many objects.
type KeyUse struct {
	Kind    string `json:"kind" enum:"platform,transit"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Objects int64  `json:"objects" doc:"States' versions, plans, sources and the audit key."`
}

// Rewrap is POST /api/keys/rewrap.
type Rewrap struct {
	After string `json:"after,omitempty" maxLength:"64" doc:"What the step before answered as next; empty to begin."`
}

// Rewrapped is what one step of rewrapping did.
type Rewrapped struct {
	Next     string          `json:"next" doc:"Give it to the next step; empty at the end."`
	Examined int             `json:"examined" doc:"Objects that were looked at."`
	Moved    int             `json:"moved" doc:"Objects that were moved to the key that seals."`
	Failed   []RewrapFailure `json:"failed" nullable:"false" doc:"Objects whose own key is missing or wrong: they stay as they are."`
}

// RewrapFailure is an object that could not be moved.
type RewrapFailure struct {
	Object       string `json:"object"`
	Organization string `json:"organization" doc:"Id; empty for what belongs to the installation."`
	Kind         string `json:"kind" doc:"state, plan, source or audit_key."`
	Key          Key    `json:"key"`
	Code         string `json:"code"`
	Detail       string `json:"detail"`
}
