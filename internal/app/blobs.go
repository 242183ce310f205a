package app

import (
	"holdfast.dev/holdfast/internal/blob"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
)

// openBlobs is the object store that the settings name, or nil. It asks nothing of the store.
func openBlobs(b config.Blob) (engine.Blobs, error) {
	if !b.Set() {
		return nil, nil
	}
	store, err := blob.Open(blob.Options{
		Bucket: b.Bucket, Prefix: b.Prefix, Endpoint: b.Endpoint, Region: b.Region, PathStyle: b.PathStyle, CAFile: b.CAFile,
	})
	if err != nil {
		return nil, config.Invalid("HOLDFAST_BLOB_URL or HOLDFAST_BLOB_CA_FILE: %v.", err)
	}
	return store, nil
}
