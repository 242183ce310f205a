package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"holdfast.dev/holdfast/internal/api"
)

// AuditFilter narrows the audit log.
type AuditFilter struct {
	Action string
	Actor  string
	Object string
}

// Audit lists the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter, page Page) (api.List[api.AuditRecord], error) {
	return list[api.AuditRecord](ctx, c, path("audit"), filter("action", f.Action, "actor", f.Actor, "object", f.Object), page)
}

// VerifyAudit has the server check the chain. anchor is that of an earlier verify; with it, a cut end is found too.
func (c *Client) VerifyAudit(ctx context.Context, anchor string) (api.AuditVerified, error) {
	var out api.AuditVerified
	err := c.get(ctx, path("audit", "verify"), filter("anchor", anchor), &out)
	return out, err
}

// ExportAudit writes all records to w, oldest first, one JSON document a line, and gives the last. Only nil says that
// all of them were written.
func (c *Client) ExportAudit(ctx context.Context, w io.Writer) (last api.AuditRecord, err error) {
	answer, err := c.send(ctx, request{method: http.MethodGet, repeatable: true, header: http.Header{"Accept": {"*/*"}}, path: path("audit", "export")})
	if err != nil {
		return last, err
	}
	defer func() { _ = answer.Body.Close() }()
	in := bufio.NewReader(answer.Body)
	var line, before []byte
	for err == nil {
		if line, err = in.ReadBytes('\n'); len(line) > 0 {
			before = line
			if _, wrong := w.Write(line); wrong != nil {
				return last, fmt.Errorf("write the audit records: %w", wrong)
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return last, c.explain(ctx, fmt.Errorf("read the audit records: %w", err))
	}
	if len(bytes.TrimSpace(before)) == 0 {
		return last, nil
	}
	if err := json.Unmarshal(before, &last); err != nil {
		return last, fmt.Errorf("read the last audit record: %w", err)
	}
	return last, nil
}
