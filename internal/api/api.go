// Package api is the words of the HTTP contract: the JSON that the server answers, that the command line, the
// agent's broker and (through the OpenAPI document made from these) the web UI read. It is data only. Times are
// RFC 3339 in UTC; a null time means it has not happened.
package api

import "time"

// List is one page of a list.
type List[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next" doc:"Cursor of the next page; empty at the end."`
}

// Problem is an error (RFC 9457).
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code" doc:"Stable name of the refusal, for scripts."`
	Hint      string `json:"hint,omitempty" doc:"What to do about it."`
	RequestID string `json:"request_id"`
}

// Time is nil for the zero time.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Whoami is who a credential stands for.
type Whoami struct {
	Kind          string   `json:"kind" enum:"user,agent,attempt"`
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Role          string   `json:"role" enum:"viewer,operator,admin,"`
	Organization  string   `json:"organization" doc:"Name of the organization."`
	Permissions   []string `json:"permissions" nullable:"false" doc:"What this credential may do; the UI shows only these actions."`
	StateMaxBytes int64    `json:"state_max_bytes" doc:"The largest state document that this server takes."`
	CSRFToken     string   `json:"csrf_token,omitempty" doc:"With a session: to be sent as X-Holdfast-CSRF with every change."`
}
