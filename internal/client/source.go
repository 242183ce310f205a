package client

import (
	"context"
	"io"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// UploadSource stores a packed configuration of size bytes. open is called for each try. Storing the same archive
// twice leaves one that no run uses, which the server sweeps.
func (c *Client) UploadSource(ctx context.Context, size int64, open func() (io.ReadCloser, error)) (api.Source, error) {
	var out api.Source
	err := c.call(ctx, request{
		method: http.MethodPost, path: path("sources"), body: open, size: size, repeatable: true,
		header: http.Header{"Content-Type": {"application/zstd"}},
	}, &out)
	return out, err
}
