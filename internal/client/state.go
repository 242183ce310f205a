package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
)

// StateFilter narrows a list of states.
type StateFilter struct {
	Query   string // part of the name
	Locked  bool
	Held    bool
	Deleted bool // the deleted ones instead of the others

	Stale           bool // locked, and the holder is gone or not known to live
	ClientEncrypted bool
}

// States lists states by name.
func (c *Client) States(ctx context.Context, f StateFilter, page Page) (api.List[api.State], error) {
	return list[api.State](ctx, c, path("tf-states"), filter("q", f.Query, "locked", set(f.Locked), "held", set(f.Held),
		"deleted", set(f.Deleted), "stale", set(f.Stale), "client_encrypted", set(f.ClientEncrypted)), page)
}

// State is one state, without its document.
func (c *Client) State(ctx context.Context, name string) (api.State, error) {
	var out api.State
	err := c.get(ctx, path("tf-states", name), nil, &out)
	return out, err
}

// Document is a state document to be sent, byte for byte.
type Document struct {
	Open func() (io.ReadCloser, error) // called again for each try
	Size int64                         // in bytes
	MD5  []byte                        // of all of it: the server refuses a document that was changed or cut on its way
}

func (d Document) request(method, path string) request {
	h := http.Header{"Content-Type": {"application/json"}, "Content-Md5": {base64.StdEncoding.EncodeToString(d.MD5)}}
	return request{method: method, path: path, header: h, body: d.Open, size: d.Size, repeatable: true}
}

// WriteState stores a document under the lock with that id. A repeat finds it stored.
func (c *Client) WriteState(ctx context.Context, name, lockID string, d Document) error {
	r := d.request(http.MethodPost, path("tf-states", name, "state"))
	r.query = url.Values{"ID": {lockID}}
	return c.call(ctx, r, nil)
}

// LockState takes a state's lock. A repeat with the same id finds it taken. A conflict is Locked or Conflict with the
// code state_locked and names the holder.
func (c *Client) LockState(ctx context.Context, name string, l api.LockDocument) error {
	return c.call(ctx, request{method: "LOCK", path: path("tf-states", name, "lock"), document: l, repeatable: true}, nil)
}

// UnlockState releases the lock with that id. That it is released already is no error; that another lock is held is a
// Conflict.
func (c *Client) UnlockState(ctx context.Context, name, id string) error {
	return c.unlock(ctx, name, api.LockDocument{ID: id})
}

// BreakLock is UnlockState by force, as tofu force-unlock does it: what the holder saves later is kept aside, also where
// the lock is one's own. The id of a hold ends it.
func (c *Client) BreakLock(ctx context.Context, name, id string) error {
	return c.unlock(ctx, name, api.LockDocument{ID: id, Created: "0001-01-01T00:00:00Z"})
}

func (c *Client) unlock(ctx context.Context, name string, l api.LockDocument) error {
	return c.call(ctx, request{method: "UNLOCK", path: path("tf-states", name, "lock"), document: l, repeatable: true}, nil)
}

// ForceUnlock releases the lock or ends the hold that in names, or whatever there is of them where it names none.
func (c *Client) ForceUnlock(ctx context.Context, name string, in api.ForceUnlock) (api.State, error) {
	var out api.State
	err := c.call(ctx, request{method: http.MethodPost, path: path("tf-states", name, "force-unlock"), document: in}, &out)
	return out, err
}

// DeleteState deletes a state, which can be restored for a time, or with purge for good, a deleted one too.
func (c *Client) DeleteState(ctx context.Context, name string, purge bool) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("tf-states", name), query: filter("purge", set(purge)), repeatable: !purge}, nil)
}

// RestoreState brings a deleted state back as it was.
func (c *Client) RestoreState(ctx context.Context, name string) (api.State, error) {
	var out api.State
	err := c.call(ctx, request{method: http.MethodPost, path: path("tf-states", name, "restore"), repeatable: true}, &out)
	return out, err
}

// holder turns the lock document that answers a conflict of locks into an error; false where body is none.
func holder(answer *http.Response, body []byte) (*fault.Error, bool) {
	var l api.LockDocument
	if answer.StatusCode != http.StatusLocked && answer.StatusCode != http.StatusConflict || !isJSON(answer) || json.Unmarshal(body, &l) != nil || l.ID == "" {
		return nil, false
	}
	f := fault.New(kind(answer.StatusCode), "state_locked", "The state is locked by another lock, %s: %s.", l.ID, l.Info).
		WithHint("holdfast state show says who holds it, whether they still live, and how to release it.")
	return f.WithDetail(api.Problem{Status: answer.StatusCode, Code: f.Code, Detail: f.Public, Hint: f.Hint}), true
}
