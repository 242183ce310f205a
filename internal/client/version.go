package client

import (
	"context"
	"crypto/md5" //nolint:gosec // the protocol's own check against damage on the way; SHA-256 stands beside it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/fault"
)

// StateVersions lists a state's versions, newest first: all, or those that were refused and kept aside.
func (c *Client) StateVersions(ctx context.Context, name string, quarantined bool, page Page) (api.List[api.StateVersion], error) {
	return list[api.StateVersion](ctx, c, path("tf-states", name, "versions"), filter("quarantined", set(quarantined)), page)
}

// PullState writes the document of a version to w and checks it on the way: against its Content-MD5, and against
// wantSHA256 (hex) where that is not empty. On any error w may have got a part; only nil says that all of it is there,
// byte for byte.
func (c *Client) PullState(ctx context.Context, name string, version int64, wantSHA256 string, w io.Writer) (int64, error) {
	answer, err := c.send(ctx, request{
		method: http.MethodGet, repeatable: true, header: http.Header{"Accept": {"*/*"}},
		path: path("tf-states", name, "versions", strconv.FormatInt(version, 10), "content"),
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	light, full := md5.New(), sha256.New() //nolint:gosec // as above
	n, err := io.Copy(io.MultiWriter(w, light, full), answer.Body)
	if err != nil {
		return n, c.explain(ctx, fmt.Errorf("read the state: %w", err))
	}
	if want := answer.Header.Get("Content-Md5"); want != "" && want != base64.StdEncoding.EncodeToString(light.Sum(nil)) {
		return n, damaged(name)
	}
	if wantSHA256 != "" && wantSHA256 != hex.EncodeToString(full.Sum(nil)) {
		return n, damaged(name)
	}
	return n, nil
}

func damaged(name string) error {
	return fault.New(fault.Internal, "state_damaged", "The document of state %s is not the one that is stored: it was damaged on its way.", name).
		WithHint("Try again. If it stays, something between here and the server changes what passes through it.")
}

// ImportState makes a state of a document from elsewhere. A name in use is a Conflict, state_exists; that is what the
// repeat of an import whose answer was lost is answered too.
func (c *Client) ImportState(ctx context.Context, name string, d Document, replaceDeleted bool) (api.StateVersion, error) {
	var out api.StateVersion
	r := d.request(http.MethodPost, path("tf-states", name, "import"))
	r.query = filter("replace_deleted", set(replaceDeleted))
	err := c.call(ctx, r, &out)
	return out, err
}

// RollbackState makes an older version current again, as a new version. A repeat would make another one.
func (c *Client) RollbackState(ctx context.Context, name string, version int64) (api.StateVersion, error) {
	return c.pick(ctx, name, "rollback", version)
}

// AcceptVersion makes a version current that was refused and kept aside.
func (c *Client) AcceptVersion(ctx context.Context, name string, version int64) (api.StateVersion, error) {
	return c.pick(ctx, name, "accept", version)
}

func (c *Client) pick(ctx context.Context, name, verb string, version int64) (api.StateVersion, error) {
	var out api.StateVersion
	err := c.call(ctx, request{method: http.MethodPost, path: path("tf-states", name, verb), document: api.PickVersion{Version: version}}, &out)
	return out, err
}
