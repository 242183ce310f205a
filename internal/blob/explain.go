package blob

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"holdfast.dev/holdfast/internal/fault"
)

// retryAfter is how long clients wait before they try again: the operation itself was repeated already.
const retryAfter = 5 * time.Second

// explain gives an error its public side. The store's address and its own words stay private.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) { // whoever asked went away: that says nothing of the store
		return err
	}
	r, answered := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !answered:
		return away(err, "blob_store_unreachable", "does not answer").
			WithHint("See whether it runs and can be reached from the server (HOLDFAST_BLOB_URL, HOLDFAST_BLOB_CA_FILE).")
	case r.Code == minio.NoSuchKey:
		return fault.Wrap(err, fault.NotFound, "blob_missing", "The object store does not have these bytes.")
	case r.Code == minio.NoSuchBucket:
		return away(err, "blob_store_refused", "has no bucket "+s.options.Bucket).
			WithHint("Make the bucket, or correct HOLDFAST_BLOB_URL.")
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusBadRequest:
		return away(err, "blob_store_refused", "refuses this server").
			WithHint("Its credentials (AWS_ACCESS_KEY_ID and the other usual places), the region in HOLDFAST_BLOB_URL or its permissions on the bucket %s are not right: it lists, reads, writes and deletes objects and multipart uploads.", s.options.Bucket)
	case r.StatusCode == http.StatusInsufficientStorage, r.Code == "XMinioStorageFull", r.Code == "QuotaExceeded":
		return fault.Wrap(err, fault.NoSpace, "blob_store_full", "The object store is full, so nothing large can be stored.").
			WithHint("Give the bucket %s more room.", s.options.Bucket)
	}
	return away(err, "blob_store_failed", "failed").WithHint("Its own log has the cause.")
}

func away(err error, code, what string) *fault.Error {
	f := fault.Wrap(err, fault.Unavailable, code, "The object store %s, so nothing large can be stored or read.", what)
	f.RetryAfter = retryAfter
	return f
}
