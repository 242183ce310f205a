package transit

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/openbao/openbao/api/v2"

	"holdfast.dev/holdfast/internal/fault"
)

// explain gives an error its public side. The service's address and its own words stay private.
func (c *Client) explain(err error, key string) error {
	if errors.Is(err, context.Canceled) || fault.Code(err) != "" { // whoever asked went away: that says nothing of the service
		return err
	}
	r, answered := errors.AsType[*api.ResponseError](err)
	switch {
	case !answered:
		return c.away(err, "key_service_unreachable", "does not answer").
			WithHint("See whether it runs and can be reached from here (HOLDFAST_SECRET_BACKEND_%s_ADDR).", c.tag)
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized:
		return c.away(err, "key_service_refused", "refuses this server's login").
			WithHint("It needs update on %[1]s/encrypt/%[2]s, %[1]s/decrypt/%[2]s and %[1]s/rewrap/%[2]s, and create on the first to make keys by itself.", c.mount, or(key, "holdfast-*"))
	case r.StatusCode == http.StatusNotFound:
		return c.away(err, "key_service_refused", "has no Transit engine at "+c.mount+"/").
			WithHint("Enable the engine there, or name its mount in HOLDFAST_SECRET_BACKEND_%s_MOUNT.", c.tag)
	case r.StatusCode == http.StatusBadRequest && key != "":
		return c.refusedContent(err, strings.Join(r.Errors, "; "), key)
	case r.StatusCode == http.StatusServiceUnavailable:
		return c.away(err, "key_service_sealed", "is sealed").WithHint("Unseal it; what was refused meanwhile can be tried again.")
	}
	return c.failure(err, key)
}

// refusedContent tells what the engine says of a key or a ciphertext.
func (c *Client) refusedContent(err error, says, key string) error {
	for _, missing := range []string{"encryption key not found", "disallowed by policy", "version is too new", "no such key version"} {
		if strings.Contains(says, missing) {
			return fault.Wrap(err, fault.Internal, "key_missing", "The key service %s does not have the key %s/%s, or not the version that this was sealed with.", c.tag, c.mount, key).
				WithHint("Restore the key from a backup of the service, or allow that version (min_decryption_version). A key that was never there is made with: write -f %s/keys/%s", c.mount, key)
		}
	}
	return c.damaged(err, key)
}

func (c *Client) damaged(err error, key string) error {
	return fault.Wrap(err, fault.Internal, "sealed_damaged",
		"A data key that was wrapped with the Transit key %s/%s is damaged or belongs elsewhere, or the key is not the one that wrapped it.", c.tag, key).
		WithHint("Restore the row from a backup of the database, or the key from a backup of the service.")
}

// failure is anything else: the service answered and did not do it.
func (c *Client) failure(err error, key string) error {
	return c.away(err, "key_service_failed", "failed").WithHint("Its own log has the cause. The key is %s/%s.", c.mount, or(key, "none"))
}

func (c *Client) away(err error, code, what string) *fault.Error {
	f := fault.Wrap(err, fault.Unavailable, code, "The key service %s %s, so nothing can be sealed or opened with its keys.", c.tag, what)
	f.RetryAfter = retryAfter
	return f
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
